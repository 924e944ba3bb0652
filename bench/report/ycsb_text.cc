// SPDX-License-Identifier: Apache-2.0
#include "bench/report/ycsb_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace bonsai::bench {
namespace {

constexpr std::array<std::string_view, kOpKinds> kNames = {"READ",  "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE",
                                                           "DELETE"};

// The shortest digits that give the number back, with a point, as Java writes a double (but never with an exponent).
std::string java_double(double value) {
  std::array<char, 400> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed).ptr;
  std::string text(digits.data(), end);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

class Exporter {
 public:
  void write(std::string_view metric, std::string_view measurement, const std::string& value) {
    text_.append("[").append(metric).append("], ").append(measurement).append(", ").append(value).append("\n");
  }
  void write(std::string_view metric, std::string_view measurement, uint64_t value) {
    write(metric, measurement, std::to_string(value));
  }
  [[nodiscard]] std::string text() const { return text_; }

 private:
  std::string text_;
};

void write_latency(std::string_view metric, const Histogram& latency, Exporter* out) {
  if (latency.count() == 0) return;
  out->write(metric, "AverageLatency(us)", java_double(latency.mean() / 1000));
  out->write(metric, "MinLatency(us)", latency.min() / 1000);
  out->write(metric, "MaxLatency(us)", latency.max() / 1000);
  out->write(metric, "50thPercentileLatency(us)", latency.percentile(50) / 1000);
  out->write(metric, "95thPercentileLatency(us)", latency.percentile(95) / 1000);
  out->write(metric, "99thPercentileLatency(us)", latency.percentile(99) / 1000);
}

}  // namespace

std::string_view ycsb_name(OpKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string ycsb_text(const RunResult& run) {
  Exporter out;
  out.write("OVERALL", "RunTime(ms)", std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(run.seconds * 1000))));
  out.write("OVERALL", "Throughput(ops/sec)", java_double(run.throughput_ops_per_s));
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    if (run.operations_of[kind] == 0) continue;
    out.write(kNames[kind], "Operations", run.operations_of[kind]);
    write_latency(kNames[kind], run.latency[kind], &out);
    out.write(kNames[kind], "Return=OK",
              run.operations_of[kind] - std::min(run.operations_of[kind], run.failures_of[kind]));
    if (run.failures_of[kind] > 0) out.write(kNames[kind], "Return=ERROR", run.failures_of[kind]);
  }
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    if (run.intended_latency[kind].count() == 0) continue;
    const std::string metric = "Intended-" + std::string(kNames[kind]);
    out.write(metric, "Operations", run.operations_of[kind]);
    write_latency(metric, run.intended_latency[kind], &out);
  }
  for (const auto& [measurement, bytes] : {std::pair("DramBytes", run.memory.dram_bytes),
                                           {"ProcessBytes", run.memory.process_bytes},
                                           {"NvmBytes", run.memory.nvm_bytes}}) {
    if (bytes) out.write("MEMORY", measurement, *bytes);
  }
  if (run.fabric) {
    out.write("FABRIC", "RoundTrips", run.fabric->round_trips);
    out.write("FABRIC", "Messages", run.fabric->messages);
    out.write("FABRIC", "Bytes", run.fabric->bytes);
  }
  return out.text();
}

}  // namespace bonsai::bench
