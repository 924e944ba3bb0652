// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/lock_holder.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "base/calendar.h"
#include "base/nvm/descriptor.h"

namespace bonsai::base {
namespace {

constexpr size_t kTableBytesMax = size_t{1} << 20;
constexpr size_t kFileBytesMax = 4096;

// The word number `number` (from 0) of a text whose words are separated by blanks; empty: there are fewer.
std::string_view word_of(std::string_view text, size_t number) {
  for (size_t begin = text.find_first_not_of(' '); begin < text.size(); begin = text.find_first_not_of(' ', begin)) {
    const size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    if (number-- == 0) return text.substr(begin, end - begin);
    begin = end;
  }
  return {};
}

// When a process began, in seconds since 1970; 0: unknown. `stat`: what /proc/ID/stat has after the program's name.
uint64_t started_s(const std::string& proc, std::string_view stat) {
  constexpr size_t kStartTicks = 19;  // counted from the process's state, which follows the name
  constexpr std::string_view kMachineStart = "btime ";
  std::string machine;
  if (!read_text(proc + "/stat", kTableBytesMax, &machine)) return 0;
  const size_t at = machine.find(kMachineStart);
  const std::string ticks(word_of(stat, kStartTicks));
  const int64_t ticks_per_s = ::sysconf(_SC_CLK_TCK);
  if (at == std::string::npos || ticks.empty() || ticks_per_s <= 0) return 0;
  return std::strtoull(machine.c_str() + at + kMachineStart.size(), nullptr, 10) +
         std::strtoull(ticks.c_str(), nullptr, 10) / static_cast<uint64_t>(ticks_per_s);
}

}  // namespace

// "1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF"; of one that waits: "1: -> FLOCK ...".
LockHolder holder_in(std::string_view table, uint64_t device, uint64_t inode) {
  std::array<char, 64> place{};
  static_cast<void>(std::snprintf(place.data(), place.size(), "%02x:%02x:%" PRIu64, gnu_dev_major(device),
                                  gnu_dev_minor(device), inode));
  while (!table.empty()) {
    const size_t end = std::min(table.find('\n'), table.size() - 1);
    const std::string_view line = table.substr(0, end + 1);
    table.remove_prefix(end + 1);
    if (word_of(line, 1) != "FLOCK" || word_of(line, 5) != place.data()) continue;
    const int64_t id = std::strtoll(std::string(word_of(line, 4)).c_str(), nullptr, 10);
    if (id > 0) return {.process = id, .shared = word_of(line, 3) == "READ"};
  }
  return {};
}

std::string process_text(const std::string& proc, int64_t id) {
  std::string stat;
  if (!read_text(proc + "/" + std::to_string(id) + "/stat", kFileBytesMax, &stat)) return "";
  const size_t begin = stat.find('('), end = stat.rfind(')');  // the name between them may have any bytes
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  std::string name = stat.substr(begin + 1, end - begin - 1);
  for (char& each : name) each = each < ' ' || each > '~' ? '?' : each;
  const uint64_t since_s = started_s(proc, std::string_view(stat).substr(end + 1));
  return name + "[" + std::to_string(id) + "]" + (since_s == 0 ? "" : ", started " + calendar_text(since_s));
}

std::string open_elsewhere(int fd) {
  struct stat info = {};
  std::string table;
  const bool known = ::fstat(fd, &info) == 0 && read_text("/proc/locks", kTableBytesMax, &table);
  const LockHolder holder = known ? holder_in(table, info.st_dev, info.st_ino) : LockHolder();
  if (holder.process == ::getpid()) return "is open in this process already";
  const std::string who = holder.process == 0 ? "" : process_text("/proc", holder.process);
  return "is open in another process" + (who.empty() ? " (or twice in this one)" : ", " + who) +
         (holder.shared ? ", which only reads it (others may, too)" : "");
}

}  // namespace bonsai::base
