// SPDX-License-Identifier: Apache-2.0
// The persistence domain: when bytes that a device wrote to a node's persistent memory survive that node's power cut.
// The operator must declare it: it depends on platform and firmware settings that no fabric request can query.
#ifndef BONSAI_RDMA_DOMAIN_H_
#define BONSAI_RDMA_DOMAIN_H_

#include <cstdint>
#include <string_view>

#include "bonsai/status.h"

namespace bonsai::rdma {

enum class RemoteDomain : uint8_t {
  kUnknown,    // not declared
  kAdr,        // "adr": they stay in the processor's caches (DDIO) until the node's processor flushes them
  kAdrDirect,  // "adr-direct": they bypass the caches (DDIO off); durable once they have left device and bus
  kEadr,       // "eadr": the caches survive, too; durable once they have left device and bus
};

// "unknown", "adr", "adr-direct", "eadr".
std::string_view domain_name(RemoteDomain domain);
// Errors: InvalidArgument (another word; the message lists them and what they mean).
Status parse_domain(std::string_view text, RemoteDomain* domain);

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_DOMAIN_H_
