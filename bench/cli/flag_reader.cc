// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/flag_reader.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <set>

#include "base/status_macros.h"
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

std::string spelt(const std::string& name) { return (name.size() == 1 ? "-" : "--") + dashed(name); }

std::string known_flags() {
  std::string known;
  for (const auto& flag : our_flags()) known.append(" ").append(spelt(flag.name));
  return known;
}

bool is_switch(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  google::CommandLineFlagInfo flag;
  return google::GetCommandLineFlagInfo(name.c_str(), &flag) && flag.type == "bool";
}

Status set_flag(std::string name, std::string value) {
  std::replace(name.begin(), name.end(), '-', '_');
  const auto flags = our_flags();
  const auto flag = std::find_if(flags.begin(), flags.end(), [&](const auto& known) { return known.name == name; });
  if (flag == flags.end()) {
    return Status::InvalidArgument("unknown flag --" + dashed(name) + "; the flags are" + known_flags());
  }
  if (name == "P" || name == "p") {
    if (value.empty() || value.find_first_of({kListed, '\0'}) != std::string::npos) {
      return Status::InvalidArgument("-" + name + " needs " +
                                     (name == "P" ? "the path of a property file" : "name=value"));
    }
    if (!flag->is_default) value = flag->current_value + kListed + value;
  }
  const bool negative = flag->type != "string" && value.find('-') != std::string::npos;
  if (negative || google::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
    const char* kind = flag->type == "string" ? "text" : flag->type == "bool" ? "true or false" : "a whole number";
    return Status::InvalidArgument(spelt(name) + "=" + value + " is no value for it; give " + kind + " (" +
                                   flag->description + "), for example " + spelt(name) + "=" + flag->default_value);
  }
  return Status::OK();
}

}  // namespace

Status read_flags(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t dashes = std::min<size_t>(word.find_first_not_of('-'), word.size());
    if (dashes == 0 || dashes > 2 || dashes == word.size()) {
      return Status::InvalidArgument("'" + word + "' is no flag; write --name=value (--help shows them)");
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(dashes, equals - dashes);
    if (equals != std::string::npos) {
      BONSAI_RETURN_IF_ERROR(set_flag(name, word.substr(equals + 1)));
    } else if (is_switch(name)) {
      BONSAI_RETURN_IF_ERROR(set_flag(name, "true"));
    } else if (i + 1 < words.size()) {
      BONSAI_RETURN_IF_ERROR(set_flag(name, words[++i]));
    } else {
      BONSAI_RETURN_IF_ERROR(set_flag(name, ""));
      return Status::InvalidArgument(spelt(name) + " needs a value; write " + spelt(name) + "=value");
    }
  }
  return Status::OK();
}

std::map<std::string, std::string> flag_values() {
  std::map<std::string, std::string> values;
  for (const auto& flag : our_flags()) values[dashed(flag.name)] = flag.current_value;
  return values;
}

bool was_given(const char* name) {
  google::CommandLineFlagInfo flag;
  return google::GetCommandLineFlagInfo(name, &flag) && !flag.is_default;
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
