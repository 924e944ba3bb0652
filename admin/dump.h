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

// Puts the records of the dump `in` into `db`, whose keys are of the form `keys.format`. *records is how many are
// there, after an error too. Errors: InvalidArgument (no dump, or a damaged one: the line, and what it should be),
// those of DB::Put.
Status load_dump(FILE* in, DB* db, const KeyText& keys, uint64_t* records);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_DUMP_H_
