// SPDX-License-Identifier: Apache-2.0
// The harness's record of the newest values: which reads it calls too old, and that it never says so of another read.
#include "bench/driver/versions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/thread.h"
#include "bench/ycsb/generators.h"
#include "bench/ycsb/values.h"

namespace bonsai::bench {
namespace {

using bonsai::testing::budget;

// The n-th id whose versions are kept, as far as a write shows it.
uint64_t sampled_id(unsigned n) {
  for (uint64_t id = 1;; ++id) {
    Versions versions;
    if (versions.begin(id, 77).cell != nullptr && n-- == 0) return id;
  }
}

// One that shares its place with `id`.
uint64_t rival_of(uint64_t id) {
  for (uint64_t rival = id + 1;; ++rival) {
    Versions versions;
    if (versions.begin(rival, 0).cell == nullptr) continue;
    Versions both;
    static_cast<void>(both.begin(id, 0));
    if (both.begin(rival, 77).cell == nullptr) return rival;
  }
}

TEST(Versions, KeepASampleOfTheRecords) {
  Versions versions;
  unsigned sampled = 0;
  for (uint64_t number = 0; number < 64'000; ++number) {
    const uint64_t id = fnv64(number);
    const Versions::Write write = versions.begin(id, 77);
    versions.end(write, true);
    if (write.cell != nullptr) {
      ++sampled;
      continue;
    }
    EXPECT_EQ(write.stamp, 77U) << "of one that is not sampled the stamp is the caller's";
    EXPECT_EQ(versions.least(id), 0U);
  }
  EXPECT_GT(sampled, 128U);
  EXPECT_LE(sampled, 256U) << "one record per place";
}

TEST(Versions, AWriteThatHasEndedIsTheLeast) {
  Versions versions;
  const uint64_t id = sampled_id(0);
  EXPECT_EQ(versions.least(id), 0U);
  uint32_t last = 0;
  for (int i = 0; i < 100; ++i) {
    const Versions::Write write = versions.begin(id, 0);
    EXPECT_GT(write.stamp, last);
    EXPECT_EQ(versions.least(id), last) << "until it has ended, the one before is fine";
    versions.end(write, true);
    EXPECT_EQ(versions.least(id), write.stamp);
    last = write.stamp;
  }
}

TEST(Versions, OfWritesThatOverlapNothingIsKnown) {
  Versions versions;
  const uint64_t id = sampled_id(1);
  const Versions::Write first = versions.begin(id, 0);
  const Versions::Write second = versions.begin(id, 0);
  EXPECT_NE(first.stamp, second.stamp);
  versions.end(first, true);
  EXPECT_EQ(versions.least(id), 0U) << "the second may have come before it or after it";
  versions.end(second, true);
  EXPECT_EQ(versions.least(id), 0U);
  const Versions::Write third = versions.begin(id, 0);
  versions.end(third, true);
  EXPECT_EQ(versions.least(id), third.stamp) << "it was alone again";
}

TEST(Versions, AWriteThatFailedSaysNothing) {
  Versions versions;
  const uint64_t id = sampled_id(2);
  const Versions::Write sound = versions.begin(id, 0);
  versions.end(sound, true);
  const Versions::Write failed = versions.begin(id, 0);
  versions.end(failed, false);
  EXPECT_EQ(versions.least(id), sound.stamp);
}

TEST(Versions, TheFirstOfThoseThatShareAPlaceHasIt) {
  const uint64_t id = sampled_id(0), rival = rival_of(id);
  Versions versions;
  versions.end(versions.begin(id, 0), true);
  const Versions::Write other = versions.begin(rival, 77);
  EXPECT_EQ(other.stamp, 77U);
  versions.end(other, true);
  EXPECT_EQ(versions.least(rival), 0U);
  EXPECT_EQ(versions.least(id), 1U);
}

// A register that threads write and read. No read of a linearizable register is called too old; a register that now and
// then keeps an old value is found.
class Register {
 public:
  explicit Register(bool keeps_old) : keeps_old_(keeps_old) {}
  void write(uint32_t stamp) {
    if (keeps_old_ && ++writes_ % 7 == 0) return;
    stamp_.store(stamp);
  }
  [[nodiscard]] uint32_t read() const { return stamp_.load(); }

 private:
  const bool keeps_old_;
  std::atomic<uint32_t> writes_{0}, stamp_{0};
};

uint64_t reads_called_old(bool keeps_old, unsigned writers) {
  const uint64_t id = sampled_id(3);
  Versions versions;
  Register cell(keeps_old);
  std::atomic<bool> over{false};
  std::atomic<uint64_t> old{0};
  const auto read = [&] {
    const uint32_t least = versions.least(id);
    if (cell.read() < least) old.fetch_add(1);
  };
  {
    std::vector<base::Thread> threads;
    threads.emplace_back("reader", [&] {
      while (!over) read();
    });
    std::vector<base::Thread> writing;
    for (unsigned i = 0; i < writers; ++i) {
      writing.emplace_back("writer", [&] {
        for (int n = 0; n < budget(2'000, 20'000, 200'000); ++n) {
          const Versions::Write write = versions.begin(id, 0);
          cell.write(write.stamp);
          versions.end(write, true);
          read();
        }
      });
    }
    writing.clear();
    over = true;
  }
  return old;
}

TEST(Versions, CallNoReadTooOldThatIsNot) { EXPECT_EQ(reads_called_old(false, 1), 0U); }

TEST(Versions, FindAWriteThatIsLost) { EXPECT_GT(reads_called_old(true, 1), 0U); }

}  // namespace
}  // namespace bonsai::bench
