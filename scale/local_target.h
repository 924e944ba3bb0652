// SPDX-License-Identifier: Apache-2.0
// A target of this machine: a file, a DAX device, or memory of this process.
//
// A node may serve the file at other times. Whoever opens it for writing takes the pool over in the node's record
// (pool_owner.h) before any byte of the pool changes: an owner that the node served before does not go on.
#ifndef BONSAI_SCALE_LOCAL_TARGET_H_
#define BONSAI_SCALE_LOCAL_TARGET_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/nvm/mapping.h"
#include "base/nvm/media.h"
#include "base/nvm/product.h"
#include "bonsai/status.h"
#include "scale/target.h"

namespace bonsai::scale {

class LocalTarget final : public Target {
 public:
  // Requires: `config` outlives it.
  LocalTarget(TargetName name, const TargetConfig& config) : Target(std::move(name)), config_(config) {}

  Status exists(bool discard_unfinished, bool* exists) override;
  Status create(uint64_t bytes) override;
  Status open(uint64_t grow_bytes) override;
  Status open_read_only() override;
  Status open_own_copy() override;
  [[nodiscard]] uint64_t bytes() const override { return mapping_->bytes(); }
  [[nodiscard]] base::ProductMedium* product() override;
  [[nodiscard]] base::HookedMedium* hooked() override;
  [[nodiscard]] bool enlarged() const override { return mapping_ != nullptr && mapping_->enlarged(); }
  void shrink_back() override;
  Status sync() override { return mapping_->sync(); }
  Status complete() override;
  Status remove() override;
  Status describe(std::string* text) override;
  Status look_at_group(std::vector<GroupInfo>* groups) override;

 private:
  Status map(const base::MappingOptions& options);
  Status make_medium();

  const TargetConfig& config_;
  std::unique_ptr<base::Mapping> mapping_;
  std::unique_ptr<base::ProductMedium> product_;  // made when it is asked for, as hooked_ where none is needed
  std::unique_ptr<base::HookedMedium> hooked_;
  bool needs_hook_ = false;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_LOCAL_TARGET_H_
