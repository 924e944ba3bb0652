// SPDX-License-Identifier: Apache-2.0
// Moves whole cache lines so that a crash or another thread sees each before or after, never in between.
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

// The content of a line at one moment, while other threads store to it.
[[nodiscard]] Line read_line(const std::byte* line);

// Requires: the mapping outlives the writer. Thread-safety: writes of different lines from any thread.
class LineWriter {
 public:
  // `by_system_call` chooses the way that works without 64-byte stores; the default is what the machine has.
  // Errors: NotSupported (no 64-byte stores, and the mapped file cannot be written by system calls).
  static Status make(const Mapping& mapping, bool by_system_call, LineWriter* writer);
  [[nodiscard]] static bool machine_stores_lines();

  // Writes the line at this multiple of 64 in the mapping.
  void write(size_t offset, const Line& line) const;

 private:
  std::byte* data_ = nullptr;
  int fd_ = -1;
  bool by_system_call_ = false;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_LINE_WRITER_H_
