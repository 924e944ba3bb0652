// SPDX-License-Identifier: Apache-2.0
// Work requests: requests of one node to others, posted together.
//
// A WorkList is posted as a whole. Its requests to one peer are sent by one doorbell, in order, and only the last one
// is signalled; work for several peers travels at the same time. So dependent steps cost one round trip:
//
//   WorkList list;
//   list.write(peer, record.slice(0, 256), log.at(tail));       // the record,
//   list.send(peer, wakeup.slice(0, 16));                       // then the word to the flush agent
//   BONSAI_RETURN_IF_ERROR(worker.run(list, limit_ms));
//
// Order, per peer (that of reliable connections)
//   - effects at the peer happen in list order: a READ, atomic or FLUSH sees all earlier WRITEs; a receiver of a
//     SEND, and a reader that sees the effect of an atomic, see all earlier WRITEs;
//   - except that a WRITE or SEND may take effect before an earlier READ or atomic of the list has: call fence()
//     between them.
// Between peers there is no order.
// Not promised
//   - any order of the bytes inside one READ or WRITE, or that a READ beside a WRITE gets all of it or none: only
//     aligned 8-byte words are read whole. Readers verify by checksum or per-line version and retry.
//
// Thread-safety: one thread at a time, the worker's.
#ifndef BONSAI_RDMA_WORK_H_
#define BONSAI_RDMA_WORK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "bonsai/status.h"
#include "rdma/region.h"
#include "rdma/traffic.h"

namespace bonsai::rdma {

class Peer;

// The outcome of one request.
enum class Outcome : uint8_t {
  kDone,              // carried out
  kFlushed,           // not carried out: an earlier request to this peer failed, or the connection was closed. But
                      // a request after a kUnreachable one that may have been carried out is kUnreachable, too
  kLocalAccess,       // the local slice is not of a region of this worker's fabric: not sent
  kRemoteAccess,      // the peer refused: stale key, outside the region, or no such right; nothing changed
  kMisaligned,        // the word of an atomic is not aligned to 8 bytes; nothing changed
  kMessageTooLong,    // the message is longer than the peer's receive buffers; not delivered
  kReceiverNotReady,  // the peer offered no receive buffer within the provider's bound; not delivered
  kNoResources,       // this node has no descriptor or address space to reach the peer's memory; not sent
  kUnreachable,       // the peer stopped answering: whether the request was carried out is UNKNOWN
};
inline constexpr size_t kOutcomes = static_cast<size_t>(Outcome::kUnreachable) + 1;

// For example "remote access".
std::string_view outcome_name(Outcome outcome);
// OK for kDone, else the error and what to do about it. kUnreachable, kFlushed and kReceiverNotReady are Unavailable,
// kNoResources is NoSpace, the others InvalidArgument.
Status status_of(Outcome outcome, Verb verb);

// One request, for providers.
struct WorkRequest {
  Verb verb;
  bool fenced;  // starts after all earlier READs and atomics of the list to this peer have finished
  Peer* peer;
  Slice local;                       // READ, atomics: receives the answer; WRITE, SEND: the bytes to send; FLUSH: none
  Remote remote;                     // not for SEND
  uint64_t operand;                  // CAS: the new value; FAA: the addend; FLUSH: the number of bytes
  uint64_t expected;                 // CAS only
  uint64_t compare_mask, swap_mask;  // masked CAS only
  Outcome outcome;                   // valid once the list is not pending any more
};

// Requires: slices stay registered and peers stay alive until the list is complete; a pending list is neither changed
// nor destroyed (an unanswered one is completed by closing its peers).
// Cost: no allocation; 96 bytes per request, in place.
class WorkList {
 public:
  static constexpr size_t kRequestsMax = 32;

  WorkList() = default;
  ~WorkList() { BONSAI_CHECK(!pending()); }
  WorkList(const WorkList&) = delete;
  WorkList& operator=(const WorkList&) = delete;

  // ---- filling. Requires: room(), not pending.

  // Copies to.bytes() bytes from the peer.
  void read(Peer& peer, Remote from, Slice to) { add(Verb::kRead, peer, to, from); }
  // Copies from.bytes() bytes to the peer.
  void write(Peer& peer, Slice from, Remote to) { add(Verb::kWrite, peer, from, to); }
  // Stores `desired` in the peer's 8-byte word if that holds `expected`. `old` receives its old value.
  void cas(Peer& peer, Remote word, uint64_t expected, uint64_t desired, Slice old) {
    add(Verb::kCas, peer, old, word, desired, expected);
  }
  // Adds to the peer's 8-byte word, modulo 2^64. `old` receives its old value.
  void faa(Peer& peer, Remote word, uint64_t addend, Slice old) { add(Verb::kFaa, peer, old, word, addend); }
  // CAS on some bits of the peer's 8-byte word: if its bits in compare_mask equal those of `expected`, replaces its
  // bits in swap_mask by those of `desired`. `old` receives the word's old value. Requires: Capabilities::masked_cas.
  struct Masked {
    uint64_t bits, mask;
  };
  void masked_cas(Peer& peer, Remote word, Masked expected, Masked desired, Slice old) {
    add(Verb::kMaskedCas, peer, old, word, desired.bits, expected.bits, expected.mask, desired.mask);
  }
  // Delivers a message into the next receive buffer of the peer's worker.
  void send(Peer& peer, Slice message) { add(Verb::kSend, peer, message, {}); }
  // Makes earlier WRITEs to these bytes of the peer durable, as RDMA FLUSH with persistent placement does. Requires:
  // Capabilities::remote_flush.
  void flush(Peer& peer, Remote first, uint64_t bytes) { add(Verb::kFlush, peer, {}, first, bytes); }
  // The next request waits, at this node, for the answers of the READs and atomics before it.
  void fence() {
    BONSAI_CHECK(!pending());
    fence_next_ = true;
  }
  // Empties a complete list, for the next use.
  void clear();

  [[nodiscard]] bool room() const { return size_ < kRequestsMax; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] const WorkRequest& operator[](size_t i) const {
    BONSAI_DCHECK(i < size_);
    return requests_[i];
  }

  // ---- the result. Requires: posted, not pending.

  // False once every request has an outcome.
  [[nodiscard]] bool pending() const { return doorbells_pending_ != 0; }
  [[nodiscard]] Outcome outcome(size_t i) const {
    BONSAI_CHECK(!pending() && i < size_);
    return requests_[i].outcome;
  }
  // OK if all requests were carried out, else the status of the first request that failed by itself.
  [[nodiscard]] Status status() const;

  // ---- for providers

  [[nodiscard]] WorkRequest& request(size_t i) {
    BONSAI_DCHECK(i < size_);
    return requests_[i];
  }
  // The number of different peers in the list.
  [[nodiscard]] size_t peers() const;
  void set_pending(size_t doorbells) {
    BONSAI_INVARIANT(doorbells <= size_);  // each doorbell has a request (6)
    doorbells_pending_ = doorbells;
  }
  void complete_doorbell() {
    BONSAI_CHECK(doorbells_pending_ > 0);
    --doorbells_pending_;
  }

 private:
  // Stores each member in place: copying a request made elsewhere would load it again before its stores have completed.
  void add(Verb verb, Peer& peer, const Slice& local, Remote remote, uint64_t operand = 0, uint64_t expected = 0,
           uint64_t compare_mask = 0, uint64_t swap_mask = 0) {
    BONSAI_CHECK(!pending() && room());
    BONSAI_CHECK(local.region() != nullptr || verb == Verb::kFlush);
    BONSAI_CHECK(!is_atomic(verb) || local.bytes() == sizeof(uint64_t));
    WorkRequest& request = requests_[size_++];
    request.verb = verb;
    request.fenced = std::exchange(fence_next_, false);
    request.peer = &peer;
    request.local = local;
    request.remote = remote;
    request.operand = operand;
    request.expected = expected;
    request.compare_mask = compare_mask;
    request.swap_mask = swap_mask;
    request.outcome = {};
  }

  std::array<WorkRequest, kRequestsMax> requests_;
  size_t size_ = 0;
  size_t doorbells_pending_ = 0;
  bool fence_next_ = false;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_WORK_H_
