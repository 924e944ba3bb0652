// SPDX-License-Identifier: Apache-2.0
#include "scan.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bonsai::python {
namespace {

constexpr size_t kGroupRecordsMax = 4096;  // that one call of the library takes

std::string_view bytes_of(const std::optional<Bytes>& bytes) { return bytes ? bytes->view() : std::string_view(); }

// A scan's records, one after the other in one piece of memory.
struct Records {
  std::string bytes;
  std::vector<std::pair<size_t, size_t>> sizes;  // of key and value
};

unsigned char add_record(void* arg, const char* key, size_t key_bytes, const char* value, size_t value_bytes) {
  auto& records = *static_cast<Records*>(arg);
  records.bytes.append(key, key_bytes).append(value, value_bytes);
  records.sizes.emplace_back(key_bytes, value_bytes);
  return 1;
}

struct Columns {
  std::string keys, values;
  size_t key_bytes = 0, value_bytes = 0;
  bool differ = false;
};

unsigned char add_rows(void* arg, const bonsai_rows_t* rows) {
  auto& columns = *static_cast<Columns*>(arg);
  if (columns.keys.empty()) {
    columns.key_bytes = rows->key_bytes;
    columns.value_bytes = rows->value_bytes;
  }
  columns.differ = columns.key_bytes != rows->key_bytes || columns.value_bytes != rows->value_bytes;
  if (columns.differ) return 0;
  for (size_t i = 0; i < rows->count; ++i) {
    columns.keys.append(rows->keys + i * rows->stride_bytes, rows->key_bytes);
    columns.values.append(rows->values + i * rows->stride_bytes, rows->value_bytes);
  }
  return 1;
}

// Puts the records of `keys` and `values`.
void put_group(Store& store, const BytesList& keys, const BytesList& values) {
  std::vector<int> codes(keys.size());
  store.call([&](bonsai_t* db, char** error) {
    return bonsai_multi_put(db, keys.size(), keys.data(), keys.sizes(), values.data(), values.sizes(), codes.data(),
                            error);
  });
}

// Values that the library returns, freed with the object.
class Values {
 public:
  explicit Values(size_t count) : values_(count, nullptr), sizes_(count), codes_(count) {}
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
  ~Values() {
    for (char* value : values_) bonsai_free(value);
  }
  char** values() { return values_.data(); }
  size_t* sizes() { return sizes_.data(); }
  int* codes() { return codes_.data(); }

 private:
  std::vector<char*> values_;
  std::vector<size_t> sizes_;
  std::vector<int> codes_;
};

void get_group(Store& store, const BytesList& keys, const ReadOptions& options, nb::list& results) {
  Values values(keys.size());
  store.call([&](bonsai_t* db, char** error) {
    return bonsai_multi_get(db, options.get(), keys.size(), keys.data(), keys.sizes(), values.values(), values.sizes(),
                            values.codes(), error);
  });
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool found = values.codes()[i] == BONSAI_OK;
    results.append(found ? nb::object(nb::bytes(values.values()[i], values.sizes()[i])) : nb::none());
  }
}

}  // namespace

Range make_range(nb::handle start, nb::handle end, std::optional<uint64_t> limit) {
  Range range;
  if (!start.is_none()) range.start.emplace(start);
  if (!end.is_none()) range.end.emplace(end);
  // The library takes an empty end for none; nothing is below the empty key.
  const bool nothing = range.end && range.end->size() == 0;
  range.limit = nothing ? 0 : limit.value_or(UINT64_MAX);
  return range;
}

nb::list scan(Store& store, const Range& range, Snapshot* snapshot) {
  const ReadOptions options(snapshot);
  const std::string_view start = bytes_of(range.start), end = bytes_of(range.end);
  Records records;
  store.call([&](bonsai_t* db, char** error) {
    return bonsai_scan(db, options.get(), start.data(), start.size(), end.data(), end.size(), range.limit, add_record,
                       &records, error);
  });
  nb::list result;
  const char* at = records.bytes.data();
  for (const auto& [key_bytes, value_bytes] : records.sizes) {
    result.append(nb::make_tuple(nb::bytes(at, key_bytes), nb::bytes(at + key_bytes, value_bytes)));
    at += key_bytes + value_bytes;
  }
  return result;
}

uint64_t count(Store& store, const Range& range, Snapshot* snapshot) {
  const ReadOptions options(snapshot);
  const std::string_view start = bytes_of(range.start), end = bytes_of(range.end);
  uint64_t records = 0;
  store.call([&](bonsai_t* db, char** error) {
    return bonsai_count(db, options.get(), start.data(), start.size(), end.data(), end.size(), range.limit, &records,
                        error);
  });
  return records;
}

uint64_t delete_range(Store& store, const Range& range) {
  const std::string_view start = bytes_of(range.start), end = bytes_of(range.end);
  uint64_t deleted = 0;
  store.call([&](bonsai_t* db, char** error) {
    return bonsai_delete_range(db, nullptr, start.data(), start.size(), end.data(), end.size(), range.limit, &deleted,
                               error);
  });
  return deleted;
}

nb::tuple scan_columns(Store& store, const Range& range, Snapshot* snapshot) {
  const ReadOptions options(snapshot);
  const std::string_view start = bytes_of(range.start), end = bytes_of(range.end);
  Columns columns;
  store.call([&](bonsai_t* db, char** error) {
    return bonsai_scan_rows(db, options.get(), start.data(), start.size(), end.data(), end.size(), range.limit,
                            add_rows, &columns, error);
  });
  if (columns.differ) throw nb::value_error("the records differ in size, so that they make no columns: use scan()");
  return nb::make_tuple(to_bytes(columns.keys), to_bytes(columns.values), columns.key_bytes, columns.value_bytes);
}

nb::list get_many(Store& store, nb::handle keys, Snapshot* snapshot) {
  const ReadOptions options(snapshot);
  nb::list results;
  BytesList group;
  group.reserve(kGroupRecordsMax);
  for (nb::handle key : nb::iter(keys)) {
    group.add(key);
    if (group.size() < kGroupRecordsMax) continue;
    get_group(store, group, options, results);
    group = BytesList();
  }
  if (group.size() > 0) get_group(store, group, options, results);
  return results;
}

size_t put_many(Store& store, nb::handle records) {
  const nb::object pairs = nb::isinstance<nb::dict>(records) ? records.attr("items")() : nb::borrow(records);
  size_t done = 0;
  BytesList keys, values;
  const auto put = [&] {
    put_group(store, keys, values);
    done += keys.size();
    keys = BytesList();
    values = BytesList();
  };
  for (nb::handle pair : nb::iter(pairs)) {
    if (nb::len(pair) != 2) throw nb::value_error("put_many takes pairs of key and value");
    const nb::object key = pair[0], value = pair[1];
    keys.add(key);
    values.add(value);
    if (keys.size() == kGroupRecordsMax) put();
  }
  if (keys.size() > 0) put();
  return done;
}

}  // namespace bonsai::python
