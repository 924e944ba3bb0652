// SPDX-License-Identifier: Apache-2.0
// The names of targets: a plain path, or `SCHEME://NODE/POOL` for a pool that a node of a fabric serves.
//
//   /mnt/pmem/my.pool           a file or DAX device of this machine
//   shm://NAME/POOL             served under NAME by a process of this machine
//   rdma://HOST:PORT/POOL       served over RDMA
//   rdma://A:1/P|rdma://B:1/P   a group: several nodes' pools that hold the same bytes, 2 to 8, of one scheme
//
// The name of a group may end in `?replicas_min=N`: so many members at least hold what is acknowledged, else updates
// stop. Unsaid: more than half of them; of two, both. `?replace=N`: the Nth member may be made anew although none was
// ever made under that name. `?same_node=allowed`: members may share a node. `?witness=SCHEME://NODE/POOL`, of a group
// of two: a pool there, of no bytes, decides which of them goes on without the other (docs/nodes.md); it counts as the
// third for `replace`, and `replicas_min` is 1 then, if it is unsaid. `&` is between two queries.
//
// Each may end in `?role=log`, `?role=dnodes` or `?role=both`: its role in the pool. A remote one may end in
// `?lease=checked`: reads ask its node whether the pool is still this process's (leases.h). Both: with `&` between.
// Other queries are rejected, and never taken for a part of a file's name.
#ifndef BONSAI_SCALE_TARGET_NAME_H_
#define BONSAI_SCALE_TARGET_NAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::scale {

inline constexpr size_t kPoolNameBytesMax = 95;

// The role of a target in its pool: the log, or dnodes and large values. The bits of persist/format.h.
enum class TargetRole : uint8_t { kUnsaid = 0, kLog = 1, kDnodes = 2, kBoth = 3 };

struct TargetName {
  std::string text;    // as the user wrote it, without the query
  std::string scheme;  // "shm", "rdma", ...; empty: a plain path
  std::string node;    // the address of the node, in the notation of the fabric's provider
  std::string pool;    // the name of the pool there
  TargetRole role = TargetRole::kUnsaid;
  bool checks_lease = false;             // lease=checked
  std::vector<TargetName> members = {};  // of a group, whose own node and pool are empty
  size_t replicas_min = 0;               // of a group; 0: unsaid
  size_t replaces = 0;                   // of a group: the number of a member, from 1 on; 0: none
  bool allows_same_node = false;         // of a group
  std::vector<TargetName> witness = {};  // of a group: none, or one

  [[nodiscard]] bool is_remote() const { return !scheme.empty(); }
  [[nodiscard]] bool is_group() const { return !members.empty(); }
};

// Whether this is a valid name of a pool on a node: 1 to kPoolNameBytesMax letters, digits, '.', '_' and '-', not
// beginning with a dot, so that it is one file name.
[[nodiscard]] bool is_pool_name(std::string_view name);

// "log", "dnodes", "both"; empty: unsaid.
[[nodiscard]] std::string_view role_text(TargetRole role);

// Errors: InvalidArgument (a scheme without node or pool, a pool name, role or query that is none, a lease of a target
// that has none; the message shows the form; a group of one or of more than kMembersMax members, of several schemes,
// that names one member twice, or a node twice and does not allow it, or with a number that it cannot have).
Status parse_target_name(const std::string& text, TargetName* name);

// "a,shm://node/b" -> {"a", "shm://node/b"}. Errors: those, InvalidArgument (an empty name, more than kTargetsMax, one
// named twice).
Status parse_target_names(const std::string& list, std::vector<TargetName>* names);

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_TARGET_NAME_H_
