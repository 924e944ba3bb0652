// SPDX-License-Identifier: Apache-2.0
// Reads the text form of a pool's records (docs/dump.md).
#ifndef BONSAI_ADMIN_DUMP_H_
#define BONSAI_ADMIN_DUMP_H_

#include <cstdint>
#include <cstdio>
#include <string_view>

#include "admin/text.h"
#include "bonsai/db.h"

namespace bonsai::admin {

inline constexpr std::string_view kDumpTitle = "bonsai-dump 1 ";

// The name of a key form in a dump.
std::string_view key_format_name(KeyFormat format);

// Reads the first line of a dump: the form of its keys. Errors: InvalidArgument (no dump).
Status read_dump_title(FILE* in, KeyFormat* format);

// Checks that both key forms are equal. Errors: InvalidArgument (a dump cannot be loaded into a pool with the other key
// form).
Status check_dump_keys(KeyFormat of_dump, KeyFormat of_pool);

// Puts the records of the dump `in` into `db`. Requires: the first line of `in` was read; both have keys of the form
// `keys.format`. Ends early if `stop_signal` returns a number other than 0. *records is the number of records put,
// after an error, too. Errors: InvalidArgument (a damaged dump: the line, and its expected form), Unavailable
// (stopped), those of DB::Put.
Status load_dump(FILE* in, DB* db, const KeyText& keys, int (*stop_signal)(), uint64_t* records);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_DUMP_H_
