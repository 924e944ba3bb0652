// SPDX-License-Identifier: Apache-2.0
// Bonsai and other systems side by side under YCSB, on a model of devices in virtual time, in the form of the BonsaiKV
// scheme's synthesis benchmark: rates by threads, what operations cost, and which orders of the systems hold however
// the model's parameters are chosen.
#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/thread.h"
#include "bench/cluster/trial.h"
#include "bench/experiments/experiments.h"
#include "bench/experiments/synthesis_reference.h"

namespace bonsai::bench {
namespace {

constexpr size_t kCoroutines = 4;            // of a thread; BonsaiKV's optimum, and the same for all
constexpr size_t kRecordBytes = 16;          // integer keys and their values
constexpr uint64_t kScansPerOperation = 10;  // a scan is as much work as so many other operations

bool is_trial(const ExperimentPlan& plan) { return plan.scale == Scale::kTrial; }

std::string class_name(Durability durability) { return durability == Durability::kVolatile ? "V" : "D"; }
std::string column_name(const SystemEntry& entry) {
  return std::string(entry.name) + " (" + class_name(entry.durability) + ")";
}

// The systems on one form of keys, loaded once for a shape of clients.
struct Ground {
  const ExperimentPlan& plan;
  KeyForm key_form = KeyForm::kFixed8;
  size_t threads = 1;
  rdma::SimDevice device = rdma::SimDevice::cx5();
  double list_cpu_ns = 0;
  size_t coroutines = 0;  // of a thread; 0: as asked, or as many as for all
  double cache_percent =
      0;  // what the cache takes of what keys and values do, for systems that heed it; 0: as published

  [[nodiscard]] uint64_t records() const {
    const uint64_t usual = plan.scale == Scale::kPaper ? 1'000'000 : is_trial(plan) ? 1'000 : 20'000;
    return plan.asked.records.value_or(usual);
  }
  [[nodiscard]] uint64_t operations(char letter) const {
    const uint64_t all = std::max<uint64_t>(plan.asked.operations.value_or(records()), 100);
    return letter == 'e' ? std::max<uint64_t>(all / kScansPerOperation, 100) : all;
  }
  [[nodiscard]] rivals::Shape shape() const {
    return {.threads = threads, .coroutines = coroutines > 0 ? coroutines : plan.asked.depth.value_or(kCoroutines)};
  }
  [[nodiscard]] std::optional<size_t> cache_bytes() const {
    if (cache_percent == 0) return {};
    return static_cast<size_t>(static_cast<double>(records() * kRecordBytes) * cache_percent / 100);
  }
};

// Of a system, by its number in systems().
using OnCell = std::function<void(size_t system, char letter, const TrialResult& result, const Trial& trial)>;

// One system: the load, then the other workloads in order. What it cannot do is left out.
Status measure_system(const Ground& ground, size_t system, std::string_view letters, std::mutex* listening,
                      const OnCell& on_cell) {
  const SystemEntry& entry = systems()[system];
  if (!entry.strings && ground.key_form != KeyForm::kFixed8) return Status::OK();
  if (!entry.cache_sized && ground.cache_bytes()) return Status::OK();
  std::unique_ptr<Trial> trial;
  BONSAI_RETURN_IF_ERROR(Trial::make(entry,
                                     {.device = ground.device,
                                      .list_cpu_ns = ground.list_cpu_ns,
                                      .seed = ground.plan.config.seed,
                                      .key_form = ground.key_form,
                                      .records = ground.records(),
                                      .inserts_max = ground.records() / 4,
                                      .shape = ground.shape(),
                                      .cache_bytes = ground.cache_bytes()},
                                     &trial));
  for (const char letter : letters) {
    if (*ground.plan.stop) return Status::Unavailable("interrupted");
    if (letter == 'e' && !entry.scans) continue;
    const uint64_t operations = letter == 'l' ? ground.records() : ground.operations(letter);
    {
      const std::lock_guard lock(*listening);
      ground.plan.listener.on_phase(std::string(entry.name), workload_name(letter), operations);
    }
    TrialResult result;
    BONSAI_RETURN_IF_ERROR(letter == 'l' ? trial->load(&result)
                                         : trial->run(ycsb_workload(letter), operations, &result));
    on_cell(system, letter, result, *trial);
  }
  return Status::OK();
}

// All systems, as many at a time as there are processors: a simulation is one thread's own, and the same beside others.
// Calls of `on_cell` for different systems may come at the same time.
Status measure_systems(const Ground& ground, std::string_view letters, const OnCell& on_cell) {
  std::mutex listening;
  std::vector<Status> statuses(systems().size());
  base::for_each_on(base::processors(), statuses.size(), [&](size_t turn) {
    const size_t system = statuses.size() - 1 - turn;  // the last takes longest
    statuses[system] = measure_system(ground, system, letters, &listening, on_cell);
  });
  for (const Status& status : statuses) BONSAI_RETURN_IF_ERROR(status);
  return Status::OK();
}

std::vector<std::string> labels(const Ground& ground) {
  std::vector<std::string> all = {
      "MODELLED in virtual time on " + ground.device.name +
          " devices (docs/lab/device-model.md): no statement about a real device, and not to be compared with rates by "
          "the clock.",
      std::to_string(ground.records()) +
          " records of 8 bytes or YCSB's string keys, and values of 8 bytes "
          "(RCuckoo-like: 4 + 4 bytes; PACTree-paging-like, whose cache has half of the records: integers only); one "
          "compute node, " +
          std::to_string(ground.shape().coroutines) +
          " coroutines a thread for all; one memory node; requests as YCSB's zipfian, whose hottest key gets 3.8 %." +
          (ground.plan.scale == Scale::kPaper ? "" : " Larger: --scale=paper"),
      "(V): nothing is durable, as these systems are published. (D): durable before it is acknowledged. Do not compare "
      "the two. Systems without order of keys have no scans (E)."};
  for (const SystemEntry& entry : systems()) {
    all.push_back(std::string(entry.name) + ": " + std::string(entry.model_error) + ".");
  }
  return all;
}

// ---- rates

const char* key_name(KeyForm form) { return form == KeyForm::kFixed8 ? "integers" : "strings"; }

std::vector<size_t> threads_of(const ExperimentPlan& plan) {
  if (plan.asked.threads) return {*plan.asked.threads};
  if (is_trial(plan)) return {1, 6};
  if (plan.scale == Scale::kSmall) return {1, 12, 36};
  return {1, 6, 12, 18, 24, 30, 36};
}

// Whether those systems that both have are in the same order; nothing: there are no two.
std::optional<double> same_order(const Row& row, size_t ours_first, const SynthesisRates* theirs) {
  if (theirs == nullptr) return {};
  size_t pairs = 0, alike = 0;
  for (size_t a = 0; a < systems().size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const auto known_a = theirs->of(systems()[a].name), known_b = theirs->of(systems()[b].name);
      if (!known_a || !known_b || !row[ours_first + a] || !row[ours_first + b]) continue;
      ++pairs;
      alike += (*row[ours_first + a] > *row[ours_first + b]) == (*known_a > *known_b) ? 1 : 0;
    }
  }
  if (pairs == 0) return {};
  return alike == pairs ? 1 : 0;
}

Status run_rates(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"cell", ""}, {"threads", "threads"}};
  const size_t ours_first = result->columns.size();
  for (const SystemEntry& entry : systems()) result->columns.push_back({column_name(entry), "Mop/s", true});
  const size_t theirs_first = result->columns.size();
  for (const std::string_view name : SynthesisRates::names()) {
    result->columns.push_back({std::string(name) + ", theirs", "Mop/s"});
  }
  result->columns.push_back({"same order as theirs", "", false, {}, {"no", "yes"}});
  for (const KeyForm form : {KeyForm::kFixed8, KeyForm::kString}) {
    for (const size_t threads : threads_of(plan)) {
      const Ground ground{.plan = plan, .key_form = form, .threads = threads};
      const size_t first_row = result->rows.size();
      for (const char letter : kSynthesisLetters) {
        Row row(result->columns.size());
        row[0] = static_cast<double>(result->columns[0].words.size());
        row[1] = static_cast<double>(threads);
        result->columns[0].words.push_back(workload_name(letter) + ", " + key_name(form) + ", " +
                                           std::to_string(threads));
        result->rows.push_back(row);
      }
      BONSAI_RETURN_IF_ERROR(measure_systems(
          ground, kSynthesisLetters, [&](size_t system, char letter, const TrialResult& r, const Trial&) {
            result->rows[first_row + kSynthesisLetters.find(letter)][ours_first + system] = r.mops();
          }));
      for (const char letter : kSynthesisLetters) {
        Row& row = result->rows[first_row + kSynthesisLetters.find(letter)];
        const SynthesisRates* const theirs = synthesis_rates(form == KeyForm::kString, letter, threads);
        if (theirs != nullptr) std::copy(theirs->mops.begin(), theirs->mops.end(), row.begin() + theirs_first);
        row.back() = same_order(row, ours_first, theirs);
      }
      result->labels = labels(ground);
    }
  }
  result->labels.emplace_back(
      "Theirs: the later scheme's figures of 36 threads on one 200 Gb network; its columns are DINOMO and PACTree over "
      "AIFM or Fastswap, where the scheme names Clover and PACTree over Infiniswap. Compare shapes. A dash for the "
      "order: fewer than two of the systems are in both.");
  explain_empty_columns("nothing is published for these cells, or for one of the systems alone", result);
  return Status::OK();
}

// ---- costs

struct Cost {
  char letter;
  Row row;  // without what other rows decide
  std::string binds;
  double memory;
};

Cost cost_of(const Ground& ground, size_t system, char letter, const TrialResult& r, const Trial& trial) {
  const SystemEntry& entry = systems()[system];
  const Ceiling ceiling = ceiling_of(r, trial.device(), ground.shape(), 1, entry.operation_cpu_ns);
  const auto us = [&](double percent) { return static_cast<double>(r.latency.percentile(percent)) / 1e3; };
  const double durable = entry.durability == Durability::kVolatile ? 0 : 1;
  return {letter,
          {{},
           r.lists(),
           r.messages(),
           r.bytes(),
           us(50),
           us(99),
           r.mops(),
           ceiling.mops,
           {},
           static_cast<double>(r.cache_bytes),
           {},
           durable},
          std::string(ceiling.binds),
          r.memory_bytes_per_record};
}

Status run_costs(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"cell", ""},
                     {"lists", "per op", true},
                     {"messages", "per op", true},
                     {"bytes", "per op"},
                     {"p50", "us"},
                     {"p99", "us"},
                     {"Mop/s", "Mop/s"},
                     {"ceiling", "Mop/s"},
                     {"what binds", "", false, {}, {}},
                     {"cache", "bytes"},
                     {"memory", "bytes per record"},
                     {"class", "", false, {}, {"V", "D"}}};
  std::vector<std::string>& cells = result->columns[0].words;
  std::vector<std::string>& bounds = result->columns[8].words;
  for (const KeyForm form : {KeyForm::kFixed8, KeyForm::kString}) {
    const Ground ground{.plan = plan, .key_form = form, .threads = threads_of(plan).back()};
    std::vector<std::vector<Cost>> costs(systems().size());
    BONSAI_RETURN_IF_ERROR(measure_systems(ground, kSynthesisLetters,
                                           [&](size_t system, char letter, const TrialResult& r, const Trial& trial) {
                                             costs[system].push_back(cost_of(ground, system, letter, r, trial));
                                           }));
    for (size_t system = 0; system < costs.size(); ++system) {
      for (Cost& cost : costs[system]) {
        auto bound = std::find(bounds.begin(), bounds.end(), cost.binds);
        if (bound == bounds.end()) bound = bounds.emplace(bound, cost.binds);
        cost.row[0] = static_cast<double>(cells.size());
        cost.row[8] = static_cast<double>(bound - bounds.begin());
        cost.row[10] = costs[system].front().memory;
        result->rows.push_back(std::move(cost.row));
        cells.push_back(std::string(systems()[system].name) + ", " + workload_name(cost.letter) + ", " +
                        key_name(form));
      }
    }
    result->labels = labels(ground);
  }
  result->labels.push_back(
      std::to_string(threads_of(plan).back()) +
      " threads. Lists are round trips, each waited for or not; bytes are payload. Ceiling: what round trips, threads, "
      "devices and links permit without queues and locks. Memory: of the memory node after the load, unused rests of "
      "clients' chunks included; cache: of the compute node.");
  return Status::OK();
}

// ---- tuning

constexpr std::string_view kSweptLetters = "lace";
constexpr std::array<size_t, 4> kDepths = {1, 2, 4, 8};
constexpr std::array<double, 3> kCachePercents = {1, 10, 100};

// What a system does best with, of what was tried for a workload, and what it does as in the rest of the synthesis.
std::string best_setting(const ExperimentResult& tuned, const std::string& cell, size_t first_depth) {
  double best = 0, usual = 0;
  std::string setting;
  size_t threads_max = 0;
  for (const Row& row : tuned.rows) {
    if (cell_text(tuned.columns[0], row[0]) != cell) continue;
    const auto threads = static_cast<size_t>(*row[1]);
    for (size_t i = 0; i < kDepths.size(); ++i) {
      const double rate = row[first_depth + i].value_or(0);
      if (kDepths[i] == kCoroutines && threads >= threads_max) usual = rate;
      if (rate <= best) continue;
      best = rate;
      setting = std::to_string(threads) + " threads x " + std::to_string(kDepths[i]) + " coroutines";
    }
    threads_max = std::max(threads_max, threads);
  }
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "Best, %s: %s, %.2f Mop/s; %zu x %zu, as elsewhere: %.2f.", cell.c_str(),
                setting.c_str(), best, threads_max, kCoroutines, usual);
  return text.data();
}

Status run_tuning(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"cell", ""}, {"threads", "threads"}};
  const size_t first_depth = result->columns.size();
  for (const size_t depth : kDepths) result->columns.push_back({std::to_string(depth) + " coroutines", "Mop/s", true});
  const size_t first_cache = result->columns.size();
  for (const double percent : kCachePercents) {
    result->columns.push_back({"cache " + std::to_string(static_cast<int>(percent)) + " % of the data", "Mop/s"});
  }
  std::vector<std::string>& cells = result->columns[0].words;
  for (size_t system = 0; system < systems().size(); ++system) {
    for (const char letter : kSweptLetters) {
      cells.push_back(std::string(systems()[system].name) + ", " + workload_name(letter));
    }
  }
  std::vector<size_t> tried = {threads_of(plan).back()};
  if (!is_trial(plan)) tried.insert(tried.begin(), tried.back() / 3);
  for (const size_t threads : tried) {
    Ground ground{.plan = plan, .threads = threads};
    const size_t first_row = result->rows.size();
    for (size_t cell = 0; cell < cells.size(); ++cell) {
      result->rows.emplace_back(result->columns.size());
      result->rows.back()[0] = static_cast<double>(cell);
      result->rows.back()[1] = static_cast<double>(threads);
    }
    const auto measure_into = [&](size_t column) {
      return measure_systems(
          ground, kSweptLetters, [&](size_t system, char letter, const TrialResult& r, const Trial&) {
            result->rows[first_row + system * kSweptLetters.size() + kSweptLetters.find(letter)][column] = r.mops();
          });
    };
    for (size_t i = 0; i < kDepths.size(); ++i) {
      ground.coroutines = kDepths[i];
      BONSAI_RETURN_IF_ERROR(measure_into(first_depth + i));
    }
    ground.coroutines = kCoroutines;
    for (size_t i = 0; i < kCachePercents.size() && threads == tried.back(); ++i) {
      ground.cache_percent = kCachePercents[i];
      BONSAI_RETURN_IF_ERROR(measure_into(first_cache + i));
    }
    ground.cache_percent = 0;
    result->labels = labels(ground);
  }
  std::erase_if(result->rows, [&](const Row& row) { return !row[first_depth]; });  // what a system has no way to do
  result->labels.emplace_back(
      "Integers; as many coroutines a thread as the columns say. Caches: of the compute node, in bytes of keys and "
      "values, with 4 coroutines; without a figure where a system's cache has no size to set. Nobody waits longer "
      "after each lost compare-and-swap than the system does as published.");
  for (const std::string& cell : cells) {
    const bool measured = std::any_of(result->rows.begin(), result->rows.end(),
                                      [&](const Row& row) { return cell_text(result->columns[0], row[0]) == cell; });
    if (measured) result->labels.push_back(best_setting(*result, cell, first_depth));
  }
  return Status::OK();
}

// ---- sensitivity

struct Variant {
  double wire_ns, same_address_ns, list_cpu_ns;
};

// What can be said however the parameters are chosen: per workload and pair of systems of one class.
void conclude(const ExperimentResult& swept, size_t ours_first, std::vector<std::string>* labels) {
  for (size_t at = 0; at < kSweptLetters.size(); ++at) {
    for (size_t a = 0; a < systems().size(); ++a) {
      for (size_t b = 0; b < systems().size(); ++b) {
        if (systems()[a].durability != systems()[b].durability || a == b) continue;
        size_t cells = 0, above = 0;
        for (size_t row = at; row < swept.rows.size(); row += kSweptLetters.size()) {
          const auto one = swept.rows[row][ours_first + a], other = swept.rows[row][ours_first + b];
          if (!one || !other) continue;
          ++cells;
          above += *one > *other ? 1 : 0;
        }
        const std::string pair = workload_name(kSweptLetters[at]) + ": " + std::string(systems()[a].name) + " above " +
                                 std::string(systems()[b].name);
        if (cells > 0 && above == cells) labels->push_back("CONCLUSION, " + pair + " for all parameters.");
        if (above > 0 && above < cells && a < b) {
          labels->push_back("No conclusion, " + pair + " in " + std::to_string(above) + " of " + std::to_string(cells) +
                            " cells.");
        }
      }
    }
  }
}

Status run_sensitivity(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"workload", ""}, {"round trip", "us"}, {"same address", "ns"}, {"processor per list", "us"}};
  const size_t ours_first = result->columns.size();
  for (const char letter : kSweptLetters) result->columns[0].words.push_back(workload_name(letter));
  for (const SystemEntry& entry : systems()) result->columns.push_back({column_name(entry), "Mop/s", true});
  std::vector<Variant> variants;
  for (const double wire_ns : {1'500, 2'300, 5'000}) {
    for (const double same_address_ns : {111, 341}) {
      for (const double list_cpu_ns : {250, 900, 1'500}) variants.push_back({wire_ns, same_address_ns, list_cpu_ns});
    }
  }
  if (is_trial(plan)) variants = {variants.front(), variants.back()};
  for (const Variant& variant : variants) {
    Ground ground{.plan = plan, .threads = threads_of(plan).back(), .list_cpu_ns = variant.list_cpu_ns};
    ground.device.wire_ns = variant.wire_ns;
    ground.device.same_address_ns = variant.same_address_ns;
    const size_t first_row = result->rows.size();
    for (size_t i = 0; i < kSweptLetters.size(); ++i) {
      Row row(result->columns.size());
      row[0] = static_cast<double>(i);
      row[1] = variant.wire_ns / 1e3;
      row[2] = variant.same_address_ns;
      row[3] = variant.list_cpu_ns / 1e3;
      result->rows.push_back(row);
    }
    BONSAI_RETURN_IF_ERROR(
        measure_systems(ground, kSweptLetters, [&](size_t system, char letter, const TrialResult& r, const Trial&) {
          result->rows[first_row + kSweptLetters.find(letter)][ours_first + system] = r.mops();
        }));
    result->labels = labels(ground);
  }
  result->labels.push_back(std::to_string(threads_of(plan).back()) +
                           " threads. Every system has the same processor's time for a list here, so none is fitted.");
  conclude(*result, ours_first, &result->labels);
  return Status::OK();
}

Reference without_reference() { return {}; }

}  // namespace

std::vector<Experiment> synthesis() {
  constexpr std::string_view kSource = "BonsaiKV scheme, synthesis benchmark";
  constexpr std::string_view kGroup = "synthesis";
  return {
      {"synthesis-rates", "Bonsai and other systems under YCSB, by threads", kSource,
       "modelled Mop/s of Bonsai and the rivals' protocols, Load and A to E, integers and strings, beside the "
       "published",
       run_rates, without_reference, kGroup},
      {"synthesis-costs", "What the operations of Bonsai and other systems cost", kSource,
       "lists, messages, bytes, percentiles, caches, memory and the ceiling that binds, of each system and workload",
       run_costs, without_reference, kGroup},
      {"synthesis-sensitivity", "Orders of systems that the model's parameters do not change", kSource,
       "Load, A, C and E over round trips, atomics on one address and processors; conclusions", run_sensitivity,
       without_reference, kGroup},
      {"synthesis-tuning", "What Bonsai and other systems do best with", kSource,
       "Load, A, C and E over threads, coroutines of a thread and sizes of caches; the best setting of each",
       run_tuning, without_reference}};
}

}  // namespace bonsai::bench
