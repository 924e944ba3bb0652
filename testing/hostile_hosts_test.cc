// SPDX-License-Identifier: Apache-2.0
// Every call of the public interface in hosts that are hostile to it (testing/hostile.h), in signals, freezes and
// forks: each call succeeds or says clearly why not, no process is ended, and nothing that was acknowledged is lost.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "bonsai/c.h"
#include "bonsai/db.h"
#include "testing/hostile.h"

namespace bonsai {
namespace {

using testing::Hostility;

constexpr size_t kKeys = 400;
constexpr uint64_t kPoolBytes = uint64_t{4} << 20;

enum Outcome : uint8_t { kOld, kNew, kDeleted, kEither };

// The results that a child leaves to its parent, however it ends.
struct Seen {
  std::atomic<Outcome> outcome[kKeys];
  std::atomic<uint64_t> calls, refused;
  std::atomic<const char*> now;  // the call in flight
  char wrong[1024];
};

std::string key_of(size_t i) { return "key " + std::to_string(1000 + i); }
std::string value_of(size_t i, bool is_new) {
  return (is_new ? "new " : "old ") + std::to_string(i) + std::string(i % 50 == 0 ? 6000 : i % 7 * 10, 'v');
}

Options options_of(uint64_t pool_bytes) {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = pool_bytes;
  options.stall_ms_max = 2'000;
  return options;
}

// One process's use of everything.
class Life {
 public:
  Life(Seen* seen, std::string folder) : seen_(*seen), folder_(std::move(folder)) {}

  bool run() {
    std::unique_ptr<DB> db;
    if (call("Open", DB::Open(options_of(kPoolBytes), folder_ + "/pool", &db))) {
      update(*db);
      read(*db);
      take(*db);
      call("Close", db->Close());
    }
    db.reset();
    make_new();
    use_c();
    return seen_.wrong[0] == '\0';
  }

 private:
  // Whether it succeeded. A refusal says what to do, and is none that would be an alarm.
  bool call(const char* name, const Status& status) {
    ++seen_.calls;
    if (status.ok()) return true;
    ++seen_.refused;
    const bool alarming = status.IsCorruption() || status.IsNotFound() || status.IsInvalidArgument();
    if (alarming || status.message().size() < 10) wrong(name, status.ToString());
    return false;
  }
  void wrong(const char* name, const std::string& what) {
    if (seen_.wrong[0] != '\0') return;
    (std::string(name) + ": " + what).copy(seen_.wrong, sizeof seen_.wrong - 1);
  }
  void check(const char* name, bool as_promised) {
    if (!as_promised) wrong(name, "another answer than was promised");
  }
  void note(size_t i, const Status& status, Outcome done) {
    if (status.ok()) seen_.outcome[i] = done;
    if (status.IsUnavailable() || status.IsIoError()) seen_.outcome[i] = kEither;
  }

  void update(DB& db) {
    for (size_t i = 0; i < 100; ++i) {
      const Status status = db.Put(key_of(i), value_of(i, true));
      note(i, status, kNew);
      call("Put", status);
    }
    for (size_t i = 100; i < 130; ++i) {
      const Status status = db.Delete(key_of(i));
      note(i, status, kDeleted);
      call("Delete", status);
    }
    WriteBatch batch;
    for (size_t i = 130; i < 150; ++i) batch.Put(key_of(i), value_of(i, true));
    const Status written = db.Write(batch);
    for (size_t i = 130; i < 150; ++i) note(i, written, kNew);
    call("Write", written);
    std::vector<std::string> keys, values;
    for (size_t i = 150; i < 200; ++i) {
      keys.push_back(key_of(i));
      values.push_back(value_of(i, true));
    }
    const std::vector<std::string_view> key_views(keys.begin(), keys.end()), value_views(values.begin(), values.end());
    std::vector<Status> statuses(keys.size());
    db.MultiPut(key_views, value_views, statuses);
    for (size_t i = 0; i < keys.size(); ++i) {
      note(150 + i, statuses[i], kNew);
      call("MultiPut", statuses[i]);
    }
    const std::unique_ptr<Session> session = db.NewSession(8);
    for (size_t i = 0; i < keys.size(); ++i) {
      keys[i] = key_of(200 + i);
      values[i] = value_of(200 + i, true);
      session->Put(keys[i], values[i], &statuses[i]);
    }
    session->Wait();
    for (size_t i = 0; i < keys.size(); ++i) {
      note(200 + i, statuses[i], kNew);
      call("Session::Put", statuses[i]);
    }
  }

  void read(DB& db) {
    std::string value;
    for (size_t i = 0; i < kKeys; i += 3) {
      const Status status = db.Get(key_of(i), &value);
      const Outcome outcome = seen_.outcome[i];
      if (outcome == kDeleted) check("Get", status.IsNotFound());
      if (outcome == kDeleted || outcome == kEither) continue;
      if (call("Get", status)) check("Get", value == value_of(i, outcome == kNew));
      call("Exists", db.Exists(key_of(i)));
    }
    uint64_t visited = 0, rows = 0, counted = 0, walked = 0;
    const bool scanned = call("Scan", db.Scan({}, {}, [&](auto, auto) { return ++visited > 0; }));
    const bool by_rows =
        call("ScanRows", db.ScanRows({}, {}, [&](const Rows& some) { return (rows += some.count) > 0; }));
    const bool count = call("Count", db.Count({}, {}, &counted));
    {
      const std::unique_ptr<Iterator> iterator = db.NewIterator({});
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++walked;
      if (call("Iterator", iterator->status()) && scanned) check("Iterator", walked == visited);
    }
    if (scanned && by_rows) check("ScanRows", rows == visited);
    if (scanned && count) check("Count", counted == visited);
    const std::vector<std::string> keys = {key_of(300), key_of(301)};
    std::vector<std::string> values(2);
    std::vector<Status> statuses(2);
    db.MultiGet({}, std::vector<std::string_view>(keys.begin(), keys.end()), values, statuses);
    for (const Status& status : statuses) call("MultiGet", status);
    check("GetStats", db.GetStats().targets == 1);
  }

  void take(DB& db) {
    call("Sync", db.Sync());
    call("Drain", db.Drain());
    std::shared_ptr<const Snapshot> snapshot;
    if (!call("GetSnapshot", db.GetSnapshot(&snapshot))) return;
    uint64_t records = 0, counted = 0;
    ScanOptions scan;
    scan.snapshot = snapshot.get();
    const bool count = call("Count", db.Count(scan, {}, &counted));
    if (call("Checkpoint", Checkpoint(&db, options_of(kPoolBytes), folder_ + "/copy", snapshot.get(), &records)) &&
        count) {
      check("Checkpoint", records == counted);
    }
  }

  // A pool's whole life: made, used, read, enlarged, copied, removed.
  void make_new() {
    const std::string path = folder_ + "/new";
    std::unique_ptr<DB> db;
    if (!call("Open, creating", DB::Open(options_of(kPoolBytes), path, &db))) {
      check("Open that failed to create", !std::filesystem::exists(path));
      return;
    }
    const bool put = call("Put", db->Put("apple", "red"));
    call("Close", db->Close());
    db.reset();
    CheckReport report;
    if (call("Check", Check(path, &report))) check("Check", report.ok() && report.records >= (put ? 1 : 0));
    std::string text;
    call("DescribeMedium", DescribeMedium(path, &text));
    SalvageReport salvaged;
    if (call("Salvage", Salvage(path, options_of(kPoolBytes), folder_ + "/salvaged", &salvaged))) {
      check("Salvage", salvaged.lost.empty() && salvaged.records >= (put ? 1 : 0));
    }
    Options growing = options_of(kPoolBytes);
    growing.grow_bytes = 2 * kPoolBytes;
    if (call("Open, growing", DB::Open(growing, path, &db))) {
      std::string value;
      if (put && call("Get", db->Get("apple", &value))) check("Get", value == "red");
      call("Close", db->Close());
    }
    db.reset();
    if (call("Remove", Remove(path))) check("Remove", !std::filesystem::exists(path));
  }

  void use_c() {
    bonsai_options_t* const options = bonsai_options_create();
    if (options == nullptr) return;
    bonsai_options_set_pool_bytes(options, kPoolBytes);
    bonsai_options_set_create_if_missing(options, 1);
    bonsai_t* db = nullptr;
    char* message = nullptr;
    char* value = nullptr;
    size_t bytes = 0;
    const auto done = [&](const char* name, int code) {
      const std::string text = message == nullptr ? "no message" : message;
      return call(name, code == BONSAI_OK ? Status::OK() : Status::IoError(text));
    };
    if (done("bonsai_open", bonsai_open(options, (folder_ + "/c").c_str(), &db, &message))) {
      if (done("bonsai_put", bonsai_put(db, "k", 1, "v", 1, &message))) {
        done("bonsai_get", bonsai_get(db, nullptr, "k", 1, &value, &bytes, &message));
      }
      bonsai_free(value);
      done("bonsai_close", bonsai_close(db, &message));
    }
    bonsai_free(message);
    bonsai_options_destroy(options);
  }

  Seen& seen_;
  const std::string folder_;
};

class HostileHosts : public ::testing::Test {
 protected:
  HostileHosts() {
    seen_ =
        static_cast<Seen*>(::mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    BONSAI_CHECK(seen_ != MAP_FAILED);
  }
  ~HostileHosts() override {
    testing::add_figure("hostile_hosts", calls_);
    ::munmap(seen_, sizeof(Seen));
  }

  // A folder with the pool, of whom the child may become.
  std::unique_ptr<testing::TempFolder> prepare() {
    auto folder = std::make_unique<testing::TempFolder>();
    std::unique_ptr<DB> db;
    EXPECT_TRUE(DB::Open(options_of(kPoolBytes), folder->file("pool"), &db).ok());
    for (size_t i = 0; i < kKeys; ++i) EXPECT_TRUE(db->Put(key_of(i), value_of(i, false)).ok());
    EXPECT_TRUE(db->Close().ok());
    for (const std::string& path : {folder->path(), folder->file("pool")}) {
      EXPECT_TRUE(::getuid() != 0 || ::chown(path.c_str(), testing::kNobody, testing::kNobody) == 0);
    }
    new (seen_) Seen();
    return folder;
  }

  // No record is lost, and no file is left over.
  void judge(const std::string& folder) {
    EXPECT_STREQ(seen_->wrong, "");
    calls_ += seen_->calls;
    refused_ += seen_->refused;
    std::unique_ptr<DB> db;
    const Status opened = DB::Open(Options(), folder + "/pool", &db);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    std::string value;
    for (size_t i = 0; i < kKeys; ++i) {
      const Status status = db->Get(key_of(i), &value);
      const Outcome outcome = seen_->outcome[i];
      if (outcome == kEither) continue;
      EXPECT_EQ(status.IsNotFound(), outcome == kDeleted) << key_of(i) << ": " << status.ToString();
      if (outcome == kDeleted) continue;
      EXPECT_EQ(value, value_of(i, outcome == kNew));
    }
    EXPECT_TRUE(db->Close().ok());
    db.reset();
    CheckReport report;
    EXPECT_TRUE(Check(folder + "/pool", &report).ok() && report.ok());
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      EXPECT_NE(entry.path().extension(), ".partial") << "was left";
      EXPECT_TRUE(Check(entry.path(), &report).ok() && report.ok()) << entry.path();
    }
  }

  void live(const Hostility& hostility) {
    SCOPED_TRACE(hostility.name);
    const auto folder = prepare();
    const std::string path = folder->path();
    const std::string end = testing::in_hostile_child(hostility, [&] { return Life(seen_, path).run(); });
    if (end == "not imposed") return;
    EXPECT_TRUE(end.empty() || seen_->wrong[0] != '\0') << end;
    judge(path);
  }

  Seen* seen_;
  uint64_t calls_ = 0, refused_ = 0;
};

TEST_F(HostileHosts, WithoutStandardDescriptors) {
  for (const Hostility& each : testing::closed_descriptors()) live(each);
  EXPECT_EQ(refused_, 0u) << "nothing is missing that a store needs";
}

TEST_F(HostileHosts, WithTightLimits) {
  for (const Hostility& each : testing::tight_limits()) live(each);
  EXPECT_GT(refused_, 0u);
}

// A timer interrupts every system call that can be interrupted; also one that takes longer than the timer's interval.
TEST_F(HostileHosts, InAStormOfSignals) {
  const Hostility storm = {"a signal every 300 us", [] {
                             struct sigaction action = {};
                             action.sa_handler = [](int) {};
                             const itimerval timer{{0, 300}, {0, 300}};
                             return ::sigaction(SIGALRM, &action, nullptr) == 0 &&
                                    ::setitimer(ITIMER_REAL, &timer, nullptr) == 0;
                           }};
  live(storm);
  EXPECT_EQ(refused_, 0u) << "a signal is no reason to refuse";
  const testing::TempFolder folder;
  EXPECT_EQ(testing::in_hostile_child(storm,
                                      [&] {
                                        std::unique_ptr<DB> db;
                                        return DB::Open(options_of(kPoolBytes * 32), folder.file("large"), &db).ok();
                                      }),
            "");
}

TEST_F(HostileHosts, FrozenAgainAndAgain) {
  const auto folder = prepare();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(Life(seen_, folder->path()).run() ? 0 : 1);
  for (int i = 0; i < testing::budget(5, 10, 50); ++i) {
    ::kill(child, SIGSTOP);
    base::sleep_ms(30);
    ::kill(child, SIGCONT);
    base::sleep_ms(2);
  }
  EXPECT_EQ(testing::wait_for(child), "");
  judge(folder->path());
  EXPECT_EQ(refused_, 0u);
}

// A child that touches nothing holds nothing: while it lives the pool can be closed and opened, by whom it may be, and
// opened after its owner's death.
TEST_F(HostileHosts, WhoseChildLivesOn) {
  for (const bool dies : {false, true}) {
    for (const bool read_only : {false, true}) {
      const auto folder = prepare();
      const std::string path = folder->file("pool");
      int ends[2];
      ASSERT_EQ(::pipe(ends), 0);
      const pid_t owner = ::fork();
      if (owner == 0) {
        std::unique_ptr<DB> db;
        if (!DB::Open(Options(), path, &db).ok()) ::_exit(1);
        if (!read_only) seen_->outcome[5] = db->Put(key_of(5), value_of(5, true)).ok() ? kNew : kEither;
        const pid_t bystander = ::fork();
        if (bystander == 0) {
          const pid_t its_child = ::fork();
          if (its_child != 0 && ::write(ends[1], &its_child, sizeof its_child) < 0) ::_exit(1);
          for (;;) ::pause();
        }
        if (::write(ends[1], &bystander, sizeof bystander) < 0) ::_exit(1);
        base::sleep_ms(20);
        if (dies) ::kill(::getpid(), SIGKILL);
        if (!db->Close().ok()) ::_exit(2);
        db.reset();
        ::_exit(DB::Open(Options(), path, &db).ok() && db->Close().ok() ? 0 : 3);
      }
      pid_t bystanders[2];
      for (pid_t& bystander : bystanders) {
        ASSERT_EQ(::read(ends[0], &bystander, sizeof bystander), static_cast<ssize_t>(sizeof bystander));
      }
      EXPECT_EQ(testing::wait_for(owner), dies ? "ended by signal Killed" : "");
      calls_ += 4;
      judge(folder->path());
      for (const pid_t bystander : bystanders) ::kill(bystander, SIGKILL);
      ::close(ends[0]);
      ::close(ends[1]);
    }
  }
}

// In a forked child every call on the parent's store is refused; a store that the child opens itself works.
TEST_F(HostileHosts, ForkedChildrenOfAnOwner) {
  const auto folder = prepare();
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(Options(), folder->file("pool"), &db).ok());
  const std::string end = testing::in_hostile_child({"forked", [] { return true; }}, [&] {
    std::string value;
    std::vector<std::string> values(1);
    std::vector<Status> results(1);
    const std::vector<std::string_view> keys = {"key"}, new_values = {"value"};
    WriteBatch batch;
    batch.Put("key", "value");
    uint64_t counted = 0;
    std::shared_ptr<const Snapshot> snapshot;
    std::vector<Status> statuses = {db->Put("key", "value"),
                                    db->Delete(key_of(1)),
                                    db->Write(batch),
                                    db->Get(key_of(1), &value),
                                    db->Exists(key_of(1)),
                                    db->Scan({}, {}, [](auto, auto) { return true; }),
                                    db->ScanRows({}, {}, [](const Rows&) { return true; }),
                                    db->Count({}, {}, &counted),
                                    db->GetSnapshot(&snapshot),
                                    db->NewIterator({})->status(),
                                    db->Sync(),
                                    db->Drain()};
    db->MultiPut(keys, new_values, results);
    statuses.push_back(results[0]);
    db->MultiGet({}, keys, values, results);
    statuses.push_back(results[0]);
    {
      const std::unique_ptr<Session> session = db->NewSession(2);
      session->Put("key", "value", &results[0]);
      session->Wait();
      statuses.push_back(results[0]);
    }
    Options options = options_of(kPoolBytes);
    options.background_threads = 0;  // TSan knows no threads after a fork beside others
    statuses.push_back(Checkpoint(db.get(), options, folder->file("copy")));
    static_cast<void>(db->GetStats());
    statuses.push_back(db->Close());
    seen_->calls += statuses.size();
    for (size_t i = 0; i < statuses.size(); ++i) {
      if (!statuses[i].IsNotSupported()) (std::to_string(i) + ": " + statuses[i].ToString()).copy(seen_->wrong, 1000);
    }
    std::unique_ptr<DB> own;
    return DB::Open(options, folder->file("own"), &own).ok() && own->Put("k", "v").ok() && own->Close().ok();
  });
  EXPECT_EQ(end, "");
  EXPECT_TRUE(db->Put(key_of(0), value_of(0, false)).ok());
  EXPECT_TRUE(db->Close().ok());
  judge(folder->path());
}

// The library never prints into the pool: a host without standard output that prints all the time.
TEST_F(HostileHosts, ThatPrintToClosedDescriptors) {
  live({"printing to closed descriptors", [] {
          for (int fd = 0; fd < 3; ++fd) ::close(fd);
          static base::Thread printer;
          return base::Thread::start(
                     "printer",
                     [] {
                       for (;;) {
                         for (int fd = 0; fd < 3; ++fd) static_cast<void>(!::write(fd, "printed", 7));
                         base::sleep_us(20);
                       }
                     },
                     &printer)
              .ok();
        }});
  EXPECT_EQ(refused_, 0u);
}

}  // namespace
}  // namespace bonsai
