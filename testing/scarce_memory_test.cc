// SPDX-License-Identifier: Apache-2.0
// A store whose process runs out of memory: every call succeeds or says so, no process is ended, and what was
// acknowledged is there after reopening. One test decides how many regions the heaps get, the other how much address
// space a process has.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "base/heap.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "bonsai/db.h"
#include "testing/hostile.h"

namespace bonsai::scarce_memory {
namespace {

constexpr size_t kThreads = 3;
constexpr size_t kKeysMax = 50'000;  // of each thread

std::string key_of(size_t thread, size_t i) { return std::to_string(thread) + " key " + std::to_string(1'000'000 + i); }
std::string value_of(size_t i) { return std::string(60 + i % 100, static_cast<char>('a' + i % 26)); }

Options options_of() {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = uint64_t{64} << 20;
  options.log_bytes = uint64_t{24} << 20;
  options.stall_ms_max = 500;
  return options;
}

// The results that a process leaves to its parent, however it ends.
struct Seen {
  std::atomic<uint32_t> acknowledged[kThreads];  // each thread's first keys
  std::atomic<uint64_t> calls, refused;
  char wrong[1024];
};

// A use of a store that has or gets too little memory.
class Life {
 public:
  Life(Seen* seen, std::string path) : seen_(*seen), path_(std::move(path)) {}

  bool run(const std::function<void()>& once_open) {
    std::unique_ptr<DB> db;
    if (!call("Open", DB::Open(options_of(), path_, &db))) return seen_.wrong[0] == '\0';
    once_open();
    base::for_each_on(kThreads, kThreads, [&](size_t thread) { fill(*db, thread); });
    read(*db);
    call("Drain", db->Drain());
    call("Close", db->Close());
    return seen_.wrong[0] == '\0';
  }

 private:
  bool call(const char* name, const Status& status) {
    ++seen_.calls;
    if (status.ok()) return true;
    ++seen_.refused;
    if (!status.IsNoSpace() && !status.IsIoError()) note_wrong(std::string(name) + ": " + status.ToString());
    return false;
  }
  void note_wrong(const std::string& what) {
    if (seen_.wrong[0] == '\0') what.copy(seen_.wrong, sizeof(seen_.wrong) - 1);
  }

  // Puts, batches and sessions in turns, until something is refused.
  void fill(DB& db, size_t thread) {
    uint32_t next = seen_.acknowledged[thread];
    for (bool going = true; going && next + 32 < kKeysMax;) {
      const size_t n = next % 3 == 0 ? 1 : 31;
      Status status;
      if (n == 1) {
        status = db.Put(key_of(thread, next), value_of(next));
      } else if (next % 3 == 1) {
        status = write_batch(db, thread, next, n);
      } else {
        status = use_session(db, thread, next, n);
      }
      going = call("update", status);
      if (going) seen_.acknowledged[thread] = next += static_cast<uint32_t>(n);
    }
  }
  static Status write_batch(DB& db, size_t thread, uint32_t next, size_t n) {
    WriteBatch batch;
    for (size_t i = 0; i < n; ++i) batch.Put(key_of(thread, next + i), value_of(next + i));
    return db.Write(batch);
  }
  static Status use_session(DB& db, size_t thread, uint32_t next, size_t n) {
    std::vector<Status> statuses(n);
    std::vector<std::string> keys(n), values(n);
    {
      const auto session = db.NewSession(16);
      for (size_t i = 0; i < n; ++i) {
        keys[i] = key_of(thread, next + i);
        values[i] = value_of(next + i);
        session->Put(keys[i], values[i], &statuses[i]);
      }
      session->Wait();
    }
    for (const Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return Status::OK();
  }

  // Reads go on, and are right.
  void read(DB& db) {
    std::string value;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      for (uint32_t i = 0; i < seen_.acknowledged[thread]; i += 997) {
        if (call("Get", db.Get(key_of(thread, i), &value)) && value != value_of(i)) note_wrong("a wrong value");
      }
    }
    uint64_t count = 0, acknowledged = 0;
    for (const auto& each : seen_.acknowledged) acknowledged += each;
    if (call("Count", db.Count(ScanOptions(), "", &count)) && count < acknowledged) note_wrong("records are missing");
    const auto at = db.NewIterator(ReadOptions());
    at->SeekToFirst();
    for (int i = 0; i < 100 && at->Valid(); ++i) at->Next();
    call("Iterator", at->status());
    std::shared_ptr<const Snapshot> snapshot;
    call("GetSnapshot", db.GetSnapshot(&snapshot));
  }

  Seen& seen_;
  const std::string path_;
};

class ScarceMemory : public ::testing::Test {
 protected:
  ScarceMemory() {
    void* const shared = ::mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(shared, MAP_FAILED);
    seen_ = new (shared) Seen();
  }
  ~ScarceMemory() override {
    testing::add_figure("hostile_hosts", calls_);
    ::munmap(seen_, sizeof(Seen));
  }

  void judge(const std::string& path) {
    EXPECT_STREQ(seen_->wrong, "");
    calls_ += seen_->calls;
    refused_ += seen_->refused;
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options_of(), path, &db).ok());
    std::string value;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      for (uint32_t i = 0; i < seen_->acknowledged[thread]; ++i) {
        ASSERT_TRUE(db->Get(key_of(thread, i), &value).ok() && value == value_of(i)) << key_of(thread, i);
      }
    }
    const Status put = db->Put("another", "one");
    ASSERT_TRUE(put.ok()) << put.ToString();
    ASSERT_TRUE(db->Close().ok());
    CheckReport report;
    EXPECT_TRUE(Check(path, &report).ok() && report.ok());
  }

  Seen* seen_;
  uint64_t calls_ = 0, refused_ = 0;
};

#if BONSAI_SCALABLE_MEMORY
// The heaps get `regions` regions, then none: while updates fill the store, and again and again afterwards.
TEST_F(ScarceMemory, AStoreOutlivesHeapsThatGetNothing) {
  for (const int64_t regions : {0, 1, 2, 3, 5, 8, 13}) {
    SCOPED_TRACE(regions);
    const TempFolder folder;
    new (seen_) Seen();
    Life life(seen_, folder.file("pool"));
    EXPECT_TRUE(life.run([&] { base::Heap::regions_granted_for_test.store(regions); }));
    base::Heap::regions_granted_for_test.store(-1);
    judge(folder.file("pool"));
  }
  std::printf("%llu calls, %llu refused\n", static_cast<unsigned long long>(calls_),
              static_cast<unsigned long long>(refused_));
}

TEST_F(ScarceMemory, UpdatesGoOnWhenThereIsMemoryAgain) {
  const TempFolder folder;
  std::unique_ptr<DB> db;
  Options options = options_of();
  options.pool_bytes = uint64_t{128} << 20;
  options.log_bytes = uint64_t{64} << 20;
  ASSERT_TRUE(DB::Open(options, folder.file("pool"), &db).ok());
  base::Heap::regions_granted_for_test.store(0);
  WriteBatch batch;
  for (int i = 0; i < 300; ++i) batch.Put("batch " + std::to_string(i), std::string(3000, 'b'));
  Status status;
  for (int i = 0; i < 40 && status.ok(); ++i) status = db->Write(batch);
  if (!status.ok()) {
    EXPECT_TRUE(status.IsNoSpace()) << status.ToString();
    EXPECT_NE(status.ToString().find("memory"), std::string::npos) << status.ToString();
  }
  base::Heap::regions_granted_for_test.store(-1);
  EXPECT_TRUE(db->Write(batch).ok());
  std::string read;
  EXPECT_TRUE(db->Get("batch 299", &read).ok());
  EXPECT_TRUE(db->Close().ok());
}
#endif

// From too little to open up to more than is needed; before the store is opened, or once it is open.
TEST_F(ScarceMemory, AProcessOutlivesEachLimitOfItsAddressSpace) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  base::Random random(seed);
  uint64_t opened = 0;
  const uint64_t lives = testing::budget<uint64_t>(6, 12, 400);
  for (uint64_t life = 0; life < lives; ++life) {
    const bool later = life % 2 == 1;
    const uint64_t bytes = life < 2 ? 4096 : random.below((later ? 40 : 160) << 20) + 4096;  // the first two: none
    const testing::Hostility tight = testing::more_address_space(bytes);
    SCOPED_TRACE((later ? "once open: " : "from the start: ") + tight.name);
    const TempFolder folder;
    new (seen_) Seen();
    const std::string path = folder.file("pool");
    const std::string end =
        testing::in_hostile_child(later ? testing::Hostility{"later", [] { return true; }} : tight, [&] {
          return Life(seen_, path).run([&] {
            if (later) static_cast<void>(tight.impose());
          });
        });
    if (end == "not imposed") GTEST_SKIP() << "sanitizers need the address space";
    EXPECT_TRUE(end.empty() || seen_->wrong[0] != '\0') << end;
    if (seen_->acknowledged[0] != 0) ++opened;
    judge(path);
  }
  EXPECT_GT(opened, 0u);
  EXPECT_GT(refused_, 0u);
}

}  // namespace
}  // namespace bonsai::scarce_memory
