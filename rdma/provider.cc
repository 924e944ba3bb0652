// SPDX-License-Identifier: Apache-2.0
#include "rdma/provider.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bonsai::rdma {
namespace {

bool allowed(Verb verb, Rights rights) {
  switch (verb) {
    case Verb::kRead:
      return rights.read;
    case Verb::kWrite:
      return rights.write;
    case Verb::kFlush:
      return rights.read || rights.write;
    default:
      return rights.atomic;
  }
}

}  // namespace

Challenge challenge_of(const Hello& answer, const std::string& listener) {
  Challenge challenge;
  std::copy_n(answer.credentials.begin(), challenge.nonce.size(), challenge.nonce.begin());
  challenge.listener = listener;
  return challenge;
}

Status admit_peer(const Admit& admit, const Arrival& other, Hello* answer) {
  if (other.version != answer->version) {
    answer->credentials = {};
    return Status::NotSupported("the fabric there speaks protocol " + std::to_string(answer->version) + " and not " +
                                std::to_string(other.version) + "; run the same version on both nodes");
  }
  return admit ? admit(other, answer) : Status::OK();
}

Status check_registration(std::span<const std::byte> memory, Rights rights) {
  if (memory.empty()) return Status::InvalidArgument("a region of no bytes cannot be registered; give it memory");
  if (rights.atomic && reinterpret_cast<uintptr_t>(memory.data()) % sizeof(uint64_t) != 0) {
    return Status::InvalidArgument("a region with atomics begins off a multiple of 8; align its memory");
  }
  return Status::OK();
}

Outcome check_access(const WorkRequest& request, uint64_t bytes, const RemoteRegion& region, Rights rights,
                     uint64_t* offset) {
  BONSAI_DCHECK(request.verb != Verb::kSend);  // it names no byte of the peer
  *offset = request.remote.address - region.base;
  if (*offset > region.bytes || bytes > region.bytes - *offset) return Outcome::kRemoteAccess;
  if (!allowed(request.verb, rights)) return Outcome::kRemoteAccess;
  return is_atomic(request.verb) && request.remote.address % sizeof(uint64_t) != 0 ? Outcome::kMisaligned
                                                                                   : Outcome::kDone;
}

bool changes_word(const WorkRequest& request, uint64_t old, uint64_t* changed) {
  BONSAI_INVARIANT(is_atomic(request.verb));  // (5)
  switch (request.verb) {
    case Verb::kCas:
      *changed = request.operand;
      return old == request.expected;
    case Verb::kMaskedCas:
      *changed = (old & ~request.swap_mask) | (request.operand & request.swap_mask);
      return ((old ^ request.expected) & request.compare_mask) == 0;
    default:
      *changed = old + request.operand;
      return true;
  }
}

}  // namespace bonsai::rdma
