// SPDX-License-Identifier: Apache-2.0
// A target that another node serves as a pool. Once exists() has found it, it belongs to this process.
#ifndef BONSAI_SCALE_REMOTE_TARGET_H_
#define BONSAI_SCALE_REMOTE_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/nvm/product.h"
#include "bonsai/status.h"
#include "scale/remote_links.h"
#include "scale/remote_medium.h"
#include "scale/target.h"

namespace bonsai::scale {

// How many first bytes a node looks at for the mark of an unfinished pool (PoolOp::kOpen). A node that looks at fewer
// than a mark takes (base::is_marked()) discards nothing, and still sees that a device is blank.
[[nodiscard]] uint64_t bytes_looked_at(const TargetConfig& config, bool discard_unfinished);

// Errors: InvalidArgument (a test medium is wanted for a target of other nodes).
Status check_medium(const std::string& name, const TargetConfig& config);

class RemoteTarget final : public Target {
 public:
  // Requires: `config` and `links` outlive it.
  RemoteTarget(TargetName name, const TargetConfig& config, RemoteLinks* links)
      : Target(std::move(name)), config_(config), links_(*links) {}

  Status exists(bool discard_unfinished, bool* exists) override;
  Status create(uint64_t bytes) override;
  Status open(uint64_t grow_bytes) override;
  Status open_read_only() override;
  [[nodiscard]] uint64_t bytes() const override { return pool().region.bytes; }
  [[nodiscard]] base::ProductMedium* product() override { return nullptr; }
  [[nodiscard]] base::HookedMedium* hooked() override { return medium_.get(); }
  [[nodiscard]] bool enlarged() const override { return bytes_before_ != 0; }
  void shrink_back() override;
  Status complete() override { return link_->complete(number_); }
  Status remove() override;
  Status describe(std::string* text) override;
  Status look_at_group(std::vector<GroupInfo>* groups) override;

 private:
  [[nodiscard]] const ServedPool& pool() const {
    BONSAI_CHECK(link_ != nullptr);
    return link_->pool(number_);
  }
  Status ask(PoolOp op, uint64_t bytes, uint64_t mark);
  Status open_existing(const char* advice);
  Status make_medium();

  const TargetConfig& config_;
  RemoteLinks& links_;
  RemoteLink* link_ = nullptr;  // null: the pool is not this process's
  size_t number_ = 0;           // of the target on its link
  uint64_t bytes_before_ = 0;   // if it was enlarged
  std::unique_ptr<RemoteMedium> medium_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_REMOTE_TARGET_H_
