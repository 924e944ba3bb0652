// SPDX-License-Identifier: Apache-2.0
#include "rdma/sim/memory.h"

#include <algorithm>

#include "base/check.h"
#include "base/probe.h"
#include "rdma/provider.h"

namespace bonsai::rdma {
namespace {

base::Probe gone_amid{"sim.region_gone_amid_an_access"};
base::Probe too_long{"sim.message_too_long"};

}  // namespace

void SimAccess::take(size_t index) {
  BONSAI_CHECK(index < left.size());
  const Part part = left[index];
  BONSAI_CHECK(part.offset <= bytes->size() && part.bytes <= bytes->size() - part.offset);
  left.erase(left.begin() + static_cast<std::ptrdiff_t>(index));
  std::byte* const there = target + part.offset;
  std::byte* const here = bytes->data() + part.offset;
  core.note(SimStep::kPart, part.offset, part.bytes);
  if (!write) {
    std::copy_n(there, part.bytes, here);
    return;
  }
  std::copy_n(here, part.bytes, there);
  for (SimNvm::State* nvm : core.nvms) {
    if (nvm->holds(there)) nvm->written(static_cast<size_t>(there - nvm->view.data()), part.bytes, connection);
  }
}

uint64_t SimRegions::add(SimCore& core, std::span<std::byte> memory, Rights rights) {
  uint64_t key = 0;
  do key = core.dice.next();
  while (entries_.count(key) != 0);
  entries_[key] = {memory, rights, added_++, {}};
  return key;
}

void SimRegions::remove(uint64_t key) {
  for (const auto& open : entries_.at(key).open) {
    const std::shared_ptr<SimAccess> access = open.lock();
    if (access == nullptr || access->left.empty()) continue;
    gone_amid.hit();
    access->finish();
  }
  entries_.erase(key);
}

Outcome SimRegions::find(const WorkRequest& request, size_t bytes, std::byte** target) const {
  const auto found = entries_.find(request.remote.key);
  if (found == entries_.end()) return Outcome::kRemoteAccess;
  const std::span<std::byte> memory = found->second.memory;
  uint64_t offset = 0;
  const Outcome outcome =
      check_access(request, bytes, {request.remote.key, reinterpret_cast<uintptr_t>(memory.data()), memory.size()},
                   found->second.rights, &offset);
  if (outcome == Outcome::kDone) *target = memory.data() + offset;
  return outcome;
}

Outcome SimInbox::deliver(uint32_t from, std::span<const std::byte> message) {
  if (ring.bytes() != 0 && message.size() > slot_bytes) {
    too_long.hit();
    return Outcome::kMessageTooLong;
  }
  if (free.empty()) return Outcome::kReceiverNotReady;
  const size_t slot = free.front();
  free.pop_front();
  BONSAI_CHECK((slot + 1) * slot_bytes <= ring.bytes() && message.size() <= slot_bytes);
  std::copy(message.begin(), message.end(), ring.data() + slot * slot_bytes);
  arrived.push_back({slot, message.size(), from});
  return Outcome::kDone;
}

}  // namespace bonsai::rdma
