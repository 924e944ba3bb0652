// SPDX-License-Identifier: Apache-2.0
#include "scale/target.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "base/wire_status.h"
#include "scale/group_target.h"
#include "scale/local_target.h"
#include "scale/remote_target.h"

namespace bonsai::scale {
namespace {

// A target on a medium of the caller, who keeps what it writes to.
class CallersTarget final : public Target {
 public:
  CallersTarget(TargetName name, std::unique_ptr<base::HookedMedium> medium)
      : Target(std::move(name)), medium_(std::move(medium)) {
    medium_text_ = "media of the caller";
  }

  Status exists(bool, bool* exists) override {
    *exists = true;
    return Status::OK();
  }
  Status create(uint64_t) override { return Status::OK(); }
  Status open(uint64_t) override { return Status::OK(); }
  Status open_read_only() override { return Status::OK(); }
  [[nodiscard]] uint64_t bytes() const override { return medium_->bytes(); }
  [[nodiscard]] base::ProductMedium* product() override { return nullptr; }
  [[nodiscard]] base::HookedMedium* hooked() override { return medium_.get(); }
  Status describe(std::string* text) override {
    *text = medium_text_;
    return Status::OK();
  }

 private:
  const std::unique_ptr<base::HookedMedium> medium_;
};

}  // namespace

Targets::Targets(TargetConfig config)
    : config_(std::move(config)), links_(config_.secret_file, config_.limit_ms, config_.workers, config_.member_ms) {}

Status Targets::add(TargetName name) {
  if (!name.is_remote()) {
    has_local_ = true;
    targets_.push_back(std::make_unique<LocalTarget>(std::move(name), config_));
    return Status::OK();
  }
  if (config_.in_memory) {
    return Status::InvalidArgument("a store in DRAM is in this process alone, so it has no remote targets: name it " +
                                   std::string("by a plain word, or set medium to auto"));
  }
  if (name.checks_lease) links_.leases().distrust_clock();
  if (name.is_group()) {
    targets_.push_back(std::make_unique<GroupTarget>(std::move(name), config_, &links_));
    return Status::OK();
  }
  targets_.push_back(std::make_unique<RemoteTarget>(std::move(name), config_, &links_));
  return Status::OK();
}

void Targets::add(TargetName name, std::unique_ptr<base::HookedMedium> medium) {
  has_local_ = true;
  targets_.push_back(std::make_unique<CallersTarget>(std::move(name), std::move(medium)));
}

Status Targets::open_read_only(std::vector<size_t>* missing) {
  Status first;
  std::string names;
  size_t count = 0;
  for (size_t i = 0; i < size(); ++i) {
    Target& target = (*this)[i];
    Status status = target.open_read_only();
    if (status.ok()) continue;
    if (!status.IsIoError() && !status.IsUnavailable()) return status;
    names += (count++ == 0 ? "" : ", ") + target.name();
    if (missing != nullptr) missing->push_back(i);
    if (first.ok()) first = std::move(status);
  }
  if (first.ok() || size() == 1 || (missing != nullptr && count < size())) return size() == 1 ? first : Status::OK();
  return base::status_from_wire(static_cast<int32_t>(first.code()),
                                std::string(first.message()) + "; " + std::to_string(count) + " of the pool's " +
                                    std::to_string(size()) + " targets cannot be read: " + names);
}

Status Targets::stand_in(size_t target, uint64_t bytes) {
  of_stand_ins_ = config_;
  of_stand_ins_.in_memory = true;
  TargetName name;
  name.text = (*this)[target].name();
  name.role = (*this)[target].role();
  targets_[target] = std::make_unique<LocalTarget>(std::move(name), of_stand_ins_);
  return targets_[target]->create(bytes);
}

Status Targets::confirm_reads() const {
  return leases() == nullptr || leases()->valid() ? Status::OK() : leases()->await(config_.limit_ms);
}

Status Targets::complete() {
  for (const auto& target : targets_) BONSAI_RETURN_IF_ERROR(target->complete());
  return Status::OK();
}

Status Targets::check_one_way(std::span<const uint8_t> targets) const {
  for (const uint8_t target : targets) {
    const Target &first = (*this)[targets[0]], &other = (*this)[target];
    if (other.scheme() == first.scheme()) continue;
    return Status::InvalidArgument(first.name() + " and " + other.name() +
                                   " are reached in different ways; a striped pool needs targets of one, or layout "
                                   "none");
  }
  return Status::OK();
}

bool Targets::need_hooks() const {
  return std::any_of(begin(), end(), [](const auto& target) { return target->product() == nullptr; });
}

std::unique_ptr<VolumeOf<base::HookedMedium>> Targets::hooked_volume() const {
  std::vector<base::HookedMedium*> media;
  for (const auto& target : targets_) media.push_back(target->hooked());
  return std::make_unique<VolumeOf<base::HookedMedium>>(std::move(media));
}

std::unique_ptr<VolumeOf<base::ProductMedium>> Targets::product_volume() const {
  std::vector<base::ProductMedium*> media;
  for (const auto& target : targets_) media.push_back(target->product());
  return std::make_unique<VolumeOf<base::ProductMedium>>(std::move(media));
}

std::vector<GroupInfo> Targets::groups() const {
  std::vector<GroupInfo> groups;
  for (const auto& target : targets_) target->add_group(&groups);
  return groups;
}

Status Targets::start_scrubbing(uint64_t bytes_per_s, const Judge& judge) const {
  for (size_t i = 0; i < size(); ++i) {
    ScrubJudge of_target;
    if (judge) of_target = [judge, i](std::span<ScrubBlock> blocks) { judge(i, blocks); };
    BONSAI_RETURN_IF_ERROR(targets_[i]->start_scrubbing(bytes_per_s, std::move(of_target)));
  }
  return Status::OK();
}

void Targets::stop_scrubbing() const {
  for (const auto& target : targets_) target->stop_scrubbing();
}

Status Targets::scrub_now() const {
  for (const auto& target : targets_) BONSAI_RETURN_IF_ERROR(target->scrub_now());
  return Status::OK();
}

bool Targets::emulated() const {
  return std::any_of(begin(), end(), [](const auto& target) { return target->emulated(); });
}

std::string Targets::medium_text() const {
  std::vector<std::string> texts;
  for (const auto& target : targets_) {
    const bool one_role = target->role() == TargetRole::kLog || target->role() == TargetRole::kDnodes;
    std::string text = target->medium_text() + (one_role ? ", for " + std::string(role_text(target->role())) : "");
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

}  // namespace bonsai::scale
