// SPDX-License-Identifier: Apache-2.0
#include "admin/flags.h"

#include <gflags/gflags.h>

DEFINE_string(
    pool, "",
    "PATH[,PATH...]|the pool: a file, a device, shm://NAME/POOL or rdma://HOST:PORT/POOL, or one per target, always "
    "in the same order; of a new pool each may end in ?role=log or ?role=dnodes");
DEFINE_bool(create, false, "|make the pool first when there is none");
DEFINE_string(bytes, "1G",
              "SIZE|size of each target of a new pool, e.g. 64M, 1G; of a copy by default twice what its records need");
DEFINE_string(log_bytes, "0", "SIZE|part of a new pool that is log; 0: a tenth");
DEFINE_string(key, "bytes", "bytes|fixed8|keys of a new pool: byte strings, or 64-bit integers given in decimal");
DEFINE_string(
    layout, "none",
    "none|software|hardware|of a new pool of several targets: whether units of data take turns among them, split by "
    "the client (software) or by address translation (hardware)");
DEFINE_string(unit, "64K", "SIZE|units of a striped pool, a power of two from 256 to 1M");
DEFINE_string(durability, "durable", "durable|buffered|when updates are safe: on return, or within 10 ms");
DEFINE_string(domain, "auto", "auto|adr|eadr|which stores survive a crash: flushed lines (adr) or all (eadr)");
DEFINE_string(medium, "auto", "auto|shadow|emulator|how the bytes of --pool are written; all but auto are for tests");
DEFINE_string(secret_file, "", "FILE|of remote targets: the secret of their nodes (default: $BONSAI_SECRET_FILE)");
DEFINE_uint32(fabric_wait_ms_max, 5000, "N|of remote targets: how long each wait for a node may take");
DEFINE_bool(allow_missing, false, "|go on without targets that cannot be read: what is left, range by range");
DEFINE_bool(take_over, false, "|take a remote pool from its owner, also from one that is alive: its calls fail then");
DEFINE_uint32(fabric_workers, 4, "N|connections to each remote target; one writes data, the others log and read");
DEFINE_bool(hex, false, "|keys and values are typed and shown as hex bytes");
DEFINE_bool(json, false, "|print JSON");
DEFINE_string(from, "", "KEY|first key (default: the first there is)");
DEFINE_string(after, "", "KEY|begin after this key");
DEFINE_string(end, "", "KEY|stop before this key (default: no end)");
DEFINE_uint64(limit, UINT64_MAX, "N|at most N records (default: all)");
DEFINE_bool(if_absent, false, "|only if the key has no value");
DEFINE_bool(if_present, false, "|only if the key has a value");
DEFINE_string(if_equals, "", "VALUE|only if the key has this value");
DEFINE_string(value_file, "", "FILE|read the value from FILE; - is standard input");
DEFINE_uint64(records, 0, "N|how many records are to be stored");
DEFINE_uint64(key_bytes, 8, "N|bytes of each key; the mean if sizes differ");
DEFINE_uint64(value_bytes, 8, "N|bytes of each value; the mean if sizes differ");
DEFINE_bool(sizes_differ, false, "|keys or values have different sizes, which costs 10 bytes a record");
DEFINE_uint64(updates_per_second, 0,
              "N|puts and deletes, of keys in random order (default: the records are loaded once)");
DEFINE_uint64(targets, 1, "N|the pool is spread over N targets");
DEFINE_uint64(members, 1, "N|each target is held by N nodes");
DEFINE_string(root, "/", "FOLDER|look at the machine whose / is FOLDER (for tests)");
