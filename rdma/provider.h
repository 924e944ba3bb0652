// SPDX-License-Identifier: Apache-2.0
// Common code of providers: the checks of the interface's contract that need no device.
#ifndef BONSAI_RDMA_PROVIDER_H_
#define BONSAI_RDMA_PROVIDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "rdma/fabric.h"

namespace bonsai::rdma {

// Whether the listener that is *answer may serve `other`: the protocol's version, then `admit`.
Status admit_peer(const Admit& admit, const Arrival& other, Hello* answer);

// The challenge of an Admit that has refused with this answer.
Challenge challenge_of(const Hello& answer, const std::string& listener);

// Whether memory may be registered with these rights at all. Errors: InvalidArgument.
Status check_registration(std::span<const std::byte> memory, Rights rights);

// Whether a peer may access `bytes` bytes of the region for this request; *offset is their offset in the region.
Outcome check_access(const WorkRequest& request, uint64_t bytes, const RemoteRegion& region, Rights rights,
                     uint64_t* offset);

// Computes the new value of a word that holds `old`. False: the atomic leaves the word unchanged.
bool changes_word(const WorkRequest& request, uint64_t old, uint64_t* changed);

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_PROVIDER_H_
