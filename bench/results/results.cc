// SPDX-License-Identifier: Apache-2.0
#include "bench/results/results.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/nvm/os_file.h"
#include "bench/results/json.h"

namespace bonsai::bench {
namespace {

using Json = nlohmann::ordered_json;

Json microseconds(uint64_t ns) { return static_cast<double>(ns) / 1000.0; }

// Percentiles beyond which there are at least ten samples, up to the maximum, as pairs of percent and microseconds.
Json curve_json(const Histogram& histogram) {
  static constexpr std::array<double, 16> kPercents = {1,  5,    10,   25,    50,    75,     90,     95,
                                                       99, 99.5, 99.9, 99.95, 99.99, 99.995, 99.999, 100};
  Json curve = Json::array();
  for (const double percent : kPercents) {
    if (histogram.carries(percent) || percent == 100)
      curve.push_back({percent, microseconds(histogram.percentile(percent))});
  }
  return curve;
}

// A count for each kind of request that was there.
Json counts_json(const std::array<uint64_t, kOpKinds>& counts, const std::array<uint64_t, kOpKinds>& present) {
  Json kinds = Json::object();
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    if (present[kind] > 0) kinds[std::string(op_kind_name(static_cast<OpKind>(kind)))] = counts[kind];
  }
  return kinds;
}

Json latency_json(const std::array<Histogram, kOpKinds>& latency) {
  Json kinds = Json::object();
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    const Histogram& histogram = latency[kind];
    if (histogram.count() == 0) continue;
    kinds[std::string(op_kind_name(static_cast<OpKind>(kind)))] = {{"p50", microseconds(histogram.percentile(50))},
                                                                   {"p95", microseconds(histogram.percentile(95))},
                                                                   {"p99", microseconds(histogram.percentile(99))},
                                                                   {"p999", microseconds(histogram.percentile(99.9))},
                                                                   {"max", microseconds(histogram.max())},
                                                                   {"min", microseconds(histogram.min())},
                                                                   {"mean", histogram.mean() / 1000.0},
                                                                   {"samples", histogram.count()},
                                                                   {"curve", curve_json(histogram)}};
  }
  return kinds;
}

Json memory_json(const RunResult& run) {
  const uint64_t used = run.memory.dram_bytes.value_or(0) + run.memory.nvm_bytes.value_or(0);
  // DRAM is never none: an engine that does not report it leaves its efficiency unknown.
  const bool known = run.memory.dram_bytes && used > 0 && run.user_bytes;
  return {{"dram_bytes", or_null(run.memory.dram_bytes)},
          {"dram_bytes_unsettled", or_null(run.memory_unsettled.dram_bytes)},
          {"process_bytes", or_null(run.memory.process_bytes)},
          {"process_bytes_unsettled", or_null(run.memory_unsettled.process_bytes)},
          {"nvm_bytes", or_null(run.memory.nvm_bytes)},
          {"log_bytes", or_null(run.memory.log_bytes)},
          {"reserved_bytes", or_null(reserved_bytes(run.memory))},
          {"used_bytes_max", or_null(run.sampled.used_bytes_max)},
          {"reserved_bytes_max", or_null(run.sampled.reserved_bytes_max)},
          {"space_efficiency_sampled", or_null(run.sampled.space_efficiency)},
          {"samples", run.sampled.count},
          {"user_bytes", or_null(run.user_bytes)},
          {"space_efficiency",
           known ? Json(static_cast<double>(*run.user_bytes) / static_cast<double>(used)) : Json(nullptr)}};
}

Json nvm_json(const std::optional<NvmUse>& nvm) {
  if (!nvm) return nullptr;
  return {{"bytes_stored", nvm->bytes_stored},
          {"media_bytes", nvm->media_bytes},
          {"flushes", nvm->flushes},
          {"fences", nvm->fences},
          {"gets", nvm->gets},
          {"gets_answered", nvm->gets_answered}};
}

// Each thread's operations, and their deviation from its part of the target, in percent.
Json thread_times_json(const RunResult& run) {
  Json all = Json::array();
  for (const ThreadTimes& one : run.thread_times) {
    const double share = run.target_ops_per_s.value_or(0) / static_cast<double>(run.thread_times.size());
    const double rate = static_cast<double>(one.operations) / std::max(one.seconds, 1e-9);
    all.push_back({{"operations", one.operations},
                   {"seconds", one.seconds},
                   {"slept_seconds", one.slept_seconds},
                   {"cpu_seconds", one.cpu_seconds},
                   {"deviation_percent", run.target_ops_per_s ? Json(100 * (rate - share) / share) : Json(nullptr)}});
  }
  return all;
}

Json fabric_json(const std::optional<FabricUse>& fabric) {
  if (!fabric) return nullptr;
  return {{"round_trips", fabric->round_trips}, {"messages", fabric->messages}, {"bytes", fabric->bytes}};
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
          {"requests", run.requests},
          {"warmup_operations", run.warmup_operations},
          {"target_ops_per_s", or_null(run.target_ops_per_s)},
          {"interval_ms", run.interval_ms > 0 ? Json(run.interval_ms) : Json(nullptr)},
          {"seconds_max", or_null(run.seconds_max)},
          {"pinned", run.pinned},
          {"throughput_ops_per_s", run.throughput_ops_per_s},
          {"repeats_ops_per_s", run.repeats_ops_per_s},
          {"failures", run.failures},
          {"absent", run.absent},
          {"latency_every", run.latency_every},
          {"latency_us", latency_json(run.latency)},
          {"intended_latency_us", run.target_ops_per_s ? latency_json(run.intended_latency) : Json(nullptr)},
          {"memory", memory_json(run)},
          {"cpu_seconds", run.cpu_seconds},
          {"joules", or_null(run.joules)},
          {"thread_times", thread_times_json(run)},
          {"huge_pages", or_null(run.huge_pages)},
          {"nvm", nvm_json(run.nvm)},
          {"fabric", fabric_json(run.fabric)},
          {"medium", run.medium ? Json(run.medium->text) : Json(nullptr)},
          {"emulated", run.medium ? Json(run.medium->emulated) : Json(nullptr)},
          {"seconds", run.seconds},
          {"settle_seconds", run.settle_seconds},
          {"operations_of", counts_json(run.operations_of, run.operations_of)},
          {"failures_of", counts_json(run.failures_of, run.operations_of)},
          {"first_failure", run.failures > 0 ? Json(run.first_failure) : Json(nullptr)},
          {"complete", !run.stopped}};
}

Status system_error(const std::string& what, const std::string& path) {
  return Status::IoError(what + " " + path + ": " + std::strerror(errno) + "; give another --out");
}

}  // namespace

std::optional<uint64_t> used_bytes(const MemoryUse& memory) {
  if (!memory.dram_bytes && !memory.nvm_bytes) return std::nullopt;
  return memory.dram_bytes.value_or(0) + memory.nvm_bytes.value_or(0);
}

std::optional<uint64_t> reserved_bytes(const MemoryUse& memory) {
  return memory.reserved_bytes ? memory.reserved_bytes : used_bytes(memory);
}

void MemorySamples::add(const MemoryUse& memory, uint64_t user_bytes) {
  const std::optional<uint64_t> used = used_bytes(memory);
  if (!used || *used == 0) return;
  used_bytes_max = std::max(used_bytes_max.value_or(0), *used);
  reserved_bytes_max = std::max(reserved_bytes_max.value_or(0), *reserved_bytes(memory));
  const double efficiency = static_cast<double>(user_bytes) / static_cast<double>(*used);
  space_efficiency =
      (space_efficiency.value_or(0) * static_cast<double>(count) + efficiency) / static_cast<double>(count + 1);
  ++count;
}

Json manifest_json(const Manifest& manifest) {
  const Noise noise = manifest.noise.value_or(Noise());
  const std::string verdict = noise.verdict();
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
          {"started", manifest.started},
          {"load", or_null(noise.load)},
          {"stolen_percent", or_null(noise.stolen_percent)},
          {"others_percent", or_null(noise.others_percent)},
          {"involuntary_switches_per_s", or_null(noise.involuntary_per_s)},
          {"noise", verdict.empty() ? Json(nullptr) : Json(verdict)}};
}

void tell_medium(const std::string& who, const MediumUse& medium, Manifest* manifest) {
  const std::string emulated = who + ": " + medium.text;
  if (medium.emulated && std::count(manifest->emulated.begin(), manifest->emulated.end(), emulated) == 0) {
    manifest->emulated.push_back(emulated);
  }
  if (manifest->medium) return;
  manifest->medium = medium.text;
  const size_t domain = medium.text.rfind("domain ");
  if (domain != std::string::npos) manifest->domain = medium.text.substr(domain + 7);
}

std::string results_json(const Results& results) {
  Json json = {{"version", kResultsVersion},
               {"manifest", manifest_json(results.manifest)},
               {"runs", Json::array()},
               {"left_out", Json::array()}};
  for (const RunResult& run : results.runs) json["runs"].push_back(run_json(run));
  for (const LeftOut& one : results.left_out) {
    json["left_out"].push_back({{"engine", one.engine}, {"workload", one.workload}, {"reason", one.reason}});
  }
  json["errors"] = Json::array();
  for (const EngineError& one : results.errors) {
    json["errors"].push_back({{"engine", one.engine}, {"message", one.message}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status write_file(const std::string& path, const std::string& text) {
  // A name of this process alone: neither another run's half-written file nor a foreign one is touched.
  const std::string unfinished = path + "." + std::to_string(::getpid()) + ".unfinished";
  base::OsFile out = base::open_file(unfinished, O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (!out.is_open()) return system_error("cannot write", unfinished);
  size_t written = 0;
  for (ssize_t n = 1; n > 0 && written<text.size(); written += n> 0 ? static_cast<size_t>(n) : 0) {
    n = ::write(out.fd(), text.data() + written, text.size() - written);
  }
  Status status = written == text.size() ? Status::OK() : system_error("cannot write", unfinished);
  if (status.ok() && std::rename(unfinished.c_str(), path.c_str()) != 0) status = system_error("cannot replace", path);
  if (!status.ok()) ::unlink(unfinished.c_str());
  return status;
}

}  // namespace bonsai::bench
