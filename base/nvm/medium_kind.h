// SPDX-License-Identifier: Apache-2.0
// The kind of medium of a file or device: detected, never assumed, and printed on every result.
#ifndef BONSAI_BASE_NVM_MEDIUM_KIND_H_
#define BONSAI_BASE_NVM_MEDIUM_KIND_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "bonsai/options.h"
#include "bonsai/status.h"

namespace bonsai::base {

enum class MediumKind : uint8_t {
  kDevdax,   // character device of the dax subsystem (/dev/dax0.0): NVM
  kFsdax,    // file that can be mapped with MAP_SYNC (ext4 or xfs, -o dax): NVM
  kTmpfs,    // memory of this machine: stands for NVM, lost when the machine stops
  kHugetlb,  // the same on huge pages
  kFile,     // file on disk: durable by msync only, slow
  kMemory,   // memory of the process, no file: stands for nothing, and nothing is durable
};

[[nodiscard]] std::string_view medium_kind_name(MediumKind kind);

// Whether the medium only stands for NVM.
[[nodiscard]] constexpr bool is_emulated(MediumKind kind) {
  return kind == MediumKind::kTmpfs || kind == MediumKind::kHugetlb || kind == MediumKind::kFile;
}

// The kind of an open file. Errors: NotSupported (neither a file nor a DAX device; the message names what to use).
Status detect_medium_kind(int fd, const std::string& path, MediumKind* kind);

// `declared` if it is not kAuto. Else, on real NVM, eADR when every NVM region of the platform reports that its domain
// includes the caches; ADR otherwise. A medium that only stands for NVM counts as ADR.
[[nodiscard]] PersistenceDomain resolve_domain(MediumKind kind, PersistenceDomain declared);

// The instruction that libpmem flushes with on this machine, by CPUID and by libpmem's own PMEM_NO_* environment:
// "clwb", "clflushopt" or "clflush".
[[nodiscard]] std::string_view flush_instruction_name();

// For example "tmpfs (emulated NVM), flush clwb, domain ADR". Requires a resolved domain. A plain file is described as
// written back by msync, or, for media that do not do so, as lost with the machine.
[[nodiscard]] std::string describe_medium(MediumKind kind, PersistenceDomain domain, bool by_msync = true);

// Describes the medium of `path`, or the one that a file created there now would have. Creates and changes nothing.
// Errors: IoError (not readable, directory missing), NotSupported (not usable as a pool).
Status describe_medium(const std::string& path, PersistenceDomain declared, std::string* text);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_MEDIUM_KIND_H_
