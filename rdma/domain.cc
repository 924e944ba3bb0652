// SPDX-License-Identifier: Apache-2.0
#include "rdma/domain.h"

#include <string>

namespace bonsai::rdma {

std::string_view domain_name(RemoteDomain domain) {
  switch (domain) {
    case RemoteDomain::kUnknown:
      return "unknown";
    case RemoteDomain::kAdr:
      return "adr";
    case RemoteDomain::kAdrDirect:
      return "adr-direct";
    case RemoteDomain::kEadr:
      return "eadr";
  }
  return "unknown";
}

Status parse_domain(std::string_view text, RemoteDomain* domain) {
  for (const RemoteDomain known : {RemoteDomain::kAdr, RemoteDomain::kAdrDirect, RemoteDomain::kEadr}) {
    if (text != domain_name(known)) continue;
    *domain = known;
    return Status::OK();
  }
  return Status::InvalidArgument("the persistence domain '" + std::string(text) +
                                 "' is not known; declare adr (device writes rest in the caches: always safe), "
                                 "adr-direct (DDIO is off) or eadr (the caches survive a power cut)");
}

}  // namespace bonsai::rdma
