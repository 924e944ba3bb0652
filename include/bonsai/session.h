// A session: many operations of one thread in flight at once, so that their cache misses and far accesses overlap and
// their updates share fences. On a store larger than the caches this is several times faster than one call after the
// other; no threads, callbacks or coroutines are seen.
//
//   std::unique_ptr<bonsai::Session> session = db->NewSession();
//   for (Request& request : requests) session->Get(request.key, &request.value, &request.status);
//   session->Wait();  // all values and statuses are there
//
// An operation is begun by its call. It has ended when Wait() returns, or before: a call that finds `depth` operations
// in flight first waits for them. Results are what the DB's method of the same name would give.
//
// Guarantees
//  - each operation takes effect at one moment between its call and its end;
//  - a durable update is durable when its operation has ended;
//  - updates of one key take effect in the order of their calls, and a read sees the session's earlier updates.
// Not promised: any other order among operations in flight, nor what of them survives a crash before they have ended.
//
// Requires: until an operation has ended, the bytes that key and value view, and *value and *status, stay where they
// are. Thread-safety: one thread at a time; a DB serves any number of sessions.
#ifndef BONSAI_SESSION_H_
#define BONSAI_SESSION_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "bonsai/options.h"
#include "bonsai/rows.h"
#include "bonsai/status.h"

namespace bonsai {

inline constexpr size_t kSessionDepthMax = 1024;

class Session {
 public:
  // Waits for what is in flight.
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  virtual void Get(std::string_view key, std::string* value, Status* status) = 0;
  virtual void Put(std::string_view key, std::string_view value, Status* status) = 0;
  virtual void Delete(std::string_view key, Status* status) = 0;
  // `visit` is called before the operation has ended, by Wait() or by a call that waits, perhaps on a stack of 256 KiB;
  // rows.h says what it may do. What `options.end` views stays, too.
  virtual void Scan(const ScanOptions& options, std::string_view from, ScanVisitor visit, Status* status) = 0;

  virtual void Wait() = 0;
  // Operations that were begun and have not ended.
  [[nodiscard]] virtual size_t InFlight() const = 0;

 protected:
  Session() = default;
};

}  // namespace bonsai

#endif  // BONSAI_SESSION_H_
