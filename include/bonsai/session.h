// SPDX-License-Identifier: Apache-2.0
// A session: many operations of one thread in flight at once, so that their cache misses and far accesses overlap and
// their updates share fences. On a store larger than the caches this is several times faster than one call after the
// other. The caller sees no threads, callbacks or coroutines.
//
//   std::unique_ptr<bonsai::Session> session = db->NewSession();
//   for (Request& request : requests) session->Get(request.key, &request.value, &request.status);
//   session->Wait();  // all values and statuses are there
//
// An operation begins with its call and has ended when Wait() returns, or earlier: a call that finds `depth` operations
// in flight waits for them first. So may a call that could not keep the order of a key otherwise. Results are those of
// the DB's method of the same name.
//
// Guarantees
//  - each operation takes effect at one moment between its call and its end;
//  - a durable update is durable when its operation has ended;
//  - operations on one key take effect in the order of their calls: a get or a scan sees the session's earlier updates
//    of a key, and none of its later ones.
// Not promised: any order of operations in flight on different keys, or of a scan and a get; which of them survive a
// crash before they have ended.
//
// Requires: until an operation has ended, the bytes of key and value, *value and *status stay valid and in place.
// Thread-safety: one thread at a time; a DB may have any number of sessions.
#ifndef BONSAI_SESSION_H_
#define BONSAI_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bonsai/condition.h"
#include "bonsai/options.h"
#include "bonsai/rows.h"
#include "bonsai/status.h"

namespace bonsai {

inline constexpr size_t kSessionDepthMax = 1024;

class Session {
 public:
  // Waits for the operations in flight.
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  virtual void Get(std::string_view key, std::string* value, Status* status) = 0;
  virtual void Put(std::string_view key, std::string_view value, Status* status) = 0;
  virtual void Delete(std::string_view key, Status* status) = 0;
  // These end the updates in flight first. *result as *value of a get; null: not wanted.
  virtual void PutIf(const Condition& condition, std::string_view key, std::string_view value, Status* status) = 0;
  virtual void DeleteIf(const Condition& condition, std::string_view key, Status* status) = 0;
  virtual void Increment(std::string_view key, int64_t by, int64_t* result, Status* status) = 0;
  // Wait(), or a call that waits, calls `visit` before the operation has ended, perhaps on a stack of 256 KiB. rows.h
  // states what a visitor may do. The bytes of `options.end` stay valid, too.
  virtual void Scan(const ScanOptions& options, std::string_view from, ScanVisitor visit, Status* status) = 0;

  virtual void Wait() = 0;
  // Operations that were begun and have not ended.
  [[nodiscard]] virtual size_t InFlight() const = 0;

 protected:
  Session() = default;
};

}  // namespace bonsai

#endif  // BONSAI_SESSION_H_
