// SPDX-License-Identifier: Apache-2.0
// KiWi's evaluation of Bonsai and the paper's maps: gets, updates and scans alone and beside each other, memory, and
// the order of inserts. One experiment per figure; `kiwi` runs all of them.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "bench/results/statistics.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/kiwi_study.h"
#include "bench/ycsb/values.h"

namespace bonsai::bench {
namespace {

constexpr uint32_t kShortScan = 32;
constexpr uint64_t kInsertCells = 8;      // an insert phase takes at most as long as this many other figures
constexpr uint64_t kMemoryMsMin = 1'000;  // of a figure of memory: shorter ones do not show growth
constexpr const char* kSource = "KiWi, PPoPP 2017";

// ---- get, put and scan alone

// Ratios of KiWi to the next best map and to the slowest one.
void add_kiwi_ratios(const WorkOfAll& all, Row* row) {
  const double kiwi = all[kKiwi].records_m_per_s;
  double best = 0, slowest = kiwi;
  for (size_t rival = kKiwi + 1; rival < kRivalsEnd; ++rival) {
    best = std::max(best, all[rival].records_m_per_s);
    slowest = std::min(slowest, all[rival].records_m_per_s);
  }
  row->push_back(ratio(kiwi, best));
  row->push_back(ratio(kiwi, slowest));
  for (const Rival bonsai : {kLeft, kDrained}) row->push_back(ratio(all[bonsai].records_m_per_s, kiwi));
}

Status run_alone(const ExperimentPlan& plan, Role role, const char* what, const Rivals& rivals,
                 ExperimentResult* result) {
  result->columns = {{"thread", "threads"}};
  for (const unsigned threads : team_sizes(plan)) result->rows.push_back({threads});
  for (const KiwiSize& size : kiwi_sizes(plan.scale)) {
    Field field(plan, size, rivals, result);
    const std::string of = std::string(", ") + size.name;
    add_columns(what, "M/s", size.charted, of, rivals, result);
    for (const char* name : {"kiwi_like / next best map", "kiwi_like / slowest map", "bonsai as left / kiwi_like",
                             "bonsai drained / kiwi_like"}) {
      result->columns.push_back({name + of, ""});
    }
    for (Row& row : result->rows) {
      TeamPlan cell;
      cell.members = team(static_cast<unsigned>(*row[0]), role, kLongScan);
      WorkOfAll all;
      BONSAI_RETURN_IF_ERROR(field.measure(cell, role, role, &all));
      add_figures(all, rivals, &Work::records_m_per_s, 1, &row);
      add_kiwi_ratios(all, &row);
    }
  }
  return Status::OK();
}

Status run_gets(const ExperimentPlan& plan, ExperimentResult* result) {
  BONSAI_RETURN_IF_ERROR(run_alone(plan, Role::kGet, "gets", kiwi_rivals(), result));
  label_field(plan, kiwi_rivals(), result, "Gets of random records.");
  return Status::OK();
}

Status run_puts(const ExperimentPlan& plan, ExperimentResult* result) {
  BONSAI_RETURN_IF_ERROR(run_alone(plan, Role::kPut, "updates", kiwi_rivals(), result));
  label_field(plan, kiwi_rivals(), result, "Updates of random records, half of them inserts and half deletes.");
  return Status::OK();
}

Status run_scans(const ExperimentPlan& plan, ExperimentResult* result) {
  BONSAI_RETURN_IF_ERROR(run_alone(plan, Role::kScan, "scanned", kiwi_rivals_of_scans(), result));
  label_field(plan, kiwi_rivals_of_scans(), result,
              "Records that scans of 32 K return, each from a random key on. A scan of ctrie_like visits all of it.");
  return Status::OK();
}

Reference gets_reference() { return published_reference("kiwi-gets"); }
Reference puts_reference() { return published_reference("kiwi-puts"); }
Reference scans_reference() { return published_reference("kiwi-scans"); }

// ---- scans beside puts, by threads

Status run_beside(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"thread", "threads"}};
  std::vector<unsigned> counts = team_sizes(plan);
  counts.erase(std::remove(counts.begin(), counts.end(), 1U), counts.end());
  if (counts.empty()) counts = {2};
  for (const unsigned threads : counts) result->rows.push_back({threads});
  for (const KiwiSize& size : kiwi_sizes(plan.scale)) {
    Field field(plan, size, kiwi_rivals_of_scans(), result);
    const std::string of = std::string(", ") + size.name;
    add_columns("scanned", "M/s", size.charted, of, kiwi_rivals_of_scans(), result);
    add_columns("updates", "M/s", false, of, kiwi_rivals_of_scans(), result);
    for (const char* name : {"scanned, bonsai as left / kiwi_like", "updates, bonsai as left / kiwi_like",
                             "scanned, bonsai drained / kiwi_like", "updates, bonsai drained / kiwi_like",
                             "scanned, kiwi_like / skiplist_like", "updates, kiwi_like / snaptree_like"}) {
      result->columns.push_back({name + of, ""});
    }
    for (Row& row : result->rows) {
      TeamPlan cell;
      cell.members = halves(static_cast<unsigned>(*row[0]), kLongScan);
      WorkOfAll all;
      BONSAI_RETURN_IF_ERROR(field.measure(cell, Role::kScan, Role::kPut, &all));
      add_figures(all, kiwi_rivals_of_scans(), &Work::records_m_per_s, 1, &row);
      add_figures(all, kiwi_rivals_of_scans(), &Work::other_m_per_s, 1, &row);
      for (const Rival bonsai : {kLeft, kDrained}) {
        row.push_back(ratio(all[bonsai].records_m_per_s, all[kKiwi].records_m_per_s));
        row.push_back(ratio(all[bonsai].other_m_per_s, all[kKiwi].other_m_per_s));
      }
      row.push_back(ratio(all[kKiwi].records_m_per_s, all[kSkipList].records_m_per_s));
      row.push_back(ratio(all[kKiwi].other_m_per_s, all[kSnapTree].other_m_per_s));
    }
  }
  label_field(plan, kiwi_rivals_of_scans(), result,
              "Half of the threads scan 32 K records at a time, the others update. Scans of skiplist_like are not "
              "atomic; those of kary_tree_like begin again when an update meets them.");
  return Status::OK();
}

Reference beside_reference() { return published_reference("kiwi-beside"); }

// ---- scans beside puts, by the size of the scans

Status run_sizes(const ExperimentPlan& plan, ExperimentResult* result) {
  const KiwiSize size = kiwi_sizes(plan.scale)[0];
  Field field(plan, size, kiwi_rivals_of_scans(), result);
  result->columns = {{"record per scan", "records"}};
  add_columns("scanned", "M/s", true, "", kiwi_rivals_of_scans(), result);
  add_columns("updates", "M/s", false, "", kiwi_rivals_of_scans(), result);
  for (uint32_t records = 2; records <= 65'536; records *= plan.scale == Scale::kTrial ? 32 : 2) {
    TeamPlan cell;
    cell.members = halves(plan.threads_max, records);
    WorkOfAll all;
    BONSAI_RETURN_IF_ERROR(field.measure(cell, Role::kScan, Role::kPut, &all));
    Row row = {records};
    add_figures(all, kiwi_rivals_of_scans(), &Work::records_m_per_s, 1, &row);
    add_figures(all, kiwi_rivals_of_scans(), &Work::other_m_per_s, 1, &row);
    result->rows.push_back(std::move(row));
  }
  label_field(plan, kiwi_rivals_of_scans(), result,
              "Half of " + std::to_string(std::max(2U, plan.threads_max)) + " threads scan, the others update; " +
                  size.name + " records. The paper draws this figure for 16 + 16 threads and gives no numbers.");
  return Status::OK();
}

// ---- memory with short scans

// States whether KiWi's memory is bounded, that is, whether reclaiming keeps up with scans and updates.
std::string memory_verdict(const WorkOfAll& all, unsigned threads, double records) {
  char text[200];
  std::snprintf(text, sizeof text,
                "kiwi_like on %u threads: at most %.0f bytes per record at any sample, and %.2f times as much in the "
                "second half of the time as in the first (1 = bounded).",
                threads, all[kKiwi].dram_bytes_max / records, all[kKiwi].dram_growth);
  return text;
}

Status run_memory(const ExperimentPlan& plan, ExperimentResult* result) {
  const KiwiSize size = kiwi_sizes(plan.scale)[plan.scale == Scale::kPaper ? 0 : 1];
  const auto records = static_cast<double>(size.records);
  const Rivals& rivals = kiwi_rivals();
  Field field(plan, size, rivals, result);
  result->columns = {{"thread", "threads"}};
  add_columns("DRAM per record", "bytes", true, "", rivals, result);
  add_columns("most DRAM per record", "bytes", false, "", rivals, result);
  add_columns("second half / first half", "", false, "", rivals, result);
  result->columns.push_back({"NVM per record, bonsai drained", "bytes"});
  result->columns.push_back({"memory, kiwi_like / mean of kary_tree_like and skiplist_like", ""});
  add_columns("scanned", "M/s", false, "", rivals, result);
  add_columns("updates", "M/s", false, "", rivals, result);
  const uint64_t ms = plan.scale == Scale::kTrial ? cell_ms(plan.scale) : std::max(kMemoryMsMin, cell_ms(plan.scale));
  std::string verdict;
  for (const unsigned threads : team_sizes(plan)) {
    if (threads < 2 && plan.threads_max >= 2) continue;
    TeamPlan cell;
    cell.members = halves(threads, kShortScan);
    cell.samples_memory = true;
    cell.ms = ms;
    WorkOfAll all;
    BONSAI_RETURN_IF_ERROR(field.measure(cell, Role::kScan, Role::kPut, &all));
    Row row = {threads};
    add_figures(all, rivals, &Work::dram_bytes, records, &row);
    add_figures(all, rivals, &Work::dram_bytes_max, records, &row);
    add_figures(all, rivals, &Work::dram_growth, 1, &row);
    row.emplace_back(all[kDrained].nvm_bytes / records);
    row.push_back(ratio(2 * all[kKiwi].dram_bytes, all[kKaryTree].dram_bytes + all[kSkipList].dram_bytes));
    add_figures(all, rivals, &Work::records_m_per_s, 1, &row);
    add_figures(all, rivals, &Work::other_m_per_s, 1, &row);
    result->rows.push_back(std::move(row));
    verdict = memory_verdict(all, threads, records);
  }
  label_field(plan, rivals, result,
              std::string("Memory in use while half of the threads scan 32 records at a time and the others update, a "
                          "mean of up to 50 samples in ") +
                  std::to_string(ms) + " ms; " + size.name +
                  " records. Of the maps all that is allocated counts, also what waits to be freed.");
  result->labels.push_back(std::move(verdict));
  return Status::OK();
}

Reference memory_reference() { return published_reference("kiwi-memory"); }

// ---- ordered against random inserts

// Inserts records [first, end) in the key order of the shape, for at most that time.
Status insert_rest(Engine* engine, const RecordShape& shape, uint64_t first, uint64_t end, unsigned threads,
                   const ExperimentPlan& plan, double* m_per_s) {
  const uint64_t begin_ns = base::now_ns();
  const uint64_t until_ns = begin_ns + kInsertCells * cell_ms(plan.scale) * base::kNsPerMs;
  std::atomic<uint64_t> next{first}, done{0};
  std::vector<Status> statuses(threads);
  base::for_each_on(threads, threads, [&](size_t thread) {
    char key[sizeof(uint64_t)], value[sizeof(uint64_t)];
    while (statuses[thread].ok() && !*plan.stop && base::now_ns() < until_ns) {
      const uint64_t number = next.fetch_add(1);
      if (number >= end) return;
      const uint64_t id = shape.id(number);
      fill_value(id, 0, value, sizeof value);
      statuses[thread] = engine->insert(encode_key(shape, id, key), {value, sizeof value});
      done.fetch_add(1, std::memory_order_relaxed);
    }
  });
  if (*plan.stop) return Status::Unavailable("interrupted");
  for (const Status& status : statuses) BONSAI_RETURN_IF_ERROR(status);
  *m_per_s = static_cast<double>(done.load()) * 1e3 / static_cast<double>(base::now_ns() - begin_ns);
  return Status::OK();
}

Status measure_inserts(const ExperimentPlan& plan, Rival rival, uint64_t records, unsigned threads, bool hashed,
                       double* m_per_s, ExperimentResult* result) {
  const std::unique_ptr<Engine> engine = rival_for(rival, records);
  EngineOptions options;
  options.shape.hashed = hashed;
  options.records_max = 2 * records;
  options.pool_dir = plan.config.pool_dir;
  options.out_dir = plan.config.out_dir;
  const uint64_t loaded = std::max<uint64_t>(records / 100, 100);
  BONSAI_RETURN_IF_ERROR(engine->open(options));
  if (!is_map(rival)) result->medium = engine->medium();
  plan.listener.on_phase(rival_name(rival), hashed ? "random inserts" : "ordered inserts", records);
  Status status = load_for_team(engine.get(), options.shape, loaded, threads, *plan.stop);
  if (status.ok()) status = insert_rest(engine.get(), options.shape, loaded, records, threads, plan, m_per_s);
  const Status closed = engine->close();
  return status.ok() ? closed : status;
}

std::string order_verdict(unsigned threads, double kary, double kary_random, double kiwi) {
  char text[200];
  std::snprintf(text, sizeof text,
                "kary_tree_like on %u threads: %.3g M/s in order, %.3g of its own random inserts and %.3g of what "
                "kiwi_like inserts in order.",
                threads, kary, kary_random > 0 ? kary / kary_random : 0, kiwi > 0 ? kary / kiwi : 0);
  return text;
}

Status run_order(const ExperimentPlan& plan, ExperimentResult* result) {
  const KiwiSize size = kiwi_sizes(plan.scale)[plan.scale == Scale::kPaper ? 0 : 1];
  Rivals rivals = kiwi_rivals();
  std::erase(rivals, kDrained);  // the store is not drained while records are inserted
  result->columns = {{"thread", "threads"}};
  add_columns("ordered inserts", "M/s", true, "", rivals, result);
  add_columns("random inserts", "M/s", false, "", rivals, result);
  add_columns("ordered / random", "", false, "", rivals, result);
  result->columns.push_back({"ordered inserts, kiwi_like / kary_tree_like", ""});
  std::string verdict;
  for (const unsigned threads : team_sizes(plan)) {
    Row ordered, random, ratios;
    double kiwi = 0, kary = 0, kary_random = 0;
    for (const Rival rival : rivals) {
      std::vector<double> rates[2];
      for (unsigned i = 0; i < plan.repeat; ++i) {
        for (const bool hashed : {false, true}) {
          double rate = 0;
          BONSAI_RETURN_IF_ERROR(measure_inserts(plan, rival, size.records, threads, hashed, &rate, result));
          rates[hashed].push_back(rate);
        }
      }
      ordered.emplace_back(median(rates[false]));
      random.emplace_back(median(rates[true]));
      ratios.push_back(ratio(*ordered.back(), *random.back()));
      if (rival == kKiwi) kiwi = *ordered.back();
      if (rival == kKaryTree) kary = *ordered.back(), kary_random = *random.back();
    }
    Row row = {threads};
    for (const Row* part : {&ordered, &random, &ratios}) row.insert(row.end(), part->begin(), part->end());
    row.push_back(ratio(kiwi, kary));
    result->rows.push_back(std::move(row));
    verdict = order_verdict(threads, kary, kary_random, kiwi);
  }
  label(plan, result,
        "Inserts into a hundredth of " + std::string(size.name) + " records until that many are there, or for " +
            std::to_string(kInsertCells * cell_ms(plan.scale)) +
            " ms; in random or rising order of keys. Goal of bonsai: ordered >= 0.8 of random. The longer "
            "kary_tree_like inserts in order, the slower it gets: its path grows with each.");
  result->labels.push_back(std::move(verdict));
  label_threads(plan, result);
  return Status::OK();
}

Reference order_reference() { return published_reference("kiwi-order"); }

}  // namespace

const Registered<Experiment> kKiwiExperiments("kiwi", []() -> std::vector<Experiment> {
  return {
      {"kiwi-gets", "KiWi: gets alone", kSource, "gets by threads, two sizes, Bonsai beside KiWi and its rivals",
       run_gets, gets_reference, kKiwiGroup},
      {"kiwi-puts", "KiWi: updates alone", kSource, "the same of updates", run_puts, puts_reference, kKiwiGroup},
      {"kiwi-scans", "KiWi: scans of 32 K alone", kSource, "the same of scans of 32 K records", run_scans,
       scans_reference, kKiwiGroup},
      {"kiwi-beside", "KiWi: scans of 32 K beside updates", kSource,
       "what scanners and updaters do side by side, by threads, two sizes", run_beside, beside_reference, kKiwiGroup},
      {"kiwi-sizes", "KiWi: scans of 2 to 64 K records beside updates", kSource, "the same by the length of the scans",
       run_sizes, no_reference, kKiwiGroup},
      {"kiwi-memory", "KiWi: memory beside scans of 32 records", kSource,
       "DRAM and NVM per record while scanners and updaters work", run_memory, memory_reference, kKiwiGroup},
      {"kiwi-order", "KiWi: ordered against random inserts", kSource,
       "inserts in rising and in random order of keys, by threads", run_order, order_reference, kKiwiGroup}};
});

}  // namespace bonsai::bench
