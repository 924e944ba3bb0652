#include "bench/results.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& fact) {
  return fact ? Json(*fact) : Json(nullptr);
}

Json microseconds(uint64_t ns) { return static_cast<double>(ns) / 1000.0; }

Json latency_json(const std::array<Histogram, kOpKinds>& latency) {
  Json kinds = Json::object();
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    const Histogram& histogram = latency[kind];
    if (histogram.count() == 0) continue;
    kinds[std::string(op_kind_name(static_cast<OpKind>(kind)))] = {{"p50", microseconds(histogram.percentile(50))},
                                                                   {"p95", microseconds(histogram.percentile(95))},
                                                                   {"p99", microseconds(histogram.percentile(99))},
                                                                   {"p999", microseconds(histogram.percentile(99.9))},
                                                                   {"max", microseconds(histogram.max())}};
  }
  return kinds;
}

Json memory_json(const RunResult& run) {
  const uint64_t used = run.memory.dram_bytes.value_or(0) + run.memory.nvm_bytes.value_or(0);
  return {{"dram_bytes", or_null(run.memory.dram_bytes)},
          {"nvm_bytes", or_null(run.memory.nvm_bytes)},
          {"user_bytes", or_null(run.user_bytes)},
          {"space_efficiency", used == 0 || !run.user_bytes
                                   ? Json(nullptr)
                                   : Json(static_cast<double>(*run.user_bytes) / static_cast<double>(used))}};
}

Json nvm_json(const std::optional<NvmUse>& nvm) {
  if (!nvm) return nullptr;
  return {{"bytes_stored", nvm->bytes_stored},
          {"media_bytes", nvm->media_bytes},
          {"flushes", nvm->flushes},
          {"fences", nvm->fences}};
}

Json run_json(const RunResult& run) {
  return {{"engine", run.engine},
          {"workload", run.workload},
          {"key", run.key},
          {"value_size", run.value_size},
          {"records", run.records},
          {"operations", run.operations},
          {"threads", run.threads},
          {"depth", run.depth},
          {"distribution", run.distribution},
          {"durability", or_null(run.durability)},
          {"throughput_ops_per_s", run.throughput_ops_per_s},
          {"failures", run.failures},
          {"latency_us", latency_json(run.latency)},
          {"memory", memory_json(run)},
          {"nvm", nvm_json(run.nvm)},
          {"fabric", nullptr}};
}

Json manifest_json(const Manifest& manifest) {
  return {{"commit", or_null(manifest.commit)},
          {"cpu", or_null(manifest.cpu)},
          {"kernel", or_null(manifest.kernel)},
          {"medium", or_null(manifest.medium)},
          {"domain", or_null(manifest.domain)},
          {"flags", manifest.flags},
          {"seed", manifest.seed},
          {"emulated", manifest.emulated},
          {"processors", manifest.processors},
          {"memory_bytes", or_null(manifest.memory_bytes)},
          {"started", manifest.started}};
}

Status system_error(const std::string& what, const std::string& path) {
  return Status::IoError(what + " " + path + ": " + std::strerror(errno) + "; give another --out");
}

}  // namespace

std::string results_json(const Manifest& manifest, const std::vector<RunResult>& runs) {
  Json json = {{"version", kResultsVersion}, {"manifest", manifest_json(manifest)}, {"runs", Json::array()}};
  for (const RunResult& run : runs) json["runs"].push_back(run_json(run));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status write_file(const std::string& path, const std::string& text) {
  const std::string unfinished = path + ".unfinished";
  std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
  if (!out) return system_error("cannot write", unfinished);
  out << text;
  out.close();
  if (!out) return system_error("cannot write", unfinished);
  if (std::rename(unfinished.c_str(), path.c_str()) != 0) return system_error("cannot replace", path);
  return Status::OK();
}

}  // namespace bonsai::bench
