// SPDX-License-Identifier: Apache-2.0
// Each allocation of each call of the public interface fails once: `operator new` throws at the n-th time, for the
// first n and then for ever larger ones, until the call needs fewer. Then the call returns a status or null that says
// so, no process is ended, and the pool opens again with every acknowledged update. Each case runs in a child of its
// own.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/temp_folder.h"
#include "bonsai/c.h"
#include "bonsai/db.h"
#include "persist/format.h"
#include "persist/space.h"
#include "testing/failing_new.h"
#include "testing/hostile.h"

namespace bonsai::failing_allocations {
namespace {

constexpr size_t kKeys = 200;
constexpr uint64_t kPoolBytes = uint64_t{1} << 20;

enum Outcome : uint8_t { kOld, kNew, kDeleted, kEither };

// The results that a child leaves to its parent, however it ends.
struct Seen {
  Outcome outcome[kKeys];
  bool failed;   // an allocation did
  bool refused;  // the call did
  bool opened;   // it was an opening,
  bool changed;  // and has changed the file
  char wrong[512];
};

std::string key_of(size_t i) { return "key " + std::to_string(1000 + i); }
std::string value_of(size_t i, bool is_new) {
  return (is_new ? "new " : "old ") + std::to_string(i) + std::string(i % 40 == 0 ? 5000 : i % 90, 'v');
}

Options options_of(uint32_t background_threads = 0) {
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = kPoolBytes;
  options.background_threads = background_threads;
  options.stall_ms_max = 2'000;
  return options;
}

// What one case does with the pool.
class Life {
 public:
  Life(Seen* seen, const std::string& folder, int64_t n)
      : seen_(*seen), pool_(folder + "/pool"), other_(folder + "/other"), n_(n) {}

  [[nodiscard]] const std::string& pool() const { return pool_; }
  [[nodiscard]] const std::string& other() const { return other_; }
  [[nodiscard]] DB& db() const { return *db_; }
  std::unique_ptr<DB>& owned() { return db_; }

  void open(uint32_t background_threads = 0) {
    const Status status = DB::Open(options_of(background_threads), pool(), &db_);
    if (!status.ok()) wrong("opening without a failure: " + status.ToString());
  }

  // Runs `call` -> Status with the n-th of its allocations failing. It must make none itself.
  template <class Call>
  Status when_it_fails(Call&& call) {
    Status status;
    testing::fail_allocation_after(n_ - 1);
    try {
      status = call();
      seen_.failed = testing::end_failing_allocations();
    } catch (const std::bad_alloc&) {
      static_cast<void>(testing::end_failing_allocations());
      wrong("std::bad_alloc came out");
    }
    judge(status);
    return status;
  }

  void judge(const Status& status) {
    if (status.ok()) return;
    seen_.refused = true;
    const bool by_memory = status.message().find("memory") != std::string_view::npos;
    if ((!status.IsNoSpace() && !status.IsIoError()) || !by_memory || !seen_.failed) wrong(status.ToString());
  }

  // An update's result.
  void note(size_t i, const Status& status, Outcome done) {
    judge(status);
    if (status.ok()) seen_.outcome[i] = done;
    if (status.IsIoError()) seen_.outcome[i] = kEither;
  }

  void note_file(bool changed) {
    seen_.opened = true;
    seen_.changed = changed;
  }

  // Reads are right, whatever has failed before.
  void read() {
    std::string value;
    for (size_t i = 0; i < kKeys; ++i) {
      const Status status = db_->Get(key_of(i), &value);
      const Outcome outcome = seen_.outcome[i];
      if (outcome == kEither) continue;
      if (status.IsNotFound() != (outcome == kDeleted)) wrong(key_of(i) + ": " + status.ToString());
      if (outcome != kDeleted && value != value_of(i, outcome == kNew)) wrong(key_of(i) + " has another value");
    }
  }

  void close() {
    if (db_ == nullptr) return;
    read();
    const Status closed = db_->Close();
    if (!closed.ok() && !closed.IsIoError()) wrong("Close, then: " + closed.ToString());
    db_.reset();
  }

  void wrong(const std::string& what) {
    if (seen_.wrong[0] == '\0') what.copy(seen_.wrong, sizeof seen_.wrong - 1);
  }

 private:
  Seen& seen_;
  const std::string pool_, other_;
  const int64_t n_;
  std::unique_ptr<DB> db_;
};

struct Case {
  const char* name;
  std::function<void(Life&)> run;
};

// A call on an open store whose result is a status.
Case on_open(const char* name, std::function<Status(DB&)> call) {
  return {name, [call = std::move(call)](Life& life) {
            life.open();
            static_cast<void>(life.when_it_fails([&] { return call(life.db()); }));
          }};
}

void open_that_fails(Life* life, const Options& options) {
  const std::string before = testing::read_file(life->pool());
  const Status status = life->when_it_fails([&] { return DB::Open(options, life->pool(), &life->owned()); });
  if (!status.ok()) life->note_file(testing::read_file(life->pool()) != before);
}

Status put_many(DB& db, Life* life) {
  const size_t n = 40;
  std::vector<std::string> keys, values;
  for (size_t i = 0; i < n; ++i) {
    keys.push_back(key_of(i));
    values.push_back(value_of(i, true));
  }
  const std::vector<std::string_view> key_views(keys.begin(), keys.end()), value_views(values.begin(), values.end());
  std::vector<Status> statuses(n);
  const Status whole = life->when_it_fails([&] {
    db.MultiPut(key_views, value_views, statuses);
    return Status::OK();
  });
  for (size_t i = 0; i < n; ++i) life->note(i, statuses[i], kNew);
  return whole;
}

Status use_session(DB& db, Life* life) {
  const size_t n = 40;
  std::vector<std::string> keys(2 * n), values(2 * n);
  std::vector<Status> statuses(2 * n);
  Status scanned, deleted;
  for (size_t i = 0; i < 2 * n; ++i) {
    keys[i] = key_of(i);
    if (i < n) values[i] = value_of(i, true);
  }
  const Status whole = life->when_it_fails([&] {
    const std::unique_ptr<Session> session = db.NewSession(32);
    if (session == nullptr) return Status::NoSpace("null for want of memory");
    for (size_t i = 0; i < n; ++i) session->Put(keys[i], values[i], &statuses[i]);
    for (size_t i = n; i < 2 * n; ++i) session->Get(keys[i], &values[i], &statuses[i]);
    session->Scan(
        {}, {}, [](auto, auto) { return true; }, &scanned);
    session->Delete(keys[n], &deleted);  // after the get and the scan, which see it
    session->Wait();
    return Status::OK();
  });
  life->judge(scanned);
  for (size_t i = 0; whole.ok() && i < n; ++i) life->note(i, statuses[i], kNew);
  for (size_t i = n; whole.ok() && i < 2 * n; ++i) life->judge(statuses[i]);
  if (whole.ok()) life->note(n, deleted, kDeleted);
  return whole;
}

Status walk(DB& db) {
  const std::unique_ptr<Iterator> at = db.NewIterator({});
  if (at == nullptr) return Status::NoSpace("null for want of memory");
  const auto moves = {+[](Iterator& it) { it.SeekToFirst(); },
                      +[](Iterator& it) { it.SeekToLast(); },
                      +[](Iterator& it) { it.Seek("key 1100, and so on and on"); },
                      +[](Iterator& it) { it.SeekForPrev("key 1100, and so on and on"); },
                      +[](Iterator& it) { it.SeekAfter("key 1100, and so on and on"); },
                      +[](Iterator& it) { it.SeekBefore("key 1100, and so on and on"); }};
  for (const auto move : moves) {
    move(*at);
    if (!at->status().ok()) return at->status();
    if (at->Valid()) at->Next();
    if (at->Valid()) at->Prev();
    if (!at->status().ok()) return at->status();
  }
  return Status::OK();
}

// The C interface, from options to the end.
Status use_c(const std::string& path) {
  char* message = nullptr;
  bonsai_t* db = nullptr;
  bonsai_options_t* const options = bonsai_options_create();
  if (options == nullptr) return Status::NoSpace("null for want of memory");
  bonsai_options_set_pool_bytes(options, kPoolBytes);
  bonsai_options_set_background_threads(options, 0);
  int code = bonsai_open(options, path.c_str(), &db, &message);
  if (code == BONSAI_OK) {
    char* value = nullptr;
    size_t bytes = 0;
    code = bonsai_get(db, nullptr, "key 1001", 8, &value, &bytes, &message);
    bonsai_free(value);
    bonsai_writebatch_t* const batch = bonsai_writebatch_create();
    if (batch == nullptr) code = BONSAI_NO_SPACE;
    if (code == BONSAI_OK) code = bonsai_writebatch_put(batch, "another", 7, "one", 3, &message);
    if (code == BONSAI_OK) code = bonsai_write(db, batch, &message);
    bonsai_writebatch_destroy(batch);
    bonsai_session_t* session = nullptr;
    if (code == BONSAI_OK) code = bonsai_session_create(db, 8, &session, &message);
    if (session != nullptr) {
      bonsai_result_t result;
      bonsai_session_put(session, "another", 7, "one", 3, &result);
      code = bonsai_session_wait(session, &message);
      bonsai_session_destroy(session);
    }
    bonsai_iterator_t* const iterator = bonsai_iter_create(db, nullptr);
    if (iterator != nullptr) {
      bonsai_iter_seek(iterator, "key", 3);
      if (code == BONSAI_OK) code = bonsai_iter_status(iterator, &message);
      bonsai_iter_destroy(iterator);
    }
    bonsai_stats_destroy(bonsai_stats_create(db));
    const int closed = bonsai_close(db, &message);
    if (code == BONSAI_OK) code = closed;
  }
  bonsai_options_destroy(options);
  const std::string text = message != nullptr ? message : "memory";
  bonsai_free(message);
  return code == BONSAI_OK ? Status::OK() : code == BONSAI_NO_SPACE ? Status::NoSpace(text) : Status::IoError(text);
}

std::vector<Case> openings() {
  return {
      {"Open", [](Life& life) { open_that_fails(&life, options_of()); }},
      {"Open, with a thread", [](Life& life) { open_that_fails(&life, options_of(1)); }},
      {"Open, creating",
       [](Life& life) {
         std::unique_ptr<DB> db;
         const Options options = options_of();
         const Status status = life.when_it_fails([&] { return DB::Open(options, life.other(), &db); });
         if (!status.ok() && std::filesystem::exists(life.other())) life.wrong("a new pool has its name");
         if (status.ok() && !db->Close().ok()) life.wrong("the new pool cannot be closed");
       }},
      {"Open, growing",
       [](Life& life) {
         Options options = options_of();
         options.grow_bytes = 2 * kPoolBytes;
         open_that_fails(&life, options);
       }},
  };
}

std::vector<Case> updates() {
  return {
      {"Put",
       [](Life& life) {
         life.open();
         for (const size_t i : {0, 1, 80}) {
           const std::string key = key_of(i), value = value_of(i, true);
           life.note(i, life.when_it_fails([&] { return life.db().Put(key, value); }), kNew);
         }
       }},
      {"Delete",
       [](Life& life) {
         life.open();
         const std::string key = key_of(3);
         life.note(3, life.when_it_fails([&] { return life.db().Delete(key); }), kDeleted);
       }},
      {"MultiPut",
       [](Life& life) {
         life.open();
         static_cast<void>(put_many(life.db(), &life));
       }},
      {"Write",
       [](Life& life) {
         life.open();
         WriteBatch batch;
         for (size_t i = 0; i < 60; ++i) batch.Put(key_of(i), value_of(i, true));
         const Status status = life.when_it_fails([&] { return life.db().Write(batch); });
         for (size_t i = 0; i < 60; ++i) life.note(i, status, kNew);
       }},
      {"DeleteRange",
       [](Life& life) {
         life.open();
         const std::string end = key_of(50);
         ScanOptions range;
         range.end = end;
         const Status status = life.when_it_fails([&] { return life.db().DeleteRange(range, "", nullptr); });
         for (size_t i = 0; i < 50; ++i) life.note(i, status, kDeleted);
       }},
      {"Session",
       [](Life& life) {
         life.open();
         static_cast<void>(use_session(life.db(), &life));
       }},
  };
}

std::vector<Case> background_and_ends() {
  return {
      {"Updates that offload",
       [](Life& life) {
         life.open();
         for (size_t i = 0; i < kKeys; ++i) life.note(i, life.db().Put(key_of(i), value_of(i, true)), kNew);
         static_cast<void>(life.when_it_fails([&] { return life.db().Drain(); }));
         for (size_t i = 0; i < kKeys; ++i) life.note(i, life.db().Put(key_of(i), value_of(i, true)), kNew);
       }},
      {"Drain beside a thread",
       [](Life& life) {
         life.open(1);
         for (size_t i = 0; i < kKeys; ++i) life.note(i, life.db().Put(key_of(i), value_of(i, true)), kNew);
         static_cast<void>(life.when_it_fails([&] { return life.db().Drain(); }));
       }},
      {"Close",
       [](Life& life) {
         life.open();
         life.note(7, life.db().Put(key_of(7), value_of(7, true)), kNew);
         static_cast<void>(life.when_it_fails([&] { return life.db().Close(); }));
         life.owned().reset();
       }},
      {"The destructor",
       [](Life& life) {
         life.open(1);
         life.note(7, life.db().Put(key_of(7), value_of(7, true)), kNew);
         static_cast<void>(life.when_it_fails([&] {
           life.owned().reset();
           return Status::OK();
         }));
       }},
      {"C", [](Life& life) { static_cast<void>(life.when_it_fails([&] { return use_c(life.pool()); })); }},
  };
}

std::vector<Case> pools() {
  std::vector<Case> all;
  const auto no_files_left = [](Life& life, const Status& status) {
    if (!status.ok() && std::filesystem::exists(life.other())) life.wrong("a copy that failed has its name");
  };
  all.push_back({"Checkpoint", [=](Life& life) {
                   life.open();
                   const Options options = options_of();
                   no_files_left(life,
                                 life.when_it_fails([&] { return Checkpoint(&life.db(), options, life.other()); }));
                 }});
  all.push_back({"Salvage", [=](Life& life) {
                   SalvageReport report;
                   const Options options = options_of();
                   no_files_left(
                       life, life.when_it_fails([&] { return Salvage(life.pool(), options, life.other(), &report); }));
                 }});
  all.push_back({"Check", [](Life& life) {
                   CheckReport report;
                   const Status status = life.when_it_fails([&] { return Check(life.pool(), &report); });
                   if (status.ok() && !report.ok()) life.wrong("Check found damage");
                 }});
  all.push_back({"Remove", [](Life& life) {
                   std::filesystem::copy_file(life.pool(), life.other());
                   const Status status = life.when_it_fails([&] { return Remove(life.other()); });
                   if (status.ok() == std::filesystem::exists(life.other())) life.wrong("Remove: " + status.ToString());
                   if (!status.ok() && !Remove(life.other()).ok()) life.wrong("Remove cannot be done again");
                 }});
  all.push_back({"DescribeMedium", [](Life& life) {
                   std::string text;
                   static_cast<void>(life.when_it_fails([&] { return DescribeMedium(life.pool(), &text); }));
                 }});
  return all;
}

std::vector<Case> reads() {
  std::vector<Case> all;
  all.push_back(on_open("Get", [](DB& db) {
    std::string value;
    return db.Get("key 1040", &value);  // a large one
  }));
  all.push_back(on_open("Exists", [](DB& db) { return db.Exists("key 1040"); }));
  all.push_back(on_open("MultiGet", [](DB& db) {
    const std::array<std::string_view, 3> keys = {"key 1040", "key 1041", "key 1089"};
    std::array<std::string, 3> values;
    std::array<Status, 3> statuses;
    db.MultiGet({}, keys, values, statuses);
    for (Status& status : statuses) {
      if (!status.ok()) return std::move(status);
    }
    return Status();
  }));
  all.push_back(on_open("Scan", [](DB& db) { return db.Scan({}, {}, [](auto, auto) { return true; }); }));
  all.push_back(on_open("ScanRows", [](DB& db) { return db.ScanRows({}, {}, [](const Rows&) { return true; }); }));
  all.push_back(on_open("Count", [](DB& db) {
    uint64_t count = 0;
    const Status status = db.Count({}, {}, &count);
    return status.ok() && count != kKeys ? Status::Corruption("another count") : status;
  }));
  all.push_back(on_open("Iterator", walk));
  all.push_back(on_open("GetSnapshot", [](DB& db) {
    std::shared_ptr<const Snapshot> snapshot;
    return db.GetSnapshot(&snapshot);
  }));
  all.push_back(on_open("Sync", [](DB& db) { return db.Sync(); }));
  all.push_back(on_open("GetStats", [](DB& db) {
    const Stats stats = db.GetStats();
    const bool right = stats.targets == 1 && (stats.medium.empty() || stats.bnodes != 0);
    return right ? Status::OK()
                 : Status::Corruption(std::to_string(stats.targets) + "," + std::to_string(stats.bnodes));
  }));
  return all;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::vector<Case>& some : {openings(), updates(), background_and_ends(), pools(), reads()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

class FailingAllocations : public ::testing::Test {
 protected:
  FailingAllocations() {
    void* const shared = ::mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    BONSAI_CHECK(shared != MAP_FAILED);
    seen_ = static_cast<Seen*>(shared);
    // A pool with dnodes and a log, as a crash leaves it.
    const std::string end = testing::in_hostile_child({"crash", [] { return true; }}, [&] {
      std::unique_ptr<DB> db;
      bool done = DB::Open(options_of(), made_.file("pool"), &db).ok();
      for (size_t i = 0; i < kKeys && done; ++i) {
        done = db->Put(key_of(i), value_of(i, false)).ok() && (i != kKeys / 2 || db->Drain().ok());
      }
      if (done) ::_exit(0);
      return false;
    });
    EXPECT_EQ(end, "");
  }
  ~FailingAllocations() override {
    testing::add_figure("failing_allocations", failed_);
    ::munmap(seen_, sizeof(Seen));
  }

  // Returns whether to go on with a larger n: an allocation failed, as it should, else the case needs fewer.
  bool run(const Case& each, int64_t n) {
    SCOPED_TRACE(std::string(each.name) + ", allocation " + std::to_string(n));
    const testing::TempFolder folder;
    std::filesystem::copy_file(made_.file("pool"), folder.file("pool"));
    *seen_ = Seen();
    const std::string end = testing::in_hostile_child({"failing", [] { return true; }}, [&] {
      Life life(seen_, folder.path(), n);
      each.run(life);
      life.close();
      return seen_->wrong[0] == '\0';
    });
    EXPECT_STREQ(seen_->wrong, "");
    EXPECT_TRUE(end.empty() || seen_->wrong[0] != '\0') << end;
    failed_ += seen_->failed ? 1 : 0;
    refused_ += seen_->refused ? 1 : 0;
    std::unique_ptr<DB> db;
    const Status opened = DB::Open(options_of(), folder.file("pool"), &db);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    if (!opened.ok()) return false;
    Life life(seen_, folder.path(), n);
    life.owned() = std::move(db);
    life.close();
    EXPECT_STREQ(seen_->wrong, "") << "after reopening";
    return seen_->failed && seen_->wrong[0] == '\0';
  }

  const testing::TempFolder made_;
  Seen* seen_;
  uint64_t failed_ = 0, refused_ = 0;
};

TEST_F(FailingAllocations, EachCallSaysSoAndLosesNothing) {
  const int64_t each_max = testing::budget<int64_t>(10, 60, 3000), more_percent = testing::budget<int64_t>(60, 15, 2);
  for (const Case& each : cases()) {
    int64_t n = 1, before = 0;
    bool changed = false;
    for (; run(each, n); n = n < each_max ? n + 1 : n + 1 + n * more_percent / 100) {
      before = n;
      // An opening that fails changes the file only once recovery has begun to write.
      EXPECT_TRUE(!seen_->opened || seen_->changed || !changed) << each.name << ": before allocation " << n;
      changed = seen_->changed;
    }
    std::printf("%s: up to allocation %lld\n", each.name, static_cast<long long>(before));
  }
  std::printf("%llu allocations failed, %llu calls refused\n", static_cast<unsigned long long>(failed_),
              static_cast<unsigned long long>(refused_));
  EXPECT_GT(refused_, 0u);
}

// What is free stays known, byte for byte.
TEST(FailingAllocationsOfSpace, AllocateChangesNothingAndFreeLeavesTheRangeAllocated) {
  constexpr uint64_t kBlocks = 3'000, kBegin = 8 * persist::kBlockBytes;
  base::Random random(base::seed_from_env_or(17));
  persist::Space space;
  space.add_target(kBegin, kBegin + kBlocks * persist::kBlockBytes, 0);
  std::vector<std::pair<scale::Addr, uint64_t>> held;
  uint64_t held_bytes = 0, failures = 0;
  for (int step = 0; step < 40'000; ++step) {
    const uint64_t bytes = persist::kBlockBytes * (1 + random.below(3));
    const size_t which = held.empty() ? 0 : random.below(held.size());
    const bool allocates = held.empty() || random.chance(1, 2);
    scale::Addr addr;
    held.reserve(held.size() + 1);
    testing::fail_allocation_after(static_cast<int64_t>(random.below(3)));
    bool failed = false;
    try {
      if (allocates) {
        addr = space.allocate(bytes, persist::Space::Use::kReserve, 0,
                              step % 3 == 0 ? persist::Space::Where::kHigh : persist::Space::Where::kLow);
      } else {
        space.free(held[which].first, held[which].second);
      }
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    static_cast<void>(testing::end_failing_allocations());
    failures += failed ? 1 : 0;
    if (!failed && allocates && !addr.is_nil()) {
      held.emplace_back(addr, bytes);
      held_bytes += bytes;
    } else if (!failed && !allocates) {
      held_bytes -= held[which].second;
      held[which] = held.back();
      held.pop_back();
    }
    ASSERT_EQ(space.used_bytes(), held_bytes) << step;
    ASSERT_EQ(space.ordinary_free_bytes(), space.capacity_bytes() - held_bytes) << step;
  }
  EXPECT_GT(failures, 100u);
  for (const auto& [addr, bytes] : held) space.free(addr, bytes);
  EXPECT_TRUE(space.reserve({0, kBegin}, kBlocks * persist::kBlockBytes)) << "all is free, and in one piece";
}

}  // namespace
}  // namespace bonsai::failing_allocations
