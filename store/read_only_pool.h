// SPDX-License-Identifier: Apache-2.0
// Reads a pool that is not open, without changing it. Its bytes are mapped, or read from their nodes as they are
// needed.
#ifndef BONSAI_STORE_READ_ONLY_POOL_H_
#define BONSAI_STORE_READ_ONLY_POOL_H_

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/key.h"
#include "base/status_macros.h"
#include "persist/pool.h"
#include "persist/stand_in.h"
#include "scale/target.h"
#include "scale/target_name.h"
#include "scale/volume.h"
#include "store/target_config.h"

namespace bonsai::store {

class ReadOnlyPool {
 public:
  // `options`: how targets are reached. Errors: as DB::Open.
  Status open(const std::string& path, const Options& options) {
    std::vector<scale::TargetName> names;
    BONSAI_RETURN_IF_ERROR(scale::parse_target_names(path, &names));
    targets_ = std::make_unique<scale::Targets>(target_config(options));
    std::vector<std::string> texts;
    for (scale::TargetName& name : names) {
      texts.push_back(name.text);
      BONSAI_RETURN_IF_ERROR(targets_->add(std::move(name)));
    }
    std::vector<size_t> missing;
    BONSAI_RETURN_IF_ERROR(targets_->open_read_only(options.allow_missing ? &missing : nullptr));
    uint64_t largest = 0;
    for (size_t i = 0; i < targets_->size(); ++i) {
      const bool there = std::find(missing.begin(), missing.end(), i) == missing.end();
      if (there) largest = std::max(largest, (*targets_)[i].bytes());
    }
    for (const size_t i : missing) {
      BONSAI_RETURN_IF_ERROR(targets_->stand_in(i, persist::stand_in_bytes(largest)));
    }
    if (targets_->need_hooks()) {
      volume_ = targets_->hooked_volume();
    } else {
      volume_ = targets_->product_volume();
    }
    pool_.partial = !missing.empty();
    if (pool_.partial) BONSAI_RETURN_IF_ERROR(confirm(stand_in(texts, missing)));
    return confirm(persist::read_pool(*volume_, texts, &pool_));
  }

  // One for each target that is missing.
  [[nodiscard]] const std::vector<Damage>& missing() const { return missing_; }

  // The outcome of reading the pool, or why it does not count. Errors: Unavailable (another owner may have changed the
  // pool meanwhile).
  [[nodiscard]] Status confirm(Status outcome) const {
    const Status held = targets_->confirm_reads();
    return held.ok() ? outcome : held;
  }

  // Requires: open() succeeded.
  [[nodiscard]] scale::Volume& volume() const {
    BONSAI_CHECK(volume_ != nullptr);
    return *volume_;
  }
  [[nodiscard]] const persist::Pool& pool() const { return pool_; }

 private:
  Status stand_in(const std::vector<std::string>& texts, const std::vector<size_t>& missing) {
    std::vector<uint64_t> roles;
    for (const auto& target : *targets_) roles.push_back(static_cast<uint64_t>(target->role()));
    bool lost_log = false;
    BONSAI_RETURN_IF_ERROR(persist::write_stand_ins(*volume_, texts, missing, roles, &lost_log));
    for (const size_t i : missing) {
      missing_.push_back({"target " + texts[i],
                          lost_log ? "it is missing, and with it a part of the log: the last updates of any key may "
                                     "be lost, which then has an older value or none"
                                   : "it is missing, and with it the ranges of which nothing or only a part is left",
                          lost_log ? base::printable_range(base::Fence(), base::Fence::infinite()) : ""});
    }
    return Status::OK();
  }

  std::unique_ptr<scale::Targets> targets_;
  std::unique_ptr<scale::Volume> volume_;
  persist::Pool pool_;
  std::vector<Damage> missing_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_READ_ONLY_POOL_H_
