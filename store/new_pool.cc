#include "store/new_pool.h"

#include <filesystem>

#include "base/nvm/os_file.h"
#include "base/status_macros.h"
#include "store/tiers.h"

namespace bonsai::store {

NewPool::~NewPool() {
  db_.reset();
  for (const Target& target : targets_) {
    std::error_code ignored;
    if (target.partial != target.name) std::filesystem::remove(target.partial, ignored);
  }
}

Status NewPool::create(Options options, const std::string& path) {
  std::vector<std::string> names;
  BONSAI_RETURN_IF_ERROR(split_paths(path, &names));
  std::string partial_path;
  for (const std::string& name : names) {
    std::error_code ignored;
    const bool device = std::filesystem::is_character_file(name, ignored);
    if (!device && std::filesystem::exists(name, ignored)) {
      return Status::InvalidArgument(name + " exists already; name a new file, or remove it first");
    }
    targets_.push_back({device ? name : name + ".partial", name});
    if (!device) std::filesystem::remove(targets_.back().partial, ignored);  // of a copy that was interrupted
    partial_path += (partial_path.empty() ? "" : ",") + targets_.back().partial;
  }
  if (options.medium == MediumChoice::kDram) {
    return Status::InvalidArgument("a copy in DRAM would be gone at once; give another medium");
  }
  options.create_if_missing = options.error_if_exists = true;
  return DB::Open(options, partial_path, &db_);
}

Status NewPool::complete() {
  BONSAI_RETURN_IF_ERROR(db_->Drain());
  BONSAI_RETURN_IF_ERROR(db_->Close());
  db_.reset();
  for (const Target& target : targets_) {
    std::error_code error;
    std::filesystem::rename(target.partial, target.name, error);
    if (error) return Status::IoError("cannot name the pool " + target.name + ": " + error.message());
  }
  // Else a crash may take the names back after this has answered.
  for (const Target& target : targets_) BONSAI_RETURN_IF_ERROR(base::sync_directory_of(target.name));
  targets_.clear();
  return Status::OK();
}

}  // namespace bonsai::store
