// SPDX-License-Identifier: Apache-2.0
// Reads from a far target: a medium whose view is not mapped memory, as on another node.
//
// Two ways. *Resident* ranges are kept in view(), where every thread may read them, including this node's stores: data
// that the owner uses constantly. All other bytes are *carried*: reads are begun, polled, and ended. The address of a
// byte of view() that is not resident is only a name.
//
// A carried read returns bytes that were durable when it began, or that became durable since; never stores of this node
// that are not fenced. Reads end in any order, within one ticket and among several.
//
// Thread-safety: all methods from any thread; a ticket belongs to one owner.
#ifndef BONSAI_BASE_NVM_FAR_READS_H_
#define BONSAI_BASE_NVM_FAR_READS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::base {

class FarReads {
 public:
  virtual ~FarReads() = default;

  struct Piece {
    uint64_t offset;
    std::byte* to;
    uint64_t bytes;
  };
  using Memory = std::shared_ptr<std::byte>;

  // Allocates memory that pieces may be read to. It is valid as long as somebody holds it.
  [[nodiscard]] virtual Memory memory(size_t bytes) = 0;
  // Begins to read the pieces; returns their ticket. `holder` keeps the destination memory alive. It is released when
  // the reads have ended, even if their reader is gone by then. Null: the destination is the resident view.
  [[nodiscard]] virtual uint64_t begin(std::span<const Piece> pieces, std::shared_ptr<const void> holder) = 0;
  // Whether all pieces have ended. Then *status is their result, and the ticket is released. Errors: Unavailable.
  [[nodiscard]] virtual bool ended(uint64_t ticket, Status* status) = 0;
  // Abandons a ticket whose pieces may still be in flight.
  virtual void forget(uint64_t ticket) = 0;
  // The longest time that a reader waits before it gives up.
  [[nodiscard]] virtual uint64_t limit_ms() const = 0;

  // Adds to *pieces the whole pages of [offset, offset + n) that are not resident yet, with their places in view() as
  // destination. Errors: NoSpace (no memory for it).
  [[nodiscard]] virtual Status open_resident(uint64_t offset, uint64_t n, std::vector<Piece>* pieces) = 0;
  // Makes pieces of open_resident() resident, after they were read.
  virtual void close_resident(std::span<const Piece> pieces) = 0;

  // Makes whole pages resident without reading them, because what the target has there is of no use any more. What is
  // resident already stays. Their bytes are unspecified until they are stored. Errors: NoSpace, Unavailable (an earlier
  // read of them has not ended).
  [[nodiscard]] virtual Status open_blank(uint64_t offset, uint64_t n) = 0;
  // Ends the residence of what one open_blank() has made resident, and gives its memory back. Requires: no thread reads
  // there; what any thread has stored or copied there was flushed, and whoever flushed it has fenced.
  virtual void close_blank(uint64_t offset, uint64_t n) = 0;
  // Bytes of this node's memory for what is resident.
  [[nodiscard]] virtual uint64_t resident_bytes() const = 0;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_FAR_READS_H_
