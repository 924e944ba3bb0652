// SPDX-License-Identifier: Apache-2.0
// The last commands that took long, as SLOWLOG of Redis shows them.
#ifndef BONSAI_SERVER_SLOW_LOG_H_
#define BONSAI_SERVER_SLOW_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::server {

inline constexpr uint32_t kSlowEntriesLimit = 10'000;
// Of a command that has more, the rest is counted, as in Redis. So an entry takes some 6 KiB at most.
inline constexpr size_t kSlowArgumentsMax = 32, kSlowArgumentBytesMax = 128;

struct SlowEntry {
  uint64_t id = 0;
  int64_t at_s = 0;  // since 1970
  uint64_t us = 0;   // that it took
  std::vector<std::string> arguments;
  std::string address, name;  // of the client
};

// Thread-safety: any number of threads.
class SlowLog {
 public:
  // `slower_than_us`: what takes as long is slow; negative: nothing is. Requires: entries_max <= kSlowEntriesLimit.
  SlowLog(int64_t slower_than_us, uint32_t entries_max) : slower_than_us_(slower_than_us), entries_max_(entries_max) {}

  [[nodiscard]] bool is_on() const { return slower_than_us_ >= 0 && entries_max_ != 0; }
  [[nodiscard]] bool is_slow(uint64_t ns) const {
    return is_on() && ns / 1'000 >= static_cast<uint64_t>(slower_than_us_);
  }
  // Adds a command, and drops the oldest one beyond the bound. Without memory for it there is no entry.
  // `arguments`: the first ones, of `arguments_total`, kSlowArgumentsMax suffice.
  void add(uint64_t ns, std::span<const std::string_view> arguments, size_t arguments_total, const std::string& address,
           const std::string& name);
  // The newest ones, newest first.
  [[nodiscard]] std::vector<SlowEntry> newest(size_t entries_max) const;
  [[nodiscard]] size_t size() const;
  void reset();

 private:
  const int64_t slower_than_us_;
  const size_t entries_max_;
  mutable std::mutex mutex_;
  uint64_t next_id_ = 0;
  std::deque<SlowEntry> entries_;  // newest first
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_SLOW_LOG_H_
