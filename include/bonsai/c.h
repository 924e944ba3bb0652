/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of Bonsai, similar to leveldb/c.h. Its ABI is stable, and all language bindings use it. C99 and C++.
   bonsai/db.h defines the operations; this file documents only what is specific to C.

   Results. Every function that can fail returns a BONSAI_* code, BONSAI_OK (0) on success. Its last parameter, errptr,
   receives the message and may be NULL. Otherwise *errptr must be NULL or the message of an earlier call. A failure
   frees the old message and stores a new one, "<code name>: <what, and what to do>", to be freed with bonsai_free();
   success leaves *errptr unchanged. So one `char* err = NULL;` serves any number of calls. Only the code decides
   whether a call failed; the message may be NULL when memory has run out. BONSAI_NOT_FOUND and BONSAI_CONDITION_FAILED
   are results and set no message.

   Memory. Opaque objects are freed by their own _destroy, _release or _close function, for which NULL is a no-op.
   Values, texts and messages that the library returns are freed with bonsai_free(). _create functions return NULL
   only when memory has run out. The library keeps no argument after a call, except the log sink, and the arguments of
   session operations until these have ended. Pointers may be NULL only where stated.

   Bytes. A key or value is a pointer and a length; it may contain zero bytes. A NULL pointer with length 0 is the empty
   string; a NULL pointer or array with a length or count above 0 is BONSAI_INVALID_ARGUMENT. Booleans are unsigned
   char, 0 or 1.

   Threads. Any number of threads may use a bonsai_t at once, except in bonsai_close(). Every other object belongs to
   one thread at a time, but several threads may read through one snapshot. No C++ exception crosses this interface.
   Callbacks must not throw, longjmp or close the store. Scan visitors may call the store (bonsai/rows.h); the log sink
   must not.

   Stability. Functions and constants are added, never changed or removed, within one major version. */
#ifndef BONSAI_C_H_
#define BONSAI_C_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BONSAI_EXPORT __attribute__((visibility("default")))
#else
#define BONSAI_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version: of this header, and of the loaded library ---- */

#define BONSAI_VERSION_MAJOR 0
#define BONSAI_VERSION_MINOR 1
#define BONSAI_VERSION_PATCH 0
#define BONSAI_VERSION_STRING "0.1.0"
/* 10000 * major + 100 * minor + patch, for #if */
#define BONSAI_VERSION_NUMBER (10000 * BONSAI_VERSION_MAJOR + 100 * BONSAI_VERSION_MINOR + BONSAI_VERSION_PATCH)

BONSAI_EXPORT const char* bonsai_version(void); /* e.g. "0.1.0"; static */
BONSAI_EXPORT int bonsai_version_number(void);

/* ---- codes ---- */

enum {
  BONSAI_OK = 0,
  BONSAI_NOT_FOUND = 1,        /* the key has no value */
  BONSAI_INVALID_ARGUMENT = 2, /* an argument is out of bounds; nothing changed */
  BONSAI_NO_SPACE = 3,         /* log, pool, DRAM budget or memory is full; nothing changed; deletes still work */
  BONSAI_CORRUPTION = 4,       /* stored bytes fail their checksum */
  BONSAI_IO_ERROR = 5,         /* the operating system reported an error */
  BONSAI_UNAVAILABLE = 6,      /* a wait timed out, or a node does not answer; an update may or may not take effect */
  BONSAI_BUSY = 7,             /* open elsewhere, or a snapshot, iterator or session is still open */
  BONSAI_NOT_SUPPORTED = 8,    /* this build, medium or format version cannot do it */
  BONSAI_CONDITION_FAILED = 9  /* a condition of the update does not hold; nothing changed */
};

BONSAI_EXPORT const char* bonsai_code_name(int code); /* e.g. "not found"; static; "unknown" for others */

/* Frees what the library returned: values, texts, messages. */
BONSAI_EXPORT void bonsai_free(void* pointer);

/* ---- bounds ---- */

#define BONSAI_KEY_BYTES_MIN 1
#define BONSAI_KEY_BYTES_MAX 1024
#define BONSAI_VALUE_BYTES_MAX 16777216
#define BONSAI_POOL_BYTES_MIN 65536
#define BONSAI_SESSION_DEPTH_MAX 1024

/* ---- types ---- */

typedef struct bonsai_t bonsai_t;
typedef struct bonsai_options_t bonsai_options_t;
typedef struct bonsai_readoptions_t bonsai_readoptions_t;
typedef struct bonsai_writebatch_t bonsai_writebatch_t;
typedef struct bonsai_snapshot_t bonsai_snapshot_t;
typedef struct bonsai_iterator_t bonsai_iterator_t;
typedef struct bonsai_session_t bonsai_session_t;
typedef struct bonsai_stats_t bonsai_stats_t;
typedef struct bonsai_check_report_t bonsai_check_report_t;

/* Called with the share of a long call that is done, 0..1, by the thread that made the call. */
typedef void (*bonsai_progress)(void* arg, double done);

/* ---- options of bonsai_open: bonsai/options.h documents each and its default ----
   After a setter was given an unknown value, bonsai_open() returns BONSAI_INVALID_ARGUMENT. */

enum { BONSAI_KEY_BYTES = 0, BONSAI_KEY_FIXED8 = 1 };
/* Medium and durability mode. BONSAI_MEDIUM_DRAM and BONSAI_VOLATILE require each other. */
enum { BONSAI_MEDIUM_AUTO = 0, BONSAI_MEDIUM_DRAM = 1 };
enum { BONSAI_DURABLE = 0, BONSAI_BUFFERED = 1, BONSAI_VOLATILE = 2 };
enum { BONSAI_LAYOUT_NONE = 0, BONSAI_LAYOUT_SOFTWARE = 1, BONSAI_LAYOUT_HARDWARE = 2 };
enum { BONSAI_PERSISTENCE_DOMAIN_AUTO = 0, BONSAI_PERSISTENCE_DOMAIN_ADR = 1, BONSAI_PERSISTENCE_DOMAIN_EADR = 2 };

BONSAI_EXPORT bonsai_options_t* bonsai_options_create(void);
BONSAI_EXPORT void bonsai_options_destroy(bonsai_options_t* options);
BONSAI_EXPORT void bonsai_options_set_create_if_missing(bonsai_options_t* options, unsigned char on);
BONSAI_EXPORT void bonsai_options_set_error_if_exists(bonsai_options_t* options, unsigned char on);
BONSAI_EXPORT void bonsai_options_set_key_format(bonsai_options_t* options, int key_format);
BONSAI_EXPORT void bonsai_options_set_any_key_format(bonsai_options_t* options, unsigned char on);
BONSAI_EXPORT void bonsai_options_set_pool_bytes(bonsai_options_t* options, uint64_t bytes);
BONSAI_EXPORT void bonsai_options_set_grow_bytes(bonsai_options_t* options, uint64_t bytes);
BONSAI_EXPORT void bonsai_options_set_log_bytes(bonsai_options_t* options, uint64_t bytes);
BONSAI_EXPORT void bonsai_options_set_layout(bonsai_options_t* options, int layout);
BONSAI_EXPORT void bonsai_options_set_stripe_unit_bytes(bonsai_options_t* options, uint64_t bytes);
BONSAI_EXPORT void bonsai_options_set_medium(bonsai_options_t* options, int medium);
/* Opens an existing pool to look at it: changes nothing, and needs no permission to (bonsai/options.h, read_only). */
BONSAI_EXPORT void bonsai_options_set_read_only(bonsai_options_t* options, unsigned char on);
BONSAI_EXPORT void bonsai_options_set_persistence_domain(bonsai_options_t* options, int domain);
BONSAI_EXPORT void bonsai_options_set_durability(bonsai_options_t* options, int durability);
BONSAI_EXPORT void bonsai_options_set_buffered_window_ms(bonsai_options_t* options, uint32_t milliseconds);
BONSAI_EXPORT void bonsai_options_set_background_threads(bonsai_options_t* options, uint32_t threads);
BONSAI_EXPORT void bonsai_options_set_recovery_threads(bonsai_options_t* options, uint32_t threads);
/* NULL: no messages. */
BONSAI_EXPORT void bonsai_options_set_open_progress(bonsai_options_t* options, bonsai_progress progress, void* arg);
BONSAI_EXPORT void bonsai_options_set_stall_ms_max(bonsai_options_t* options, uint32_t milliseconds);
BONSAI_EXPORT void bonsai_options_set_snapshots_max(bonsai_options_t* options, uint32_t snapshots);
BONSAI_EXPORT void bonsai_options_set_metadata_upload(bonsai_options_t* options, unsigned char on);
/* Remote targets. `path` is copied. NULL: the file that the variable BONSAI_SECRET_FILE names, else none. */
BONSAI_EXPORT void bonsai_options_set_fabric_secret_file(bonsai_options_t* options, const char* path);
BONSAI_EXPORT void bonsai_options_set_fabric_wait_ms_max(bonsai_options_t* options, uint32_t milliseconds);
BONSAI_EXPORT void bonsai_options_set_fabric_workers(bonsai_options_t* options, uint32_t workers);
BONSAI_EXPORT void bonsai_options_set_take_over(bonsai_options_t* options, unsigned char on);
BONSAI_EXPORT void bonsai_options_set_scrub_bytes_per_s(bonsai_options_t* options, uint64_t bytes);

/* severity is 'I', 'W' or 'E'; the message is valid during the call and is not zero-terminated. May be called from any
   thread until bonsai_close() has returned. NULL: no messages. */
typedef void (*bonsai_log_sink)(void* arg, char severity, const char* message, size_t message_bytes);
BONSAI_EXPORT void bonsai_options_set_log_sink(bonsai_options_t* options, bonsai_log_sink sink, void* arg);

/* ---- open and close ---- */

/* Opens the pool at path (comma-separated targets, none empty) and stores it in *db; NULL on failure. options may be
   NULL: defaults. */
BONSAI_EXPORT int bonsai_open(const bonsai_options_t* options, const char* path, bonsai_t** db, char** errptr);

/* Syncs, closes and frees. While a snapshot, iterator or session is still open, returns BONSAI_BUSY and db stays open.
   After any other code db has been freed. db may be NULL: nothing is done. */
BONSAI_EXPORT int bonsai_close(bonsai_t* db, char** errptr);

/* ---- updates ---- */

BONSAI_EXPORT int bonsai_put(bonsai_t* db, const char* key, size_t key_bytes, const char* value, size_t value_bytes,
                             char** errptr);
BONSAI_EXPORT int bonsai_delete(bonsai_t* db, const char* key, size_t key_bytes, char** errptr);
BONSAI_EXPORT int bonsai_write(bonsai_t* db, const bonsai_writebatch_t* batch, char** errptr);

/* What must hold of a key for a conditional update: bonsai/condition.h. What the kind does not need is ignored. */
enum { BONSAI_IF_ABSENT = 0, BONSAI_IF_PRESENT = 1, BONSAI_IF_EQUALS = 2, BONSAI_IF_UNCHANGED = 3 };
typedef struct {
  int kind;
  const char* value; /* BONSAI_IF_EQUALS */
  size_t value_bytes;
  const bonsai_snapshot_t* snapshot; /* BONSAI_IF_UNCHANGED */
} bonsai_condition_t;

/* Updates that take effect if the condition holds, at one moment; else BONSAI_CONDITION_FAILED. */
BONSAI_EXPORT int bonsai_put_if(bonsai_t* db, const bonsai_condition_t* condition, const char* key, size_t key_bytes,
                                const char* value, size_t value_bytes, char** errptr);
BONSAI_EXPORT int bonsai_delete_if(bonsai_t* db, const bonsai_condition_t* condition, const char* key, size_t key_bytes,
                                   char** errptr);
/* Adds `by` to the decimal number that is the key's value; no value counts as 0. *result, the sum, may be NULL. */
BONSAI_EXPORT int bonsai_increment(bonsai_t* db, const char* key, size_t key_bytes, int64_t by, int64_t* result,
                                   char** errptr);
/* As bonsai_write(). With BONSAI_CONDITION_FAILED *failed, which may be NULL, is the number of a condition that does
   not hold, counted from 0 in the order of the calls of bonsai_writebatch_require(). */
BONSAI_EXPORT int bonsai_write_if(bonsai_t* db, const bonsai_writebatch_t* batch, size_t* failed, char** errptr);

/* The largest batch that bonsai_write() always accepts: key, value and 32 bytes for each update. */
BONSAI_EXPORT uint64_t bonsai_batch_bytes_max(const bonsai_t* db);

/* A batch is applied atomically. It owns copies of keys and values, and may be cleared and reused. Its put and delete
   fail only when memory has run out or a NULL pointer has a length; bonsai_write() checks bounds. */
BONSAI_EXPORT bonsai_writebatch_t* bonsai_writebatch_create(void);
BONSAI_EXPORT void bonsai_writebatch_destroy(bonsai_writebatch_t* batch);
BONSAI_EXPORT void bonsai_writebatch_clear(bonsai_writebatch_t* batch);
BONSAI_EXPORT int bonsai_writebatch_put(bonsai_writebatch_t* batch, const char* key, size_t key_bytes,
                                        const char* value, size_t value_bytes, char** errptr);
BONSAI_EXPORT int bonsai_writebatch_delete(bonsai_writebatch_t* batch, const char* key, size_t key_bytes,
                                           char** errptr);
/* The batch is applied only if the condition holds of the key, whether it updates the key or not. Copies the value; the
   snapshot must outlive the write. */
BONSAI_EXPORT int bonsai_writebatch_require(bonsai_writebatch_t* batch, const bonsai_condition_t* condition,
                                            const char* key, size_t key_bytes, char** errptr);
BONSAI_EXPORT size_t bonsai_writebatch_count(const bonsai_writebatch_t* batch);

/* Waits until all updates that have returned are durable (needed only in mode BONSAI_BUFFERED). */
BONSAI_EXPORT int bonsai_sync(bonsai_t* db, char** errptr);
/* Moves all buffered updates into dnodes and frees the log. The codes are those of DB::Drain(). */
BONSAI_EXPORT int bonsai_drain(bonsai_t* db, char** errptr);

/* ---- reads: readoptions may be NULL: the current state ---- */

BONSAI_EXPORT bonsai_readoptions_t* bonsai_readoptions_create(void);
BONSAI_EXPORT void bonsai_readoptions_destroy(bonsai_readoptions_t* options);
/* Reads as of `snapshot`, which must outlive every use of the options; NULL: the current state. */
BONSAI_EXPORT void bonsai_readoptions_set_snapshot(bonsai_readoptions_t* options, const bonsai_snapshot_t* snapshot);
/* For scans and iterators. 1 (the default): the checksum of every record is verified before the record is returned, so
   that damage is reported and never returned. 0: only one range of records in 64 is verified, which is faster; damaged
   records may be returned as if they were sound. Gets always verify. */
BONSAI_EXPORT void bonsai_readoptions_set_verify_checksums(bonsai_readoptions_t* options, unsigned char verify);
/* 1: scans and counts skip the record at `from`, to continue after the last key of an earlier scan. Default 0. */
BONSAI_EXPORT void bonsai_readoptions_set_from_exclusive(bonsai_readoptions_t* options, unsigned char on);

/* BONSAI_OK when key has a value, else BONSAI_NOT_FOUND. */
BONSAI_EXPORT int bonsai_exists(bonsai_t* db, const bonsai_readoptions_t* options, const char* key, size_t key_bytes,
                                char** errptr);

/* Stores the value in a new *value of *value_bytes bytes, followed by an uncounted zero byte. With any code but
   BONSAI_OK, *value is NULL and *value_bytes is 0. An empty value is a non-NULL pointer with 0 bytes. */
BONSAI_EXPORT int bonsai_get(bonsai_t* db, const bonsai_readoptions_t* options, const char* key, size_t key_bytes,
                             char** value, size_t* value_bytes, char** errptr);

/* Copies the value into `buffer` without allocating. If the value is larger than buffer_bytes, copies nothing, returns
   BONSAI_INVALID_ARGUMENT and sets *value_bytes to the size of the value. */
BONSAI_EXPORT int bonsai_get_into(bonsai_t* db, const bonsai_readoptions_t* options, const char* key, size_t key_bytes,
                                  char* buffer, size_t buffer_bytes, size_t* value_bytes, char** errptr);

/* Gets `count` keys. codes[i] is the result for keys[i]; values[i] and values_bytes[i] are as after bonsai_get().
   Returns BONSAI_OK when every code is BONSAI_OK or BONSAI_NOT_FOUND, else the first other code, with its message. All
   arrays are always filled. */
BONSAI_EXPORT int bonsai_multi_get(bonsai_t* db, const bonsai_readoptions_t* options, size_t count,
                                   const char* const* keys, const size_t* keys_bytes, char** values,
                                   size_t* values_bytes, int* codes, char** errptr);

/* Puts `count` keys; puts of equal keys take effect in this order. Not atomic as a whole. The puts share fences and
   overlap their cache misses. codes[i] is the result for keys[i]; the return value is as for bonsai_multi_get(). */
BONSAI_EXPORT int bonsai_multi_put(bonsai_t* db, size_t count, const char* const* keys, const size_t* keys_bytes,
                                   const char* const* values, const size_t* values_bytes, int* codes, char** errptr);

/* Visits one record of a scan; the pointers are valid during the call. Returns 0 to stop the scan. */
typedef unsigned char (*bonsai_scan_visitor)(void* arg, const char* key, size_t key_bytes, const char* value,
                                             size_t value_bytes);

/* Visits the records from `from` (inclusive; empty: the first) up to `end` (exclusive; empty: no end), at most `limit`
   (UINT64_MAX: all), in ascending order, as of one moment. `from` and `end` may be any bytes of any length. */
BONSAI_EXPORT int bonsai_scan(bonsai_t* db, const bonsai_readoptions_t* options, const char* from, size_t from_bytes,
                              const char* end, size_t end_bytes, uint64_t limit, bonsai_scan_visitor visitor, void* arg,
                              char** errptr);

/* Adjacent records: key i is the key_bytes at keys + i * stride_bytes, value i the value_bytes at
   values + i * stride_bytes. The bytes are valid during the call of the visitor. */
typedef struct {
  const char* keys;
  const char* values;
  size_t count, stride_bytes, key_bytes, value_bytes;
} bonsai_rows_t;
typedef unsigned char (*bonsai_rows_visitor)(void* arg, const bonsai_rows_t* rows);

/* As bonsai_scan(), but passes groups of adjacent records: the fastest way to scan many records. */
BONSAI_EXPORT int bonsai_scan_rows(bonsai_t* db, const bonsai_readoptions_t* options, const char* from,
                                   size_t from_bytes, const char* end, size_t end_bytes, uint64_t limit,
                                   bonsai_rows_visitor visitor, void* arg, char** errptr);

/* Stores in *count the number of records that bonsai_scan() would visit, as of one moment; reads no values. */
BONSAI_EXPORT int bonsai_count(bonsai_t* db, const bonsai_readoptions_t* options, const char* from, size_t from_bytes,
                               const char* end, size_t end_bytes, uint64_t limit, uint64_t* count, char** errptr);

/* Deletes the records that bonsai_scan() would visit, all at one moment, as DB::DeleteRange() does; `options` may only
   say whether to begin after `from`. *deleted, their number, may be NULL. BONSAI_INVALID_ARGUMENT: they are more than
   fit into one batch, and nothing is deleted; the message has a limit that fits. */
BONSAI_EXPORT int bonsai_delete_range(bonsai_t* db, const bonsai_readoptions_t* options, const char* from,
                                      size_t from_bytes, const char* end, size_t end_bytes, uint64_t limit,
                                      uint64_t* deleted, char** errptr);

/* A point in the store's history, for bonsai_readoptions_set_snapshot(). Release it before bonsai_close(). */
BONSAI_EXPORT int bonsai_snapshot_create(bonsai_t* db, bonsai_snapshot_t** snapshot, char** errptr);
BONSAI_EXPORT void bonsai_snapshot_release(bonsai_snapshot_t* snapshot);

/* An iterator reads as of its snapshot, else as of the call of bonsai_iter_create(). It has no position before the
   first seek. The seek target may be any bytes. _seek: the first record at or after key; _seek_after: the first one
   after it; _seek_for_prev: the last one at or before it; _seek_before: the last one before it. Call key, value, next
   and prev only while the iterator is valid; the results of key and value are valid until the next seek, next, prev or
   destroy. After a failure, also a seek to NULL with a length, the iterator is not valid and bonsai_iter_status()
   returns the error. Destroy it before bonsai_close(), and before releasing the snapshot that it reads. */
BONSAI_EXPORT bonsai_iterator_t* bonsai_iter_create(bonsai_t* db, const bonsai_readoptions_t* options);
BONSAI_EXPORT void bonsai_iter_destroy(bonsai_iterator_t* iterator);
BONSAI_EXPORT unsigned char bonsai_iter_valid(const bonsai_iterator_t* iterator);
BONSAI_EXPORT void bonsai_iter_seek_to_first(bonsai_iterator_t* iterator);
BONSAI_EXPORT void bonsai_iter_seek_to_last(bonsai_iterator_t* iterator);
BONSAI_EXPORT void bonsai_iter_seek(bonsai_iterator_t* iterator, const char* key, size_t key_bytes);
BONSAI_EXPORT void bonsai_iter_seek_for_prev(bonsai_iterator_t* iterator, const char* key, size_t key_bytes);
BONSAI_EXPORT void bonsai_iter_seek_after(bonsai_iterator_t* iterator, const char* key, size_t key_bytes);
BONSAI_EXPORT void bonsai_iter_seek_before(bonsai_iterator_t* iterator, const char* key, size_t key_bytes);
BONSAI_EXPORT void bonsai_iter_next(bonsai_iterator_t* iterator);
BONSAI_EXPORT void bonsai_iter_prev(bonsai_iterator_t* iterator);
BONSAI_EXPORT const char* bonsai_iter_key(const bonsai_iterator_t* iterator, size_t* key_bytes);
BONSAI_EXPORT const char* bonsai_iter_value(const bonsai_iterator_t* iterator, size_t* value_bytes);
BONSAI_EXPORT int bonsai_iter_status(const bonsai_iterator_t* iterator, char** errptr);

/* ---- sessions: many operations of one thread in flight at once, several times faster than one call after the other on
   a store that is larger than the caches (bonsai/session.h has the guarantees) ----

     bonsai_result_t results[32];
     for (i = 0; i < 32; ++i) bonsai_session_get(session, keys[i], 8, values[i], sizeof values[i], &results[i]);
     code = bonsai_session_wait(session, &err);
     for (i = 0; i < 32; ++i) if (results[i].code == BONSAI_OK) use(values[i], results[i].value_bytes);

   An operation begins with its call and has ended when bonsai_session_wait() returns, or earlier: a call that finds
   `depth` operations in flight waits for them first. Until an operation has ended, its arguments, the buffer and
   *result must stay valid and in place. Operations on one key take effect in the order of their calls: a get or a scan
   sees the session's earlier updates of a key, and none of its later ones. No other order is promised. A session
   belongs to one thread at a time. */

/* The result of a session operation. */
typedef struct {
  int code;           /* BONSAI_IN_FLIGHT until it has ended */
  size_t value_bytes; /* a get: the size of the value, also if the buffer is too small for it; else 0 */
} bonsai_result_t;
enum { BONSAI_IN_FLIGHT = -1 };

/* A session of up to `depth` operations in flight, 1 to BONSAI_SESSION_DEPTH_MAX; more than 32 gain little. Stores the
   session in *session; NULL on failure. Destroy it before bonsai_close(). */
BONSAI_EXPORT int bonsai_session_create(bonsai_t* db, size_t depth, bonsai_session_t** session, char** errptr);
/* Waits for the operations in flight first. */
BONSAI_EXPORT void bonsai_session_destroy(bonsai_session_t* session);

/* Begins an operation; *result will hold the result of the function of the same name. `result` may be NULL: then only
   bonsai_session_wait() reports a failure. A get copies the value into `buffer`, as bonsai_get_into() does. */
BONSAI_EXPORT void bonsai_session_get(bonsai_session_t* session, const char* key, size_t key_bytes, char* buffer,
                                      size_t buffer_bytes, bonsai_result_t* result);
BONSAI_EXPORT void bonsai_session_put(bonsai_session_t* session, const char* key, size_t key_bytes, const char* value,
                                      size_t value_bytes, bonsai_result_t* result);
BONSAI_EXPORT void bonsai_session_delete(bonsai_session_t* session, const char* key, size_t key_bytes,
                                         bonsai_result_t* result);
BONSAI_EXPORT void bonsai_session_put_if(bonsai_session_t* session, const bonsai_condition_t* condition,
                                         const char* key, size_t key_bytes, const char* value, size_t value_bytes,
                                         bonsai_result_t* result);
BONSAI_EXPORT void bonsai_session_delete_if(bonsai_session_t* session, const bonsai_condition_t* condition,
                                            const char* key, size_t key_bytes, bonsai_result_t* result);
BONSAI_EXPORT void bonsai_session_increment(bonsai_session_t* session, const char* key, size_t key_bytes, int64_t by,
                                            int64_t* sum, bonsai_result_t* result);
/* bonsai_session_wait(), or a call that waits, calls the visitor before the operation has ended, perhaps on a stack of
   256 KiB. The visitor must not use a session. */
BONSAI_EXPORT void bonsai_session_scan(bonsai_session_t* session, const bonsai_readoptions_t* options, const char* from,
                                       size_t from_bytes, const char* end, size_t end_bytes, uint64_t limit,
                                       bonsai_scan_visitor visitor, void* arg, bonsai_result_t* result);

/* Returns when all operations have ended: BONSAI_OK if every operation begun since the last wait has the code
   BONSAI_OK, BONSAI_NOT_FOUND or BONSAI_CONDITION_FAILED, else one of the other codes, with its message. */
BONSAI_EXPORT int bonsai_session_wait(bonsai_session_t* session, char** errptr);
BONSAI_EXPORT size_t bonsai_session_in_flight(const bonsai_session_t* session);

/* ---- fixed8 keys: 8 bytes, big-endian, so that bytewise order is numeric order ---- */

BONSAI_EXPORT void bonsai_fixed8_encode(uint64_t number, char key[8]);
BONSAI_EXPORT uint64_t bonsai_fixed8_decode(const char key[8]);

/* ---- statistics: a copy of all counters, by name (the members of bonsai::Stats, e.g. "puts", "dram_bytes") ---- */

BONSAI_EXPORT bonsai_stats_t* bonsai_stats_create(const bonsai_t* db);
BONSAI_EXPORT void bonsai_stats_destroy(bonsai_stats_t* stats);
BONSAI_EXPORT size_t bonsai_stats_count(const bonsai_stats_t* stats);
BONSAI_EXPORT const char* bonsai_stats_name(const bonsai_stats_t* stats, size_t index); /* static; NULL past the end */
BONSAI_EXPORT uint64_t bonsai_stats_value(const bonsai_stats_t* stats, size_t index);   /* 0 past the end */
/* Stores the value of `name` in *value; BONSAI_NOT_FOUND if this library has no such counter. */
BONSAI_EXPORT int bonsai_stats_find(const bonsai_stats_t* stats, const char* name, uint64_t* value);
BONSAI_EXPORT const char* bonsai_stats_medium(const bonsai_stats_t* stats); /* valid as long as stats */
BONSAI_EXPORT unsigned char bonsai_stats_emulated(const bonsai_stats_t* stats);
BONSAI_EXPORT int bonsai_stats_key_format(const bonsai_stats_t* stats);
BONSAI_EXPORT int bonsai_stats_layout(const bonsai_stats_t* stats);

/* ---- pools that are not open ---- */

/* Verifies a pool without changing it. BONSAI_OK means that the check ran; *report lists the damage (NULL with any
   other code). progress may be NULL. */
BONSAI_EXPORT int bonsai_check(const char* path, bonsai_progress progress, void* arg, bonsai_check_report_t** report,
                               char** errptr);
BONSAI_EXPORT void bonsai_check_report_destroy(bonsai_check_report_t* report);
BONSAI_EXPORT size_t bonsai_check_report_damages(const bonsai_check_report_t* report); /* 0: no key is affected */
/* The texts of one damage are valid as long as the report; NULL past the end. key_range is empty if no key is hit. */
BONSAI_EXPORT const char* bonsai_check_report_where(const bonsai_check_report_t* report, size_t index);
BONSAI_EXPORT const char* bonsai_check_report_what(const bonsai_check_report_t* report, size_t index);
BONSAI_EXPORT const char* bonsai_check_report_key_range(const bonsai_check_report_t* report, size_t index);
/* What opening the pool will repair, because it is known from elsewhere; texts as those of damages. */
BONSAI_EXPORT size_t bonsai_check_report_repairs(const bonsai_check_report_t* report);
BONSAI_EXPORT const char* bonsai_check_report_repair_where(const bonsai_check_report_t* report, size_t index);
BONSAI_EXPORT const char* bonsai_check_report_repair_what(const bonsai_check_report_t* report, size_t index);
/* 1 if the pool was closed properly: nothing to recover. */
BONSAI_EXPORT unsigned char bonsai_check_report_clean(const bonsai_check_report_t* report);
/* Counts by name: targets, dnodes, records, log_records, large_values, data_bytes, data_bytes_used. */
BONSAI_EXPORT int bonsai_check_report_find(const bonsai_check_report_t* report, const char* name, uint64_t* value);

/* ---- copies: `options` (NULL: defaults) are those of the new pool at `to`; bonsai/db.h states what is copied ---- */

/* Copies an open store, as of a snapshot (NULL: now), into a new pool. *records: how many; records may be NULL. */
BONSAI_EXPORT int bonsai_checkpoint(bonsai_t* db, const bonsai_options_t* options, const char* to,
                                    const bonsai_snapshot_t* snapshot, uint64_t* records, char** errptr);

/* Copies everything that passes its checks from a damaged pool that is not open. BONSAI_OK even if something is lost;
   the losses are the damages of *report (NULL with any other code). Its count "records" is the number copied. */
BONSAI_EXPORT int bonsai_salvage(const char* from, const bonsai_options_t* options, const char* to,
                                 bonsai_progress progress, void* arg, bonsai_check_report_t** report, char** errptr);

/* The members of the targets that several nodes hold, and which are in sync, as text (bonsai/groups.h): what an open
   store knows; what the nodes of a pool say, whoever has it open. *text is empty where there are none. Free it with
   bonsai_free(). */
BONSAI_EXPORT int bonsai_describe_groups(const bonsai_t* db, char** text, char** errptr);
BONSAI_EXPORT int bonsai_describe_pool_groups(const char* path, char** text, char** errptr);
/* Compares all that the members hold now, and repairs damage (ScrubGroups in bonsai/groups.h). */
BONSAI_EXPORT int bonsai_scrub_groups(bonsai_t* db, char** errptr);

/* Describes the medium that a pool at path would have; path need not exist. Free *text with bonsai_free(). */
BONSAI_EXPORT int bonsai_describe_medium(const char* path, char** text, char** errptr);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* BONSAI_C_H_ */
