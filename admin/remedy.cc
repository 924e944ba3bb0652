// SPDX-License-Identifier: Apache-2.0
#include "admin/remedy.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

namespace bonsai::admin {
namespace {

// Whether at least one target of the pool is on this machine and exists.
bool has_local_target(const std::string& path) {
  const std::vector<std::string> targets = targets_of(path);
  return std::any_of(targets.begin(), targets.end(), [](const std::string& target) {
    std::error_code error;
    return !is_remote(target) && std::filesystem::exists(target, error);
  });
}

std::string remedy_for_io_error(const Status& status, const std::string& path) {
  if (says(status, "is a link to") || says(status, "secret file")) return "";  // it says all
  const bool missing = says(status, "does not exist");
  for (const std::string& target : targets_of(path)) {
    if (is_remote(target)) {
      if (missing) return "to make the pool: bonsai create --pool=" + path + " --bytes=1G";
      continue;
    }
    std::error_code error;
    const std::filesystem::file_status found = std::filesystem::status(target, error);
    if (std::filesystem::is_directory(found))
      return target + " is a folder; name a file in it: --pool=" + target + "/pool";
    if (found.type() != std::filesystem::file_type::not_found) continue;
    const std::filesystem::path folder = std::filesystem::path(target).parent_path();
    if (folder == "/dev") return "to see what this machine has: bonsai doctor";
    if (!folder.empty() && !std::filesystem::exists(folder, error)) {
      return "the folder does not exist; make it: mkdir -p " + folder.string();
    }
    if (has_local_target(path))
      return "the pool's other targets are there: put this one back, or restore a copy of all";
    return "to make the pool: bonsai create --pool=" + path + " --bytes=1G";
  }
  return is_remote(path) ? "see the log of bonsaid on its node" : "see who may read and write it: ls -l " + path;
}

// The remedy for a full pool, or a full file system.
std::string remedy_for_no_space(const Status& status, const std::string& path) {
  const bool of_files = says(status, "bytes are free there") || says(status, "ulimit -f");
  const std::string first = targets_of(path)[0];
  std::error_code error;
  if (of_files || (!is_remote(path) && !std::filesystem::exists(first, error))) {
    return of_files ? "choose a smaller --bytes, or free space: df -h" : "choose a larger --bytes";
  }
  const uintmax_t bytes = is_remote(first) ? 0 : std::filesystem::file_size(first, error);
  const std::string larger = error || bytes == 0 ? "SIZE" : std::to_string(2 * (bytes >> 20)) + "M";
  return "to see what is full: bonsai stat --pool=" + path + "; to enlarge it: bonsai grow --pool=" + path +
         " --bytes=" + larger + "; or delete records";
}

std::string remedy(const Status& status, const std::string& path) {
  if (status.message().find("ulimit") != std::string_view::npos) return "";  // it names the limit that is in the way
  switch (status.code()) {
    case Status::Code::kIoError:
      return remedy_for_io_error(status, path);
    case Status::Code::kBusy:
      if (says(status, "has been made by somebody else")) return "";
      if (says(status, "has an owner")) return "to take the pool from it, so that its calls fail: add --take-over";
      if (is_remote(path)) return "the log of bonsaid on its node names the owner";
      if (says(status, "], started ")) return "";  // it names that process
      return "to see who has it open: fuser -v " + path;
    case Status::Code::kCorruption:
      if (says(status, "it is no pool")) return "";
      return "to see what is damaged: bonsai check --pool=" + path +
             "\n  to copy what is sound: bonsai salvage --pool=" + path + " NEW";
    case Status::Code::kNotSupported:
      if (!says(status, "Bonsai pool") && !says(status, "format version")) return "";  // of the machine
      return "check that --pool names a Bonsai pool, and `bonsai version` against the program that made it";
    case Status::Code::kNoSpace:
      return remedy_for_no_space(status, path);
    default:
      return "";
  }
}

}  // namespace

bool says(const Status& status, std::string_view words) {
  return status.message().find(words) != std::string_view::npos;
}

bool is_remote(const std::string& target) { return target.find("://") != std::string::npos; }

std::vector<std::string> targets_of(const std::string& path) {
  std::vector<std::string> targets;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(',', begin), path.size());
    targets.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return targets;
}

Status with_text(const Status& status, const std::string& text) {
  return status.WithMessage(std::string(status.message()) + text);
}

Status with_remedy(Status status, const std::string& path) {
  const std::string advice = remedy(status, path);
  return advice.empty() ? status : with_text(status, "\n  " + advice);
}

}  // namespace bonsai::admin
