// SPDX-License-Identifier: Apache-2.0
#include "store/new_pool.h"

#include <filesystem>

#include "base/nvm/os_file.h"
#include "base/status_macros.h"
#include "store/target.h"

namespace bonsai::store {

NewPool::~NewPool() {
  db_.reset();
  if (copies_.empty()) return;
  scale::RemoteLinks links = make_links();
  for (const Copy& copy : copies_) {
    std::error_code ignored;
    if (!copy.partial.is_remote()) {
      if (copy.partial.text != copy.name.text) std::filesystem::remove(copy.partial.text, ignored);
      continue;
    }
    Target target;
    target.name = copy.partial;
    bool exists = false;
    if (find_target(Options(), &links, &target, &exists).ok() && exists) {
      static_cast<void>(remove_target(&target));
    }
  }
}

scale::RemoteLinks NewPool::make_links() const {
  return {options_.fabric_secret_file, options_.fabric_wait_ms_max, options_.fabric_workers};
}

// Whether the name is free; what a copy that was interrupted has left of it is removed.
Status NewPool::look(const scale::TargetName& name, scale::RemoteLinks* links, Copy* copy) {
  std::error_code ignored;
  const bool device = !name.is_remote() && std::filesystem::is_character_file(name.text, ignored);
  copy->name = copy->partial = name;
  if (device) return Status::OK();
  BONSAI_RETURN_IF_ERROR(scale::parse_target_name(name.text + std::string(scale::kPartialEnding), &copy->partial));
  Target there;
  there.name = name;
  bool exists = false;
  const Status found = find_target(Options(), links, &there, &exists);
  if (exists || found.IsBusy()) {
    return Status::InvalidArgument(name.text + " exists already; name a new file, or remove it first");
  }
  BONSAI_RETURN_IF_ERROR(found);
  if (!name.is_remote()) {
    std::filesystem::remove(copy->partial.text, ignored);
    return Status::OK();
  }
  Target left;
  left.name = copy->partial;
  BONSAI_RETURN_IF_ERROR(find_target(Options(), links, &left, &exists));
  return exists ? remove_target(&left) : Status::OK();
}

Status NewPool::create(Options options, const std::string& path) {
  options_ = options;
  std::vector<scale::TargetName> names;
  BONSAI_RETURN_IF_ERROR(parse_targets(path, &names));
  if (options.medium == MediumChoice::kDram) {
    return Status::InvalidArgument("a copy in DRAM would be lost at once; give another medium");
  }
  std::string partial_path;
  std::vector<Copy> copies;
  {
    scale::RemoteLinks links = make_links();
    for (const scale::TargetName& name : names) {
      Copy& copy = copies.emplace_back();
      BONSAI_RETURN_IF_ERROR(look(name, &links, &copy));
      partial_path += (partial_path.empty() ? "" : ",") + copy.partial.text;
      if (name.role != scale::TargetRole::kUnsaid) partial_path += "?role=" + std::string(role_text(name.role));
    }
  }
  copies_ = std::move(copies);
  options.create_if_missing = options.error_if_exists = true;
  return DB::Open(options, partial_path, &db_);
}

Status NewPool::complete() {
  BONSAI_RETURN_IF_ERROR(db_->Drain());
  BONSAI_RETURN_IF_ERROR(db_->Close());
  db_.reset();
  scale::RemoteLinks links = make_links();
  for (const Copy& copy : copies_) {
    if (copy.partial.is_remote()) {
      Target target;
      target.name = copy.partial;
      bool exists = false;
      BONSAI_RETURN_IF_ERROR(find_target(Options(), &links, &target, &exists));
      if (!exists) return Status::IoError(copy.partial.text + " is gone");
      BONSAI_RETURN_IF_ERROR(target.link->complete(target.number));
      continue;
    }
    std::error_code error;
    std::filesystem::rename(copy.partial.text, copy.name.text, error);
    if (error) return Status::IoError("cannot name the pool " + copy.name.text + ": " + error.message());
  }
  // Else a crash may take the names back after this has answered.
  for (const Copy& copy : copies_) {
    if (!copy.name.is_remote()) BONSAI_RETURN_IF_ERROR(base::sync_directory_of(copy.name.text));
  }
  copies_.clear();
  return Status::OK();
}

}  // namespace bonsai::store
