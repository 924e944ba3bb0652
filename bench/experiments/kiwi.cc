// KiWi's evaluation: gets, updates and scans alone and beside each other, memory, order of inserts; and the project's
// goals for scans and for more threads than processors. One experiment per figure; `kiwi` runs them all.
#include <algorithm>
#include <string>

#include "base/status_macros.h"
#include "bench/engines/bonsai.h"
#include "bench/experiments/experiments.h"
#include "bench/experiments/subject.h"
#include "bench/results/statistics.h"
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
};

// The two sizes of the paper, or smaller ones.
std::vector<Size> sizes(Scale scale) {
  if (scale == Scale::kPaper) return {{"1 M", 1'000'000}, {"10 M", 10'000'000}};
  if (scale == Scale::kSmall) return {{"100 K", 100'000}, {"1 M", 1'000'000}};
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

// ---- get, put and scan alone

Status run_alone(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"thread", "threads"}};
  for (const unsigned threads : team_sizes(plan)) result->rows.push_back({threads});
  for (const Size& size : sizes(plan.scale)) {
    Subject bonsai(plan, size.records, bonsai_for(size.records));
    Subject btree(plan, size.records, find_engine("absl_btree")->make());
    BONSAI_RETURN_IF_ERROR(bonsai.load(result));
    BONSAI_RETURN_IF_ERROR(btree.load(nullptr));
    const std::string of = std::string(", ") + size.name;
    for (const auto& [name, part] :
         {std::pair("gets", Part::kGet), {"scanned", Part::kScan}, {"updates", Part::kPut}}) {
      result->columns.push_back({name + of, "M/s", true});
      result->columns.push_back({name + of + ", absl_btree", "M/s"});
      for (Row& row : result->rows) {
        row.resize(row.size() + 2);
        const auto threads = static_cast<unsigned>(*row[0]);
        BONSAI_RETURN_IF_ERROR(bonsai.rates(team(threads, part, kLongScan), part, &row[row.size() - 2]));
        if (threads == 1) BONSAI_RETURN_IF_ERROR(btree.rates(team(1, part, kLongScan), part, &row.back()));
      }
    }
  }
  label(plan, result,
        "Gets; updates, half of them inserts and half deletes; records that scans of 32 K return. absl_btree, volatile "
        "and for "
        "one thread, in the same run.");
  label_threads(plan, result);
  return Status::OK();
}

Reference alone_reference() {
  return {{"thread", "gets: KiWi / next best", "updates: KiWi / best other", "scans: KiWi / next best"},
          {{32, 1.25, 0.91, 1.4}}};
}

// ---- scans beside puts, by threads

Status run_beside(const ExperimentPlan& plan, ExperimentResult* result) {
  result->columns = {{"thread", "threads"}};
  std::vector<unsigned> counts = team_sizes(plan);
  counts.erase(std::remove(counts.begin(), counts.end(), 1U), counts.end());
  if (counts.empty()) counts = {2};
  for (const unsigned threads : counts) result->rows.push_back({threads});
  for (const Size& size : sizes(plan.scale)) {
    Subject bonsai(plan, size.records, bonsai_for(size.records));
    BONSAI_RETURN_IF_ERROR(bonsai.load(result));
    result->columns.push_back({"scanned, " + std::string(size.name), "M/s", true});
    result->columns.push_back({"updates, " + std::string(size.name), "M/s", true});
    for (Row& row : result->rows) {
      row.resize(row.size() + 2);
      BONSAI_RETURN_IF_ERROR(bonsai.rates(halves(static_cast<unsigned>(*row[0]), kLongScan), Part::kScan,
                                          &row[row.size() - 2], Part::kPut, &row.back()));
    }
  }
  label(plan, result, "Half of the threads scan 32 K records at a time, atomically; the others update.");
  label_threads(plan, result);
  return Status::OK();
}

Reference beside_reference() {
  return {{"thread", "scans: KiWi / Java's skip list, whose scans are not atomic"}, {{32, 2}}};
}

// ---- scans beside puts, by the size of the scans

Status run_sizes(const ExperimentPlan& plan, ExperimentResult* result) {
  const Size size = sizes(plan.scale)[plan.scale == Scale::kPaper ? 0 : 1];
  Subject bonsai(plan, size.records, bonsai_for(size.records));
  BONSAI_RETURN_IF_ERROR(bonsai.load(result));
  result->columns = {{"record per scan", "records"}, {"scanned", "M/s", true}, {"updates", "M/s", true}};
  for (uint32_t records = 2; records <= 65'536; records *= plan.scale == Scale::kTrial ? 32 : 2) {
    Row row = {records, {}, {}};
    BONSAI_RETURN_IF_ERROR(bonsai.rates(halves(plan.threads_max, records), Part::kScan, &row[1], Part::kPut, &row[2]));
    result->rows.push_back(std::move(row));
  }
  label(plan, result,
        "Half of " + std::to_string(std::max(2U, plan.threads_max)) + " threads scan, the others update; " + size.name +
            " records. The paper draws this figure for 16 + 16 threads and gives no numbers.");
  return Status::OK();
}

Reference no_reference() { return {}; }

// ---- memory with short scans

Status run_memory(const ExperimentPlan& plan, ExperimentResult* result) {
  const Size size = sizes(plan.scale)[plan.scale == Scale::kPaper ? 0 : 1];
  result->columns = {{"thread", "threads"},
                     {"DRAM per record", "bytes", true},
                     {"NVM per record", "bytes", true},
                     {"scans", "M/s"},
                     {"updates", "M/s"}};
  for (const unsigned threads : team_sizes(plan)) {
    if (threads < 2 && plan.threads_max >= 2) continue;
    Subject bonsai(plan, size.records, bonsai_for(size.records));
    BONSAI_RETURN_IF_ERROR(bonsai.load(result));
    TeamPlan cell;
    cell.members = halves(threads, kShortScan);
    cell.samples_memory = true;
    TeamResult done;
    BONSAI_RETURN_IF_ERROR(bonsai.run(&cell, &done));
    const auto records = static_cast<double>(size.records);
    result->rows.push_back({threads, done.dram_bytes / records, done.nvm_bytes / records,
                            done.records_m_per_s(cell, Part::kScan) / kShortScan,
                            done.records_m_per_s(cell, Part::kPut)});
  }
  label(
      plan, result,
      std::string(
          "Memory in use while half of the threads scan 32 records at a time and the others update, a mean of up to 50 "
          "samples; ") +
          size.name + " records.");
  label_threads(plan, result);
  return Status::OK();
}

Reference memory_reference() { return {{"thread", "memory: KiWi / k-ary tree and skip list"}, {{32, 1.2}}}; }

// ---- ordered against random inserts

Status run_order(const ExperimentPlan& plan, ExperimentResult* result) {
  const Size size = sizes(plan.scale)[1];
  result->columns = {{"thread", "threads"},
                     {"random inserts", "M/s", true},
                     {"ordered inserts", "M/s", true},
                     {"ordered / random", ""}};
  Workload inserts;
  inserts.name = "insert";
  inserts.shares[static_cast<size_t>(OpKind::kInsert)] = 1;
  RunConfig config = plan.config;
  config.records = std::max<uint64_t>(size.records / 100, 100);
  config.operations = size.records - config.records;
  config.key_form = KeyForm::kFixed8;
  config.value_bytes = 8;
  const EngineEntry entry{"bonsai", "", [&size] { return bonsai_for(size.records); }};
  ExperimentPlan once = plan;
  once.repeat = 1;
  for (const unsigned threads : team_sizes(plan)) {
    config.threads = threads;
    std::vector<double> random, ordered, ratios;
    for (unsigned i = 0; i < plan.repeat; ++i) {
      RunResult run;
      inserts.hashed_inserts = true;
      BONSAI_RETURN_IF_ERROR(measure(once, entry, config, inserts, &run));
      random.push_back(run.throughput_ops_per_s / 1e6);
      inserts.hashed_inserts = false;
      BONSAI_RETURN_IF_ERROR(measure(once, entry, config, inserts, &run));
      ordered.push_back(run.throughput_ops_per_s / 1e6);
      ratios.push_back(ordered.back() / random.back());
      result->medium = run.medium;
    }
    result->rows.push_back({threads, median(random), median(ordered), median(ratios)});
  }
  label(plan, result,
        std::to_string(config.operations) + " inserts into " + std::to_string(config.records) +
            " records, in random or rising order of keys. Goal: ordered >= 0.8 of random.");
  label_threads(plan, result);
  return Status::OK();
}

Reference order_reference() {
  return {{"thread", "ordered inserts", "ordered inserts, k-ary tree"}, {{32, 9.98, 0.0136}}};
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
  return {
      {"kiwi-alone", "KiWi: gets, updates and scans alone", kSource,
       "gets, updates and scans of 32 K by threads, two sizes, beside absl_btree", run_alone, alone_reference, kGroup},
      {"kiwi-beside", "KiWi: scans of 32 K beside updates", kSource,
       "what scanners and updaters do side by side, by threads, two sizes", run_beside, beside_reference, kGroup},
      {"kiwi-sizes", "KiWi: scans of 2 to 64 K records beside updates", kSource, "the same by the length of the scans",
       run_sizes, no_reference, kGroup},
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
