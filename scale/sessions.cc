// SPDX-License-Identifier: Apache-2.0
#include "scale/sessions.h"

#include "base/clock.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kConnectingNs = 10'000'000'000;  // from its admission on a node may be on its way to be connected

}  // namespace

Status Sessions::admit(const rdma::Hello& other) {
  const uint64_t now_ns = base::now_ns();
  const std::lock_guard lock(mutex_);
  Session& known = sessions_.try_emplace(other.node, Session{other.session, now_ns}).first->second;
  if (known.bits != other.session) {
    return Status::Busy("another node of the same number is connected; open the store again, which takes a new number");
  }
  known.admitted_ns = now_ns;
  return Status::OK();
}

void Sessions::keep(const std::function<bool(uint32_t node)>& is_connected) {
  const uint64_t now_ns = base::now_ns();
  const std::lock_guard lock(mutex_);
  std::erase_if(sessions_, [&](const auto& session) {
    return now_ns - session.second.admitted_ns > kConnectingNs && !is_connected(session.first);
  });
}

}  // namespace bonsai::scale
