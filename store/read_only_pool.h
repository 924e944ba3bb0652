// SPDX-License-Identifier: Apache-2.0
// Reads a pool that is not open, without changing it. Its bytes are mapped, or read from their nodes as they are
// needed.
#ifndef BONSAI_STORE_READ_ONLY_POOL_H_
#define BONSAI_STORE_READ_ONLY_POOL_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "persist/pool.h"
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
    BONSAI_RETURN_IF_ERROR(targets_->open_read_only());
    if (targets_->need_hooks()) {
      volume_ = targets_->hooked_volume();
    } else {
      volume_ = targets_->product_volume();
    }
    return confirm(persist::read_pool(*volume_, texts, &pool_));
  }

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
  std::unique_ptr<scale::Targets> targets_;
  std::unique_ptr<scale::Volume> volume_;
  persist::Pool pool_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_READ_ONLY_POOL_H_
