// SPDX-License-Identifier: Apache-2.0
// Bonsai and other systems side by side under YCSB, on a model of devices in virtual time, in the form of the BonsaiKV
// scheme's synthesis benchmark: rates by threads, what operations cost, and which orders of the systems hold however
// the model's parameters are chosen.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/synthesis_cells.h"
#include "bench/studies/rivals/backoff.h"

namespace bonsai::bench {
namespace {

std::string class_name(DurabilityClass durability) { return durability == DurabilityClass::kVolatile ? "V" : "D"; }
std::string column_name(const SystemEntry& entry) {
  return std::string(entry.name) + " (" + class_name(entry.durability) + ")";
}

std::vector<std::string> labels(const Ground& ground) {
  std::vector<std::string> all = {
      "MODELLED in virtual time on " + ground.device.name +
          " devices: no statement about a real device, and not to be compared with rates by "
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
  if (ground.full_size()) {
    all.push_back(
        "SAMPLED: a system is filled once for each form of keys, by its own code and without a model of time. " +
        std::to_string(ground.operations('l')) + " operations of each cell are modelled and " +
        std::to_string(ground.operations('l') * 9 / 10) + " of them counted, of E a tenth of that. Load: the " +
        "last inserts of the fill, for each number of clients and set of parameters in turn. Then come A to " +
        "E of all of these on one store, which keeps what those before have changed. +-: half of the 95 % " +
        "confidence interval, by ten parts of the cell. What a system does beside its clients it may do later than "
        "that: of Bonsai hardly any offloading is in a cell, so its Load and A are upper bounds.");
  }
  all.emplace_back("How far the model is from what others measured of these systems: synthesis-validation.");
  for (const SystemEntry& entry : systems()) {
    if (entry.remark.empty()) continue;
    all.push_back(std::string(entry.name) + ": " + std::string(entry.remark) + ".");
  }
  return all;
}

// ---- rates

const char* key_name(KeyForm form) { return form == KeyForm::kFixed8 ? "integers" : "strings"; }

// True if the systems of both tables are in the same order; none if fewer than two are in both.
std::optional<double> same_order(const Row& row, size_t ours_first, const std::optional<SynthesisRates>& theirs) {
  if (!theirs) return {};
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
  const size_t spread_first = result->columns.size();
  const std::vector<Ground> grounds = rate_grounds(plan);
  for (const SystemEntry& entry : systems()) {
    if (grounds.front().full_size()) result->columns.push_back({column_name(entry) + ", +-", "%"});
  }
  for (const Ground& ground : grounds) {
    for (const char letter : kSynthesisLetters) {
      Row& row = result->rows.emplace_back(result->columns.size());
      row[0] = static_cast<double>(result->columns[0].words.size());
      row[1] = static_cast<double>(ground.threads);
      result->columns[0].words.push_back(workload_name(letter) + ", " + key_name(ground.key_form) + ", " +
                                         std::to_string(ground.threads));
    }
  }
  BONSAI_RETURN_IF_ERROR(measure_systems(grounds, [&](const Cell& cell) {
    Row& row = result->rows[cell.ground * kSynthesisLetters.size() + kSynthesisLetters.find(cell.letter)];
    row[ours_first + cell.system] = cell.mops;
    if (spread_first < row.size()) row[spread_first + cell.system] = cell.spread * 100;
  }));
  for (size_t i = 0; i < result->rows.size(); ++i) {
    Row& row = result->rows[i];
    const Ground& ground = grounds[i / kSynthesisLetters.size()];
    const std::optional<SynthesisRates> theirs = synthesis_rates(
        ground.key_form == KeyForm::kString, kSynthesisLetters[i % kSynthesisLetters.size()], ground.threads);
    if (theirs) std::copy(theirs->mops.begin(), theirs->mops.end(), row.begin() + theirs_first);
    row[spread_first - 1] = same_order(row, ours_first, theirs);
  }
  result->labels = labels(grounds.back());
  result->labels.emplace_back(
      "Theirs: the figures of the scheme's later version on one 200 Gb network; its columns are DINOMO and PACTree "
      "over "
      "AIFM or Fastswap, where the scheme names Clover and PACTree over Infiniswap. Compare shapes. A dash for the "
      "order: fewer than two of the systems are in both.");
  explain_empty_columns("nothing is published for these cells, or for one of the systems alone", result);
  return Status::OK();
}

// ---- costs

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
  std::vector<Ground> grounds;
  for (const Ground& ground : rate_grounds(plan)) {
    if (ground.threads == threads_of(plan).back()) grounds.push_back(ground);
  }
  std::vector<std::vector<Cell>> costs(grounds.size() * systems().size());
  BONSAI_RETURN_IF_ERROR(measure_systems(
      grounds, [&](const Cell& cell) { costs[cell.ground * systems().size() + cell.system].push_back(cell); }));
  for (const std::vector<Cell>& of_system : costs) {
    for (const Cell& cell : of_system) {
      auto bound = std::find(bounds.begin(), bounds.end(), cell.ceiling.binds);
      if (bound == bounds.end()) bound = bounds.emplace(bound, cell.ceiling.binds);
      const SystemEntry& entry = systems()[cell.system];
      result->rows.push_back({static_cast<double>(cells.size()), cell.lists, cell.messages, cell.bytes, cell.p50_us,
                              cell.p99_us, cell.mops, cell.ceiling.mops, static_cast<double>(bound - bounds.begin()),
                              static_cast<double>(cell.cache_bytes), of_system.front().memory_bytes_per_record,
                              entry.durability == DurabilityClass::kVolatile ? 0 : 1});
      cells.push_back(std::string(entry.name) + ", " + workload_name(cell.letter) + ", " +
                      key_name(grounds[cell.ground].key_form));
    }
  }
  result->labels = labels(grounds.back());
  result->labels.push_back(
      std::to_string(threads_of(plan).back()) +
      " threads. Lists are round trips, each waited for or not; bytes are payload. Ceiling: what round trips, threads, "
      "devices and links permit without queues and locks. Memory: of the memory node after the load, unused rests of "
      "clients' chunks included; cache: of the compute node.");
  return Status::OK();
}

// ---- tuning

constexpr std::array<size_t, 4> kDepths = {1, 2, 4, 8};
constexpr std::array<double, 3> kCachePercents = {1, 10, 100};
constexpr std::array<uint64_t, 2> kFaultsUs = {5, 35};  // about what the kernels of Fastswap and Infiniswap take

// The best of the tried settings of a system for a workload, and its rate with the settings of the rest of the
// synthesis.
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
  const size_t backoff = result->columns.size();
  result->columns.push_back({std::to_string(kCoroutines) + " coroutines, backoff", "Mop/s"});
  const size_t first_cache = result->columns.size();
  for (const double percent : kCachePercents) {
    result->columns.push_back({"cache " + std::to_string(static_cast<int>(percent)) + " % of the data", "Mop/s"});
  }
  const size_t first_fault = result->columns.size();
  for (const uint64_t us : kFaultsUs) result->columns.push_back({"a fault of " + std::to_string(us) + " us", "Mop/s"});
  std::vector<std::string>& cells = result->columns[0].words;
  for (size_t system = 0; system < systems().size(); ++system) {
    for (const char letter : kSweptLetters) {
      cells.push_back(std::string(systems()[system].name) + ", " + workload_name(letter));
    }
  }
  std::vector<size_t> tried = {threads_of(plan).back()};
  if (!plan.is_trial()) tried.insert(tried.begin(), tried.back() / 3);
  for (const size_t threads : tried) {
    Ground ground{.plan = plan, .threads = threads, .letters = kSweptLetters, .settings = true};
    const size_t first_row = result->rows.size();
    for (size_t cell = 0; cell < cells.size(); ++cell) {
      result->rows.emplace_back(result->columns.size());
      result->rows.back()[0] = static_cast<double>(cell);
      result->rows.back()[1] = static_cast<double>(threads);
    }
    const auto measure_into = [&](size_t column) {
      return measure_systems({ground}, [&](const Cell& cell) {
        const size_t row = first_row + cell.system * kSweptLetters.size() + kSweptLetters.find(cell.letter);
        result->rows[row][column] = cell.mops;
      });
    };
    for (size_t i = 0; i < kDepths.size(); ++i) {
      ground.coroutines = kDepths[i];
      BONSAI_RETURN_IF_ERROR(measure_into(first_depth + i));
    }
    ground.coroutines = kCoroutines;
    ground.backoff_ns = rivals::Backoff::kBaseNs;
    BONSAI_RETURN_IF_ERROR(measure_into(backoff));
    ground.backoff_ns = 0;
    for (size_t i = 0; i < kCachePercents.size() && threads == tried.back(); ++i) {
      ground.cache_percent = kCachePercents[i];
      BONSAI_RETURN_IF_ERROR(measure_into(first_cache + i));
    }
    ground.cache_percent = 0;
    for (size_t i = 0; i < kFaultsUs.size(); ++i) {
      ground.fault_ns = kFaultsUs[i] * 1'000;
      BONSAI_RETURN_IF_ERROR(measure_into(first_fault + i));
    }
    ground.fault_ns = 0;
    result->labels = labels(ground);
  }
  std::erase_if(result->rows, [&](const Row& row) { return !row[first_depth]; });  // systems that have no such setting
  result->labels.emplace_back(
      "Integers; as many coroutines a thread as the columns say. Caches: of the compute node, in bytes of keys and "
      "values, with 4 coroutines; without a figure where a system's cache has no size to set. Backoff: after each "
      "lost compare-and-swap a client waits at random for up to 1.7 us, twice that after the next in a row, up to "
      "1,024 times; elsewhere nobody does. Bonsai and PACTree-paging-like lose none. A fault of PACTree-paging-like "
      "costs what the "
      "fabric does, as at user level; in two columns what kernels take besides.");
  for (const std::string& cell : cells) {
    const bool measured = std::any_of(result->rows.begin(), result->rows.end(),
                                      [&](const Row& row) { return cell_text(result->columns[0], row[0]) == cell; });
    if (measured) result->labels.push_back(best_setting(*result, cell, first_depth));
  }
  return Status::OK();
}

// ---- sensitivity

// Half of the 95 % confidence interval of each rate, as a share of it: by row and system.
using Spreads = std::vector<std::vector<double>>;

// The statements that hold for all parameters: per workload and pair of systems of one class. One rate is above another
// if their confidence intervals are apart.
void conclude(const ExperimentResult& swept, const Spreads& spreads, size_t ours_first,
              std::vector<std::string>* labels) {
  for (size_t at = 0; at < kSweptLetters.size(); ++at) {
    for (size_t a = 0; a < systems().size(); ++a) {
      for (size_t b = 0; b < systems().size(); ++b) {
        if (systems()[a].durability != systems()[b].durability || a == b) continue;
        size_t cells = 0, above = 0;
        for (size_t row = at; row < swept.rows.size(); row += kSweptLetters.size()) {
          const auto one = swept.rows[row][ours_first + a], other = swept.rows[row][ours_first + b];
          if (!one || !other) continue;
          ++cells;
          above += *one * (1 - spreads[row][a]) > *other * (1 + spreads[row][b]) ? 1 : 0;
        }
        const std::string pair = workload_name(kSweptLetters[at]) + ": " + std::string(systems()[a].name) + " above " +
                                 std::string(systems()[b].name);
        if (cells > 0 && above == cells) labels->push_back("CONCLUSION, " + pair + " for all parameters.");
        if (above > 0 && above < cells && a < b) {
          labels->push_back("No conclusion, " + pair + " in " + std::to_string(above) + " of " + std::to_string(cells) +
                            " cells, their intervals apart.");
        }
      }
    }
  }
}

Status run_sensitivity(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"workload", ""},
                     {"round trip", "us"},
                     {"same address", "ns"},
                     {"processor per list", "us"},
                     {"processor per operation", "us"}};
  const size_t ours_first = result->columns.size();
  for (const char letter : kSweptLetters) result->columns[0].words.push_back(workload_name(letter));
  for (const SystemEntry& entry : systems()) result->columns.push_back({column_name(entry), "Mop/s", true});
  const std::vector<Ground> grounds = swept_grounds(plan);
  for (const Ground& ground : grounds) {
    for (size_t i = 0; i < kSweptLetters.size(); ++i) {
      Row& row = result->rows.emplace_back(result->columns.size());
      row[0] = static_cast<double>(i);
      row[1] = ground.device.wire_ns / 1e3;
      row[2] = ground.device.same_address_ns;
      row[3] = ground.list_cpu_ns / 1e3;
      row[4] = *ground.operation_cpu_ns / 1e3;
    }
  }
  Spreads spreads(result->rows.size(), std::vector<double>(systems().size()));
  BONSAI_RETURN_IF_ERROR(measure_systems(grounds, [&](const Cell& cell) {
    const size_t row = cell.ground * kSweptLetters.size() + kSweptLetters.find(cell.letter);
    result->rows[row][ours_first + cell.system] = cell.mops;
    spreads[row][cell.system] = cell.spread;
  }));
  result->labels = labels(grounds.back());
  result->labels.push_back(std::to_string(threads_of(plan).back()) +
                           " threads. Every system has the same processor's time for a list here, and the same for an "
                           "operation, so none is fitted.");
  conclude(*result, spreads, ours_first, &result->labels);
  return Status::OK();
}

Reference without_reference() { return {}; }

}  // namespace

const Registered<Experiment> kSynthesisExperiments("synthesis", []() -> std::vector<Experiment> {
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
});

}  // namespace bonsai::bench
