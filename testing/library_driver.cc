// SPDX-License-Identifier: Apache-2.0
// Drives a store through the public interface only. scripts/driver.py compiles this text against the libraries of
// several builds, so that what drives them is the same, whatever their programs do.
//   library_driver speed RECORDS FORM SETTLE_MS [NAME...]    for scripts/turns.py
// The lines of `bonsai-bench experiment speed`, or those of them that are named. FORM: fixed (8 + 8 bytes) or strings
// (24 + 100). Prints "NAME: Mop/s" for each line. As many requests as records, on two threads in sessions of 32, each
// on its own sequence, made before the clock starts. The store is drained before each line; then it waits for
// SETTLE_MS.
//   library_driver count KIND RECORDS OPERATIONS      for scripts/instructions.py
// Operations of one kind on a loaded and drained store. KIND: put, get, multi_put, multi_get (32 keys a call), scan (of
// 50); session_put, session_get, session_mixed, session_insert, session_scan (32 a session's wait; each twentieth of
// the scans is an insert); long_scan (of 32 K records, after 256 puts), long_scan_16 (values of 16 bytes); compaction
// (a put, and its share of a drain after 4,096 puts); put_if (if present). One thread, no background threads, 8-byte
// keys in random order, 8-byte values. The requests of a run are a prefix of those of a longer one. Pools are in memory
// (tmpfs) and are removed in the end.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bonsai/db.h"

namespace {

constexpr size_t kThreads = 2;
constexpr size_t kDepth = 32;
constexpr size_t kScanRecords = 50;
constexpr size_t kGroup = 32;
constexpr uint64_t kLongScanRecords = 32'768, kPutsPerLongScan = 256;
constexpr uint64_t kPutsPerDrain = 4'096;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 32);
}

std::string fixed_key_of(uint64_t number) {
  const uint64_t bits = mix(number);
  return {reinterpret_cast<const char*>(&bits), sizeof bits};
}

std::string pool_path() { return "/dev/shm/bonsai-library-driver." + std::to_string(::getpid()); }

// Reads a byte of each cache line, as the caller of a scan reads its records.
uint64_t touched(std::string_view bytes) {
  uint64_t sum = bytes.size();
  for (size_t i = 0; i < bytes.size(); i += 64) sum += static_cast<unsigned char>(bytes[i]);
  return sum;
}

[[noreturn]] void fail(const bonsai::Status& status) {
  std::fprintf(stderr, "library_driver: %s\n", status.ToString().c_str());
  std::exit(1);
}

void expect(const bonsai::Status& status) {
  if (!status.ok()) fail(status);
}

// YCSB's, after Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994.
class Zipfian {
 public:
  explicit Zipfian(uint64_t items) : items_(static_cast<double>(items)) {
    for (uint64_t i = 1; i <= items; ++i) zeta_ += std::pow(static_cast<double>(i), -kTheta);
    eta_ = (1 - std::pow(2 / items_, 1 - kTheta)) / (1 - (1 + std::pow(0.5, kTheta)) / zeta_);
  }
  uint64_t operator()(double u) const {
    if (u * zeta_ < 1) return 0;
    if (u * zeta_ < 1 + std::pow(0.5, kTheta)) return 1;
    return static_cast<uint64_t>(items_ * std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta)));
  }

 private:
  static constexpr double kTheta = 0.99;
  double items_, zeta_ = 0, eta_ = 0;
};

enum class Op : uint8_t { kGet, kPut, kScan };
enum class Pick : uint8_t { kSequential, kUniform, kZipf, kLatest };

struct Line {
  const char* name;
  double puts = 0;  // the share of updates, or of inserts
  Pick pick = Pick::kZipf;
  bool inserts = false, scans = false;
  bool fresh = false;  // on a store that was just loaded
  size_t depth = kDepth;
  bool grouped = false;  // by MultiGet
};

constexpr Line kLines[] = {
    {.name = "Load", .puts = 1, .pick = Pick::kSequential},
    {.name = "A zipf", .puts = 0.5},
    {.name = "B zipf", .puts = 0.05},
    {.name = "C zipf"},
    {.name = "C uniform", .pick = Pick::kUniform},
    {.name = "multi-get of 32", .pick = Pick::kUniform, .grouped = true},
    {.name = "C at depth 1", .pick = Pick::kUniform, .depth = 1},
    {.name = "D", .puts = 0.05, .pick = Pick::kLatest, .inserts = true, .fresh = true},
    {.name = "E zipf", .puts = 0.05, .inserts = true, .scans = true, .fresh = true},
};

struct Request {
  uint32_t record;
  Op op;
};

class SpeedLines {
 public:
  SpeedLines(uint64_t records, bool strings, uint64_t settle_ms)
      : records_(records), strings_(strings), settle_ms_(settle_ms), zipf_(records) {}
  ~SpeedLines() { close(); }
  SpeedLines(const SpeedLines&) = delete;
  SpeedLines& operator=(const SpeedLines&) = delete;

  // Runs the lines that are named; all of them if none is.
  void run(std::span<char* const> names) {
    for (const Line& line : kLines) {
      const auto is_its = [&line](const char* name) { return std::string_view(name) == line.name; };
      if (!names.empty() && std::none_of(names.begin(), names.end(), is_its)) continue;
      const bool loads = line.pick == Pick::kSequential;
      const bool opens = loads || line.fresh || db_ == nullptr;
      if (opens) open();
      if (opens && !loads) static_cast<void>(timed({.name = "", .puts = 1, .pick = Pick::kSequential}));
      std::printf("%s: %.3f\n", line.name, timed(line));
      std::fflush(stdout);
    }
  }

 private:
  void close() {
    db_.reset();
    ::unlink(path_.c_str());
  }
  void open() {
    close();
    const uint64_t bytes = records_ * (strings_ ? 132 : 20);
    bonsai::Options options;
    options.create_if_missing = true;
    options.key_format = strings_ ? bonsai::KeyFormat::kBytes : bonsai::KeyFormat::kFixed8;
    options.pool_bytes = std::max<uint64_t>(bytes * 3, uint64_t{64} << 20);
    options.log_bytes = std::max<uint64_t>(bytes / 10, uint64_t{1} << 20);
    expect(bonsai::DB::Open(options, path_, &db_));
  }
  [[nodiscard]] std::string key_of(uint64_t record) const {
    if (!strings_) return fixed_key_of(record);
    char text[32];
    std::snprintf(text, sizeof text, "user%020llu", static_cast<unsigned long long>(mix(record)));
    return text;
  }
  std::vector<Request> requests(const Line& line, size_t thread) const {
    std::mt19937_64 random(thread + 1);
    std::uniform_real_distribution<double> share;
    std::vector<Request> made(records_ / kThreads);
    uint64_t inserted = records_ + thread * made.size();
    for (size_t i = 0; i < made.size(); ++i) {
      const bool put = share(random) < line.puts;
      uint64_t record = i * kThreads + thread;
      if (line.pick == Pick::kUniform) record = random() % records_;
      if (line.pick == Pick::kZipf) record = mix(zipf_(share(random))) % records_;
      if (line.pick == Pick::kLatest) record = records_ - 1 - std::min(zipf_(share(random)), records_ - 1);
      if (put && line.inserts) record = inserted++;
      made[i] = {static_cast<uint32_t>(record), put ? Op::kPut : line.scans ? Op::kScan : Op::kGet};
    }
    return made;
  }
  double timed(const Line& line) {
    std::vector<std::vector<std::string>> keys(kThreads);
    std::vector<std::vector<Request>> all(kThreads);
    for (size_t t = 0; t < kThreads; ++t) {
      all[t] = requests(line, t);
      for (const Request& each : all[t]) keys[t].push_back(key_of(each.record));
    }
    if (line.pick != Pick::kSequential) std::this_thread::sleep_for(std::chrono::milliseconds(settle_ms_));
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        if (line.grouped) return get_groups(keys[t]);
        in_session(line, all[t], keys[t]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    expect(db_->Drain());
    return static_cast<double>(records_) / took.count();
  }
  void get_groups(const std::vector<std::string>& keys) {
    std::vector<std::string_view> group(kDepth);
    std::vector<std::string> values(kDepth);
    std::vector<bonsai::Status> statuses(kDepth);
    for (size_t i = 0; i + kDepth <= keys.size(); i += kDepth) {
      for (size_t j = 0; j < kDepth; ++j) group[j] = keys[i + j];
      db_->MultiGet({}, group, values, statuses);
      for (const bonsai::Status& status : statuses) expect(status);
    }
  }
  // An operation's answer is looked at when its place is needed again: no more than `depth` are in flight.
  void in_session(const Line& line, const std::vector<Request>& requests, const std::vector<std::string>& keys) {
    if (line.depth == 1) return one_by_one(keys);
    const std::unique_ptr<bonsai::Session> session = db_->NewSession(line.depth);
    const std::string value(strings_ ? 100 : 8, 'v');
    std::vector<std::string> values(line.depth);
    std::vector<bonsai::Status> statuses(line.depth);
    uint64_t scanned = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const size_t place = i % line.depth;
      if (place == 0) {
        session->Wait();
        for (const bonsai::Status& status : statuses) expect(status);
      }
      switch (requests[i].op) {
        case Op::kGet:
          session->Get(keys[i], &values[place], &statuses[place]);
          break;
        case Op::kPut:
          session->Put(keys[i], value, &statuses[place]);
          break;
        case Op::kScan:
          session->Scan(
              {.limit = kScanRecords}, keys[i],
              [&scanned](std::string_view key, std::string_view read) {
                scanned += touched(key) + touched(read);
                return true;
              },
              &statuses[place]);
      }
    }
    session->Wait();
    if (line.scans && scanned == 0) std::abort();
  }
  void one_by_one(const std::vector<std::string>& keys) {
    std::string value;
    for (const std::string& key : keys) expect(db_->Get({}, key, &value));
  }

  const uint64_t records_;
  const bool strings_;
  const uint64_t settle_ms_;
  const Zipfian zipf_;
  const std::string path_ = pool_path();
  std::unique_ptr<bonsai::DB> db_;
};

class Counted {
 public:
  Counted(bonsai::DB* db, uint64_t records, size_t value_bytes)
      : db_(*db), records_(records), old_(value_bytes, 'o'), new_(value_bytes, 'n') {}

  bonsai::Status load() {
    bonsai::Status status;
    for (uint64_t i = 0; i < records_ && status.ok(); ++i) status = db_.Put(fixed_key_of(i), old_);
    return status.ok() ? db_.Drain() : status;
  }

  bonsai::Status run(const std::string& kind, uint64_t operations) {
    if (kind == "multi_get" || kind == "multi_put") return in_groups(kind == "multi_put", operations);
    if (kind.starts_with("session_")) return in_session(kind, operations);
    if (kind.starts_with("long_scan")) return beside_updates(operations);
    bonsai::Status status;
    for (uint64_t i = 0; i < operations && status.ok(); ++i) {
      const std::string key = fixed_key_of(mix(i) % records_);
      if (kind == "put") {
        status = db_.Put(key, new_);
#if __has_include("bonsai/condition.h")
      } else if (kind == "put_if") {
        status = db_.PutIf(bonsai::Condition::Present(), key, new_);
#endif
      } else if (kind == "compaction") {
        status = db_.Put(key, new_);
        if (status.ok() && (i + 1) % kPutsPerDrain == 0) status = db_.Drain();
      } else if (kind == "get") {
        status = db_.Get(key, &value_);
      } else if (kind == "scan") {
        bonsai::ScanOptions options;
        options.limit = 50;
        status = db_.Scan(options, key, [this](std::string_view, std::string_view) { return ++visited_ != 0; });
      } else {
        status = bonsai::Status::InvalidArgument("'" + kind + "' is no kind of operation; see library_driver.cc");
      }
    }
    return status;
  }

 private:
  // The first puts give each range updates for the scans to merge.
  bonsai::Status beside_updates(uint64_t operations) {
    bonsai::ScanOptions options;
    options.limit = kLongScanRecords;
    bonsai::Status status = put_some(0, records_ / 4);
    for (uint64_t i = 0; i < operations && status.ok(); ++i) {
      status = put_some(records_ + i * kPutsPerLongScan, kPutsPerLongScan);
      if (!status.ok()) break;
      status = db_.ScanRows(options, fixed_key_of(mix(i) % records_),
                            [this](const bonsai::Rows& rows) { return (visited_ += rows.count) != 0; });
    }
    return status;
  }
  bonsai::Status put_some(uint64_t first, uint64_t count) {
    bonsai::Status status;
    for (uint64_t i = first; i < first + count && status.ok(); ++i)
      status = db_.Put(fixed_key_of(mix(i) % records_), new_);
    return status;
  }

  bonsai::Status in_groups(bool puts, uint64_t operations) {
    std::vector<std::string> keys(kGroup), values(kGroup);
    const std::vector<std::string_view> new_values(kGroup, new_);
    std::vector<bonsai::Status> statuses(kGroup);
    for (uint64_t i = 0; i < operations; i += kGroup) {
      for (size_t j = 0; j < kGroup; ++j) keys[j] = fixed_key_of(mix(i + j) % records_);
      const std::vector<std::string_view> views(keys.begin(), keys.end());
      if (puts) {
        db_.MultiPut(views, new_values, statuses);
      } else {
        db_.MultiGet({}, views, values, statuses);
      }
      for (const bonsai::Status& status : statuses) {
        if (!status.ok()) return status;
      }
    }
    return bonsai::Status::OK();
  }

  // The requests of one kind. In a mixed one, every other operation is a get.
  bonsai::Status in_session(const std::string& kind, uint64_t operations) {
    const bool inserts = kind == "session_insert", scans = kind == "session_scan";
    const auto session = db_.NewSession(kGroup);
    bonsai::ScanOptions options;
    options.limit = 50;
    std::vector<std::string> keys(kGroup), values(kGroup);
    std::vector<bonsai::Status> statuses(kGroup);
    for (uint64_t i = 0; i < operations; ++i) {
      const size_t j = i % kGroup;
      const bool fresh = inserts || (scans && i % 20 == 19);
      keys[j] = fixed_key_of(fresh ? records_ + i : mix(i) % records_);
      if (fresh || kind == "session_put" || (kind == "session_mixed" && i % 2 == 1)) {
        session->Put(keys[j], new_, &statuses[j]);
      } else if (scans) {
        session->Scan(
            options, keys[j], [this](std::string_view, std::string_view) { return ++visited_ != 0; }, &statuses[j]);
      } else {
        session->Get(keys[j], &values[j], &statuses[j]);
      }
      if (j + 1 < kGroup && i + 1 < operations) continue;
      session->Wait();
      for (const bonsai::Status& status : statuses) {
        if (!status.ok()) return status;
      }
    }
    return bonsai::Status::OK();
  }

  bonsai::DB& db_;
  const uint64_t records_;
  const std::string old_, new_;  // values
  std::string value_;
  uint64_t visited_ = 0;
};

int speed(std::span<char* const> words) {
  const std::string_view form = words[1];
  const auto records = static_cast<uint64_t>(std::atoll(words[0]));
  SpeedLines(records, form == "strings", static_cast<uint64_t>(std::atoll(words[2]))).run(words.subspan(3));
  return 0;
}

int count(char** words) {
  const uint64_t records = std::strtoull(words[1], nullptr, 10);
  const std::string pool = pool_path();
  bonsai::Options options;
  options.create_if_missing = true;
  options.error_if_exists = true;
  options.key_format = bonsai::KeyFormat::kFixed8;
  options.pool_bytes = (uint64_t{64} << 20) + 256 * records;
  options.background_threads = 0;
  options.recovery_threads = 1;
  std::unique_ptr<bonsai::DB> db;
  bonsai::Status status = bonsai::DB::Open(options, pool, &db);
  if (status.ok()) {
    const std::string kind = words[0];
    Counted counted(db.get(), records, kind.ends_with("_16") ? 16 : 8);
    status = counted.load();
    if (status.ok()) status = counted.run(kind, std::strtoull(words[2], nullptr, 10));
    db.reset();
  }
  ::unlink(pool.c_str());
  expect(status);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc >= 5 ? argv[1] : "";
  const std::string_view form = argc >= 5 ? argv[3] : "";
  if (what == "count" && argc == 5) return count(argv + 2);
  if (what == "speed" && std::atoll(argv[2]) > 0 && (form == "fixed" || form == "strings"))
    return speed({argv + 2, static_cast<size_t>(argc) - 2});
  std::fprintf(stderr,
               "usage: library_driver speed RECORDS fixed|strings SETTLE_MS [NAME...]\n"
               "       library_driver count KIND RECORDS OPERATIONS\n");
  return 2;
}
