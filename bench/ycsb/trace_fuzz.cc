// SPDX-License-Identifier: Apache-2.0
// Any bytes as a trace: refused with line and remedy, or a trace that is read back the same when written.
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz.h"
#include "bench/ycsb/trace.h"

namespace bonsai::bench {
namespace {

std::string text_of(const Trace& trace) {
  static constexpr const char* kWords[] = {"READ ", "UPDATE ", "INSERT ", "SCAN ", "RMW ", "DELETE "};
  std::string text;
  for (const Request& request : trace.requests) {
    text += kWords[static_cast<size_t>(request.kind)] + std::to_string(request.key);
    if (request.kind == OpKind::kScan) text += " " + std::to_string(request.scan_length);
    text += "\n";
  }
  return text;
}

void run(std::string_view input) {
  Trace trace;
  const Status status = parse_trace(input, "fuzz", &trace);
  if (!status.ok()) {
    BONSAI_CHECK(status.message().substr(0, 5) == "fuzz:" && status.message().find("; ") != std::string_view::npos);
    return;
  }
  Trace again;
  BONSAI_CHECK(parse_trace(text_of(trace), "again", &again).ok());
  BONSAI_CHECK(again.requests == trace.requests && again.operations_of == trace.operations_of);
}

std::vector<std::string> seeds() {
  return {"INSERT 1\nREAD 1\nUPDATE user1\nSCAN 1 10\nDELETE 1\nRMW 2\n",
          "# text\r\n\r\n  READ\t18446744073709551615 \r\n", "SCAN user7 1000000000"};
}

const testing::FuzzRegistration trace("bench_trace", run, seeds);

}  // namespace
}  // namespace bonsai::bench
