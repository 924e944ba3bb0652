// SPDX-License-Identifier: Apache-2.0
// The flags of `bonsai`; flag_parser.h parses them.
#ifndef BONSAI_ADMIN_FLAGS_H_
#define BONSAI_ADMIN_FLAGS_H_

#include <gflags/gflags_declare.h>

#include "admin/flag_parser.h"

DECLARE_string(pool);
DECLARE_bool(create);
DECLARE_string(bytes);
DECLARE_string(log_bytes);
DECLARE_string(key);
DECLARE_string(layout);
DECLARE_string(unit);
DECLARE_string(durability);
DECLARE_string(domain);
DECLARE_string(medium);
DECLARE_string(secret_file);
DECLARE_uint32(fabric_wait_ms_max);
DECLARE_uint32(fabric_workers);
DECLARE_bool(allow_missing);
DECLARE_bool(take_over);
DECLARE_bool(hex);
DECLARE_bool(json);
DECLARE_string(from);
DECLARE_string(after);
DECLARE_string(end);
DECLARE_uint64(limit);
DECLARE_bool(if_absent);
DECLARE_bool(if_present);
DECLARE_string(if_equals);
DECLARE_string(value_file);
DECLARE_string(root);
DECLARE_uint64(records);
DECLARE_uint64(key_bytes);
DECLARE_uint64(value_bytes);
DECLARE_bool(sizes_differ);
DECLARE_uint64(updates_per_second);
DECLARE_uint64(targets);
DECLARE_uint64(members);

#endif  // BONSAI_ADMIN_FLAGS_H_
