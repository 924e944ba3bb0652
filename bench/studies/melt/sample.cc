// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/melt/sample.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "bench/driver/engine_apart.h"
#include "bench/results/csv.h"
#include "bench/results/json.h"
#include "bench/results/machine.h"

namespace bonsai::bench {
namespace {

using Json = MeltSample;

constexpr int kSamplesVersion = 1;
constexpr const char* kCounts = "latency_counts";  // of the json file only
constexpr uint64_t kNapMs = 50;
constexpr uint64_t kMemoryEveryMs = 10;  // a load of some hundred thousand records takes some ten of it
// The most memory for requests drawn ahead. Drawing live would cost a fifth of a fast store's operation.
constexpr double kAheadBytesMax = double{1u << 30};
constexpr double kRateMax = 20e6;
constexpr std::array<double, 12> kSamplePercents = {10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9};

template <class T>
Json per(const std::optional<T>& amount, double count) {
  return amount && count > 0 ? Json(*amount / count) : Json(nullptr);
}

// Draws ahead at every rate of a sweep, or at none, so that its curve is of one kind.
DrawMode draw_mode(double seconds) {
  return seconds * kRateMax * sizeof(Request) <= kAheadBytesMax ? DrawMode::kAhead : DrawMode::kLive;
}

// Lets the machine rest for that long. Returns what it used in such a time; nothing without counters.
Status rest(double seconds, EnergyMeter* meter, const std::atomic<bool>& stop, std::optional<double>* joules) {
  if (meter == nullptr) return Status::OK();
  double before = 0, after = 0;
  BONSAI_RETURN_IF_ERROR(meter->read(&before));
  const double start_s = base::now_seconds();
  while (base::now_seconds() < start_s + seconds && !stop) base::sleep_ms(kNapMs);
  BONSAI_RETURN_IF_ERROR(meter->read(&after));
  *joules = (after - before) * seconds / (base::now_seconds() - start_s);  // the last nap may have been too long
  return Status::OK();
}

void add_latency(const Histogram& histogram, const std::string& kind, Json* sample) {
  (*sample)[kind + "_samples"] = histogram.count();
  (*sample)[kind + "_mean_ns"] = histogram.count() > 0 ? Json(histogram.mean()) : Json(nullptr);
  for (const double percent : kSamplePercents) {
    std::string name = kind + "_p" + std::to_string(static_cast<int>(percent));
    if (percent > 99) name += "9";
    (*sample)[name + "_ns"] = histogram.carries(percent) ? Json(histogram.percentile(percent)) : Json(nullptr);
  }
  Json counts = Json::array();
  for (size_t bucket = 0; bucket < histogram.buckets().size(); ++bucket) {
    if (histogram.buckets()[bucket] > 0) counts.push_back({Histogram::last_of(bucket), histogram.buckets()[bucket]});
  }
  (*sample)[kCounts][kind] = std::move(counts);
}

void add_memory(const MemorySamples& memory, const std::string& prefix, Json* sample) {
  (*sample)[prefix + "used_bytes_max"] = or_null(memory.used_bytes_max);
  (*sample)[prefix + "reserved_bytes_max"] = or_null(memory.reserved_bytes_max);
  (*sample)[prefix + "space_efficiency"] = or_null(memory.space_efficiency);
  (*sample)[prefix + "memory_samples"] = memory.count;
}

// The operations of each thread, and by how much it missed its part of the target.
void add_threads(const RunResult& run, double target_ops_per_s, Json* sample) {
  const auto threads = static_cast<double>(run.thread_times.size());
  for (size_t i = 0; i < run.thread_times.size(); ++i) {
    const ThreadTimes& one = run.thread_times[i];
    const std::string prefix = "thread_" + std::to_string(i + 1) + "_";
    const double due = target_ops_per_s / threads * one.seconds;
    (*sample)[prefix + "operations"] = one.operations;
    (*sample)[prefix + "seconds"] = one.seconds;
    (*sample)[prefix + "slept_seconds"] = one.slept_seconds;
    (*sample)[prefix + "deviation_percent"] =
        due > 0 ? Json(100 * (static_cast<double>(one.operations) / due - 1)) : Json(nullptr);
  }
}

void add_load(const RunResult& load, Json* sample) {
  (*sample)["load_operations"] = load.operations;
  (*sample)["load_seconds"] = load.seconds;
  (*sample)["load_joules"] = or_null(load.joules);
  (*sample)["load_ops_per_s"] = load.throughput_ops_per_s;
  add_memory(load.sampled, "load_", sample);
}

void add_run(const RunResult& run, const MeltConfiguration& configuration, std::optional<double> idle_joules,
             Json* sample) {
  double seconds = 0, slept = 0;
  for (const ThreadTimes& thread : run.thread_times) {
    seconds += thread.seconds;
    slept += thread.slept_seconds;
  }
  const auto threads = static_cast<double>(std::max<size_t>(1, run.thread_times.size()));
  (*sample)["operations"] = run.operations;
  (*sample)["adjusted_target_ops_per_s"] = configuration.target_ops_per_s;
  (*sample)["runtime_seconds"] = run.seconds;
  (*sample)["thread_seconds"] = seconds / threads;
  (*sample)["thread_slept_seconds"] = slept / threads;
  (*sample)["cpu_seconds"] = run.cpu_seconds;
  (*sample)["joules"] = or_null(run.joules);
  (*sample)["ops_per_s"] = run.throughput_ops_per_s;
  const auto operations = static_cast<double>(run.operations);
  std::optional<double> corrected = run.joules;
  if (corrected && idle_joules) *corrected -= *idle_joules / configuration.idle_seconds * run.seconds;
  (*sample)["joules_per_op"] = idle_joules ? per(corrected, operations) : Json(nullptr);
  (*sample)["joules_per_op_raw"] = per(run.joules, operations);
  (*sample)["requests"] = run.requests;
  add_memory(run.sampled, "", sample);
  for (const OpKind kind : {OpKind::kRead, OpKind::kUpdate, OpKind::kInsert}) {
    add_latency(run.latency[static_cast<size_t>(kind)], std::string(op_kind_name(kind)), sample);
  }
  add_threads(run, configuration.target_ops_per_s, sample);
}

RunConfig config_of(const MeltConfiguration& configuration, const RunConfig& base, EnergyMeter* meter) {
  RunConfig config = base;
  config.records = configuration.records;
  config.threads = configuration.threads;
  config.target_ops_per_s = configuration.target_ops_per_s;
  config.seconds_max = configuration.seconds;
  config.interval_ms = configuration.interval_ms;
  config.latency_per_interval = configuration.latency_per_interval;
  config.draw = draw_mode(configuration.seconds);
  config.memory_every_ms = kMemoryEveryMs;
  config.energy = meter;
  config.map = configuration.map;
  const double rate = configuration.target_ops_per_s > 0 ? configuration.target_ops_per_s : kRateMax;
  config.operations = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(rate * configuration.seconds)));
  return config;
}

}  // namespace

MeltSample melt_key(const MeltConfiguration& configuration, const RunConfig& base) {
  static const Manifest kMachine = [] {
    Manifest machine;
    describe_machine(&machine);
    return machine;
  }();
  return {{"engine", configuration.engine},
          {"workload", configuration.workload.name},
          {"threads", configuration.threads},
          {"target_ops_per_s", configuration.target_ops_per_s},
          {"records", configuration.records},
          {"target_seconds", configuration.seconds},
          {"idle_seconds", configuration.idle_seconds},
          {"interval_ms", configuration.interval_ms},
          {"latency_per_interval", configuration.latency_per_interval},
          {"key", key_form_name(base.key_form)},
          {"value_bytes", base.value_bytes.value_or(configuration.workload.record_bytes)},
          {"hash", configuration.map.hash == HashKind::kCity ? "city" : "default"},
          {"room_ahead", configuration.map.room_ahead},
          {"bucket_records", configuration.map.bucket_records},
          {"system_memory", configuration.map.system_memory},
          {"seed", base.seed},
          {"commit", or_null(kMachine.commit)},
          {"cpu", or_null(kMachine.cpu)}};
}

Status take_melt_sample(const MeltConfiguration& configuration, const RunConfig& base, unsigned number,
                        EnergyMeter* meter, const std::atomic<bool>& stop, const RunListener& listener,
                        MeltSample* sample) {
  const EngineEntry* engine = find_engine(configuration.engine);
  if (engine == nullptr) return Status::NotFound("this build has no engine " + configuration.engine);
  std::optional<double> idle_joules;
  if (Status status = rest(configuration.idle_seconds, meter, stop, &idle_joules); !status.ok()) {
    listener.on_note("energy: " + std::string(status.message()));
    meter = nullptr;
  }
  std::vector<RunResult> results;
  std::string left_out;
  RunListener mine = listener;
  mine.on_result = [&results](const RunResult& one) { results.push_back(one); };
  mine.on_left_out = [&left_out](const LeftOut& one) { left_out = one.reason; };
  const RunConfig config = config_of(configuration, base, meter);
  BONSAI_RETURN_IF_ERROR(run_engine_apart(*engine, config, {{.workload = configuration.workload}}, stop, mine));
  if (!left_out.empty()) return Status::NotSupported(configuration.engine + " " + left_out);
  for (const RunResult& one : results) {
    if (one.failures == 0) continue;
    return Status::Unavailable(one.engine + ", " + one.workload + ": " + std::to_string(one.failures) +
                               " operations failed; the first: " + one.first_failure);
  }
  *sample = melt_key(configuration, base);
  (*sample)["sample"] = number;
  (*sample)["idle_joules"] = or_null(idle_joules);
  add_load(results.front(), sample);
  (*sample)["load_joules_per_op"] =
      idle_joules && results.front().joules
          ? Json((*results.front().joules - *idle_joules / configuration.idle_seconds * results.front().seconds) /
                 static_cast<double>(results.front().operations))
          : Json(nullptr);
  add_run(results.back(), configuration, idle_joules, sample);
  return Status::OK();
}

namespace {

// The mean of a column over the samples that have it.
std::optional<double> mean(const std::vector<MeltSample>& samples, const char* column) {
  double sum = 0;
  unsigned count = 0;
  for (const MeltSample& sample : samples) {
    const auto found = sample.find(column);
    if (found == sample.end() || !found->is_number()) continue;
    sum += found->get<double>();
    ++count;
  }
  return count > 0 ? std::optional<double>(sum / count) : std::nullopt;
}

// Whether the part of a sample that melt_point() takes apart is as add_latency() writes it.
bool is_sample(const MeltSample& sample) {
  if (!sample.is_object()) return false;
  const auto counts = sample.find(kCounts);
  if (counts == sample.end()) return true;
  const auto is_bucket = [](const Json& bucket) {
    return bucket.is_array() && bucket.size() == 2 && bucket[0].is_number_unsigned() &&
           bucket[1].is_number_unsigned() && bucket[1] > 0;
  };
  return counts->is_object() && std::all_of(counts->begin(), counts->end(), [&](const Json& kind) {
           return kind.is_array() && std::all_of(kind.begin(), kind.end(), is_bucket);
         });
}

}  // namespace

MeltPoint melt_point(const std::vector<MeltSample>& samples) {
  MeltPoint point;
  point.samples = static_cast<unsigned>(samples.size());
  point.ops_per_s = mean(samples, "ops_per_s").value_or(0);
  point.seconds = mean(samples, "runtime_seconds").value_or(0);
  point.slept_seconds = mean(samples, "thread_slept_seconds").value_or(0);
  point.cpu_seconds = mean(samples, "cpu_seconds").value_or(0);
  point.load_seconds = mean(samples, "load_seconds").value_or(0);
  point.load_ops_per_s = mean(samples, "load_ops_per_s").value_or(0);
  const auto idle_joules = mean(samples, "idle_joules");
  if (idle_joules) point.idle_watts = *idle_joules / mean(samples, "idle_seconds").value_or(1);
  if (const auto joules = mean(samples, "joules")) point.watts = *joules / std::max(point.seconds, 1e-9);
  point.joules_per_op = mean(samples, "joules_per_op");
  point.joules_per_op_raw = mean(samples, "joules_per_op_raw");
  point.load_joules_per_op = mean(samples, "load_joules_per_op");
  point.space_efficiency = mean(samples, "space_efficiency");
  point.used_bytes = mean(samples, "used_bytes_max");
  point.reserved_bytes = mean(samples, "reserved_bytes_max");
  point.load_space_efficiency = mean(samples, "load_space_efficiency");
  point.load_used_bytes = mean(samples, "load_used_bytes_max");
  point.load_reserved_bytes = mean(samples, "load_reserved_bytes_max");
  for (const MeltSample& sample : samples) {
    const auto counts = sample.find(kCounts);
    if (counts == sample.end()) continue;
    for (size_t kind = 0; kind < kOpKinds; ++kind) {
      const auto mine = counts->find(std::string(op_kind_name(static_cast<OpKind>(kind))));
      if (mine == counts->end()) continue;
      for (const Json& bucket : *mine) {
        point.latency[kind].record(bucket.at(0).get<uint64_t>(), bucket.at(1).get<uint64_t>());
      }
    }
  }
  return point;
}

Status MeltSamples::open(const std::string& directory) {
  directory_ = directory;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Status::IoError("cannot make " + directory + ": " + error.message() + "; give another --out");
  std::ifstream in(directory + "/samples.json");
  if (!in) return Status::OK();
  const Json read = Json::parse(in, nullptr, false);
  const bool ours = read.is_object() && read.value("version", Json(0)) == kSamplesVersion && read.contains("samples") &&
                    read.at("samples").is_array() &&
                    std::all_of(read.at("samples").begin(), read.at("samples").end(), is_sample);
  if (!ours) {
    return Status::Corruption(directory + "/samples.json is none of this program's; move it, or give another --out");
  }
  samples_ = read.at("samples");
  return Status::OK();
}

Status MeltSamples::add(MeltSample sample) {
  samples_.push_back(std::move(sample));
  BONSAI_RETURN_IF_ERROR(write_file(directory_ + "/samples.json",
                                    Json{{"version", kSamplesVersion}, {"samples", samples_}}.dump() + "\n"));
  std::vector<std::string> columns;
  std::set<std::string> seen = {kCounts};
  for (const Json& each : samples_) {  // those of more threads have more columns
    for (const auto& [name, value] : each.items()) {
      if (seen.insert(name).second) columns.push_back(name);
    }
  }
  return write_file(directory_ + "/samples.csv", csv_text(columns, samples_));
}

std::vector<MeltSample> MeltSamples::of(const MeltSample& key) const {
  std::vector<MeltSample> found;
  for (const Json& sample : samples_) {
    const bool matches =
        sample.is_object() && std::all_of(key.items().begin(), key.items().end(), [&](const auto& one) {
          const auto at = sample.find(one.key());
          return at != sample.end() && *at == one.value();
        });
    if (matches) found.push_back(sample);
  }
  return found;
}

}  // namespace bonsai::bench
