// SPDX-License-Identifier: Apache-2.0
#include "testing/remote_budgets.h"

#include <array>
#include <cstdio>
#include <string_view>

#include "base/random.h"
#include "base/status_macros.h"

namespace bonsai::testing {

namespace {

constexpr uint64_t kGroup = 32, kRecords = 375 * kGroup, kOperations = 500;
constexpr uint64_t kRangesPerOffload = 16;  // that Drain offloads together
constexpr size_t kLargeBytes = 100'000;
constexpr uint64_t kShortScan = 50;

std::string key_of(uint64_t number) {
  const uint64_t bits = base::splitmix64(number);
  return {reinterpret_cast<const char*>(&bits), sizeof bits};
}

Status expect(bool holds, const char* what) {
  return holds ? Status::OK() : Status::Corruption(std::string("a wrong answer: ") + what);
}

class Counting {
 public:
  Counting(DB* db, const std::function<Asked()>& asked, std::vector<BudgetRow>* rows)
      : db_(*db), asked_(asked), rows_(*rows) {}

  Status run() {
    BONSAI_RETURN_IF_ERROR(fill());
    BONSAI_RETURN_IF_ERROR(puts());
    BONSAI_RETURN_IF_ERROR(offloading());
    BONSAI_RETURN_IF_ERROR(append_runs());
    BONSAI_RETURN_IF_ERROR(gets("get over several runs", {1, 2.7, 54}));
    BONSAI_RETURN_IF_ERROR(compact());
    BONSAI_RETURN_IF_ERROR(gets("get", {1, 1.17, 23.4}));
    BONSAI_RETURN_IF_ERROR(gets_of_no_record());
    BONSAI_RETURN_IF_ERROR(large_values());
    return scans();
  }

 private:
  // Counts the requests of `work`, as one row.
  template <class Work>
  Status count(const char* operation, uint64_t times, const Budget& budget, const Work& work) {
    const Asked before = asked_();
    BONSAI_RETURN_IF_ERROR(work());
    const Asked after = asked_();
    const Asked asked = {after.round_trips - before.round_trips, after.messages - before.messages,
                         after.bytes - before.bytes};
    rows_.push_back({operation, times, asked, budget});
    return Status::OK();
  }

  struct Group {
    explicit Group(uint64_t first) {
      for (uint64_t i = 0; i < kGroup; ++i) {
        keys[i] = key_of(first + i);
        views[i] = keys[i];
      }
    }
    std::array<std::string, kGroup> keys;
    std::array<std::string_view, kGroup> views;
    std::array<Status, kGroup> statuses;

    [[nodiscard]] Status status() const {
      for (const Status& each : statuses) BONSAI_RETURN_IF_ERROR(each);
      return Status::OK();
    }
  };
  Status put_group(uint64_t first, std::string_view value) {
    Group group(first);
    std::array<std::string_view, kGroup> values;
    values.fill(value);
    db_.MultiPut(group.views, values, group.statuses);
    return group.status();
  }
  Status get_group(uint64_t first) {
    Group group(first);
    std::array<std::string, kGroup> values;
    db_.MultiGet({}, group.views, values, group.statuses);
    return group.status();
  }

  Status fill() {
    for (int round = 0; round < 3; ++round) {  // until there is a place for dnodes of all sizes
      for (uint64_t i = 0; i < kRecords; i += kGroup) BONSAI_RETURN_IF_ERROR(put_group(i, "12345678"));
      BONSAI_RETURN_IF_ERROR(db_.Drain());
    }
    return Status::OK();
  }

  // A record is a WRITE and a flush request in one list, on one node. Now and then a log segment is full, and its end
  // is noted.
  Status puts() {
    for (int i = 0; i < 10; ++i) BONSAI_RETURN_IF_ERROR(db_.Put(key_of(0), "12345678"));  // until there is a segment
    BONSAI_RETURN_IF_ERROR(count("put", kOperations, {1.02, 2.1, 80}, [&] {
      Status status;
      for (uint64_t i = 0; i < kOperations && status.ok(); ++i) status = db_.Put(key_of(i), "12345678");
      return status;
    }));
    return count("32 puts together", kOperations / kGroup, {1.25, 2.8, 760}, [&] {
      Status status;
      for (uint64_t i = 0; i < kOperations / kGroup && status.ok(); ++i) status = put_group(i * kGroup, "12345678");
      return status;
    });
  }

  // Budget for each kRangesPerOffload ranges: one list of READs; new runs, their headers, the end of the old dnodes.
  // Once per Drain: the ends of log segments, an extent more.
  Status offloading() {
    for (uint64_t i = 0; i < kRecords; i += kGroup) BONSAI_RETURN_IF_ERROR(put_group(i, "87654321"));
    const uint64_t before = db_.GetStats().offloads;
    BONSAI_RETURN_IF_ERROR(
        count("offload 16 ranges", 0, {0, 4 + 3 * kRangesPerOffload, 52'000}, [&] { return db_.Drain(); }));
    const uint64_t ranges = db_.GetStats().offloads - before;
    BudgetRow& row = rows_.back();
    row.times = (ranges + kRangesPerOffload - 1) / kRangesPerOffload;
    row.budget.round_trips = 4 + 2 / static_cast<double>(row.times);
    return expect(ranges > kRangesPerOffload, "there are too few ranges");
  }

  // Three more runs, each with the keys that later gets read.
  Status append_runs() {
    for (int round = 0; round < 3; ++round) {
      for (uint64_t i = 0; i < kRecords / 16; i += kGroup) BONSAI_RETURN_IF_ERROR(put_group(i, "87654321"));
      BONSAI_RETURN_IF_ERROR(db_.Drain());
    }
    return Status::OK();
  }

  // Reads until every range has one run.
  Status compact() {
    for (uint64_t before = UINT64_MAX; before != db_.GetStats().compactions;) {
      before = db_.GetStats().compactions;
      for (uint64_t i = 0; i < 4 * kRecords; i += kGroup) BONSAI_RETURN_IF_ERROR(get_group(i % kRecords));
    }
    return Status::OK();
  }

  // Entries whose hash has the same byte as the key's, in a group of 32 entries, are read with it.
  Status gets(const char* operation, const Budget& budget) {
    std::string value;
    return count(operation, kOperations, budget, [&] {
      Status status;
      for (uint64_t i = 0; i < kOperations && status.ok(); ++i) {
        status = db_.Get(key_of(i), &value);
        if (status.ok()) status = expect(value == "87654321", "of a get");
      }
      return status;
    });
  }
  Status gets_of_no_record() {
    std::string value;
    return count("get of no record", kOperations, {.16, .17, 3.4}, [&] {
      Status status;
      for (uint64_t i = 0; i < kOperations && status.ok(); ++i) {
        status = expect(db_.Get(key_of(kRecords + i), &value).IsNotFound(), "a key that nobody put");
      }
      return status;
    });
  }

  Status large_values() {
    const std::string large(kLargeBytes, 'x');
    BONSAI_RETURN_IF_ERROR(db_.Put("large", large));
    BONSAI_RETURN_IF_ERROR(db_.Drain());
    std::string value;
    return count("get of 100,000 bytes", 1, {2, 2, kLargeBytes + 100.0}, [&] {
      const Status status = db_.Get("large", &value);
      return status.ok() ? expect(value == large, "of a large value") : status;
    });
  }

  // A short one reads a part of its range, and now and then of the next. A long one reads up to nine dnodes by one
  // list, fewer where it comes to another node of the tree; each has one run.
  Status scans() {
    uint64_t records = 0;
    ScanOptions few;
    few.limit = kShortScan;
    BONSAI_RETURN_IF_ERROR(count("scan of 50 records", kOperations, {1.2, 1.2, 3'200}, [&] {
      Status status;
      for (uint64_t i = 0; i < kOperations && status.ok(); ++i)
        status = db_.Scan(few, key_of(i), [&](std::string_view, std::string_view) { return ++records > 0; });
      return status;
    }));
    BONSAI_RETURN_IF_ERROR(expect(records > (kOperations - 10) * kShortScan, "of short scans"));
    records = 0;
    const Stats stats = db_.GetStats();
    BONSAI_RETURN_IF_ERROR(count("scan of 8 dnodes", (stats.dnodes + 7) / 8, {1, 8, 90'000}, [&] {
      return db_.Scan({}, "", [&](std::string_view, std::string_view) { return ++records > 0; });
    }));
    return expect(records == kRecords + 1, "of a scan");
  }

  DB& db_;
  const std::function<Asked()>& asked_;
  std::vector<BudgetRow>& rows_;
};

}  // namespace

std::string BudgetRow::text() const {
  const auto each = [this](uint64_t n) {
    return times == 0 ? 0.0 : static_cast<double>(n) / static_cast<double>(times);
  };
  std::array<char, 200> line;
  std::snprintf(line.data(), line.size(), "%-21s %6.2f round trips (%.2f), %6.2f messages (%.2f), %8.0f bytes (%.0f)%s",
                operation.c_str(), each(asked.round_trips), budget.round_trips, each(asked.messages), budget.messages,
                each(asked.bytes), budget.bytes, kept() ? "" : ": EXCEEDED");
  return line.data();
}

Asked asked_by(DB* db) {
  const Stats stats = db->GetStats();
  return {stats.fabric_round_trips, stats.fabric_messages, stats.fabric_bytes};
}

Options budget_options() {
  Options options;
  options.pool_bytes = uint64_t{16} << 20;
  options.log_bytes = uint64_t{4} << 20;
  options.background_threads = 0;
  return options;
}

Status count_remote_budgets(DB* db, const std::function<Asked()>& asked, std::vector<BudgetRow>* rows) {
  return Counting(db, asked, rows).run();
}

}  // namespace bonsai::testing
