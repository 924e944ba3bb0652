// SPDX-License-Identifier: Apache-2.0
// The C interface's operations on an open store. Contract: bonsai/c.h.
#include "bonsai/c.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/check.h"
#include "store/c_types.h"

namespace bonsai::c {
namespace {

// A thread keeps its read buffer between gets up to this size, so that gets of ordinary values allocate once only.
constexpr size_t kReadBufferKeptBytesMax = size_t{1} << 20;

ReadOptions read_options(const bonsai_readoptions_t* options) noexcept {
  return options == nullptr ? ReadOptions() : options->options;
}

// Gets into the thread's buffer and hands the value to `take(std::string_view) -> Status`.
template <typename Take>
Status get_with(bonsai_t* db, const bonsai_readoptions_t* options, const char* key, size_t key_bytes, Take&& take) {
  if (!names_bytes(key, key_bytes)) return null_bytes();
  thread_local std::string buffer;
  Status status = db->db->Get(read_options(options), {key, key_bytes}, &buffer);
  if (status.ok()) status = take(std::string_view(buffer));
  if (buffer.capacity() > kReadBufferKeptBytesMax) std::string().swap(buffer);
  return status;
}

bool all_there(std::initializer_list<const void*> arrays) {
  return std::find(arrays.begin(), arrays.end(), nullptr) == arrays.end();
}

Status null_array() {
  return Status::InvalidArgument("an array is NULL and the count above 0; pass all arrays, or the count 0");
}

Status out_of_memory() { return Status::NoSpace("out of memory for the value; free some and get it again"); }

// Copies the answers of a multi-get out to C arrays; returns the first failure.
Status return_answers(std::span<const std::string> got, std::span<Status> statuses, char** values, size_t* values_bytes,
                      int* codes) {
  BONSAI_CHECK(got.size() == statuses.size());
  Status first_failure;
  for (size_t i = 0; i < got.size(); ++i) {
    if (statuses[i].ok()) {
      values[i] = copy_out(got[i]);
      if (values[i] == nullptr) statuses[i] = out_of_memory();
    }
    if (statuses[i].ok()) values_bytes[i] = got[i].size();
    codes[i] = static_cast<int>(statuses[i].code());
    if (!is_result(statuses[i]) && first_failure.ok()) first_failure = statuses[i];
  }
  return first_failure;
}

Status multi_get(bonsai_t* db, const bonsai_readoptions_t* options, size_t count, const char* const* keys,
                 const size_t* keys_bytes, char** values, size_t* values_bytes, int* codes) {
  std::vector<std::string_view> views(count);
  for (size_t i = 0; i < count; ++i) {
    if (!names_bytes(keys[i], keys_bytes[i])) return null_bytes();
    views[i] = {keys[i], keys_bytes[i]};
  }
  std::vector<std::string> got(count);
  std::vector<Status> statuses(count);
  db->db->MultiGet(read_options(options), views, got, statuses);
  return return_answers(got, statuses, values, values_bytes, codes);
}

Status multi_put(bonsai_t* db, size_t count, const char* const* keys, const size_t* keys_bytes,
                 const char* const* values, const size_t* values_bytes, int* codes) {
  std::vector<std::string_view> key_views(count), value_views(count);
  for (size_t i = 0; i < count; ++i) {
    if (!names_bytes(keys[i], keys_bytes[i]) || !names_bytes(values[i], values_bytes[i])) return null_bytes();
    key_views[i] = {keys[i], keys_bytes[i]};
    value_views[i] = {values[i], values_bytes[i]};
  }
  std::vector<Status> statuses(count);
  db->db->MultiPut(key_views, value_views, statuses);
  Status first_failure;
  for (size_t i = 0; i < count; ++i) {
    codes[i] = static_cast<int>(statuses[i].code());
    if (!statuses[i].ok() && first_failure.ok()) first_failure = statuses[i];
  }
  return first_failure;
}

// Moves an iterator. A move that fails leaves it without a position, and with a status, until the next seek.
template <typename Move>
void move(bonsai_iterator_t* iterator, Move&& move) noexcept {
  iterator->refused = guarded(nullptr, [&] {
    move(*iterator->iterator);
    return Status::OK();
  });
}

template <typename Seek>
void seek(bonsai_iterator_t* iterator, const char* key, size_t key_bytes, Seek&& seek) noexcept {
  if (!names_bytes(key, key_bytes)) {
    iterator->refused = BONSAI_INVALID_ARGUMENT;
    return;
  }
  move(iterator, [&](Iterator& it) { seek(it, std::string_view(key, key_bytes)); });
}

Status open(const bonsai_options_t* options, const char* path, bonsai_t** db) {
  Options how;
  Status status = options_for(options, path, &how);
  if (!status.ok()) return status;
  auto handle = std::make_unique<bonsai_t>();
  status = DB::Open(how, path, &handle->db);
  BONSAI_CHECK(status.ok() == (handle->db != nullptr));
  if (status.ok()) *db = handle.release();
  return status;
}

Status close(bonsai_t* db) {
  std::unique_ptr<bonsai_t> owned(db);
  Status status = db->db->Close();
  if (status.IsBusy()) static_cast<void>(owned.release());
  return status;
}

}  // namespace
}  // namespace bonsai::c

using bonsai::Status;
using bonsai::c::guarded;
using bonsai::c::names_bytes;
using bonsai::c::null_bytes;

extern "C" {

int bonsai_open(const bonsai_options_t* options, const char* path, bonsai_t** db, char** errptr) {
  *db = nullptr;
  return guarded(errptr, [&] { return bonsai::c::open(options, path, db); });
}

int bonsai_close(bonsai_t* db, char** errptr) {
  if (db == nullptr) return BONSAI_OK;
  return guarded(errptr, [&] { return bonsai::c::close(db); });
}

int bonsai_put(bonsai_t* db, const char* key, size_t key_bytes, const char* value, size_t value_bytes, char** errptr) {
  return guarded(errptr, [&] {
    if (!names_bytes(key, key_bytes) || !names_bytes(value, value_bytes)) return null_bytes();
    return db->db->Put({key, key_bytes}, {value, value_bytes});
  });
}

int bonsai_delete(bonsai_t* db, const char* key, size_t key_bytes, char** errptr) {
  return guarded(errptr, [&] { return names_bytes(key, key_bytes) ? db->db->Delete({key, key_bytes}) : null_bytes(); });
}

int bonsai_write(bonsai_t* db, const bonsai_writebatch_t* batch, char** errptr) {
  return guarded(errptr, [&] { return db->db->Write(batch->batch); });
}

int bonsai_write_if(bonsai_t* db, const bonsai_writebatch_t* batch, size_t* failed, char** errptr) {
  return guarded(errptr, [&] { return db->db->Write(batch->batch, failed); });
}

int bonsai_put_if(bonsai_t* db, const bonsai_condition_t* condition, const char* key, size_t key_bytes,
                  const char* value, size_t value_bytes, char** errptr) {
  return guarded(errptr, [&] {
    if (!names_bytes(key, key_bytes) || !names_bytes(value, value_bytes)) return null_bytes();
    return bonsai::c::with_condition(condition, [&](const bonsai::Condition& holds) {
      return db->db->PutIf(holds, {key, key_bytes}, {value, value_bytes});
    });
  });
}

int bonsai_delete_if(bonsai_t* db, const bonsai_condition_t* condition, const char* key, size_t key_bytes,
                     char** errptr) {
  return guarded(errptr, [&] {
    if (!names_bytes(key, key_bytes)) return null_bytes();
    return bonsai::c::with_condition(condition, [&](const bonsai::Condition& holds) {
      return db->db->DeleteIf(holds, {key, key_bytes});
    });
  });
}

int bonsai_increment(bonsai_t* db, const char* key, size_t key_bytes, int64_t by, int64_t* result, char** errptr) {
  return guarded(errptr, [&] {
    return names_bytes(key, key_bytes) ? db->db->Increment({key, key_bytes}, by, result) : null_bytes();
  });
}

uint64_t bonsai_batch_bytes_max(const bonsai_t* db) { return db->db->BatchBytesMax(); }

bonsai_writebatch_t* bonsai_writebatch_create(void) { return bonsai::c::make<bonsai_writebatch_t>(); }
void bonsai_writebatch_destroy(bonsai_writebatch_t* batch) { delete batch; }
void bonsai_writebatch_clear(bonsai_writebatch_t* batch) { batch->batch.Clear(); }
size_t bonsai_writebatch_count(const bonsai_writebatch_t* batch) { return batch->batch.Count(); }

int bonsai_writebatch_put(bonsai_writebatch_t* batch, const char* key, size_t key_bytes, const char* value,
                          size_t value_bytes, char** errptr) {
  return guarded(errptr, [&] {
    if (!names_bytes(key, key_bytes) || !names_bytes(value, value_bytes)) return null_bytes();
    batch->batch.Put({key, key_bytes}, {value, value_bytes});
    return Status::OK();
  });
}

int bonsai_writebatch_delete(bonsai_writebatch_t* batch, const char* key, size_t key_bytes, char** errptr) {
  return guarded(errptr, [&] {
    if (!names_bytes(key, key_bytes)) return null_bytes();
    batch->batch.Delete({key, key_bytes});
    return Status::OK();
  });
}

int bonsai_writebatch_require(bonsai_writebatch_t* batch, const bonsai_condition_t* condition, const char* key,
                              size_t key_bytes, char** errptr) {
  return guarded(errptr, [&] {
    if (!names_bytes(key, key_bytes)) return null_bytes();
    return bonsai::c::with_condition(condition, [&](const bonsai::Condition& holds) {
      batch->batch.Require({key, key_bytes}, holds);
      return Status::OK();
    });
  });
}

int bonsai_sync(bonsai_t* db, char** errptr) {
  return guarded(errptr, [&] { return db->db->Sync(); });
}

int bonsai_drain(bonsai_t* db, char** errptr) {
  return guarded(errptr, [&] { return db->db->Drain(); });
}

bonsai_readoptions_t* bonsai_readoptions_create(void) { return bonsai::c::make<bonsai_readoptions_t>(); }
void bonsai_readoptions_destroy(bonsai_readoptions_t* options) { delete options; }
void bonsai_readoptions_set_verify_checksums(bonsai_readoptions_t* options, unsigned char verify) {
  options->options.verify_checksums = verify != 0;
}
void bonsai_readoptions_set_snapshot(bonsai_readoptions_t* options, const bonsai_snapshot_t* snapshot) {
  options->options.snapshot = snapshot == nullptr ? nullptr : snapshot->snapshot.get();
}

void bonsai_readoptions_set_from_exclusive(bonsai_readoptions_t* options, unsigned char on) {
  options->from_exclusive = on != 0;
}

int bonsai_exists(bonsai_t* db, const bonsai_readoptions_t* options, const char* key, size_t key_bytes, char** errptr) {
  return guarded(errptr, [&] {
    if (!names_bytes(key, key_bytes)) return null_bytes();
    return db->db->Exists(bonsai::c::read_options(options), {key, key_bytes});
  });
}

int bonsai_get(bonsai_t* db, const bonsai_readoptions_t* options, const char* key, size_t key_bytes, char** value,
               size_t* value_bytes, char** errptr) {
  *value = nullptr;
  *value_bytes = 0;
  return guarded(errptr, [&] {
    return bonsai::c::get_with(db, options, key, key_bytes, [&](std::string_view found) {
      *value = bonsai::c::copy_out(found);
      if (*value == nullptr) return bonsai::c::out_of_memory();
      *value_bytes = found.size();
      return Status::OK();
    });
  });
}

int bonsai_get_into(bonsai_t* db, const bonsai_readoptions_t* options, const char* key, size_t key_bytes, char* buffer,
                    size_t buffer_bytes, size_t* value_bytes, char** errptr) {
  *value_bytes = 0;
  return guarded(errptr, [&] {
    if (!names_bytes(buffer, buffer_bytes)) return null_bytes();
    return bonsai::c::get_with(db, options, key, key_bytes, [&](std::string_view found) {
      *value_bytes = found.size();
      return bonsai::c::copy_into(found, buffer, buffer_bytes);
    });
  });
}

int bonsai_multi_get(bonsai_t* db, const bonsai_readoptions_t* options, size_t count, const char* const* keys,
                     const size_t* keys_bytes, char** values, size_t* values_bytes, int* codes, char** errptr) {
  if (count > 0 && !bonsai::c::all_there({keys, keys_bytes, values, values_bytes, codes})) {
    return guarded(errptr, [] { return bonsai::c::null_array(); });
  }
  for (size_t i = 0; i < count; ++i) {
    values[i] = nullptr;
    values_bytes[i] = 0;
    codes[i] = -1;
  }
  const int code = guarded(
      errptr, [&] { return bonsai::c::multi_get(db, options, count, keys, keys_bytes, values, values_bytes, codes); });
  for (size_t i = 0; i < count; ++i) {
    if (codes[i] < 0) codes[i] = code;  // the call failed before it came to this key
  }
  return code;
}

int bonsai_multi_put(bonsai_t* db, size_t count, const char* const* keys, const size_t* keys_bytes,
                     const char* const* values, const size_t* values_bytes, int* codes, char** errptr) {
  if (count > 0 && !bonsai::c::all_there({keys, keys_bytes, values, values_bytes, codes})) {
    return guarded(errptr, [] { return bonsai::c::null_array(); });
  }
  for (size_t i = 0; i < count; ++i) codes[i] = -1;
  const int code =
      guarded(errptr, [&] { return bonsai::c::multi_put(db, count, keys, keys_bytes, values, values_bytes, codes); });
  for (size_t i = 0; i < count; ++i) {
    if (codes[i] < 0) codes[i] = code;  // the call failed before it came to this key
  }
  return code;
}

int bonsai_scan(bonsai_t* db, const bonsai_readoptions_t* options, const char* from, size_t from_bytes, const char* end,
                size_t end_bytes, uint64_t limit, bonsai_scan_visitor visitor, void* arg, char** errptr) {
  return guarded(errptr, [&] {
    if (!names_bytes(from, from_bytes) || !names_bytes(end, end_bytes)) return null_bytes();
    if (visitor == nullptr) return bonsai::c::null_visitor();
    return db->db->Scan(bonsai::c::scan_options(options, {end, end_bytes}, limit), {from, from_bytes},
                        bonsai::c::scan_visitor(visitor, arg));
  });
}

int bonsai_scan_rows(bonsai_t* db, const bonsai_readoptions_t* options, const char* from, size_t from_bytes,
                     const char* end, size_t end_bytes, uint64_t limit, bonsai_rows_visitor visitor, void* arg,
                     char** errptr) {
  return guarded(errptr, [&] {
    if (!names_bytes(from, from_bytes) || !names_bytes(end, end_bytes)) return null_bytes();
    if (visitor == nullptr) return bonsai::c::null_visitor();
    const bonsai::ScanOptions scan = bonsai::c::scan_options(options, {end, end_bytes}, limit);
    return db->db->ScanRows(scan, {from, from_bytes}, [&](const bonsai::Rows& rows) noexcept {
      const bonsai_rows_t c_rows = {rows.keys,         rows.values,    rows.count,
                                    rows.stride_bytes, rows.key_bytes, rows.value_bytes};
      return visitor(arg, &c_rows) != 0;
    });
  });
}

int bonsai_count(bonsai_t* db, const bonsai_readoptions_t* options, const char* from, size_t from_bytes,
                 const char* end, size_t end_bytes, uint64_t limit, uint64_t* count, char** errptr) {
  *count = 0;
  return guarded(errptr, [&] {
    if (!names_bytes(from, from_bytes) || !names_bytes(end, end_bytes)) return null_bytes();
    return db->db->Count(bonsai::c::scan_options(options, {end, end_bytes}, limit), {from, from_bytes}, count);
  });
}

int bonsai_delete_range(bonsai_t* db, const bonsai_readoptions_t* options, const char* from, size_t from_bytes,
                        const char* end, size_t end_bytes, uint64_t limit, uint64_t* deleted, char** errptr) {
  if (deleted != nullptr) *deleted = 0;
  return guarded(errptr, [&] {
    if (!names_bytes(from, from_bytes) || !names_bytes(end, end_bytes)) return null_bytes();
    return db->db->DeleteRange(bonsai::c::scan_options(options, {end, end_bytes}, limit), {from, from_bytes}, deleted);
  });
}

int bonsai_snapshot_create(bonsai_t* db, bonsai_snapshot_t** snapshot, char** errptr) {
  *snapshot = nullptr;
  return guarded(errptr, [&] {
    auto handle = std::make_unique<bonsai_snapshot_t>();
    Status status = db->db->GetSnapshot(&handle->snapshot);
    if (status.ok()) *snapshot = handle.release();
    return status;
  });
}

void bonsai_snapshot_release(bonsai_snapshot_t* snapshot) { delete snapshot; }

bonsai_iterator_t* bonsai_iter_create(bonsai_t* db, const bonsai_readoptions_t* options) {
  bonsai_iterator_t* iterator = nullptr;
  guarded(nullptr, [&] {
    auto handle = std::make_unique<bonsai_iterator_t>();
    handle->iterator = db->db->NewIterator(bonsai::c::read_options(options));
    if (handle->iterator != nullptr) iterator = handle.release();
    return Status::OK();
  });
  return iterator;
}

void bonsai_iter_destroy(bonsai_iterator_t* iterator) { delete iterator; }

unsigned char bonsai_iter_valid(const bonsai_iterator_t* iterator) {
  return iterator->refused == BONSAI_OK && iterator->iterator->Valid() ? 1 : 0;
}
void bonsai_iter_seek_to_first(bonsai_iterator_t* iterator) {
  bonsai::c::move(iterator, [](bonsai::Iterator& it) { it.SeekToFirst(); });
}
void bonsai_iter_seek_to_last(bonsai_iterator_t* iterator) {
  bonsai::c::move(iterator, [](bonsai::Iterator& it) { it.SeekToLast(); });
}
void bonsai_iter_seek(bonsai_iterator_t* iterator, const char* key, size_t key_bytes) {
  bonsai::c::seek(iterator, key, key_bytes, [](bonsai::Iterator& it, std::string_view to) { it.Seek(to); });
}
void bonsai_iter_seek_for_prev(bonsai_iterator_t* iterator, const char* key, size_t key_bytes) {
  bonsai::c::seek(iterator, key, key_bytes, [](bonsai::Iterator& it, std::string_view to) { it.SeekForPrev(to); });
}
void bonsai_iter_seek_after(bonsai_iterator_t* iterator, const char* key, size_t key_bytes) {
  bonsai::c::seek(iterator, key, key_bytes, [](bonsai::Iterator& it, std::string_view to) { it.SeekAfter(to); });
}
void bonsai_iter_seek_before(bonsai_iterator_t* iterator, const char* key, size_t key_bytes) {
  bonsai::c::seek(iterator, key, key_bytes, [](bonsai::Iterator& it, std::string_view to) { it.SeekBefore(to); });
}
void bonsai_iter_next(bonsai_iterator_t* iterator) {
  bonsai::c::move(iterator, [](bonsai::Iterator& it) { it.Next(); });
}
void bonsai_iter_prev(bonsai_iterator_t* iterator) {
  bonsai::c::move(iterator, [](bonsai::Iterator& it) { it.Prev(); });
}

const char* bonsai_iter_key(const bonsai_iterator_t* iterator, size_t* key_bytes) {
  const std::string_view key = iterator->iterator->key();
  *key_bytes = key.size();
  return key.data();
}

const char* bonsai_iter_value(const bonsai_iterator_t* iterator, size_t* value_bytes) {
  const std::string_view value = iterator->iterator->value();
  *value_bytes = value.size();
  return value.data();
}

int bonsai_iter_status(const bonsai_iterator_t* iterator, char** errptr) {
  return guarded(errptr, [&] {
    if (iterator->refused == BONSAI_INVALID_ARGUMENT) return null_bytes();
    return iterator->refused == BONSAI_OK ? iterator->iterator->status() : bonsai::c::out_of_memory();
  });
}

}  // extern "C"
