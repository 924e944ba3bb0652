// SPDX-License-Identifier: Apache-2.0
// The text form of a pool's records (docs/dump.md), read back.
#ifndef BONSAI_ADMIN_DUMP_H_
#define BONSAI_ADMIN_DUMP_H_

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "admin/text.h"
#include "bonsai/db.h"

namespace bonsai::admin {

inline constexpr std::string_view kDumpTitle = "bonsai-dump 1 ";

// How a dump names the form of the keys.
std::string_view key_format_name(KeyFormat format);

// Reads the first line of a dump: the form of its keys. Errors: InvalidArgument (no dump).
Status read_dump_title(FILE* in, KeyFormat* format);

// Errors: InvalidArgument (a dump with keys of the one form cannot be loaded into a pool of the other).
Status check_dump_keys(KeyFormat of_dump, KeyFormat of_pool);

// Puts the records of the dump `in`, whose first line was read, into `db`, whose keys are of the form `keys.format`,
// that of the dump. Ends early when `stop_signal` returns another number than 0. *records is how many are there, after
// an error too. Errors: InvalidArgument (a damaged dump: the line, and what it should be), Unavailable (it was
// stopped), those of DB::Put.
Status load_dump(FILE* in, DB* db, const KeyText& keys, int (*stop_signal)(), uint64_t* records);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_DUMP_H_
