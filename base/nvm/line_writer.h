// SPDX-License-Identifier: Apache-2.0
// Writes and reads whole cache lines atomically: a crash or another thread sees a line either before or after a write.
//
// Hardware writes back a line at once; a process that stands in for hardware can be killed between any two
// instructions. So a line is written by one instruction (64-byte store) or, on machines without, by one system call
// (pwrite of an aligned line), both of which SIGKILL cannot split. And it is read until two readings agree.
#ifndef BONSAI_BASE_NVM_LINE_WRITER_H_
#define BONSAI_BASE_NVM_LINE_WRITER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/nvm/mapping.h"
#include "base/nvm/medium.h"
#include "bonsai/status.h"

namespace bonsai::base {

struct alignas(kLineBytes) Line {
  std::array<uint64_t, kLineBytes / 8> words{};
  bool operator==(const Line&) const = default;
};

// An atomic reading of a line to which other threads store meanwhile.
[[nodiscard]] Line read_line(const std::byte* line);

// Requires: the mapping outlives the writer. Thread-safety: writes of different lines from any thread.
class LineWriter {
 public:
  // `by_system_call` selects system calls, which work without 64-byte stores; by default the machine decides.
  // Errors: NotSupported (no 64-byte stores, and the mapped file cannot be written by system calls).
  static Status make(const Mapping& mapping, bool by_system_call, LineWriter* writer);
  [[nodiscard]] static bool machine_stores_lines();

  // Writes the line at `offset` in the mapping. Requires: a multiple of 64.
  void write(size_t offset, const Line& line) const;

 private:
  std::byte* data_ = nullptr;
  int fd_ = -1;
  bool by_system_call_ = false;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_LINE_WRITER_H_
