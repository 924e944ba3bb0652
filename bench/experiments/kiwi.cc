// SPDX-License-Identifier: Apache-2.0
// KiWi's evaluation: gets, updates and scans alone and beside each other, memory, order of inserts, of Bonsai and of
// the maps that the paper has; and the project's goals for scans and for more threads than processors. One experiment
// per figure; `kiwi` runs them all.
#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "bench/engines/bonsai.h"
#include "bench/experiments/experiments.h"
#include "bench/experiments/subject.h"
#include "bench/results/statistics.h"
#include "bench/ycsb/values.h"
#include "bonsai/options.h"

namespace bonsai::bench {
namespace {

constexpr uint32_t kLongScan = 32'768;
constexpr uint32_t kShortScan = 32;
constexpr unsigned kCrowd = 12;  // threads per processor of a crowd: 24 on 2
constexpr unsigned kCrowdRoundsMin = 5;
constexpr const char* kGroup = "kiwi";
constexpr const char* kSource = "KiWi, PPoPP 2017";
constexpr const char* kGoals = "docs/design.md, section 6";

struct Size {
  const char* name;
  uint64_t records;
  bool charted = true;
};

// The two sizes of the paper, or smaller ones.
std::vector<Size> sizes(Scale scale) {
  if (scale == Scale::kPaper) return {{"1 M", 1'000'000}, {"10 M", 10'000'000}};
  if (scale == Scale::kSmall) return {{"100 K", 100'000, false}, {"1 M", 1'000'000}};
  return {{"1 K", 1'000}, {"4 K", 4'000}};
}

std::vector<Member> team(unsigned threads, Part part, uint32_t scan_records = 0) {
  return std::vector<Member>(threads, Member{part, scan_records});
}

// Half of the threads scan, the others put; at least one each.
std::vector<Member> halves(unsigned threads, uint32_t scan_records) {
  std::vector<Member> members = team(std::max(1U, threads / 2), Part::kScan, scan_records);
  members.resize(std::max(2U, threads), Member{Part::kPut});
  return members;
}

// The store that all figures are of: with a log of a tenth of the data.
std::unique_ptr<Engine> bonsai_for(uint64_t records, uint32_t background_threads = Options().background_threads) {
  return make_bonsai_engine({.change = [=](StoreOptions* options) {
    options->log_bytes = log_bytes_for(records);
    options->background_threads = background_threads;
  }});
}

void label(const ExperimentPlan& plan, ExperimentResult* result, const std::string& what) {
  result->labels.push_back(what);
  result->labels.push_back("Durable updates; records of 8 + 8 bytes, the log a tenth of them; " +
                           std::to_string(cell_ms(plan.scale)) + " ms per figure" +
                           (plan.scale == Scale::kPaper ? "." : ", fewer records than the paper has: --scale=paper."));
}

void label_threads(const ExperimentPlan& plan, ExperimentResult* result) {
  if (plan.threads_max < 32) {
    result->labels.push_back("Up to " + std::to_string(plan.threads_max) + " threads: the paper's figures go to 32.");
  }
}

std::vector<unsigned> team_sizes(const ExperimentPlan& plan) { return thread_counts(plan, {1, 2, 4, 8, 16, 24, 32}); }

// ---- the field: Bonsai and, in DRAM, the maps of the paper

constexpr const char* kRivals[] = {"bonsai",     "kiwi_like",      "snaptree_like",
                                   "ctrie_like", "kary_tree_like", "skiplist_like"};
constexpr size_t kBonsai = 0, kKiwi = 1, kSnapTree = 2, kKaryTree = 4, kSkipList = 5;
constexpr uint64_t kInsertCells = 8;  // an insert phase takes as long as so many other figures, at most
constexpr unsigned kRunsOfPaper = 10;

std::unique_ptr<Engine> rival_for(size_t rival, uint64_t records) {
  return rival == kBonsai ? bonsai_for(records) : find_engine(kRivals[rival])->make();
}

// What a team did to a rival.
struct Work {
  double records_m_per_s = 0;  // of the part that was asked for
  double other_m_per_s = 0;    // of the other one
  double dram_bytes = 0, nvm_bytes = 0;
};
using WorkOfAll = std::array<Work, std::size(kRivals)>;

// Measures as the paper does: the mean of some runs, each on a fresh fill; before a rival's first one a warm-up, on a
// fill of its own. The rivals take turns.
class Field {
 public:
  // Requires: plan and result outlive it.
  Field(const ExperimentPlan& plan, const Size& size, ExperimentResult* result)
      : once_(plan),
        size_(size),
        result_(result),
        runs_(plan.scale == Scale::kPaper ? std::max(kRunsOfPaper, plan.repeat) : plan.repeat) {
    once_.repeat = 1;
  }

  Status measure(const TeamPlan& team, Part part, Part other, WorkOfAll* all) {
    BONSAI_RETURN_IF_ERROR(warm_up());
    for (unsigned i = 0; i < runs_; ++i) {
      for (size_t rival = 0; rival < std::size(kRivals); ++rival) {
        TeamPlan cell = team;
        TeamResult done;
        BONSAI_RETURN_IF_ERROR(run_once(rival, &cell, &done));
        Work& work = (*all)[rival];
        work.records_m_per_s += done.records_m_per_s(cell, part) / runs_;
        work.other_m_per_s += done.records_m_per_s(cell, other) / runs_;
        work.dram_bytes += done.dram_bytes / runs_;
        work.nvm_bytes += done.nvm_bytes / runs_;
      }
    }
    return Status::OK();
  }

 private:
  static uint64_t warm_up_ms(Scale scale) { return scale == Scale::kPaper ? 20'000 : scale == Scale::kSmall ? 100 : 1; }

  Status run_once(size_t rival, TeamPlan* cell, TeamResult* done) {
    Subject subject(once_, size_.records, rival_for(rival, size_.records));
    BONSAI_RETURN_IF_ERROR(subject.load(rival == kBonsai ? result_ : nullptr));
    return subject.run(cell, done);
  }

  Status warm_up() {
    for (size_t rival = 0; rival < std::size(kRivals) && !is_warm_; ++rival) {
      TeamPlan cell;
      cell.members = team(once_.threads_max, Part::kPut);
      cell.ms = warm_up_ms(once_.scale);
      TeamResult ignored;
      BONSAI_RETURN_IF_ERROR(run_once(rival, &cell, &ignored));
    }
    is_warm_ = true;
    return Status::OK();
  }

  ExperimentPlan once_;
  const Size size_;
  ExperimentResult* const result_;
  const unsigned runs_;
  bool is_warm_ = false;
};

// A column for each rival: "WHAT, RIVAL, SIZE".
void add_columns(const std::string& what, const std::string& unit, bool charted, const std::string& of,
                 ExperimentResult* result) {
  for (const char* rival : kRivals) result->columns.push_back({what + ", " + rival + of, unit, charted});
}

void add_figures(const WorkOfAll& all, double Work::*figure, double divisor, Row* row) {
  for (const Work& work : all) row->emplace_back(work.*figure / divisor);
}

std::optional<double> ratio(double figure, double by) {
  return by > 0 ? std::optional<double>(figure / by) : std::nullopt;
}

void label_field(const ExperimentPlan& plan, ExperimentResult* result, const std::string& what) {
  label(plan, result, what);
  result->labels.push_back(
      "The maps (..._like) are volatile, clean-room, in C++ and in the same run; each figure is the mean of " +
      std::string(plan.scale == Scale::kPaper ? "10 runs" : "so many runs as --repeat says") +
      " on fresh fills, after a warm-up.");
  label_threads(plan, result);
}

// ---- get, put and scan alone

// KiWi beside the next best map and beside the slowest one.
void add_kiwi_ratios(const WorkOfAll& all, Row* row) {
  const double kiwi = all[kKiwi].records_m_per_s;
  double best = 0, slowest = kiwi;
  for (size_t rival = kKiwi + 1; rival < all.size(); ++rival) {
    best = std::max(best, all[rival].records_m_per_s);
    slowest = std::min(slowest, all[rival].records_m_per_s);
  }
  row->push_back(ratio(kiwi, best));
  row->push_back(ratio(kiwi, slowest));
  row->push_back(ratio(all[kBonsai].records_m_per_s, kiwi));
}

Status run_alone(const ExperimentPlan& plan, Part part, const char* what, ExperimentResult* result) {
  result->columns = {{"thread", "threads"}};
  for (const unsigned threads : team_sizes(plan)) result->rows.push_back({threads});
  for (const Size& size : sizes(plan.scale)) {
    Field field(plan, size, result);
    const std::string of = std::string(", ") + size.name;
    add_columns(what, "M/s", size.charted, of, result);
    for (const char* name : {"kiwi_like / next best map", "kiwi_like / slowest map", "bonsai / kiwi_like"}) {
      result->columns.push_back({name + of, ""});
    }
    for (Row& row : result->rows) {
      TeamPlan cell;
      cell.members = team(static_cast<unsigned>(*row[0]), part, kLongScan);
      WorkOfAll all;
      BONSAI_RETURN_IF_ERROR(field.measure(cell, part, part, &all));
      add_figures(all, &Work::records_m_per_s, 1, &row);
      add_kiwi_ratios(all, &row);
    }
  }
  return Status::OK();
}

Status run_gets(const ExperimentPlan& plan, ExperimentResult* result) {
  BONSAI_RETURN_IF_ERROR(run_alone(plan, Part::kGet, "gets", result));
  label_field(plan, result, "Gets of random records.");
  return Status::OK();
}

Status run_puts(const ExperimentPlan& plan, ExperimentResult* result) {
  BONSAI_RETURN_IF_ERROR(run_alone(plan, Part::kPut, "updates", result));
  label_field(plan, result, "Updates of random records, half of them inserts and half deletes.");
  return Status::OK();
}

Status run_scans(const ExperimentPlan& plan, ExperimentResult* result) {
  BONSAI_RETURN_IF_ERROR(run_alone(plan, Part::kScan, "scanned", result));
  label_field(plan, result,
              "Records that scans of 32 K return, each from a random key on. A scan of ctrie_like visits all of it.");
  return Status::OK();
}

Reference gets_reference() {
  return {{"thread", "kiwi_like / next best map, 1 M", "kiwi_like / slowest map, 1 M"}, {{32, 1.25, 2.5}}};
}
Reference puts_reference() { return {{"thread", "kiwi_like / next best map, 1 M"}, {{32, 0.91}}}; }
Reference scans_reference() { return {{"thread", "kiwi_like / next best map, 1 M"}, {{32, 1.4}}}; }

// ---- scans beside puts, by threads

Status run_beside(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"thread", "threads"}};
  std::vector<unsigned> counts = team_sizes(plan);
  counts.erase(std::remove(counts.begin(), counts.end(), 1U), counts.end());
  if (counts.empty()) counts = {2};
  for (const unsigned threads : counts) result->rows.push_back({threads});
  for (const Size& size : sizes(plan.scale)) {
    Field field(plan, size, result);
    const std::string of = std::string(", ") + size.name;
    add_columns("scanned", "M/s", size.charted, of, result);
    add_columns("updates", "M/s", false, of, result);
    for (const char* name : {"scanned, bonsai / kiwi_like", "updates, bonsai / kiwi_like",
                             "scanned, kiwi_like / skiplist_like", "updates, kiwi_like / snaptree_like"}) {
      result->columns.push_back({name + of, ""});
    }
    for (Row& row : result->rows) {
      TeamPlan cell;
      cell.members = halves(static_cast<unsigned>(*row[0]), kLongScan);
      WorkOfAll all;
      BONSAI_RETURN_IF_ERROR(field.measure(cell, Part::kScan, Part::kPut, &all));
      add_figures(all, &Work::records_m_per_s, 1, &row);
      add_figures(all, &Work::other_m_per_s, 1, &row);
      row.push_back(ratio(all[kBonsai].records_m_per_s, all[kKiwi].records_m_per_s));
      row.push_back(ratio(all[kBonsai].other_m_per_s, all[kKiwi].other_m_per_s));
      row.push_back(ratio(all[kKiwi].records_m_per_s, all[kSkipList].records_m_per_s));
      row.push_back(ratio(all[kKiwi].other_m_per_s, all[kSnapTree].other_m_per_s));
    }
  }
  label_field(plan, result,
              "Half of the threads scan 32 K records at a time, the others update. Scans of skiplist_like are not "
              "atomic; those of kary_tree_like begin again when an update meets them.");
  return Status::OK();
}

Reference beside_reference() { return {{"thread", "scanned, kiwi_like / skiplist_like, 1 M"}, {{32, 2}}}; }

// ---- scans beside puts, by the size of the scans

Status run_sizes(const ExperimentPlan& plan, ExperimentResult* result) {
  const Size size = sizes(plan.scale)[0];
  Field field(plan, size, result);
  result->columns = {{"record per scan", "records"}};
  add_columns("scanned", "M/s", true, "", result);
  add_columns("updates", "M/s", false, "", result);
  for (uint32_t records = 2; records <= 65'536; records *= plan.scale == Scale::kTrial ? 32 : 2) {
    TeamPlan cell;
    cell.members = halves(plan.threads_max, records);
    WorkOfAll all;
    BONSAI_RETURN_IF_ERROR(field.measure(cell, Part::kScan, Part::kPut, &all));
    Row row = {records};
    add_figures(all, &Work::records_m_per_s, 1, &row);
    add_figures(all, &Work::other_m_per_s, 1, &row);
    result->rows.push_back(std::move(row));
  }
  label_field(plan, result,
              "Half of " + std::to_string(std::max(2U, plan.threads_max)) + " threads scan, the others update; " +
                  size.name + " records. The paper draws this figure for 16 + 16 threads and gives no numbers.");
  return Status::OK();
}

Reference no_reference() { return {}; }

// ---- memory with short scans

Status run_memory(const ExperimentPlan& plan, ExperimentResult* result) {
  const Size size = sizes(plan.scale)[plan.scale == Scale::kPaper ? 0 : 1];
  const auto records = static_cast<double>(size.records);
  Field field(plan, size, result);
  result->columns = {{"thread", "threads"}};
  add_columns("DRAM per record", "bytes", true, "", result);
  result->columns.push_back({"NVM per record, bonsai", "bytes"});
  result->columns.push_back({"memory, kiwi_like / mean of kary_tree_like and skiplist_like", ""});
  add_columns("scanned", "M/s", false, "", result);
  add_columns("updates", "M/s", false, "", result);
  for (const unsigned threads : team_sizes(plan)) {
    if (threads < 2 && plan.threads_max >= 2) continue;
    TeamPlan cell;
    cell.members = halves(threads, kShortScan);
    cell.samples_memory = true;
    WorkOfAll all;
    BONSAI_RETURN_IF_ERROR(field.measure(cell, Part::kScan, Part::kPut, &all));
    Row row = {threads};
    add_figures(all, &Work::dram_bytes, records, &row);
    row.emplace_back(all[kBonsai].nvm_bytes / records);
    row.push_back(ratio(2 * all[kKiwi].dram_bytes, all[kKaryTree].dram_bytes + all[kSkipList].dram_bytes));
    add_figures(all, &Work::records_m_per_s, 1, &row);
    add_figures(all, &Work::other_m_per_s, 1, &row);
    result->rows.push_back(std::move(row));
  }
  label_field(plan, result,
              std::string("Memory in use while half of the threads scan 32 records at a time and the others update, a "
                          "mean of up to 50 samples; ") +
                  size.name + " records. Of the maps all that is allocated counts, also what waits to be freed.");
  return Status::OK();
}

Reference memory_reference() {
  return {{"thread", "memory, kiwi_like / mean of kary_tree_like and skiplist_like"}, {{32, 1.2}}};
}

// ---- ordered against random inserts

// Inserts records [first, end), in the order that the shape gives their keys, for that long at most.
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

Status measure_inserts(const ExperimentPlan& plan, size_t rival, uint64_t records, unsigned threads, bool hashed,
                       double* m_per_s, ExperimentResult* result) {
  const std::unique_ptr<Engine> engine = rival_for(rival, records);
  EngineOptions options;
  options.shape.hashed = hashed;
  options.records_max = 2 * records;
  options.pool_dir = plan.config.pool_dir;
  options.out_dir = plan.config.out_dir;
  const uint64_t loaded = std::max<uint64_t>(records / 100, 100);
  BONSAI_RETURN_IF_ERROR(engine->open(options));
  if (rival == kBonsai) result->medium = engine->medium();
  plan.listener.on_phase(kRivals[rival], hashed ? "random inserts" : "ordered inserts", records);
  Status status = load_for_team(engine.get(), options.shape, loaded, threads, *plan.stop);
  if (status.ok()) status = insert_rest(engine.get(), options.shape, loaded, records, threads, plan, m_per_s);
  const Status closed = engine->close();
  return status.ok() ? closed : status;
}

Status run_order(const ExperimentPlan& plan, ExperimentResult* result) {
  const Size size = sizes(plan.scale)[plan.scale == Scale::kPaper ? 0 : 1];
  result->columns = {{"thread", "threads"}};
  add_columns("ordered inserts", "M/s", true, "", result);
  add_columns("random inserts", "M/s", false, "", result);
  add_columns("ordered / random", "", false, "", result);
  result->columns.push_back({"ordered inserts, kiwi_like / kary_tree_like", ""});
  for (const unsigned threads : team_sizes(plan)) {
    Row ordered, random, ratios;
    for (size_t rival = 0; rival < std::size(kRivals); ++rival) {
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
    }
    Row row = {threads};
    for (const Row* part : {&ordered, &random, &ratios}) row.insert(row.end(), part->begin(), part->end());
    row.push_back(ratio(*ordered[kKiwi], *ordered[kKaryTree]));
    result->rows.push_back(std::move(row));
  }
  label(plan, result,
        "Inserts into a hundredth of " + std::string(size.name) + " records until that many are there, or for " +
            std::to_string(kInsertCells * cell_ms(plan.scale)) +
            " ms; in random or rising order of keys. Goal of bonsai: ordered >= 0.8 of random. The longer "
            "kary_tree_like inserts in order, the slower it gets: its path grows with each.");
  label_threads(plan, result);
  return Status::OK();
}

Reference order_reference() {
  return {{"thread", "ordered inserts, kiwi_like", "ordered inserts, kary_tree_like",
           "ordered inserts, kiwi_like / kary_tree_like"},
          {{32, 9.98, 0.0136, 730}}};
}

// ---- what a scanner and a put thread cost each other

// The scanner alone on what it had beside updates. For half a pass at the pace that it had: what scans ask to be
// compacted soon makes it another store.
Status scan_what_is_left(Subject* subject, const Member& scan, uint64_t records, double records_m_per_s,
                         std::optional<double>* figure) {
  TeamPlan plan;
  plan.members = {scan};
  plan.ms = std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(records) / 2 / (1e3 * records_m_per_s)));
  TeamResult team;
  BONSAI_RETURN_IF_ERROR(subject->run(&plan, &team));
  *figure = team.records_m_per_s(plan, Part::kScan);
  return Status::OK();
}

// Works twice as long as a figure takes and counts the second half: the store is then what such a pair makes of it.
Status rates_in_the_long_run(Subject* subject, const Member& put, const Member& other, std::optional<double>* updates,
                             std::optional<double>* others) {
  for (int half = 0; half < 2; ++half) {
    BONSAI_RETURN_IF_ERROR(subject->rates({put, other}, Part::kPut, updates, other.part, others));
  }
  return Status::OK();
}

// Two threads in all: the updater offloads, and the scanner compacts what it asks for.
Status run_interference(const ExperimentPlan& plan, ExperimentResult* result) {
  const Size size = sizes(plan.scale)[1];
  ExperimentPlan once = plan;
  once.repeat = 1;
  Subject bonsai(once, size.records, bonsai_for(size.records, 0));
  BONSAI_RETURN_IF_ERROR(bonsai.load(result));
  result->columns = {{"round", "rounds"},
                     {"updates beside a scanner / beside a stream", "", true},
                     {"scanner beside updates / alone on what they left", "", true},
                     {"scanner beside updates / alone, drained", "", true},
                     {"updates beside a scanner", "M/s"},
                     {"updates beside a stream of as many bytes", "M/s"},
                     {"scanned beside updates", "M/s"},
                     {"scanned alone, what they left", "M/s"},
                     {"scanned alone, drained", "M/s"},
                     {"streamed", "M/s"}};
  const Member put{Part::kPut};
  const Member scan{Part::kScan, kLongScan};
  std::vector<double> put_ratios, left_ratios, drained_ratios;
  const unsigned rounds = std::max(plan.scale == Scale::kTrial ? 1U : 5U, plan.repeat);
  for (unsigned round = 1; round <= rounds; ++round) {
    std::optional<double> updates, scanned, unhindered, streamed, left, drained;
    BONSAI_RETURN_IF_ERROR(rates_in_the_long_run(&bonsai, put, scan, &updates, &scanned));
    BONSAI_RETURN_IF_ERROR(scan_what_is_left(&bonsai, scan, size.records, *scanned, &left));
    const Member stream{.part = Part::kStream, .scan_records = kLongScan, .records_per_s_max = 1e6 * *scanned};
    BONSAI_RETURN_IF_ERROR(rates_in_the_long_run(&bonsai, put, stream, &unhindered, &streamed));
    BONSAI_RETURN_IF_ERROR(bonsai.engine().settle());
    BONSAI_RETURN_IF_ERROR(bonsai.rates({scan}, Part::kScan, &drained));
    put_ratios.push_back(*updates / *unhindered);
    left_ratios.push_back(*scanned / *left);
    drained_ratios.push_back(*scanned / *drained);
    result->rows.push_back({round, put_ratios.back(), left_ratios.back(), drained_ratios.back(), updates, unhindered,
                            scanned, left, drained, streamed});
  }
  label(plan, result,
        std::string("One thread updates ") + size.name +
            " records and offloads them, another scans 32 K at a time, or reads as many bytes per second (16 per "
            "record) from an array of its own; there is no background thread.");
  result->labels.push_back("Medians: updates keep " + percent(median(put_ratios)) +
                           " of their pace beside the stream (goal: 95 %); the scanner keeps " +
                           percent(median(left_ratios)) +
                           " of its own pace, alone on the same store with its newest tenth in bnodes and in runs "
                           "(goal: 90 %), and " +
                           percent(median(drained_ratios)) + " of that on the drained store, where all are in order.");
  return Status::OK();
}

Reference interference_reference() {
  return {{"round", "updates beside a scanner / beside a stream", "scanner beside updates / alone on what they left"},
          {{1, 0.95, 0.9}},
          ReferenceKind::kGoals};
}

// ---- many more threads than processors

struct Crowd {
  std::vector<double> shares;              // throughput by that of few threads, a round each
  std::vector<double> slowest;             // share of the mean that the slowest thread got, a round each
  std::vector<std::vector<double>> ranks;  // operations per second of each thread, the slowest first, a round each
};

// One round: few threads, then many, both from the state in which such a team leaves the store.
Status run_crowd_round(Subject* subject, Part part, unsigned few, unsigned many, Crowd* crowd) {
  double throughput[2];
  TeamResult done;
  for (const unsigned threads : {few, many}) {
    TeamPlan cell;
    cell.members = team(threads, part, kLongScan);
    if (part == Part::kPut) BONSAI_RETURN_IF_ERROR(subject->run(&cell, &done));
    BONSAI_RETURN_IF_ERROR(subject->run(&cell, &done));
    throughput[threads == many] = done.records_m_per_s(cell, part);
  }
  std::sort(done.operations.begin(), done.operations.end());
  std::vector<double> each;
  double sum = 0;
  for (const uint64_t operations : done.operations) {
    each.push_back(static_cast<double>(operations) / done.seconds);
    sum += each.back();
  }
  crowd->shares.push_back(throughput[1] / throughput[0]);
  crowd->slowest.push_back(each.front() * many / sum);
  crowd->ranks.push_back(std::move(each));
  return Status::OK();
}

Status run_crowd(const ExperimentPlan& plan, ExperimentResult* result) {
  const Size size = sizes(plan.scale)[1];
  const unsigned few = plan.threads_max;
  const unsigned many = kCrowd * few;
  const unsigned rounds = plan.scale == Scale::kTrial ? 1 : std::max(kCrowdRoundsMin, plan.repeat);
  Subject bonsai(plan, size.records, bonsai_for(size.records));
  BONSAI_RETURN_IF_ERROR(bonsai.load(result));
  result->columns = {{"thread, slowest first", "threads"}};
  for (unsigned i = 1; i <= many; ++i) result->rows.push_back({i});
  label(plan, result,
        std::to_string(many) + " threads of the same kind at once, each with what it did in " +
            std::to_string(cell_ms(plan.scale)) + " ms, in thousands per second, medians of " + std::to_string(rounds) +
            " rounds; " + size.name + " records.");
  for (const auto& [name, part] :
       {std::pair("gets", Part::kGet), {"scans of 32 K", Part::kScan}, {"updates", Part::kPut}}) {
    Crowd crowd;
    for (unsigned round = 0; round < rounds; ++round) {
      BONSAI_RETURN_IF_ERROR(run_crowd_round(&bonsai, part, few, many, &crowd));
    }
    result->columns.push_back({name, "K/s", part != Part::kScan});
    for (unsigned i = 0; i < many; ++i) {
      std::vector<double> rank;
      for (const std::vector<double>& each : crowd.ranks) rank.push_back(each[i] / 1e3);
      result->rows[i].emplace_back(median(rank));
    }
    result->labels.push_back(std::string(name) + ": " + std::to_string(many) + " threads reach " +
                             percent(median(crowd.shares)) + " of " + std::to_string(few) +
                             " threads (goal: 80 %), the slowest " + percent(median(crowd.slowest)) +
                             " of the mean (goal: 50 %).");
  }
  return Status::OK();
}

}  // namespace

std::vector<Experiment> kiwi() {
  return {{"kiwi-gets", "KiWi: gets alone", kSource, "gets by threads, two sizes, Bonsai beside KiWi and its rivals",
           run_gets, gets_reference, kGroup},
          {"kiwi-puts", "KiWi: updates alone", kSource, "the same of updates", run_puts, puts_reference, kGroup},
          {"kiwi-scans", "KiWi: scans of 32 K alone", kSource, "the same of scans of 32 K records", run_scans,
           scans_reference, kGroup},
          {"kiwi-beside", "KiWi: scans of 32 K beside updates", kSource,
           "what scanners and updaters do side by side, by threads, two sizes", run_beside, beside_reference, kGroup},
          {"kiwi-sizes", "KiWi: scans of 2 to 64 K records beside updates", kSource,
           "the same by the length of the scans", run_sizes, no_reference, kGroup},
          {"kiwi-memory", "KiWi: memory beside scans of 32 records", kSource,
           "DRAM and NVM per record while scanners and updaters work", run_memory, memory_reference, kGroup},
          {"kiwi-order", "KiWi: ordered against random inserts", kSource,
           "inserts in rising and in random order of keys, by threads", run_order, order_reference, kGroup},
          {"kiwi-interference", "What a scanner and an updater cost each other", kGoals,
           "an updater beside a scanner and beside a stream of as many bytes", run_interference, interference_reference,
           kGroup},
          {"kiwi-crowd", "Many more threads than processors", kGoals, "what each of 12 threads per processor gets done",
           run_crowd, no_reference, kGroup}};
}

}  // namespace bonsai::bench
