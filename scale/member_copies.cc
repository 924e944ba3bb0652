// SPDX-License-Identifier: Apache-2.0
#include "scale/member_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/nvm/medium.h"
#include "base/thread.h"
#include "scale/await_read.h"

namespace bonsai::scale {
namespace {

DifferingBlock block_at(const MemberCopies& copies, uint64_t at, uint64_t n) {
  DifferingBlock block{at, n, {}, {}};
  std::vector<size_t> count;
  for (const auto& copy : copies) {
    block.of_member.push_back(DifferingBlock::kNotRead);
    if (copy == nullptr) continue;
    const std::byte* const bytes = copy.get() + at;
    const auto same = std::find_if(block.versions.begin(), block.versions.end(),
                                   [&](const std::byte* other) { return std::memcmp(other, bytes, n) == 0; });
    const auto version = static_cast<size_t>(same - block.versions.begin());
    if (same == block.versions.end()) {
      block.versions.push_back(bytes);
      count.push_back(0);
    }
    ++count[version];
    block.of_member.back() = version;
  }
  const auto most = static_cast<size_t>(std::max_element(count.begin(), count.end()) - count.begin());
  if (most == 0) return block;
  std::swap(block.versions[0], block.versions[most]);
  for (size_t& version : block.of_member) {
    version = version == 0 ? most : version == most ? 0 : version;
  }
  return block;
}

}  // namespace

MemberCopies read_copies(ReadLanes* reads, Members members, uint64_t offset, uint64_t n, uint64_t limit_ms) {
  MemberCopies copies(members.size());
  std::vector<uint64_t> tickets(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    if (!members[i]->state.takes_reads()) continue;
    copies[i] = reads->memory(n);
    const base::FarReads::Piece all{offset, copies[i].get(), n};
    tickets[i] = reads->begin(members[i], {&all, 1}, copies[i]);
  }
  base::BoundedWait wait("members whose bytes are compared", limit_ms);
  for (size_t i = 0; i < members.size(); ++i) {
    if (copies[i] != nullptr && !await_read(reads, tickets[i], &wait).ok()) copies[i].reset();
  }
  return copies;
}

size_t DifferingBlock::holders(size_t version) const {
  return static_cast<size_t>(std::count(of_member.begin(), of_member.end(), version));
}

std::vector<DifferingBlock> differing_blocks(const MemberCopies& copies, uint64_t offset, uint64_t n, bool together) {
  std::vector<DifferingBlock> found;
  for (uint64_t at = 0; at < n;) {
    constexpr uint64_t kBytes = base::kMediaBlockBytes;
    const uint64_t bytes = std::min(n - at, kBytes - (offset + at) % kBytes);
    DifferingBlock block = block_at(copies, at, bytes);
    at += bytes;
    if (block.versions.size() < 2) continue;
    const bool goes_on = together && !found.empty() && found.back().begin + found.back().bytes == block.begin &&
                         found.back().of_member == block.of_member;
    if (goes_on) {
      found.back().bytes += bytes;
    } else {
      found.push_back(std::move(block));
    }
  }
  return found;
}

}  // namespace bonsai::scale
