// SPDX-License-Identifier: Apache-2.0
// A read batch: the reads of NVM that one caller issues together, so that their waits overlap, and the places of their
// bytes.
//
//   scale::ReadBatch reads(volume);
//   const std::byte* bytes = reads.issue(addr, n);          further ones; then something else to do, after begin()
//   if (!reads.wait().ok()) return ...;                     siblings of a coroutine run meanwhile
//   use(bytes)
//
// On mapped targets the bytes are read where they are mapped. On far ones they are carried: each issue() returns memory
// that is filled when wait() has returned; the reads issued between two waits are one list for each target. On an
// emulator wait() takes the modelled time. Elsewhere a batch costs a test for each call.
//
// Guarantees: bytes of a mapped target stay as long as the volume. Carried bytes stay as long as the batch and, where
// the volume has an epoch domain, until the guard ends in which the batch did.
// Errors: wait() gives Unavailable when a far target has not answered in time, or with an error. That is no damage: the
// bytes may be readable later. lost() returns the targets whose bytes are missing; those of other targets are there.
//
// Thread-safety: one owner.
#ifndef BONSAI_SCALE_READ_BATCH_H_
#define BONSAI_SCALE_READ_BATCH_H_

#include <cstddef>
#include <cstdint>

#include "scale/volume.h"

namespace bonsai::scale {

// The beginning of an object whose byte at `offset` is at `at`. Only bytes that are there may be read.
inline const std::byte* begin_of(const std::byte* at, uint64_t offset) {
  return reinterpret_cast<const std::byte*>(reinterpret_cast<uintptr_t>(at) - offset);
}

class ReadBatch {
 public:
  // Requires: the volume outlives it.
  explicit ReadBatch(const Volume& volume) : volume_(volume) {}
  ~ReadBatch() {
    if (carried_ != nullptr) [[unlikely]]
      let_go();
  }
  ReadBatch(const ReadBatch&) = delete;
  ReadBatch& operator=(const ReadBatch&) = delete;

  // Whether reads of some target take time.
  [[nodiscard]] bool waits() const { return volume_.reads_wait(); }
  // The mapped bytes at `addr`, for readers that report by add() which they read; null on a far target.
  [[nodiscard]] const std::byte* mapped(Addr addr) const {
    if (waits() && volume_.far(addr.target()) != nullptr) [[unlikely]]
      return nullptr;
    return volume_.mapped(addr);
  }

  // Reads [addr, addr + n).
  const std::byte* issue(Addr addr, uint64_t n) {
    if (!waits()) [[likely]]
      return volume_.mapped(addr);
    const std::byte* to = place(addr, n);
    read(addr, n, to);
    return to;
  }
  // issue() in two steps: place() returns a place for [addr, addr + n), and each read() fills a part of it. `to`: the
  // address of the part, in that place.
  const std::byte* place(Addr addr, uint64_t n);
  void read(Addr addr, uint64_t n, const std::byte* to);

  // Reports that the caller reads [addr, addr + n) of a mapped target, and `further_blocks` blocks near by. A block in
  // which the last range ended is not counted again. No effect on a far target.
  void add(Addr addr, uint64_t n, uint64_t further_blocks = 0) {
    if (waits()) [[unlikely]]
      count(addr, n, further_blocks);
  }
  // Nothing more is issued before wait(): the reads begin. Returns the clock, 0 if it was not read.
  uint64_t begin() { return waits() ? begin_reads() : 0; }
  // Waits until all issued bytes are there. now_ns: a reading of the clock, from which it is known without another
  // one that modelled reads have ended.
  [[nodiscard]] Status wait(uint64_t now_ns = 0) { return waits() ? wait_for_reads(now_ns) : Status::OK(); }
  // Whether the last wait left bytes of the target of `addr` missing.
  [[nodiscard]] bool lost(Addr addr) const;

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Carried;

  void count(Addr addr, uint64_t n, uint64_t further_blocks);
  void count_piece(Addr place, uint64_t n, uint64_t further_blocks);
  void read_piece(Addr place, uint64_t n, const std::byte* to);
  void change_target(size_t target);
  uint64_t begin_reads();
  Status wait_for_reads(uint64_t now_ns);
  void begin_carrying();
  Status end_carrying();
  void let_go();

  const Volume& volume_;
  Carried* carried_ = nullptr;  // owned; null until there is a far read
  // State of modelled reads.
  size_t target_ = kNone;       // of blocks_
  uint64_t blocks_ = 0;         // issued; devices are asked for as many as possible at a time
  uint64_t since_ns_ = 0;       // when the first of them was issued; then, when the devices were asked
  uint64_t deadline_ns_ = 0;    // of those that the devices were asked for
  uint64_t last_ = UINT64_MAX;  // block in which the last range ended, by place
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_READ_BATCH_H_
