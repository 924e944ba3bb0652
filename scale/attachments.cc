// SPDX-License-Identifier: Apache-2.0
#include "scale/attachments.h"

#include <vector>

#include "base/clock.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kConnectingNs = 10'000'000'000;  // from its admission on a node may be on its way to be connected

}  // namespace

Status Attachments::admit(const rdma::Hello& other) {
  const uint64_t now_ns = base::now_ns();
  const std::lock_guard lock(mutex_);
  const auto [place, made] = known_.try_emplace(other.node, Known{{other.session, count_ + 1}, now_ns});
  if (made) ++count_;
  if (place->second.attachment.link != other.session) {
    return Status::Busy("another node of the same number is connected; open the store again, which takes a new number");
  }
  place->second.admitted_ns = now_ns;
  return Status::OK();
}

Attachment Attachments::find(uint32_t node) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(node);
  return found != known_.end() ? found->second.attachment : Attachment();
}

size_t Attachments::count() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

bool Attachments::Known::is_settled(uint64_t now_ns) const {
  return now_ns > admitted_ns && now_ns - admitted_ns > kConnectingNs;
}

void Attachments::keep(const std::function<bool(uint32_t node)>& is_connected) {
  const uint64_t now_ns = base::now_ns();
  std::vector<uint32_t> left;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [node, known] : known_) {
      if (known.is_settled(now_ns)) left.push_back(node);
    }
  }
  std::erase_if(left, is_connected);
  const std::lock_guard lock(mutex_);
  for (const uint32_t node : left) {
    const auto found = known_.find(node);
    if (found->second.is_settled(now_ns)) known_.erase(found);  // else it was admitted meanwhile
  }
}

}  // namespace bonsai::scale
