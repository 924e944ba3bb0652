// SPDX-License-Identifier: Apache-2.0
// The contents of the opaque types of bonsai/c.h, and the conversion of statuses and exceptions to codes.
#ifndef BONSAI_STORE_C_TYPES_H_
#define BONSAI_STORE_C_TYPES_H_

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bonsai/c.h"
#include "bonsai/db.h"

struct bonsai_options_t {
  bonsai::Options options;
  std::string refused;  // why bonsai_open() must refuse these options; empty = it need not
};

struct bonsai_t {
  std::unique_ptr<bonsai::DB> db;
};

struct bonsai_readoptions_t {
  bonsai::ReadOptions options;
  bool from_exclusive = false;
};

struct bonsai_writebatch_t {
  bonsai::WriteBatch batch;
};

struct bonsai_snapshot_t {
  std::shared_ptr<const bonsai::Snapshot> snapshot;
};

struct bonsai_iterator_t {
  std::unique_ptr<bonsai::Iterator> iterator;
  int refused = 0;  // the code of the last move if it was not carried out: the iterator is not valid
};

struct bonsai_stats_t {
  bonsai::Stats stats;
};

struct bonsai_check_report_t {
  bonsai::CheckReport report;
};

namespace bonsai::c {

// A copy of `bytes` for the caller to bonsai_free(), with a zero byte after it; null when memory has run out.
inline char* copy_out(std::string_view bytes) noexcept {
  auto* copy = static_cast<char*>(std::malloc(bytes.size() + 1));
  if (copy == nullptr) return nullptr;
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  copy[bytes.size()] = '\0';
  return copy;
}

inline void set_message(char** errptr, std::string_view message) noexcept {
  if (errptr == nullptr) return;
  std::free(*errptr);
  *errptr = copy_out(message);
}

// Whether the status is an answer, which has no message.
inline bool is_result(const Status& status) noexcept {
  return status.ok() || status.IsNotFound() || status.IsConditionFailed();
}

// Runs `body`, which returns a Status, and turns what comes out into a code and a message. The library itself throws
// nothing; the standard library throws for want of memory or for an absurd length, and that ends here. Any other
// exception is a broken invariant and terminates.
template <typename Body>
int guarded(char** errptr, Body&& body) noexcept {
  try {
    const Status status = body();
    if (!is_result(status)) set_message(errptr, status.ToString());
    return static_cast<int>(status.code());
  } catch (const std::bad_alloc&) {
    set_message(errptr, "no space: out of memory; free some and call again");
    return BONSAI_NO_SPACE;
  } catch (const std::length_error&) {
    set_message(errptr, "invalid argument: a length is larger than any object can be; pass the true length");
    return BONSAI_INVALID_ARGUMENT;
  }
}

// A new T, or null when memory has run out.
template <typename T, typename... Args>
T* make(Args&&... args) noexcept {
  try {
    return new T{std::forward<Args>(args)...};
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Copies a value into memory of the caller. Errors: InvalidArgument (it is too small; nothing is copied).
inline Status copy_into(std::string_view value, char* buffer, size_t buffer_bytes) {
  if (value.size() > buffer_bytes) {
    return Status::InvalidArgument("the value has " + std::to_string(value.size()) + " bytes, the buffer " +
                                   std::to_string(buffer_bytes) + "; get it again with a larger buffer");
  }
  if (!value.empty()) std::memcpy(buffer, value.data(), value.size());
  return Status::OK();
}

// Whether (data, size) names bytes.
inline bool names_bytes(const void* data, size_t size) noexcept { return data != nullptr || size == 0; }

inline Status null_bytes() {
  return Status::InvalidArgument("a NULL pointer came with a length above 0; pass the bytes or the length 0");
}

// Calls use(condition) with the C++ condition. Errors: InvalidArgument (the condition makes no sense).
template <typename Use>
Status with_condition(const bonsai_condition_t* condition, Use&& use) {
  if (condition == nullptr) return Status::InvalidArgument("the condition is NULL; pass one");
  switch (condition->kind) {
    case BONSAI_IF_ABSENT:
      return use(Condition::Absent());
    case BONSAI_IF_PRESENT:
      return use(Condition::Present());
    case BONSAI_IF_EQUALS:
      if (!names_bytes(condition->value, condition->value_bytes)) return null_bytes();
      return use(Condition::Equals({condition->value, condition->value_bytes}));
    case BONSAI_IF_UNCHANGED:
      if (condition->snapshot == nullptr) break;
      return use(Condition::Unchanged(*condition->snapshot->snapshot));
    default:
      return Status::InvalidArgument("the kind " + std::to_string(condition->kind) +
                                     " of a condition is unknown; pass one of BONSAI_IF_*");
  }
  return Status::InvalidArgument("a condition BONSAI_IF_UNCHANGED has no snapshot; pass the one of the read");
}

// The options of a scan, from the read options (null: defaults) and the other arguments.
inline ScanOptions scan_options(const bonsai_readoptions_t* options, std::string_view end, uint64_t limit) noexcept {
  if (options == nullptr) return {nullptr, limit, end};
  return {options->options.snapshot, limit, end, options->from_exclusive, options->options.verify_checksums};
}

inline Status null_visitor() { return Status::InvalidArgument("the visitor is NULL; pass a function"); }

inline ScanVisitor scan_visitor(bonsai_scan_visitor visitor, void* arg) {
  return [visitor, arg](std::string_view key, std::string_view value) noexcept {
    return visitor(arg, key.data(), key.size(), value.data(), value.size()) != 0;
  };
}

// The options that `options` holds (null: defaults). Errors: InvalidArgument (a setter was given nonsense, no path).
inline Status options_for(const bonsai_options_t* options, const char* path, Options* out) {
  if (path == nullptr) return Status::InvalidArgument("the path is NULL; pass the path of a pool");
  if (options == nullptr) return Status::OK();
  if (!options->refused.empty()) return Status::InvalidArgument(options->refused);
  *out = options->options;
  return Status::OK();
}

// Two pointers fit into the function object itself, so this allocates nothing.
inline std::function<void(double)> progress_function(bonsai_progress progress, void* arg) {
  if (progress == nullptr) return nullptr;
  return [progress, arg](double done) { progress(arg, done); };
}

}  // namespace bonsai::c

#endif  // BONSAI_STORE_C_TYPES_H_
