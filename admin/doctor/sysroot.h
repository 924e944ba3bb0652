// SPDX-License-Identifier: Apache-2.0
// The machine's state as files (/proc, /sys, /dev, ...), below a root that tests replace.
#ifndef BONSAI_ADMIN_DOCTOR_SYSROOT_H_
#define BONSAI_ADMIN_DOCTOR_SYSROOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::admin {

// Thread-safety: const; safe from any thread. No method fails: a file that cannot be read counts as absent.
class SysRoot {
 public:
  explicit SysRoot(std::string root = "/") : root_(std::move(root)) {}

  // All paths are absolute, as seen from the machine.
  [[nodiscard]] bool exists(std::string_view path) const;
  [[nodiscard]] bool writable(std::string_view path) const;
  // The contents without trailing white space; nullopt when it cannot be read. Reads at most 16 MiB.
  [[nodiscard]] std::optional<std::string> read(std::string_view path) const;
  // The contents as a number; nullopt if they are not a number.
  [[nodiscard]] std::optional<uint64_t> read_number(std::string_view path) const;
  [[nodiscard]] std::vector<std::string> lines(std::string_view path) const;
  // The names in a folder, sorted; empty when there is none.
  [[nodiscard]] std::vector<std::string> list(std::string_view path) const;

  struct Space {
    uint64_t total_bytes;
    uint64_t free_bytes;
  };
  [[nodiscard]] std::optional<Space> space(std::string_view path) const;

 private:
  [[nodiscard]] std::string resolve(std::string_view path) const { return root_ + "/" + std::string(path); }

  std::string root_;
};

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_DOCTOR_SYSROOT_H_
