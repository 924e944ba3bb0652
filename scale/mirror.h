// SPDX-License-Identifier: Apache-2.0
// This node's copy of the resident ranges of one far target: addresses for the whole target, memory for the resident
// ranges only. The ranges are registered, so that they are read from the target and written back in place.
//
// The mirror belongs to the target's medium. Reads in flight share it (shared_ptr).
//
// Thread-safety: all methods; open() and close() by one caller at a time.
#ifndef BONSAI_SCALE_MIRROR_H_
#define BONSAI_SCALE_MIRROR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/nvm/far_reads.h"
#include "bonsai/status.h"
#include "rdma/fabric.h"

namespace bonsai::scale {

class Mirror {
 public:
  // Reserves the addresses; nothing can be touched yet. `name`: of the target, for messages. Errors: NoSpace.
  static Status make(std::shared_ptr<rdma::Fabric> fabric, const std::string& name, uint64_t bytes,
                     std::shared_ptr<Mirror>* mirror);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  [[nodiscard]] std::span<std::byte> addresses() const { return addresses_; }
  [[nodiscard]] bool contains(const std::byte* at) const {
    return at >= addresses_.data() && at < addresses_.data() + addresses_.size();
  }

  // As base::FarReads::open_resident() and close_resident(). A range that could not be read is open, and is read again.
  Status open(uint64_t offset, uint64_t n, std::vector<base::FarReads::Piece>* pieces);
  // Errors of open() besides NoSpace: Unavailable (an earlier READ of a range was given up and has not ended: it could
  // change bytes that were read again).
  void close(std::span<const base::FarReads::Piece> pieces);
  // As base::FarReads::open_blank() and close_blank(). close_blank() leaves a range alone that is not just that one.
  Status open_blank(uint64_t offset, uint64_t n);
  void close_blank(uint64_t offset, uint64_t n);
  // Marks the pieces as being read until the last holder releases the token.
  [[nodiscard]] std::shared_ptr<const void> begin_landing(std::span<const base::FarReads::Piece> pieces);

  [[nodiscard]] bool resident(uint64_t offset, uint64_t n) const;
  // Copies [offset, offset + n) to `to` if they are resident: none of it is closed meanwhile. Each aligned word is one
  // that was stored. False: they are not resident, and nothing is copied.
  [[nodiscard]] bool copy(uint64_t offset, uint64_t n, std::byte* to) const;
  // Bytes of this node's memory that the mirror uses.
  [[nodiscard]] uint64_t resident_bytes() const;
  // [offset, offset + n) as registered memory, or as much of it as is in one range. Empty: not open.
  [[nodiscard]] rdma::Slice slice(uint64_t offset, uint64_t n) const;

 private:
  struct Range {
    std::unique_ptr<rdma::Region> region;
    bool read = false;                                    // its bytes are there
    std::vector<std::weak_ptr<const void>> landing = {};  // READs that may be in flight

    [[nodiscard]] uint64_t bytes() const { return region->memory().size(); }
  };
  using Ranges = std::map<uint64_t, Range>;  // by offset, disjoint

  Mirror(std::shared_ptr<rdma::Fabric> fabric, std::string name, std::span<std::byte> view)
      : fabric_(std::move(fabric)), name_(std::move(name)), addresses_(view) {}
  Status open_gap(uint64_t offset, uint64_t n);
  Status open_range(uint64_t at, uint64_t end, Ranges::iterator* range);
  [[nodiscard]] Ranges::const_iterator before(uint64_t offset) const;
  [[nodiscard]] bool has(uint64_t offset, uint64_t n) const;

  const std::shared_ptr<rdma::Fabric> fabric_;
  const std::string name_;
  const std::span<std::byte> addresses_;
  mutable std::mutex mutex_;
  Ranges ranges_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_MIRROR_H_
