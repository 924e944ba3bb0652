// SPDX-License-Identifier: Apache-2.0
// Who holds the lock of an open file, as Linux tells it: for messages only. It may be over when it is read.
#ifndef BONSAI_BASE_NVM_LOCK_HOLDER_H_
#define BONSAI_BASE_NVM_LOCK_HOLDER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace bonsai::base {

struct LockHolder {
  int64_t process = 0;  // 0: none, or one of another process namespace
  bool shared = false;  // it only reads, perhaps with others
};

// The process that took a flock() of the file with this device and inode, by `table`, which has the form of
// /proc/locks. Those who wait for it do not count.
[[nodiscard]] LockHolder holder_in(std::string_view table, uint64_t device, uint64_t inode);

// The process `id` as users read it: "bonsai[1234], started 2026-11-30 01:20:00 UTC". `proc` is the folder /proc.
// Empty: there is none.
[[nodiscard]] std::string process_text(const std::string& proc, int64_t id);

// That it is open, and in which process, e.g. "is open in another process, bonsai[1234], started ..." (and ", which
// only reads it (others may, too)" of a shared lock). Where Linux does not tell which, as in containers and on network
// file systems, it says so much: "is open in another process (or ...)".
[[nodiscard]] std::string open_elsewhere(int fd);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_LOCK_HOLDER_H_
