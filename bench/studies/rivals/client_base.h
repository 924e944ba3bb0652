// SPDX-License-Identifier: Apache-2.0
// What the clients of all rivals have in common: the bound of an operation, requests, the wait after a lost
// compare-and-swap, registered memory, counters.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_CLIENT_BASE_H_
#define BONSAI_BENCH_STUDIES_RIVALS_CLIENT_BASE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bench/studies/rivals/backoff.h"
#include "bench/studies/rivals/client.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/scratch.h"

namespace bonsai::bench::rivals {

// `Counters` are those of the engine; they start at 0.
template <class Counters>
class ClientBase : public Client {
 public:
  [[nodiscard]] const Counters& counters() const { return counters_; }

 protected:
  // Requires: the connection outlives the client.
  ClientBase(Connection* connection, uint64_t operation_ms_max)
      : batch_(connection), backoff_(connection), connection_(connection), operation_ms_max_(operation_ms_max) {}

  // Makes scratch_. Errors: those of Scratch::make.
  Status make_scratch(size_t bytes) { return Scratch::make(connection_, bytes, &scratch_); }
  [[nodiscard]] rdma::Slice scratch(size_t offset, size_t bytes) const { return scratch_->slice(offset, bytes); }
  // The bound of an operation that begins now. `name` is a literal, such as "race.get".
  [[nodiscard]] Limit limit_of(const char* name) const { return {name, operation_ms_max_}; }

  Batch batch_;
  Backoff backoff_;
  std::unique_ptr<Scratch> scratch_;  // null until make_scratch()
  Counters counters_;

 private:
  Connection* const connection_;
  const uint64_t operation_ms_max_;
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_CLIENT_BASE_H_
