// SPDX-License-Identifier: Apache-2.0
#include "server/slow_log.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/with_memory.h"

namespace bonsai::server {
namespace {

std::string shortened(std::string_view argument) {
  if (argument.size() <= kSlowArgumentBytesMax) return std::string(argument);
  return std::string(argument.substr(0, kSlowArgumentBytesMax)) + "... (" +
         std::to_string(argument.size() - kSlowArgumentBytesMax) + " more bytes)";
}

// The last one of too many says how many there are more.
std::vector<std::string> shortened(std::span<const std::string_view> arguments, size_t total) {
  const bool all = total <= kSlowArgumentsMax;
  const size_t shown = all ? total : kSlowArgumentsMax - 1;
  std::vector<std::string> texts;
  texts.reserve(shown + (all ? 0 : 1));
  for (const std::string_view each : arguments.first(shown)) texts.push_back(shortened(each));
  if (!all) texts.push_back("... (" + std::to_string(total - shown) + " more arguments)");
  return texts;
}

}  // namespace

void SlowLog::add(uint64_t ns, std::span<const std::string_view> arguments, size_t arguments_total,
                  const std::string& address, const std::string& name) {
  static_cast<void>(base::with_memory([&] {
    SlowEntry entry{.at_s = static_cast<int64_t>(base::wall_seconds()),
                    .us = ns / base::kNsPerUs,
                    .arguments = shortened(arguments, arguments_total),
                    .address = address,
                    .name = name.substr(0, kSlowArgumentBytesMax)};
    const std::lock_guard lock(mutex_);
    entry.id = next_id_;
    entries_.push_front(std::move(entry));
    ++next_id_;
    if (entries_.size() > entries_max_) entries_.pop_back();
    return Status::OK();
  }));
}

std::vector<SlowEntry> SlowLog::newest(size_t entries_max) const {
  const std::lock_guard lock(mutex_);
  const auto count = static_cast<std::ptrdiff_t>(std::min(entries_max, entries_.size()));
  return {entries_.begin(), entries_.begin() + count};
}

size_t SlowLog::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void SlowLog::reset() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

}  // namespace bonsai::server
