// SPDX-License-Identifier: Apache-2.0
// How long the commands of one thread take, for the slow log. A command that runs alone (a range, a conditional update,
// EXEC) has a time of its own. Commands that go together in a group have one time: the group has one entry, with the
// largest of its requests. The time of those that ran alone in between is not the group's. So a command that waited
// for another one is not in the log.
//
// Cost: two readings of the clock for each group, and for each command that runs alone; none if the log is off.
#ifndef BONSAI_SERVER_COMMAND_TIMER_H_
#define BONSAI_SERVER_COMMAND_TIMER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "server/client.h"
#include "server/slow_log.h"

namespace bonsai::server {

// Thread-safety: one thread. The arguments of what is in a group, and its client, must stay in place until end_group().
class CommandTimer {
 public:
  using Arguments = std::span<const std::string_view>;

  explicit CommandTimer(SlowLog* log) : log_(*log) { largest_.reserve(kSlowArgumentsMax); }

  // The command that is executed runs alone from now on, if it did not before.
  void begin_alone() {
    if (log_.is_on() && alone_since_ns_ == 0) alone_since_ns_ = now_ns();
  }
  // It has run. `secret`: its arguments must not be shown.
  void end_command(const Client& client, Arguments arguments, bool secret) {
    if (alone_since_ns_ != 0) end_alone(client, arguments, secret);
  }
  // An operation of the command goes with the group.
  void join_group(const Client& client, Arguments arguments, size_t request_bytes) {
    if (!log_.is_on()) return;
    if (group_since_ns_ == 0) begin_group();
    if (request_bytes > largest_bytes_) note_largest(client, arguments, request_bytes);
  }
  // The group's operations have ended.
  void end_group() {
    if (group_since_ns_ != 0) log_group();
  }
  // Forgets what has begun.
  void abandon() { alone_since_ns_ = group_since_ns_ = 0; }

 private:
  static uint64_t now_ns();
  void begin_group();
  void end_alone(const Client& client, Arguments arguments, bool secret);
  void note_largest(const Client& client, Arguments arguments, size_t request_bytes);
  void log_group();

  SlowLog& log_;
  uint64_t alone_since_ns_ = 0, group_since_ns_ = 0;  // 0: there is none
  uint64_t alone_ns_ = 0;                             // of commands that ran alone since the group began
  // The first arguments of the group's largest request.
  std::vector<std::string_view> largest_;
  size_t largest_bytes_ = 0, largest_arguments_ = 0;
  const Client* largest_client_ = nullptr;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_COMMAND_TIMER_H_
