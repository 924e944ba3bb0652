// Any bytes as a trace: refused with line and remedy, or a trace that is read back the same when written.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "bench/ycsb/trace.h"

namespace {

using bonsai::bench::OpKind;
using bonsai::bench::Request;
using bonsai::bench::Trace;

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  Trace trace;
  const bonsai::Status status =
      bonsai::bench::parse_trace({reinterpret_cast<const char*>(data), bytes}, "fuzz", &trace);
  if (!status.ok()) {
    BONSAI_CHECK(status.message().substr(0, 5) == "fuzz:" && status.message().find("; ") != std::string_view::npos);
    return 0;
  }
  Trace again;
  BONSAI_CHECK(bonsai::bench::parse_trace(text_of(trace), "again", &again).ok());
  BONSAI_CHECK(again.requests == trace.requests && again.operations_of == trace.operations_of);
  return 0;
}

extern "C" std::vector<uint8_t>* fuzz_seed_input(size_t i) {
  static const std::string_view kSeeds[] = {"INSERT 1\nREAD 1\nUPDATE user1\nSCAN 1 10\nDELETE 1\nRMW 2\n",
                                            "# text\r\n\r\n  READ\t18446744073709551615 \r\n", "SCAN user7 1000000000"};
  static std::vector<uint8_t> input;
  if (i >= std::size(kSeeds)) return nullptr;
  input.assign(kSeeds[i].begin(), kSeeds[i].end());
  return &input;
}

extern "C" int fuzz_full_seconds() { return 20; }
