// SPDX-License-Identifier: Apache-2.0
#include "server/command_timer.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace bonsai::server {
namespace {

// The quick clock may go back a little.
uint64_t passed_ns(uint64_t from_ns, uint64_t to_ns) { return to_ns > from_ns ? to_ns - from_ns : 0; }

}  // namespace

uint64_t CommandTimer::now_ns() { return std::max<uint64_t>(base::quick_now_ns(), 1); }

void CommandTimer::end_alone(const Client& client, Arguments arguments, bool secret) {
  const uint64_t ns = passed_ns(std::exchange(alone_since_ns_, 0), now_ns());
  alone_ns_ += ns;
  if (log_.is_slow(ns) && !secret) log_.add(ns, arguments, arguments.size(), client.address, client.name);
}

void CommandTimer::begin_group() {
  group_since_ns_ = now_ns();
  alone_ns_ = 0;
  largest_bytes_ = 0;
}

void CommandTimer::note_largest(const Client& client, Arguments arguments, size_t request_bytes) {
  const size_t kept = std::min(arguments.size(), kSlowArgumentsMax);
  largest_.assign(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(kept));
  largest_arguments_ = arguments.size();
  largest_bytes_ = request_bytes;
  largest_client_ = &client;
}

void CommandTimer::log_group() {
  const uint64_t since_ns = std::exchange(group_since_ns_, 0);
  const uint64_t ns = passed_ns(since_ns + alone_ns_, now_ns());
  if (!log_.is_slow(ns)) return;
  log_.add(ns, largest_, largest_arguments_, largest_client_->address, largest_client_->name);
}

}  // namespace bonsai::server
