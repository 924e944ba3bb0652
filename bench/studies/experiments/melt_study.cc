// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/experiments/melt_study.h"

#include <cstdio>
#include <utility>

#include "base/status_macros.h"
#include "bench/engines/hash.h"

namespace bonsai::bench {
namespace {

struct Size {
  uint64_t records;
  double seconds;
  double idle_seconds;
  unsigned samples;
  double rate_first, rate_step, rate_max;
};

Size size_of(Scale scale) {
  if (scale == Scale::kPaper) return {1'000'000, 30, 5, 5, 1e6, 1e6, 0};
  if (scale == Scale::kSmall) return {200'000, 0.25, 0.25, 2, 1e6, 1e6, 0};
  return {2'000, 0.05, 0.05, 1, 50e3, 50e3, 100e3};
}

}  // namespace

Workload melt_workload(char letter) {
  Workload workload;
  workload.name = std::string(1, letter);
  workload.requests = letter == 'd' ? Distribution::kLatest : Distribution::kZipfian;
  const double reads = letter == 'a' ? 0.5 : letter == 'c' ? 1 : 0.95;
  workload.shares = {reads};
  workload.shares[static_cast<size_t>(letter == 'd' ? OpKind::kInsert : OpKind::kUpdate)] = 1 - reads;
  workload.zero_padding = kFixedKeyBytes - 4;
  return workload;
}

std::vector<std::string> melt_engines() {
  std::vector<std::string> engines;
  for (const char* name :
       {"hopscotch", "dense_hash", "sparse_hash", "unordered_map", "libcuckoo", "tbb_hash", "bonsai"}) {
    if (find_engine(name) != nullptr) engines.emplace_back(name);
  }
  return engines;
}

bool is_serial(const std::string& engine) { return !find_engine(engine)->make()->capabilities().threads; }

std::string store_name(const SweepCurve& curve) {
  return is_serial(curve.engine) ? curve.engine : std::to_string(curve.threads) + " " + curve.engine;
}

Status MeltStudy::open(const ExperimentPlan& plan, std::unique_ptr<MeltStudy>* study) {
  std::unique_ptr<MeltStudy> made(new MeltStudy(plan));
  BONSAI_RETURN_IF_ERROR(made->samples_.open(plan.config.out_dir));
  const Status energy = EnergyMeter::open("", &made->meter_);
  if (!energy.ok()) made->without_energy_ = energy.message();
  *study = std::move(made);
  return Status::OK();
}

RunConfig MeltStudy::base() const {
  RunConfig config = plan_.config;
  config.key_form = KeyForm::kString;
  config.value_bytes = kFixedValueBytes;
  config.record_dir.clear();
  return config;
}

MeltConfiguration MeltStudy::configuration(char letter) const {
  const Size size = size_of(plan_.scale);
  MeltConfiguration each;
  each.workload = melt_workload(letter);
  each.records = plan_.asked.records.value_or(size.records);
  each.seconds = size.seconds;
  each.idle_seconds = size.idle_seconds;
  // The thesis has one per interval; shorter samples have more, so that they suffice for percentiles.
  each.latency_per_interval = plan_.scale == Scale::kPaper ? 1 : 50;
  each.map.hash = HashKind::kCity;
  return each;
}

SweepPlan MeltStudy::sweep_plan() const {
  const Size size = size_of(plan_.scale);
  SweepPlan sweep;
  sweep.engines = melt_engines();
  sweep.threads_max = plan_.threads_max;
  sweep.rate_first = size.rate_first;
  sweep.rate_step = size.rate_step;
  sweep.rate_max = size.rate_max;
  sweep.samples = size.samples;
  return sweep;
}

SweepTools MeltStudy::tools() { return {&samples_, meter_.get(), plan_.stop, plan_.listener}; }

Status MeltStudy::sweep(const std::string& letters, std::vector<SweepCurve>* curves) {
  SweepPlan sweep = sweep_plan();
  for (const char letter : letters) sweep.workloads.push_back(melt_workload(letter));
  sweep.each = configuration(letters.front());
  return run_sweep(sweep, base(), tools(), curves);
}

Status MeltStudy::at_rates(char letter, const std::vector<double>& rates, std::vector<SweepCurve>* curves) {
  curves->clear();
  for (const std::string& engine : melt_engines()) {
    for (unsigned threads = 1; threads <= (is_serial(engine) ? 1 : plan_.threads_max); ++threads) {
      SweepCurve curve{engine, std::string(1, letter), threads, rates, {}};
      for (const double rate : rates) {
        MeltConfiguration one = configuration(letter);
        one.engine = engine;
        one.threads = threads;
        one.target_ops_per_s = rate;
        curve.points.emplace_back();
        BONSAI_RETURN_IF_ERROR(measure(one, &curve.points.back()));
      }
      curves->push_back(std::move(curve));
    }
  }
  return Status::OK();
}

Status MeltStudy::measure(const MeltConfiguration& configuration, MeltPoint* point) {
  return measure_melt(configuration, base(), sweep_plan().samples, "", tools(), point);
}

std::vector<std::string> MeltStudy::labels() const {
  const Size size = size_of(plan_.scale);
  const MeltConfiguration each = configuration('a');
  char text[400];
  std::snprintf(
      text, sizeof text,
      "%llu records of %zu + %zu bytes, hash CityHash64 for every hash map, intervals of %llu ms, %u samples of "
      "%g s per rate, each on a fresh store; rates from %g M/s on, %g M/s apart.%s",
      static_cast<unsigned long long>(each.records), kFixedKeyBytes, kFixedValueBytes,
      static_cast<unsigned long long>(each.interval_ms), size.samples, size.seconds, size.rate_first / 1e6,
      size.rate_step / 1e6,
      plan_.scale == Scale::kPaper ? " Requests are drawn live." : " The thesis' size: --scale=paper");
  std::vector<std::string> labels = {
      text,
      "A store's name follows its number of threads. The samples are in samples.json and samples.csv, shared by all "
      "figures of the group; what is there already is not measured again."};
  if (!without_energy_.empty()) labels.push_back("Energy is n/a: " + without_energy_);
  return labels;
}

}  // namespace bonsai::bench
