// SPDX-License-Identifier: Apache-2.0
#include "bench/results/run_codec.h"

#include <nlohmann/json.hpp>

namespace nlohmann {

// An absent member is null.
template <class T>
struct adl_serializer<std::optional<T>> {
  template <class Json>
  static void to_json(Json& json, const std::optional<T>& fact) {
    json = fact ? Json(*fact) : Json(nullptr);
  }
  template <class Json>
  static void from_json(const Json& json, std::optional<T>& fact) {
    fact = json.is_null() ? std::nullopt : std::optional<T>(json.template get<T>());
  }
};

}  // namespace nlohmann

namespace bonsai::bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ThreadTimes, operations, seconds, slept_seconds, cpu_seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemorySamples, count, used_bytes_max, reserved_bytes_max, space_efficiency)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryUse, dram_bytes, nvm_bytes, log_bytes, reserved_bytes, process_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NvmUse, bytes_stored, media_bytes, flushes, fences, gets, gets_answered)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FabricUse, round_trips, messages, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MediumUse, text, emulated)

static void to_json(nlohmann::json& json, const Histogram& histogram) {
  const Histogram::Parts parts = histogram.parts();
  json = {{"counts", parts.counts}, {"sum", parts.sum}, {"min", parts.min}, {"max", parts.max}};
}
static void from_json(const nlohmann::json& json, Histogram& histogram) {
  histogram = Histogram::of({json.at("counts").get<std::vector<uint64_t>>(), json.at("sum").get<double>(),
                             json.at("min").get<uint64_t>(), json.at("max").get<uint64_t>()});
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunResult, engine, workload, key, value_size, records, operations, threads, depth,
                                   distribution, durability, requests, warmup_operations, target_ops_per_s, interval_ms,
                                   seconds_max, pinned, throughput_ops_per_s, repeats_ops_per_s, operations_of,
                                   failures_of, failures, absent, latency_every, latency, intended_latency, memory,
                                   memory_unsettled, huge_pages, user_bytes, nvm, fabric, medium, start_wall_seconds,
                                   seconds, cpu_seconds, thread_times, joules, sampled, settle_seconds, first_failure,
                                   stopped)

std::string encode_run(const RunResult& run) {
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json(run), bytes);
  return bytes;
}

bool decode_run(std::string_view bytes, RunResult* run) {
  const auto json = nlohmann::json::from_cbor(bytes, true, false);
  if (json.is_discarded()) return false;
  try {
    json.get_to(*run);
  } catch (const nlohmann::json::exception&) {
    return false;
  }
  return true;
}

}  // namespace bonsai::bench
