// SPDX-License-Identifier: Apache-2.0
// The messages between a client and the server of a node's pools that precede any READ or WRITE: of fixed size, little
// endian as all of Bonsai's bytes. A request travels as one SEND; the response is written into the client's memory, its
// token last, by one list, so that a client that sees the token sees all of it. Until then the server writes `beats`
// there repeatedly, so that a request may take longer than a client waits for a silent node.
#ifndef BONSAI_SCALE_POOL_WIRE_H_
#define BONSAI_SCALE_POOL_WIRE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "rdma/region.h"
#include "scale/group_page.h"
#include "scale/target_name.h"

namespace bonsai::scale {

// kOpen, kCreate and kCreateUnnamed are the message `fence` of docs/nodes.md.
enum class PoolOp : uint64_t {
  kOpen = 1,      // an existing pool becomes the caller's
  kCreate = 2,    // a new pool of `bytes` zeros becomes the caller's
  kLeave = 3,     // the caller gives a pool back
  kRemove = 4,    // the caller gives a pool back, and it is gone; a device only forgets whose it was
  kResize = 5,    // the caller's pool gets `bytes` bytes; its region is a new one
  kComplete = 6,  // the caller's pool, which was made by kCreateUnnamed, gets its name; it stays the caller's
  // As kCreate, but no file has the name before kComplete. A pool that is given back before is gone. Two owners may
  // make pools of one name at servers of one folder; the first that completes its pool has the name.
  kCreateUnnamed = 7,
  // The caller's session goes on over this attachment (attachments.h). When it is answered, all earlier ones have ended
  // and nothing of them will arrive. The pool's region is a new one, with new credits.
  kResume = 8,
  kRenew = 9,  // the caller has nothing else to ask and wants a grant
  // The pool after `pool` in the order of names, and its owner, whoever that is; an empty name: the first pool. The
  // answer's text is an entry of pool_list.h. NotFound: there is no further one.
  kList = 10,
  // The pool's page and its newest epoch as its record says, whoever owns it; zeros without a record. NotFound: there
  // is no such pool; the epoch is that of a record that an earlier one has left.
  kStatus = 11,
  // The caller's pool gets a page (group_page.h), durably, if it is newer than the one that it has. Flush requests go
  // on meanwhile.
  kPage = 12,
};

[[nodiscard]] inline bool makes_pool(PoolOp op) { return op == PoolOp::kCreate || op == PoolOp::kCreateUnnamed; }
// Whether the caller is served from then on.
[[nodiscard]] inline bool takes_pool(PoolOp op) {
  return makes_pool(op) || op == PoolOp::kOpen || op == PoolOp::kResume;
}

// The answer of a node's register (membership/owner_register.h).
enum class OwnerVerdict : uint64_t {
  kNone = 0,       // it was not asked
  kGranted = 1,    // `owner_ns` is the lease
  kDenied = 2,     // served without a grant: a forced take-over waits until the lease has run out
  kLeaseRuns = 3,  // another session may be alive. `owner_ns`: come again then
  kReplaced = 4,   // the newest epoch is `epoch`, and not the caller's
  kAgain = 5,      // resume first
};

struct PoolRequest {
  // No token of a flush request has this bit (rdma/remote_persist.h), so both kinds share one connection.
  static constexpr uint64_t kMagic = uint64_t{1} << 62 | 0x6c6f6f70;

  uint64_t magic = kMagic;
  uint64_t token = 0;   // of the answer; not 0
  rdma::Remote answer;  // where the PoolAnswer is written
  PoolOp op = PoolOp::kOpen;
  uint64_t bytes = 0;  // kCreate, kResize: of the pool. kOpen: how many bytes are looked at for the mark
  // kCreate: the first word of the pool from the moment at which it has a name. kOpen, if it is not 0: a pool that is
  // still marked by it (base::is_marked()) was never finished: it is removed, and NotFound. So is a device, also if
  // its beginning is all zeros; it stays. kPage: the page's version.
  uint64_t mark = 0;
  std::array<uint64_t, 2> session{};  // of the caller's opening (membership::SessionId)
  // The session's. kOpen: the newest one that the caller has seen, 0: none. kCreate: its epoch is that one at least.
  uint64_t epoch = 0;
  uint64_t lease_ns = 0;          // that a new owner wants
  uint32_t force = 0;             // kOpen, 1: the present owner gets no more grants, so that its lease runs out
  uint32_t step = 0;              // kOpen: the new epoch is `epoch` and so many more; 0: one more
  std::array<char, 80> holder{};  // who a new owner is, as users read it: "bonsai[4711] on HOST". kPage: a GroupPage
  std::array<char, kPoolNameBytesMax + 1> pool{};  // ends with a zero byte
};
static_assert(sizeof(PoolRequest) == 272);  // a receive buffer of the node

struct PoolAnswer {
  int64_t code = 0;              // of a Status
  rdma::RemoteRegion region;     // the pool's bytes, when OK
  uint64_t domain = 0;           // an rdma::RemoteDomain: what makes a WRITE to them durable
  uint64_t emulated = 1;         // whether the medium only stands for NVM
  uint64_t credits = 0;          // OK: so many flush requests of the pool may be in flight, over all connections
  uint64_t verdict = 0;          // an OwnerVerdict
  uint64_t epoch = 0;            // the newest one; of a new owner: its own
  uint64_t owner_ns = 0;         // as the verdict says
  std::array<char, 320> text{};  // OK: the medium; else the message
  VersionedPage page;            // of the pool that was opened or asked for
  uint64_t beats = 0;            // changes while the request is being carried out
  uint64_t token = 0;            // of the request; written last
};
static_assert(sizeof(PoolAnswer) == 512);

// Copies as much of `text` as fits, with a zero byte after it.
template <size_t kBytes>
void set_wire_text(std::array<char, kBytes>* wire, std::string_view text) {
  wire->fill('\0');
  text = text.substr(0, kBytes - 1);
  for (size_t i = 0; i < text.size(); ++i) (*wire)[i] = text[i];
}

// Text that a peer wrote may lack its end.
template <size_t kBytes>
std::string wire_text(const std::array<char, kBytes>& wire) {
  const std::string_view all(wire.data(), wire.size());
  return std::string(all.substr(0, all.find('\0')));
}

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_POOL_WIRE_H_
