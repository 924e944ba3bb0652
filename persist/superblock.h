// SPDX-License-Identifier: Apache-2.0
// Superblocks: layout for a new pool, and validation. pool.h reads and writes them.
#ifndef BONSAI_PERSIST_SUPERBLOCK_H_
#define BONSAI_PERSIST_SUPERBLOCK_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bonsai/options.h"
#include "bonsai/status.h"
#include "persist/format.h"

namespace bonsai::persist {

inline constexpr uint64_t kSegmentsMin = 4;  // of a target with a log

// Lays out a new pool over targets of these sizes and roles (kRole..., one for each target). The smallest target with
// dnodes determines the sizes that all have in common; a target that has only a log uses what the log needs. Everything
// but the pool's id is set. Errors: InvalidArgument (no log, no dnodes, too small for them, too few to stripe).
Status lay_out_pool(const Options& options, std::span<const uint64_t> bytes, std::span<const uint64_t> roles,
                    std::vector<Superblock>* superblocks);

// The size of target `target` of a new pool: Options::pool_bytes, or the size of its share of the log if it has only a
// log. Errors: as lay_out_pool().
Status new_target_bytes(const Options& options, std::span<const uint64_t> roles, size_t target, uint64_t* bytes);

// Verifies one copy against its target, which has `bytes` bytes. Errors: NotSupported (foreign, of a version that is
// not read, unfinished), Corruption.
Status verify_superblock(const Superblock& sb, const std::string& path, uint64_t bytes);

// Whether the parts of a target follow each other as lay_out_pool() makes them, and end with the target. Other numbers
// under a right checksum come from a faulty program.
bool sound_layout(const Superblock& sb);

// The superblock, as the newest version would write it. Requires: verified.
Superblock of_newest_version(const Superblock& sb);

// Whether targets that are named together are the targets of one pool, each once and in order. Requires: each verified.
// Errors: InvalidArgument; Corruption (they contradict each other).
Status verify_together(const std::vector<Superblock>& superblocks, const std::vector<std::string>& paths);

// The end of messages about files that are no pool.
std::string other_path_remedy();

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_SUPERBLOCK_H_
