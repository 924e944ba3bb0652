// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/experiments/synthesis_cells.h"

#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "base/thread.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kFullRecords = 18'750'000;  // of 16 bytes: 0.3 GB
constexpr uint64_t kSweptSample = 20'000;
// The longest come first. The systems that take most memory, 4 GB for Bonsai and 5 GB for Clover, run beside others.
constexpr std::array<std::string_view, 8> kFullSizeOrder = {
    "Bonsai",    "PACTree-paging-like", "Sherman-persist-like", "Sherman-like",
    "RACE-like", "Clover-persist-like", "RCuckoo-like",         "Clover-like"};

// Collects a plan's cells as they arrive, from any thread.
class Cells {
 public:
  Cells(const ExperimentPlan& plan, const OnCell& on_cell) : plan_(plan), on_cell_(on_cell) {}

  Status begin(size_t system, char letter, uint64_t operations) {
    if (*plan_.stop) return Status::Unavailable("interrupted");
    const std::lock_guard lock(one_at_a_time_);
    plan_.listener.on_phase(std::string(systems()[system].name), workload_name(letter), operations);
    return Status::OK();
  }
  void add(const Ground& ground, size_t number, size_t system, char letter, const TrialResult& r, const Trial& trial) {
    const auto us = [&](double percent) { return static_cast<double>(r.latency.percentile(percent)) / 1e3; };
    const Cell cell{.ground = number,
                    .system = system,
                    .letter = letter,
                    .mops = r.mops(),
                    .spread = r.spread,
                    .lists = r.lists(),
                    .messages = r.messages(),
                    .bytes = r.bytes(),
                    .p50_us = us(50),
                    .p99_us = us(99),
                    .ceiling = ceiling_of(r, trial.device(), ground.shape(), 1, trial.operation_cpu_ns()),
                    .cache_bytes = r.cache_bytes,
                    .memory_bytes_per_record = r.memory_bytes_per_record};
    const std::lock_guard lock(one_at_a_time_);
    on_cell_(cell);
  }

 private:
  const ExperimentPlan& plan_;
  const OnCell& on_cell_;
  std::mutex one_at_a_time_;
};

bool can(size_t system, const Ground& ground) {
  const SystemEntry& entry = systems()[system];
  return (entry.strings || ground.key_form == KeyForm::kFixed8) && (entry.cache_sized || !ground.cache_bytes()) &&
         (entry.faults || ground.fault_ns == 0);
}

bool can(size_t system, char letter) { return letter != 'e' || systems()[system].scans; }

// Measures the next load or workload of a trial, if its system can run it.
Status measure_cell(const Ground& ground, size_t number, size_t system, char letter, Trial* trial, Cells* cells) {
  if (!can(system, letter)) return Status::OK();
  const uint64_t operations = ground.operations(letter);
  BONSAI_RETURN_IF_ERROR(cells->begin(system, letter, operations));
  TrialResult result;
  BONSAI_RETURN_IF_ERROR(letter == 'l' ? trial->load(operations, &result)
                                       : trial->run(ycsb_workload(letter), operations, &result));
  cells->add(ground, number, system, letter, result, *trial);
  return Status::OK();
}

// Measures one system: the load, then the other workloads in order. Workloads that it cannot run are left out.
Status measure_system(const Ground& ground, size_t number, size_t system, Cells* cells) {
  if (!can(system, ground)) return Status::OK();
  std::unique_ptr<Trial> trial;
  BONSAI_RETURN_IF_ERROR(Trial::make(systems()[system],
                                     {.device = ground.device,
                                      .list_cpu_ns = ground.list_cpu_ns,
                                      .operation_cpu_ns = ground.operation_cpu_ns,
                                      .seed = ground.plan.config.seed,
                                      .key_form = ground.key_form,
                                      .records = ground.records(),
                                      .inserts_max = ground.records() / 4,
                                      .backoff_ns = ground.backoff_ns,
                                      .shape = ground.shape(),
                                      .cache_bytes = ground.cache_bytes(),
                                      .fault_ns = ground.fault_ns},
                                     &trial));
  for (const char letter : ground.letters) {
    BONSAI_RETURN_IF_ERROR(measure_cell(ground, number, system, letter, trial.get(), cells));
  }
  return Status::OK();
}

// Measures one system at full size, on the grounds with this form of keys. After the fill the loads of all grounds
// insert the remaining records; then the other workloads run.
Status measure_filled(const std::vector<Ground>& grounds, KeyForm form, size_t system, Cells* cells) {
  uint64_t loads = 0, operations = 0;
  size_t runs = 1, threads = 1;
  for (const Ground& ground : grounds) {
    if (ground.key_form != form || !can(system, ground)) continue;
    loads += ground.operations('l');
    operations += ground.operations('d');
    runs += ground.letters.size();
    threads = std::max(threads, ground.threads);
  }
  if (loads == 0) return Status::OK();
  const Ground& any = grounds.front();
  std::unique_ptr<Trial> trial;
  BONSAI_RETURN_IF_ERROR(Trial::make(systems()[system],
                                     {.seed = any.plan.config.seed,
                                      .key_form = form,
                                      .records = std::max(any.records(), loads),
                                      .inserts_max = operations / 4,
                                      .runs_max = runs,
                                      .opens_at_once = true,
                                      .shape = {.threads = threads, .coroutines = any.shape().coroutines}},
                                     &trial));
  const uint64_t filled = any.records() - std::min(any.records(), loads);
  BONSAI_RETURN_IF_ERROR(cells->begin(system, 'l', filled));
  BONSAI_RETURN_IF_ERROR(trial->fill(filled));
  for (const bool loading : {true, false}) {
    for (size_t number = 0; number < grounds.size(); ++number) {
      const Ground& ground = grounds[number];
      if (ground.key_form != form || !can(system, ground)) continue;
      trial->change(ground.shape(), ground.device, ground.list_cpu_ns, ground.operation_cpu_ns);
      for (const char letter : ground.letters) {
        if ((letter == 'l') != loading) continue;
        BONSAI_RETURN_IF_ERROR(measure_cell(ground, number, system, letter, trial.get(), cells));
      }
    }
  }
  return Status::OK();
}

Status in_turns(size_t count, const std::function<Status(size_t)>& measure) {
  std::vector<Status> statuses(count);
  base::for_each_on(base::processors(), count, [&](size_t turn) { statuses[turn] = measure(turn); });
  for (const Status& status : statuses) BONSAI_RETURN_IF_ERROR(status);
  return Status::OK();
}

// All cells of the whole synthesis at full size.
struct FullSize {
  uint64_t seed = 0;
  AskedFor asked;
  std::vector<Cell> cells;
};

bool is_of(const FullSize& measured, const ExperimentPlan& plan) {
  const AskedFor &a = measured.asked, &b = plan.asked;
  return measured.seed == plan.config.seed && a.records == b.records && a.operations == b.operations &&
         a.threads == b.threads && a.depth == b.depth;
}

Status measure_full_size(const ExperimentPlan& plan, const std::vector<Ground>& grounds, std::vector<Cell>* found) {
  static std::mutex mutex;
  static FullSize kept;
  const std::lock_guard lock(mutex);
  if (!kept.cells.empty() && is_of(kept, plan)) {
    *found = kept.cells;
    return Status::OK();
  }
  const OnCell keep = [found](const Cell& cell) { found->push_back(cell); };
  Cells cells(plan, keep);
  BONSAI_CHECK(kFullSizeOrder.size() == systems().size());
  const auto measure = [&](size_t turn) {
    const auto system = static_cast<size_t>(find_system(kFullSizeOrder[turn]) - systems().data());
    BONSAI_RETURN_IF_ERROR(measure_filled(grounds, KeyForm::kFixed8, system, &cells));
    return measure_filled(grounds, KeyForm::kString, system, &cells);
  };
  BONSAI_RETURN_IF_ERROR(in_turns(systems().size(), measure));
  kept = {plan.config.seed, plan.asked, *found};
  return Status::OK();
}

// Picks the requested cells out of the whole synthesis.
Status pick_full_size(const std::vector<Ground>& asked, const OnCell& on_cell) {
  const ExperimentPlan& plan = asked.front().plan;
  std::vector<Ground> all = rate_grounds(plan);
  for (const Ground& ground : swept_grounds(plan)) all.push_back(ground);
  std::vector<Cell> cells;
  BONSAI_RETURN_IF_ERROR(measure_full_size(plan, all, &cells));
  for (size_t number = 0; number < asked.size(); ++number) {
    for (Cell cell : cells) {
      if (!all[cell.ground].is(asked[number])) continue;
      cell.ground = number;
      on_cell(cell);
    }
  }
  return Status::OK();
}

}  // namespace

uint64_t Ground::records() const {
  const uint64_t usual = full_size()                   ? kFullRecords
                         : plan.scale == Scale::kPaper ? 1'000'000
                         : plan.is_trial()             ? 1'000
                                                       : 20'000;
  return plan.asked.records.value_or(usual);
}

uint64_t Ground::operations(char letter) const {
  if (letter == 'l' && !full_size()) return records();
  const uint64_t usual = full_size() ? sample : records();
  const uint64_t all = std::max<uint64_t>(plan.asked.operations.value_or(usual), 100);
  return letter == 'e' ? std::max<uint64_t>(all / kScansPerOperation, 100) : all;
}

bool Ground::is(const Ground& other) const {
  return key_form == other.key_form && threads == other.threads && device.name == other.device.name &&
         device.wire_ns == other.device.wire_ns && device.same_address_ns == other.device.same_address_ns &&
         list_cpu_ns == other.list_cpu_ns && operation_cpu_ns == other.operation_cpu_ns && letters == other.letters;
}

std::vector<size_t> threads_of(const ExperimentPlan& plan) {
  if (plan.asked.threads) return {*plan.asked.threads};
  if (plan.is_trial()) return {1, 6};
  if (plan.scale == Scale::kSmall) return {1, 12, 36};
  return {1, 6, 12, 18, 24, 30, 36};
}

std::vector<Ground> rate_grounds(const ExperimentPlan& plan) {
  std::vector<Ground> grounds;
  for (const KeyForm form : {KeyForm::kFixed8, KeyForm::kString}) {
    for (const size_t threads : threads_of(plan)) {
      grounds.push_back({.plan = plan, .key_form = form, .threads = threads});
    }
  }
  return grounds;
}

std::vector<Ground> swept_grounds(const ExperimentPlan& plan) {
  std::vector<Ground> grounds;
  for (const double wire_ns : {1'500, 2'300, 5'000}) {
    for (const double same_address_ns : {111, 341}) {
      for (const double list_cpu_ns : {250, 900, 1'500}) {
        for (const double operation_cpu_ns : {450, 2'500}) {
          Ground& ground = grounds.emplace_back(Ground{.plan = plan,
                                                       .threads = threads_of(plan).back(),
                                                       .list_cpu_ns = list_cpu_ns,
                                                       .operation_cpu_ns = operation_cpu_ns,
                                                       .letters = kSweptLetters,
                                                       .sample = kSweptSample});
          ground.device.wire_ns = wire_ns;
          ground.device.same_address_ns = same_address_ns;
        }
      }
    }
  }
  if (plan.is_trial()) return {grounds.front(), grounds.back()};
  return grounds;
}

Status measure_systems(const std::vector<Ground>& grounds, const OnCell& on_cell) {
  if (grounds.empty()) return Status::OK();
  if (grounds.front().full_size()) return pick_full_size(grounds, on_cell);
  Cells cells(grounds.front().plan, on_cell);
  return in_turns(grounds.size() * systems().size(), [&](size_t turn) {
    const size_t system = systems().size() - 1 - turn / grounds.size();  // the last takes longest
    const size_t number = grounds.size() - 1 - turn % grounds.size();
    return measure_system(grounds[number], number, system, &cells);
  });
}

}  // namespace bonsai::bench
