// SPDX-License-Identifier: Apache-2.0
#include "testing/sim/store_node.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "scale/remote_medium.h"
#include "store/tiers.h"

namespace bonsai::testing::sim {

scale::TargetName name_of(const MemoryNode& node, size_t index) {
  scale::TargetName name;
  const Status status = scale::parse_target_name("sim://" + node.address() + "/" + pool_name(index), &name);
  BONSAI_CHECK(status.ok());
  return name;
}

Status StoreNode::open_target(size_t index, uint64_t create_bytes, std::unique_ptr<base::HookedMedium>* medium) {
  const Target& target = targets_[index];
  if (target.local != nullptr) {
    *medium = target.local->open();
    return Status::OK();
  }
  const scale::TargetName name = name_of(*target.remote, index);
  const bool create = create_bytes != 0;
  size_t number = 0;
  BONSAI_RETURN_IF_ERROR(
      link_->open(name, create ? scale::PoolOp::kCreate : scale::PoolOp::kOpen, create_bytes, 0, &number));
  std::unique_ptr<scale::RemoteMedium> made;
  BONSAI_RETURN_IF_ERROR(scale::RemoteMedium::make(link_.get(), number, &made));
  *medium = std::move(made);
  return Status::OK();
}

Status StoreNode::open(const Options& options, bool create, const std::vector<scale::TargetRole>& roles) {
  leases_ = std::make_unique<scale::Leases>();
  if (checks_lease_) leases_->distrust_clock();
  BONSAI_RETURN_IF_ERROR(scale::RemoteLink::make(fabric_, {.limit_ms = limit_ms_, .leases = leases_.get()}, &link_));
  std::vector<std::unique_ptr<base::HookedMedium>> media(targets_.size());
  Status status;
  for (size_t i = 0; i < targets_.size() && status.ok(); ++i) {
    status = open_target(i, create ? options.pool_bytes : 0, &media[i]);
  }
  std::unique_ptr<store::Tiers> tiers;
  if (status.ok()) status = store::open_tiers_on(options, std::move(media), create, &tiers, roles);
  const auto is_remote = [](const Target& target) { return target.local == nullptr; };
  if (status.ok() && std::ranges::all_of(targets_, is_remote)) tiers->leases = leases_.get();
  store::BackgroundThreads threads;
  if (status.ok()) status = store::BackgroundThreads::reserve(options, &threads);
  if (status.ok()) {
    Options own = options;
    own.fabric_wait_ms_max = static_cast<uint32_t>(limit_ms_);
    db_ = std::make_unique<store::DbImpl>(own, std::move(tiers), std::move(threads));
  } else {
    media.clear();
    link_.reset();
  }
  return status;
}

Status StoreNode::close() {
  Status status;
  if (db_ != nullptr) status = db_->Close();
  db_.reset();
  link_.reset();
  return status;
}

void StoreNode::lose_power() {
  has_power_ = false;
  network_.kill(*fabric_);
}

void StoreNode::power_cut(base::Random& dice) {
  lose_power();
  for (const Target& target : targets_) {
    if (target.local != nullptr) target.local->power_cut(dice);
  }
}

void StoreNode::kill_process() {
  has_power_ = false;
  network_.end_process(*fabric_);
}

}  // namespace bonsai::testing::sim
