// SPDX-License-Identifier: Apache-2.0
// Text traces, the common tongue of research codes: one request per line.
//
//   INSERT key | READ key | UPDATE key | SCAN key records | DELETE key | RMW key
//
// A key is a number below 2^64, with or without YCSB's "user" before it. Blank lines and lines that begin with '#' say
// nothing. DELETE and RMW (read-modify-write) are this project's own.
#ifndef BONSAI_BENCH_YCSB_TRACE_H_
#define BONSAI_BENCH_YCSB_TRACE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/ycsb/requests.h"
#include "bonsai/status.h"

namespace bonsai::bench {

inline constexpr size_t kTraceLineBytesMax = 1024;

struct Trace {
  std::vector<Request> requests;  // all of KeySource::kReady
  std::array<uint64_t, kOpKinds> operations_of{};

  [[nodiscard]] uint64_t count(OpKind kind) const { return operations_of[static_cast<size_t>(kind)]; }
  // A trace that only inserts fills an empty store.
  [[nodiscard]] bool is_load() const { return count(OpKind::kInsert) == requests.size(); }
};

// Parses `text`, which came from `source` (a name for messages). Errors: InvalidArgument with source:line, the fault
// there and the remedy; *trace is then unchanged.
Status parse_trace(std::string_view text, const std::string& source, Trace* trace);

// Reads and parses a file of any size. Errors: IoError (missing, unreadable), InvalidArgument (as parse_trace).
Status read_trace(const std::string& path, Trace* trace);

// Deals the requests to the threads in turn. key_max is the greatest key that is inserted. Requires threads >= 1.
[[nodiscard]] RequestPlan plan_of_trace(const Trace& trace, const RecordShape& shape, unsigned threads);

// Writes a plan that was drawn ahead for a store of `records` records, in the order of one thread that takes a request
// of each list in turn. So plan_of_trace gives each thread its requests back. Makes the directory. Errors: IoError.
Status write_trace(const std::string& path, const RequestPlan& plan, const RecordShape& shape, uint64_t records);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_YCSB_TRACE_H_
