// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/testing/sanitized.h"

namespace bonsai::base {
namespace {

TEST(Sleep, LastsUntilTheDeadlineWithoutSpinning) {
  wake_exactly();
  const uint64_t begin = now_ns();
  const uint64_t used = thread_cpu_ns();
  for (uint64_t i = 1; i <= 50; ++i) {
    sleep_until(begin + i * kNsPerMs);
    ASSERT_GE(now_ns(), begin + i * kNsPerMs);
  }
  EXPECT_LT(thread_cpu_ns() - used, 10 * kNsPerMs) << "it slept and did not spin";
  sleep_until(begin);  // long past
}

TEST(Thread, RunsUnderItsNameAndIsJoined) {
  std::string name;
  {
    Thread thread("a-name-of-more-than-15-bytes", [&] {
      char buffer[32];
      pthread_getname_np(pthread_self(), buffer, sizeof(buffer));
      name = buffer;
    });
    EXPECT_TRUE(thread.joinable());
  }
  EXPECT_EQ(name, "a-name-of-more-");
}

TEST(Thread, IsPinnedToOneProcessorThatItMayUse) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::set<int> used;
  for (unsigned index = 0; index < static_cast<unsigned>(CPU_COUNT(&allowed)) + 1; ++index) {
    Thread thread("pinned", [&] {
      ASSERT_TRUE(pin_thread(index).ok());
      cpu_set_t now;
      ASSERT_EQ(sched_getaffinity(0, sizeof(now), &now), 0);
      ASSERT_EQ(CPU_COUNT(&now), 1);
      EXPECT_TRUE(CPU_ISSET(sched_getcpu(), &now));
      EXPECT_TRUE(CPU_ISSET(sched_getcpu(), &allowed));
      used.insert(sched_getcpu());
    });
    thread.join();
  }
  EXPECT_EQ(used.size(), static_cast<size_t>(CPU_COUNT(&allowed)));
}

TEST(Thread, ForEachOnVisitsAllOnceAndWaitsForThem) {
  EXPECT_GE(processors(), 1U);
  for (const unsigned threads : {0U, 1U, 3U}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{1000}}) {
      std::vector<std::atomic<int>> visits(count);
      for_each_on(threads, count, [&](size_t i) { visits[i].fetch_add(1); });
      for (const auto& visit : visits) EXPECT_EQ(visit.load(), 1);
    }
  }
}

TEST(Thread, AssignmentJoinsTheOldBodyFirst) {
  std::atomic<int> ended{0};
  Thread thread("one", [&] {
    sleep_ms(10);
    ended = 1;
  });
  thread = Thread("two", [] {});
  EXPECT_EQ(ended, 1);
  thread.join();
  thread.join();
  EXPECT_FALSE(thread.joinable());
}

TEST(Thread, MadeByACoroutineInVirtualTimeIsACoroutine) {
  const auto order_of = [](uint64_t seed) {
    std::string order;
    Scheduler scheduler({.pick = Scheduler::Pick::kSeeded, .seed = seed});
    scheduler.spawn([&] {
      const uint32_t here = thread_ordinal();
      Thread slow("slow", [&] {
        sleep_ms(1'000);
        EXPECT_EQ(thread_ordinal(), here);
        order += "slow ";
      });
      Thread quick("quick", [&] { order += "quick "; });
      EXPECT_TRUE(slow.joinable());
      quick.join();
      quick.join();
      EXPECT_FALSE(quick.joinable());
      slow = Thread("last", [&] { order += "last "; });
      slow.join();
      for_each_on(3, 4, [&](size_t i) {
        yield_thread();
        order += std::to_string(i);
      });
    });
    EXPECT_TRUE(scheduler.run().ok());
    return order;
  };
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::string order = order_of(seed);
    EXPECT_EQ(order, order_of(seed));
    EXPECT_LT(order.find("quick"), order.find("slow"));
    EXPECT_LT(order.find("slow"), order.find('0'));
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 10U);
}

TEST(ThreadOrdinal, IsDenseUniqueAndReused) {
  const uint32_t mine = thread_ordinal();
  EXPECT_EQ(thread_ordinal(), mine);
  for (int round = 0; round < 3; ++round) {
    constexpr size_t kThreads = 20;
    std::vector<uint32_t> ordinals(kThreads);
    {
      std::atomic<size_t> arrived{0};
      std::vector<Thread> threads;
      for (size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back("ordinal", [&, i] {
          ordinals[i] = thread_ordinal();
          ++arrived;
          BoundedWait wait("all arrived", 10'000);
          for (; arrived < kThreads && !wait.expired(); wait.pause()) {
          }
        });
      }
    }
    std::set<uint32_t> distinct(ordinals.begin(), ordinals.end());
    distinct.insert(mine);
    EXPECT_EQ(distinct.size(), kThreads + 1);
    EXPECT_LE(*distinct.rbegin(), kThreads) << "the numbers of earlier rounds were free again";
  }
}

TEST(Event, RemembersOneSignal) {
  Event event;
  EXPECT_FALSE(event.wait_for(1));
  event.signal();
  event.signal();
  EXPECT_TRUE(event.wait_for(0));
  EXPECT_FALSE(event.wait_for(0));
}

TEST(Event, WakesAWaitingThread) {
  Event ping, pong;
  Thread thread("echo", [&] {
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(ping.wait_for(10'000));
      pong.signal();
    }
  });
  for (int i = 0; i < 100; ++i) {
    ping.signal();
    ASSERT_TRUE(pong.wait_for(10'000));
  }
}

TEST(Event, LetsSiblingCoroutinesRun) {
  Event event;
  Scheduler scheduler;
  bool woken = false;
  scheduler.spawn([&] { woken = event.wait_for(10'000); });
  scheduler.spawn([&] { event.signal(); });
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_TRUE(woken);
}

TEST(Waits, SleepTakesItsTimeAndYieldReturns) {
  const uint64_t start = now_ns();
  sleep_ms(5);
  EXPECT_GE(now_ns() - start, 5 * kNsPerMs);
  const uint64_t again = now_ns();
  sleep_us(300);
  EXPECT_GE(now_ns() - again, 300 * kNsPerUs);
  yield_thread();
}

TEST(Waits, YieldUntilReturnsAtItsDeadline) {
  for (const uint64_t ns : {uint64_t{0}, uint64_t{500}, 3 * kNsPerMs}) {
    const uint64_t deadline_ns = now_ns() + ns;
    yield_until(deadline_ns);
    EXPECT_GE(now_ns(), deadline_ns);
  }
  Scheduler scheduler({.virtual_time = true});
  scheduler.spawn([] {
    const uint64_t deadline_ns = now_ns() + kNsPerSecond;
    yield_until(deadline_ns);
    EXPECT_GE(now_ns(), deadline_ns);
  });
  EXPECT_TRUE(scheduler.run().ok());
}

// While this object lives, the system gives at most this many more threads.
class Granted {
 public:
  explicit Granted(int64_t threads) { threads_granted_for_test.store(threads); }
  ~Granted() { threads_granted_for_test.store(-1); }
  Granted(const Granted&) = delete;
  Granted& operator=(const Granted&) = delete;
};

TEST(Thread, ThatTheSystemRefusesIsAStatusWithTheRemedy) {
  const Granted none(0);
  Thread thread;
  bool ran = false;
  const Status status = Thread::start(
      "worker", [&] { ran = true; }, &thread);
  EXPECT_TRUE(status.IsNoSpace());
  EXPECT_NE(status.message().find("ulimit -u"), std::string::npos) << status.ToString();
  EXPECT_FALSE(thread.joinable());
  EXPECT_TRUE(Thread::reserve("worker", &thread).IsNoSpace());
  EXPECT_FALSE(thread.joinable());
  EXPECT_FALSE(ran);
}

// A real refusal: no address space for a stack. Sanitizers reserve more than any limit.
TEST(Thread, WithoutMemoryForItsStackIsAStatus) {
  if (bonsai::testing::kSanitized) GTEST_SKIP() << "a sanitizer needs address space without limit";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    std::vector<Thread> threads(100);  // the C library has kept some stacks
    Status status;
    for (size_t i = 0; i < threads.size() && status.ok(); ++i) status = Thread::reserve("worker", &threads[i]);
    ::_exit(status.IsNoSpace() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Thread, ThatIsReservedWaitsForItsBody) {
  Thread thread, idle, moved;
  ASSERT_TRUE(Thread::reserve("later", &thread).ok());
  ASSERT_TRUE(Thread::reserve("never", &idle).ok());
  EXPECT_TRUE(thread.joinable());
  moved = std::move(thread);
  std::atomic<bool> ran{false};
  {
    const Granted none(0);  // it has what it needs
    moved.begin([&] { ran.store(true); });
  }
  moved.join();
  EXPECT_TRUE(ran.load());
  EXPECT_FALSE(moved.joinable());
  idle.join();
}

TEST(ForEachOn, UsesAsManyThreadsAsThereAre) {
  for (const int64_t threads : {0, 1, 2, 100}) {
    const Granted some(threads);
    std::atomic<uint64_t> sum{0};
    for_each_on(8, 1000, [&](size_t i) { sum.fetch_add(i); });
    EXPECT_EQ(sum.load(), 499'500u);
  }
}

TEST(BoundedWait, ExpiresAfterItsLimitAndSaysWhoItWas) {
  BoundedWait wait("the answer", 20);
  const uint64_t start = now_ns();
  int pauses = 0;
  for (; !wait.expired(); wait.pause()) ++pauses;
  EXPECT_GE(now_ns() - start, 20 * kNsPerMs);
  EXPECT_LT(now_ns() - start, 60 * kNsPerSecond);
  EXPECT_GT(pauses, 0);
  EXPECT_LT(pauses, 2000) << "it must sleep in the end";
  EXPECT_STREQ(wait.name(), "the answer");
  EXPECT_TRUE(wait.status().IsUnavailable());
  EXPECT_NE(wait.status().message().find("the answer"), std::string::npos);
}

TEST(BoundedWait, IsBoundedForThoseWhoWatchInsteadOfPausing) {
  BoundedWait wait("a device", 2);
  EXPECT_EQ(wait.watch_ns(), 0u) << "counts from here";
  uint64_t last_ns = 0;
  while (!wait.expired()) {
    const uint64_t now_ns = wait.watch_ns();
    EXPECT_GE(now_ns, last_ns);
    last_ns = now_ns;
  }
  EXPECT_GE(wait.watch_ns(), 2 * kNsPerMs);
}

// Whether wait(done, signalled) returned true in a child process that was stopped meanwhile for longer than a second.
// `done` becomes true, and `signalled` is signalled, once the child has run for some 300 ms.
bool reached_although_stopped(const std::function<bool(const std::atomic<bool>& done, Event& signalled)>& wait) {
  const pid_t child = ::fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    std::atomic<bool> done{false};
    Event signalled;
    std::thread other([&] {
      for (int i = 0; i < 30; ++i) sleep_ms(10);
      done.store(true);
      signalled.signal();
    });
    const bool reached = wait(done, signalled);
    other.join();
    ::_exit(reached ? 0 : 1);
  }
  sleep_ms(100);
  EXPECT_EQ(::kill(child, SIGSTOP), 0);
  sleep_ms(1300);
  EXPECT_EQ(::kill(child, SIGCONT), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status == 0;
}

TEST(BoundedWait, DoesNotExpireWhileTheProcessIsStopped) {
  EXPECT_TRUE(reached_although_stopped([](const std::atomic<bool>& done, Event&) {
    BoundedWait wait("another thread", 1000);
    for (; !done.load() && !wait.expired();) wait.pause();
    return done.load();
  }));
}

TEST(Event, DoesNotEndWhileTheProcessIsStopped) {
  EXPECT_TRUE(
      reached_although_stopped([](const std::atomic<bool>&, Event& signalled) { return signalled.wait_for(1000); }));
}

// The clock jumps, as after a stop. A condition that became true meanwhile is noticed, even if the limit has passed.
TEST(BoundedWait, LooksOnceMoreAfterTheLimit) {
  uint64_t clock_ns = kNsPerSecond;
  virtual_now_ns = &clock_ns;
  for (const uint64_t limit_ms : {uint64_t{1}, uint64_t{100}, uint64_t{10'000}}) {
    for (const bool watched : {false, true}) {
      BoundedWait wait("the answer", limit_ms);
      const auto let_pass = [&] { watched ? static_cast<void>(wait.watch_ns()) : wait.pause(); };
      for (int i = 0; i < 200; ++i) let_pass();
      ASSERT_FALSE(wait.expired());
      int looks = 0;
      for (; !wait.expired(); ++looks) {
        clock_ns += 3'600 * kNsPerSecond;
        let_pass();
      }
      EXPECT_GE(looks, 2) << limit_ms << (watched ? " ms, watched" : " ms");
      EXPECT_LE(looks, 102);
    }
  }
  virtual_now_ns = nullptr;
}

TEST(BoundedWait, InsideACoroutineLetsSiblingsRun) {
  for (const auto pick : {Scheduler::Pick::kFifo, Scheduler::Pick::kSeeded}) {
    Scheduler scheduler({.pick = pick});
    int progress = 0;
    bool expired = false;
    scheduler.spawn([&] {
      BoundedWait wait("sibling", 10'000);
      for (; progress < 500 && !expired; wait.pause()) expired = wait.expired();
    });
    scheduler.spawn([&] {
      for (; progress < 500; ++progress) Scheduler::yield();
    });
    EXPECT_TRUE(scheduler.run().ok());
    EXPECT_FALSE(expired);
  }
}

TEST(YieldingMutex, ExcludesThreads) {
  YieldingMutex mutex("test");
  int count = 0;
  std::vector<Thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back("counter", [&] {
      for (int round = 0; round < 2000; ++round) {
        const std::lock_guard lock(mutex);
        ++count;
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(count, 8000);
}

TEST(YieldingMutex, LetsTheSuspendedHolderGoOn) {
  YieldingMutex mutex("test");
  Scheduler scheduler;
  std::string order;
  for (const char who : {'a', 'b'}) {
    scheduler.spawn([&, who] {
      const std::lock_guard lock(mutex);
      order += who;
      for (int i = 0; i < 200; ++i) Scheduler::yield();
      order += who;
    });
  }
  ASSERT_TRUE(scheduler.run().ok());
  EXPECT_EQ(order, "aabb");
}

// A wait for something that takes a few microseconds, such as a round trip, oversleeps by no more than that.
TEST(BoundedWait, NapsBrieflyAtFirst) {
  Scheduler scheduler({.virtual_time = true, .virtual_ns_per_switch = 1});
  scheduler.spawn([] {
    for (const uint64_t takes_us : {1, 3, 5, 20, 1'000, 100'000}) {
      const uint64_t end_ns = now_ns() + takes_us * kNsPerUs;
      for (BoundedWait wait("a device", 1'000); now_ns() < end_ns;) wait.pause();
      const uint64_t overslept_us_max = takes_us <= 5 ? 1 : takes_us;
      EXPECT_LE(now_ns() - end_ns, overslept_us_max * kNsPerUs + 100) << takes_us << " us";
    }
  });
  ASSERT_TRUE(scheduler.run().ok());
}

TEST(BoundedWait, ExpiresInVirtualTimeAtOnce) {
  Scheduler scheduler({.pick = Scheduler::Pick::kSeeded});
  bool expired = false;
  scheduler.spawn([&] {
    BoundedWait wait("never", 3'600'000);
    for (; !(expired = wait.expired()); wait.pause()) {
    }
  });
  const uint64_t start = now_ns();
  EXPECT_TRUE(scheduler.run().ok());
  EXPECT_TRUE(expired);
  EXPECT_LT(now_ns() - start, 1'800 * kNsPerSecond) << "an hour was waited for";
}

}  // namespace
}  // namespace bonsai::base
