// SPDX-License-Identifier: Apache-2.0
// The lines of `bonsai-bench experiment speed` through the public interface only, for scripts/turns.py, which compiles
// this text against the libraries of several builds: what drives them is then the same, whatever their benches do.
//   speed_mix RECORDS FORM SETTLE_MS    FORM: fixed (8 + 8 bytes) or strings (24 + 100)
// Prints a line "NAME: Mop/s" each. As many requests as records, on two threads in sessions of 32, each on its own
// sequence, made before the clock starts. Drained before each line; then it waits for SETTLE_MS.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bonsai/db.h"

namespace {

constexpr size_t kThreads = 2;
constexpr size_t kDepth = 32;
constexpr size_t kScanRecords = 50;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 32);
}

// A byte of each cache line: whoever scans reads what he gets.
uint64_t touched(std::string_view bytes) {
  uint64_t sum = bytes.size();
  for (size_t i = 0; i < bytes.size(); i += 64) sum += static_cast<unsigned char>(bytes[i]);
  return sum;
}

[[noreturn]] void fail(const bonsai::Status& status) {
  std::fprintf(stderr, "speed_mix: %s\n", status.ToString().c_str());
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

class SpeedMix {
 public:
  SpeedMix(uint64_t records, bool strings, uint64_t settle_ms)
      : records_(records), strings_(strings), settle_ms_(settle_ms), zipf_(records) {}
  ~SpeedMix() { close(); }
  SpeedMix(const SpeedMix&) = delete;
  SpeedMix& operator=(const SpeedMix&) = delete;

  void run() {
    for (const Line& line : kLines) {
      if (line.pick == Pick::kSequential || line.fresh) open();
      if (line.fresh) static_cast<void>(timed({.name = "", .puts = 1, .pick = Pick::kSequential}));
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
    const uint64_t bits = mix(record);
    if (!strings_) return {reinterpret_cast<const char*>(&bits), sizeof bits};
    char text[32];
    std::snprintf(text, sizeof text, "user%020llu", static_cast<unsigned long long>(bits));
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
  const std::string path_ = "/dev/shm/bonsai-speed-mix." + std::to_string(::getpid());
  std::unique_ptr<bonsai::DB> db_;
};

}  // namespace

int main(int count, char** words) {
  const std::string_view form = count > 2 ? words[2] : "";
  if (count != 4 || std::atoll(words[1]) < 1 || (form != "fixed" && form != "strings")) {
    std::fprintf(stderr, "usage: speed_mix RECORDS fixed|strings SETTLE_MS\n");
    return 2;
  }
  SpeedMix(static_cast<uint64_t>(std::atoll(words[1])), form == "strings", static_cast<uint64_t>(std::atoll(words[3])))
      .run();
}
