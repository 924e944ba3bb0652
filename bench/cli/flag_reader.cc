// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/flag_reader.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <set>

#include "admin/flag_parser.h"
#include "bench/cli/command.h"

namespace bonsai::bench {
namespace {

// gflags and glog bring flags of their own; bonsai-bench's flags are those in files that define a flag of some command.
std::vector<google::CommandLineFlagInfo> our_flags() {
  std::set<std::string> files;
  for (const Command& each : Registered<Command>::all()) {
    google::CommandLineFlagInfo one;
    if (google::GetCommandLineFlagInfo(std::string(each.flag).c_str(), &one)) files.insert(one.filename);
  }
  std::vector<google::CommandLineFlagInfo> all;
  std::vector<google::CommandLineFlagInfo> ours;
  google::GetAllFlags(&all);
  std::copy_if(all.begin(), all.end(), std::back_inserter(ours),
               [&](const auto& flag) { return files.count(flag.filename) > 0; });
  std::sort(ours.begin(), ours.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return ours;
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

}  // namespace

Status read_flags(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const auto& flag : our_flags()) names.push_back(dashed(flag.name));
  return admin::parse_flags(words, {names.begin(), names.end()}, nullptr, nullptr);
}

std::map<std::string, std::string> flag_values() {
  std::map<std::string, std::string> values;
  for (const auto& flag : our_flags()) values[dashed(flag.name)] = flag.current_value;
  return values;
}

std::vector<std::string> split(const std::string& list, char separator) {
  std::vector<std::string> words;
  size_t start = 0;
  while (start <= list.size()) {
    const size_t end = std::min(list.find(separator, start), list.size());
    if (end > start) words.push_back(list.substr(start, end - start));
    start = end + 1;
  }
  return words;
}

Status check_range(const char* flag, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return Status::OK();
  return Status::InvalidArgument("--" + std::string(flag) + "=" + std::to_string(value) + " is out of bounds; give " +
                                 std::to_string(low) + " to " + std::to_string(high));
}

Status read_either(const char* flag, const std::string& value, const char* first, const char* second, bool* is_second) {
  *is_second = value == second;
  if (*is_second || value == first) return Status::OK();
  return Status::InvalidArgument("--" + std::string(flag) + "=" + value + " is unknown; give " + first + " or " +
                                 second);
}

}  // namespace bonsai::bench
