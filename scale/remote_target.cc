// SPDX-License-Identifier: Apache-2.0
#include "scale/remote_target.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace bonsai::scale {

// Takes the pool, if its node gives it.
Status RemoteTarget::ask(PoolOp op, uint64_t bytes, uint64_t mark) {
  RemoteLink* link = nullptr;
  BONSAI_RETURN_IF_ERROR(links_.link_of(name_, &link));
  BONSAI_RETURN_IF_ERROR(link->open(name_, op, bytes, mark, &number_, {config_.take_over, config_.note}));
  link_ = link;
  return Status::OK();
}

uint64_t bytes_looked_at(const TargetConfig& config, bool discard_unfinished) {
  constexpr uint64_t kTooFewForMark = 2 * base::kPageBytes - 1;
  return discard_unfinished ? config.first_bytes : std::min(config.first_bytes, kTooFewForMark);
}

Status check_medium(const std::string& name, const TargetConfig& config) {
  if (config.media.test.medium == TestMedium::kNone) return Status::OK();
  return Status::InvalidArgument(name + " is not of this machine, so no test medium can be put on it; " +
                                 "give bonsaid there the medium, or name a file of this machine");
}

Status RemoteTarget::exists(bool discard_unfinished, bool* exists) {
  const Status status = ask(PoolOp::kOpen, bytes_looked_at(config_, discard_unfinished), config_.mark);
  *exists = status.ok();
  return status.IsNotFound() ? Status::OK() : status;
}

// A device is opened whatever it holds, as one of this machine.
Status RemoteTarget::open_existing(const char* advice) {
  if (link_ != nullptr) return Status::OK();
  const Status status = ask(PoolOp::kOpen, 0, 0);
  if (!status.IsNotFound()) return status;
  return Status::IoError(name() + " does not exist: its node serves no such pool" + advice);
}

Status RemoteTarget::make_medium() {
  BONSAI_CHECK(link_ != nullptr && medium_ == nullptr);
  BONSAI_RETURN_IF_ERROR(check_medium(name(), config_));
  BONSAI_RETURN_IF_ERROR(RemoteMedium::make(link_, number_, &medium_));
  medium_text_ = pool().text;
  emulated_ = pool().emulated;
  return Status::OK();
}

Status RemoteTarget::create(uint64_t bytes) {
  BONSAI_RETURN_IF_ERROR(ask(PoolOp::kCreateUnnamed, bytes, config_.mark));
  return make_medium();
}

Status RemoteTarget::open(uint64_t grow_bytes) {
  BONSAI_RETURN_IF_ERROR(open_existing("; name another, or set create_if_missing"));
  if (const GroupPage& page = pool().page.page; page.members != 0) {
    return Status::InvalidArgument(
        name() + " is one of the " + std::to_string(page.members) +
        " members of a group, which hold the same bytes; name them all: a|b|c; or, if it was replaced as "
        "a member, remove its file on its node");
  }
  if (grow_bytes > bytes()) {
    bytes_before_ = bytes();
    BONSAI_RETURN_IF_ERROR(link_->resize(number_, grow_bytes));
  }
  return make_medium();
}

Status RemoteTarget::open_read_only() {
  BONSAI_RETURN_IF_ERROR(open_existing(""));
  return make_medium();
}

void RemoteTarget::shrink_back() {
  if (const uint64_t bytes = std::exchange(bytes_before_, 0); bytes != 0) {
    static_cast<void>(link_->resize(number_, bytes));
  }
}

Status RemoteTarget::remove() {
  medium_.reset();
  RemoteLink* const link = std::exchange(link_, nullptr);
  return link == nullptr ? Status::OK() : link->remove(number_);
}

Status RemoteTarget::look_at_group(std::vector<GroupInfo>* groups) {
  RemoteLink* link = nullptr;
  BONSAI_RETURN_IF_ERROR(links_.link_of(name_, &link));
  uint64_t epoch = 0;
  VersionedPage page;
  const Status status = link->status_of(name_, &epoch, &page);
  if (status.IsNotFound()) return Status::OK();
  if (status.ok() && page.page.members != 0) groups->push_back(info_of(page, name()));
  return status;
}

Status RemoteTarget::describe(std::string* text) {
  bool found = false;
  BONSAI_RETURN_IF_ERROR(exists(/*discard_unfinished=*/false, &found));
  *text = found ? pool().text : "no pool yet; " + name_.node + " stores pools, over " + name_.scheme;
  return Status::OK();
}

}  // namespace bonsai::scale
