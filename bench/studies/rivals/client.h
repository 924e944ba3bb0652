// SPDX-License-Identifier: Apache-2.0
// The interface of every rival to one coroutine of one thread of a compute node.
//
// Rivals are other systems' published protocols, rebuilt on Bonsai's fabric to be measured next to it. In results they
// are called X-like. Each engine's header says which public description it follows, what is simplified, and what
// differs.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_CLIENT_H_
#define BONSAI_BENCH_STUDIES_RIVALS_CLIENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bonsai/status.h"

namespace bonsai::bench::rivals {

// Errors of all operations: Unavailable (a peer is gone or a bound expired; an update may have happened or not),
// InvalidArgument (a shape of record that the engine does not store; nothing changed), NoSpace (nothing changed).
// Thread-safety: one coroutine at a time. Those of one thread may share its connection.
class Client {
 public:
  virtual ~Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Errors: NotFound.
  virtual Status get(std::string_view key, std::string* value) = 0;
  // Stores the record, in place of an older one.
  virtual Status insert(std::string_view key, std::string_view value) = 0;
  // Stores the value of a key that exists. Errors: NotFound.
  virtual Status update(std::string_view key, std::string_view value) = 0;
  // Errors: NotFound.
  virtual Status remove(std::string_view key) = 0;

  struct Found {
    std::string key, value;
  };
  // Sets *found to the records from `from` on, ascending, at most `records_max`. Errors: NotSupported (the engine has
  // no order of keys).
  virtual Status scan(std::string_view from, size_t records_max, std::vector<Found>* found);

 protected:
  Client() = default;
};

inline Status Client::scan(std::string_view, size_t, std::vector<Found>*) {
  return Status::NotSupported("the engine has no order of keys");
}

// The bound of an operation that tries again and again, each time after a round trip. As base::BoundedWait it never
// expires before one more try after the bound.
class Limit {
 public:
  Limit(const char* name, uint64_t limit_ms) : name_(name), end_ns_(base::now_ns() + limit_ms * base::kNsPerMs) {}

  [[nodiscard]] bool expired() const { return std::exchange(over_, over_ || base::now_ns() >= end_ns_); }
  // Unavailable, naming what did not come to an end.
  [[nodiscard]] Status status() const {
    return Status::Unavailable(std::string(name_) +
                               " did not come to an end within its bound; is another client "
                               "stuck, or the limit too short?");
  }

 private:
  const char* name_;
  uint64_t end_ns_;
  mutable bool over_ = false;
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_CLIENT_H_
