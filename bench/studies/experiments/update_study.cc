// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/experiments/update_study.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "bench/engines/pool_place.h"
#include "bench/ycsb/generators.h"
#include "bench/ycsb/keys.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kSlices = 16;  // between them the clock stands and space is looked at
constexpr uint64_t kPoolBytesBase = uint64_t{64} << 20;
constexpr uint64_t kPoolFactor = 4;
constexpr uint64_t kRecordOverheadBytes = 48;

class UpdateMeasurement {
 public:
  UpdateMeasurement(const ExperimentPlan& plan, const UpdateStudy& study)
      : plan_(plan),
        study_(study),
        shape_{KeyForm::kFixed8, true, 1, study.value_bytes},
        keys_(study.depth),
        values_(study.depth),
        statuses_(study.depth),
        rooms_(study.depth * sizeof(uint64_t)),
        value_(study.value_bytes, 'v'),
        random_(plan.config.seed) {
    if (study.alpha > 0) zipf_.emplace(study.records, study.alpha);
  }

  Status run(UpdateCosts* costs) {
    BONSAI_RETURN_IF_ERROR(open());
    plan_.listener.on_phase("bonsai", "load " + std::to_string(study_.records), study_.records);
    std::vector<uint64_t> numbers(study_.records);
    for (uint64_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    BONSAI_RETURN_IF_ERROR(put(numbers));
    BONSAI_RETURN_IF_ERROR(db_->Drain());
    plan_.listener.on_phase("bonsai", "update " + std::to_string(study_.records), 2 * study_.records);
    draw(&numbers);
    BONSAI_RETURN_IF_ERROR(put(numbers));
    latency_.clear();
    const Stats before = db_->GetStats();
    numbers.resize(std::max<uint64_t>(1, 2 * study_.records / kSlices));
    uint64_t spent_ns = 0;
    for (uint64_t i = 0; i < kSlices; ++i) {
      draw(&numbers);
      const uint64_t begin_ns = base::now_ns();
      BONSAI_RETURN_IF_ERROR(put(numbers));
      spent_ns += base::now_ns() - begin_ns;
      look_at_space(costs);
    }
    tell(before, spent_ns, costs);
    return db_->Close();
  }

 private:
  Status open() {
    StoreOptions options = study_.options;
    options.create_if_missing = true;
    options.error_if_exists = true;
    options.key_format = KeyFormat::kFixed8;
    const uint64_t record_bytes = sizeof(uint64_t) + study_.value_bytes + kRecordOverheadBytes;
    options.pool_bytes = kPoolBytesBase + study_.records * record_bytes * kPoolFactor + options.log_bytes;
    BONSAI_RETURN_IF_ERROR(place_.make(plan_.config.pool_dir, plan_.config.out_dir, options.pool_bytes));
    return study_.open(options, options.test, place_.path() + "/pool", &db_);
  }

  void draw(std::vector<uint64_t>* numbers) {
    for (uint64_t& number : *numbers) {
      number = zipf_ ? zipf_->draw([this] { return random_.unit(); })
                     : static_cast<uint64_t>(random_.unit() * static_cast<double>(study_.records));
    }
  }

  // Puts the records of these numbers, `depth` at a time.
  Status put(const std::vector<uint64_t>& numbers) {
    for (size_t at = 0; at < numbers.size(); at += study_.depth) {
      if (*plan_.stop) return Status::Unavailable("interrupted");
      const size_t n = std::min<size_t>(study_.depth, numbers.size() - at);
      for (size_t i = 0; i < n; ++i) {
        keys_[i] = encode_key(shape_, shape_.id(numbers[at + i]), rooms_.data() + i * sizeof(uint64_t));
        values_[i] = value_;
      }
      const uint64_t begin_ns = study_.timed ? base::now_ns() : 0;
      if (study_.atomic) {
        batch_.Clear();
        for (size_t i = 0; i < n; ++i) batch_.Put(keys_[i], values_[i]);
        statuses_[0] = db_->Write(batch_);
      } else if (study_.depth == 1) {
        statuses_[0] = db_->Put(keys_[0], values_[0]);
      } else {
        db_->MultiPut({keys_.data(), n}, {values_.data(), n}, {statuses_.data(), n});
      }
      if (study_.timed) latency_.record(base::now_ns() - begin_ns);
      for (size_t i = 0; i < n; ++i) BONSAI_RETURN_IF_ERROR(statuses_[i]);
    }
    return Status::OK();
  }

  void look_at_space(UpdateCosts* costs) const {
    const Stats now = db_->GetStats();
    const auto most = [&](uint64_t bytes, double* figure) {
      *figure = std::max(*figure, static_cast<double>(bytes) / static_cast<double>(study_.records));
    };
    most(now.data_bytes_used, &costs->data_bytes_per_record);
    most(now.log_bytes, &costs->log_bytes_per_record);
    most(now.dram_bytes, &costs->dram_bytes_per_record);
  }

  void tell(const Stats& before, uint64_t spent_ns, UpdateCosts* costs) const {
    const Stats after = db_->GetStats();
    const auto updates = static_cast<double>(after.puts - before.puts);
    costs->medium = {.text = after.medium, .emulated = after.emulated};
    costs->mops = updates * 1e3 / static_cast<double>(spent_ns);
    costs->offload_mops = updates / static_cast<double>(std::max<uint64_t>(1, after.offload_us - before.offload_us));
    costs->wrr_percent = 100 * (1 - static_cast<double>(after.updates_offloaded - before.updates_offloaded) / updates);
    costs->media_bytes_per_update = static_cast<double>(after.nvm_media_bytes - before.nvm_media_bytes) / updates;
    costs->write_amplification =
        costs->media_bytes_per_update / static_cast<double>(sizeof(uint64_t) + study_.value_bytes);
    costs->fences_per_update = static_cast<double>(after.nvm_fences - before.nvm_fences) / updates;
    costs->latency = latency_;
    costs->stalls = after.stalls - before.stalls;
    costs->pauses = after.pauses - before.pauses;
    costs->wake_ups = after.wake_ups - before.wake_ups;
    costs->replacements = after.replacements - before.replacements;
    costs->log_percent_of_data = 100 * costs->log_bytes_per_record / costs->data_bytes_per_record;
  }

  const ExperimentPlan& plan_;
  const UpdateStudy& study_;
  const RecordShape shape_;
  std::vector<std::string_view> keys_, values_;
  std::vector<Status> statuses_;
  std::vector<char> rooms_;
  WriteBatch batch_;
  const std::string value_;
  Histogram latency_;
  base::Random random_;
  std::optional<PlainZipf> zipf_;
  PoolPlace place_;
  std::unique_ptr<DB> db_;
};

}  // namespace

Status run_updates(const ExperimentPlan& plan, const UpdateStudy& study, UpdateCosts* costs) {
  std::vector<UpdateCosts> runs(std::max(1U, plan.repeat));
  for (UpdateCosts& one : runs) BONSAI_RETURN_IF_ERROR(UpdateMeasurement(plan, study).run(&one));
  std::sort(runs.begin(), runs.end(), [](const UpdateCosts& a, const UpdateCosts& b) { return a.mops < b.mops; });
  *costs = runs[runs.size() / 2];
  return Status::OK();
}

}  // namespace bonsai::bench
