// SPDX-License-Identifier: Apache-2.0
// The goals of docs/design.md, section 6: the index tier against absl::btree_map, every line in one configuration.
//
// A round runs each line once on both stores. They are open at the same time and take turns, so that both see the same
// conditions. The lines run in YCSB's order, with a fresh load before D and before E, as these insert.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/random.h"
#include "base/status_macros.h"
#include "bench/engines/bonsai.h"
#include "bench/results/machine.h"
#include "bench/results/statistics.h"
#include "bench/studies/experiments/experiment.h"
#include "bench/studies/experiments/subject.h"
#include "bonsai/options.h"

namespace bonsai::bench {
namespace {

constexpr unsigned kThreads = 2;
constexpr unsigned kDepth = 32;  // greater depths bring nothing
constexpr unsigned kRoundsMin = 5;
constexpr double kLogPercentMax = 10;
constexpr double kAnsweredPercentMin = 85;
constexpr double kWrittenMax = 5;
constexpr const char* kOurs = "bonsai";
constexpr const char* kLeft = "bonsai as left";
constexpr const char* kSampled = "bonsai sampled";
constexpr const char* kTheirs = "absl_btree";

// A line of the table. Floor and goal are multiples of absl_btree's throughput.
struct Line {
  const char* name;
  std::array<double, kOpKinds> shares;
  Distribution requests;
  unsigned depth;  // 0 = the best one, --depth
  double floor, goal;
  double goal_mops;  // the goal in Mop/s, about
};

enum : size_t { kLoad, kCZipf, kCUniform, kMultiGet, kA, kB, kD, kE, kCAlone };

constexpr Line kLines[] = {
    {"Load", {}, Distribution::kSequential, 0, 1.4, 2.8, 6},
    {"C zipf", {1}, Distribution::kZipfian, 0, 4.6, 7.5, 25},
    {"C uniform", {1}, Distribution::kUniform, 0, 6, 9.5, 20},
    {"multi-get of 32", {1}, Distribution::kUniform, 32, 6.6, 14, 30},
    {"A zipf", {0.5, 0.5}, Distribution::kZipfian, 0, 1.4, 4.8, 15},
    {"B zipf", {0.95, 0.05}, Distribution::kZipfian, 0, 3.8, 7, 22},
    {"D", {0.95, 0, 0.05}, Distribution::kLatest, 0, 3.2, 6.7, 20},
    {"E zipf", {0, 0, 0.05, 0.95}, Distribution::kZipfian, 0, 1.4, 3.4, 4},
    {"C at depth 1", {1}, Distribution::kUniform, 1, 2.1, 4, 8},
};
constexpr size_t kOrder[] = {kLoad, kA, kB, kCZipf, kCUniform, kMultiGet, kCAlone, kD, kE};

// The form of records, and the bounds that follow from it.
struct Shape {
  KeyForm key_form;
  uint32_t key_bytes;
  uint32_t value_bytes;
  double log_bytes;       // per record: just below a tenth of what dnodes take after a load
  double of_ratios;       // floors and goals are this part of those of kLines
  double dram_bytes_max;  // per record
  double bytes_max;       // DRAM and NVM per record; 0 = no bound

  [[nodiscard]] uint64_t record_bytes() const { return key_bytes + value_bytes; }
};
constexpr Shape kIntegers{KeyForm::kFixed8, 8, 8, 2.045, 1, 4, 34};
constexpr Shape kStrings{KeyForm::kString, 24, 100, 12.4, 0.5, 8, 0};

// Figures of a line, one for each round.
struct Figures {
  std::vector<double> ours, theirs, ratio;
  std::vector<double> left, left_ratio;  // undrained
  std::vector<double> sampled;           // of lines with scans
  std::vector<double> huge_pages;        // share of the program's memory
  std::vector<double> dram, dram_undrained, process, process_undrained, their_process, nvm, log, written, answered,
      drained_in, their_dram;
};

std::optional<double> median_if_any(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(median(values));
}

// A bound of the confidence interval of a ratio; absent where too few rounds ran.
std::optional<double> bound_of(const std::vector<double>& ratios, double Interval::*bound) {
  const std::optional<Interval> interval = ratio_interval(ratios);
  return interval ? std::optional((*interval).*bound) : std::nullopt;
}

std::string rounded(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

uint64_t usual_records(Scale scale) {
  return scale == Scale::kPaper ? 10'000'000 : scale == Scale::kSmall ? 1'000'000 : 2'000;
}

class SpeedStudy {
 public:
  SpeedStudy(const ExperimentPlan& plan, const Shape& shape)
      : plan_(plan),
        shape_(shape),
        rounds_(plan.scale == Scale::kTrial ? 1 : std::max(kRoundsMin, plan.repeat)),
        config_(plan.config) {
    config_.records = plan.asked.records.value_or(usual_records(plan.scale));
    config_.operations = plan.asked.operations.value_or(config_.records);
    config_.threads = plan.asked.threads.value_or(kThreads);
    config_.depth = plan.asked.depth.value_or(kDepth);
    config_.key_form = shape.key_form;
    config_.value_bytes = shape.value_bytes;
    for (const size_t line : kOrder) {
      Step step;
      step.load_only = line == kLoad;
      step.depth = kLines[line].depth;
      step.sessions = line != kMultiGet;
      step.workload.name = kLines[line].name;
      step.workload.shares = kLines[line].shares;
      step.workload.requests = kLines[line].requests;
      step.workload.scan_length_max = 100;  // YCSB's E
      step.workload.zero_padding = shape.key_form == KeyForm::kString ? shape.key_bytes - 4 : 1;
      steps_.push_back(std::move(step));
    }
  }

  Status run(ExperimentResult* result) {
    std::vector<EngineEntry> engines = {store(kOurs, {}), {kTheirs, "", find_engine("absl_btree")->make}};
    for (unsigned round = 0; round < rounds_; ++round) {
      std::shuffle(engines.begin(), engines.end(), random_);
      orders_ += (round == 0 ? "" : ", ") + std::string(engines.front().name);
      BONSAI_RETURN_IF_ERROR(run_round(round, engines, result));
    }
    tell(result);
    return Status::OK();
  }

 private:
  [[nodiscard]] uint64_t log_bytes() const { return log_bytes_for(config_.records, shape_.log_bytes); }

  // The store, with one setting that is not the default.
  [[nodiscard]] EngineEntry store(const char* name, BonsaiVariant variant) const {
    variant.change = [bytes = log_bytes()](StoreOptions* options) { options->log_bytes = bytes; };
    return {name, "", [variant] { return make_bonsai_engine(variant); }};
  }

  Status run_round(unsigned round, const std::vector<EngineEntry>& engines, ExperimentResult* result) {
    ExperimentPlan plan = plan_;
    const std::string which = "round " + std::to_string(round + 1) + " of " + std::to_string(rounds_);
    plan.listener.on_phase = [&](const std::string& engine, const std::string& phase, uint64_t operations) {
      plan_.listener.on_phase(engine, phase + ", " + which, operations);
    };
    plan.listener.on_note = [](const std::string&) {};  // the labels say that absl_btree takes one thread
    std::vector<RunResult> runs, left, sampled;
    BONSAI_RETURN_IF_ERROR(measure_in_turns(plan, engines, config_, steps_, &runs));
    // These run alone: work that they put off would be done in the others' turns.
    BONSAI_RETURN_IF_ERROR(measure_in_turns(plan, {store(kLeft, {.drains = false})}, config_, steps_, &left));
    const std::vector<Step> scans = {steps_.back()};
    BONSAI_RETURN_IF_ERROR(
        measure_in_turns(plan, {store(kSampled, {.sampled_scans = true})}, config_, scans, &sampled));
    std::string ratios;
    for (size_t line = 0; line < std::size(kLines); ++line) {
      const RunResult& drained = run_of(kOurs, line, runs);
      const RunResult& theirs = run_of(kTheirs, line, runs);
      Figures& figures = figures_[line];
      take(drained, theirs, &figures);
      figures.left.push_back(run_of(kLeft, line, left).throughput_ops_per_s / 1e6);
      figures.left_ratio.push_back(figures.left.back() * 1e6 / theirs.throughput_ops_per_s);
      if (line == kLoad) result->medium = drained.medium;
      ratios += std::string(line == 0 ? ": " : ", ") + kLines[line].name + " " + rounded(figures.ratio.back());
    }
    figures_[kE].sampled.push_back(run_of(kSampled, kE, sampled).throughput_ops_per_s / 1e6);
    plan_.listener.on_note(which + ratios);
    return Status::OK();
  }

  static const RunResult& run_of(const char* engine, size_t line, const std::vector<RunResult>& runs) {
    const std::string phase = line == kLoad ? "load" : kLines[line].name;
    return *std::find_if(runs.begin(), runs.end(),
                         [&](const RunResult& run) { return run.engine == engine && run.workload == phase; });
  }

  void take(const RunResult& ours, const RunResult& theirs, Figures* figures) const {
    figures->ours.push_back(ours.throughput_ops_per_s / 1e6);
    figures->theirs.push_back(theirs.throughput_ops_per_s / 1e6);
    figures->ratio.push_back(ours.throughput_ops_per_s / theirs.throughput_ops_per_s);
    const double records = static_cast<double>(*ours.user_bytes) / static_cast<double>(shape_.record_bytes());
    const auto per_record = [records](const std::optional<uint64_t>& bytes) {
      return static_cast<double>(*bytes) / records;
    };
    figures->dram.push_back(per_record(ours.memory.dram_bytes));
    figures->dram_undrained.push_back(per_record(ours.memory_unsettled.dram_bytes));
    take_process(ours, theirs, records, figures);
    figures->nvm.push_back(per_record(ours.memory.nvm_bytes));
    figures->log.push_back(per_record(ours.memory.log_bytes));
    figures->their_dram.push_back(per_record(theirs.memory.dram_bytes));
    figures->drained_in.push_back(ours.settle_seconds);
    figures->huge_pages.push_back(std::min(ours.huge_pages.value_or(0), theirs.huge_pages.value_or(0)));
    const auto count = [&](OpKind kind) { return ours.operations_of[static_cast<size_t>(kind)]; };
    const uint64_t written = (count(OpKind::kInsert) + count(OpKind::kUpdate)) * shape_.record_bytes();
    if (written > 0) {
      figures->written.push_back(static_cast<double>(ours.nvm->media_bytes) / static_cast<double>(written));
    }
    if (count(OpKind::kRead) > 0) {
      figures->answered.push_back(100 * static_cast<double>(ours.nvm->gets_answered) /
                                  static_cast<double>(ours.nvm->gets));
    }
  }

  // Takes the process' memory; absent where the system does not report it.
  static void take_process(const RunResult& ours, const RunResult& theirs, double records, Figures* figures) {
    for (const auto& [bytes, place] : {std::pair(ours.memory.process_bytes, &figures->process),
                                       {ours.memory_unsettled.process_bytes, &figures->process_undrained},
                                       {theirs.memory.process_bytes, &figures->their_process}}) {
      if (bytes) place->push_back(static_cast<double>(*bytes) / records);
    }
  }

  static std::vector<Column> columns(std::vector<std::string> names) {
    return {{"line", "", false, {}, names},
            {"bonsai Mop/s", "Mop/s"},
            {"absl_btree Mop/s", "Mop/s"},
            {"ratio", "bonsai / absl_btree", true},
            {"least", "bonsai / absl_btree"},
            {"most", "bonsai / absl_btree"},
            {"ratio, low", "95 % confidence, t over logarithms"},
            {"ratio, high", "95 % confidence, t over logarithms"},
            {"as left Mop/s", "Mop/s, nothing drained"},
            {"as left", "bonsai as left / absl_btree"},
            {"as left, low", "95 % confidence, t over logarithms"},
            {"as left, high", "95 % confidence, t over logarithms"},
            {"sampled Mop/s", "Mop/s, scans verify a sample"},
            {"floor", "bonsai / absl_btree", true},
            {"goal", "bonsai / absl_btree", true},
            {"reached", "", false, {}, {"neither", "floor", "goal"}, true},
            {"DRAM B/rec", "bytes per record, drained"},
            {"undrained", "DRAM bytes per record before draining"},
            {"process B/rec", "bytes per record by which the process grew, drained"},
            {"process, undrained", "bytes per record by which the process had grown before draining"},
            {"NVM B/rec", "bytes per record, drained"},
            {"written", "media bytes / user bytes"},
            {"by dnodes %", "% of the gets"},
            {"drained in", "s"},
            {"absl_btree B/rec", "bytes per record"},
            {"absl_btree process", "bytes per record by which the process grew"}};
  }

  void tell(ExperimentResult* result) const {
    std::vector<std::string> names;
    for (const Line& line : kLines) names.emplace_back(line.name);
    result->columns = columns(std::move(names));
    size_t floors = 0, goals = 0;
    for (size_t i = 0; i < std::size(kLines); ++i) {
      const Figures& of = figures_[i];
      const double ratio = median(of.ratio);
      const double floor = kLines[i].floor * shape_.of_ratios;
      const double goal = kLines[i].goal * shape_.of_ratios;
      const int reached = ratio >= goal ? 2 : ratio >= floor ? 1 : 0;
      floors += reached >= 1;
      goals += reached == 2;
      const auto [least, most] = std::minmax_element(of.ratio.begin(), of.ratio.end());
      result->rows.push_back({i,
                              median(of.ours),
                              median(of.theirs),
                              ratio,
                              *least,
                              *most,
                              bound_of(of.ratio, &Interval::low),
                              bound_of(of.ratio, &Interval::high),
                              median(of.left),
                              median(of.left_ratio),
                              bound_of(of.left_ratio, &Interval::low),
                              bound_of(of.left_ratio, &Interval::high),
                              median_if_any(of.sampled),
                              floor,
                              goal,
                              reached,
                              median(of.dram),
                              median(of.dram_undrained),
                              median_if_any(of.process),
                              median_if_any(of.process_undrained),
                              median(of.nvm),
                              median_if_any(of.written),
                              median_if_any(of.answered),
                              median(of.drained_in),
                              median(of.their_dram),
                              median_if_any(of.their_process)});
    }
    const std::string of_all = " of " + std::to_string(std::size(kLines));
    explain_empty_columns("an interval needs three rounds: --repeat=5", result);
    result->verdicts = {std::to_string(floors) + of_all + " lines reach their floor, " + std::to_string(goals) +
                        of_all + " their goal."};
    label_configuration(result);
    label_budgets(result);
  }

  void label_configuration(ExperimentResult* result) const {
    result->labels.push_back(
        std::to_string(config_.records) + " records of " + std::to_string(shape_.key_bytes) + " + " +
        std::to_string(shape_.value_bytes) + " bytes, " + std::to_string(config_.operations) +
        " requests per line; bonsai durable on " + std::to_string(config_.threads) +
        " threads, absl_btree volatile on 1. " + std::to_string(rounds_) +
        " round(s), stores taking turns line by line, in an order drawn from seed " +
        std::to_string(plan_.config.seed) + " (first came " + orders_ +
        "); medians; ratio: the median of the rounds' ratios, with the least and the most, and "
        "with the 95 % confidence interval of the mean ratio (Student's t over logarithms)." +
        (config_.records < usual_records(Scale::kPaper) ? " Floors and goals are meant for 10 M records: --scale=paper"
                                                        : ""));
    std::string order;
    for (const size_t line : kOrder) {
      order += (line == kD || line == kE ? ", a fresh load, "
                : line == kLoad          ? ""
                                         : ", ") +
               std::string(kLines[line].name);
    }
    result->labels.push_back("Each round ran " + order +
                             ". Every phase was drained before the next began, outside the clock (\"drained in\").");
    result->labels.emplace_back(
        "As left: the same lines on the store of a user who never calls Drain, nothing drained between them, in the "
        "same round, by itself. Sampled: E after a fresh load, drained, its scans with verify_checksums off; all other "
        "figures are of scans that verify every record.");
    result->labels.push_back("Operations in flight: " + std::to_string(config_.depth) +
                             " per thread, by sessions; multi-get of 32 and depth 1 as they say, by MultiGet and Get. "
                             "Scans are atomic; those of a session that are in flight together see the same moment. "
                             "absl_btree does everything one by one. Every record that a scan returns was verified by "
                             "its checksum.");
    result->labels.push_back(
        "Pages: the memory of both stores is asked for in pages of 2 MiB; of the whole program's " +
        percent(median(figures_[kCUniform].huge_pages)) + " was on such in C uniform.");
    const bool shared = processors() <= config_.threads;
    result->labels.push_back(std::to_string(processors()) + " processors, threads" + (config_.pin ? "" : " not") +
                             " pinned" +
                             (shared ? ", bonsai's background thread among them."
                                     : ": bonsai's background thread had one of its own, which the goals do not "
                                       "allow; run it by `taskset -c 0,1`."));
  }

  void label_budgets(ExperimentResult* result) const {
    const auto tell_budget = [result](const std::string& what, double value, const char* unit, double most) {
      result->labels.push_back(what + ": " + rounded(value) + unit + "; at most " + rounded(most) +
                               (value > most ? " are allowed: MISSED." : " are allowed."));
    };
    const double records = static_cast<double>(config_.records);
    const double log = median(figures_[kLoad].log);
    tell_budget("Log, of the data as loaded", 100 * log / median(figures_[kLoad].nvm), " %", kLogPercentMax);
    double dram = 0, undrained = 0, both = 0;
    for (const Figures& of : figures_) {
      dram = std::max(dram, median(of.dram));
      undrained = std::max(undrained, median(of.dram_undrained));
      both = std::max(both, median(of.dram) + median(of.nvm));
    }
    tell_budget("DRAM per record, drained, the most of all lines", dram, " bytes", shape_.dram_bytes_max);
    result->labels.push_back("Undrained, with the buffer of updates: " + rounded(undrained) + " bytes, " +
                             rounded(undrained * records / 1e6) + " MB.");
    label_process(result);
    if (shape_.bytes_max > 0) {
      tell_budget("DRAM and NVM per record, all of the log included", both + log, " bytes", shape_.bytes_max);
      tell_budget("Write amplification of A", median(figures_[kA].written), " media bytes per user byte", kWrittenMax);
    }
    const double answered = median(figures_[kCUniform].answered);
    result->labels.push_back("Gets of C uniform answered by dnodes: " + rounded(answered) + " %; at least " +
                             rounded(kAnsweredPercentMin) +
                             (answered < kAnsweredPercentMin ? " are asked for: MISSED." : " are asked for."));
  }

  // The store counts the bytes in use; the process also holds memory that it keeps for later.
  void label_process(ExperimentResult* result) const {
    std::optional<double> drained, undrained;
    for (const Figures& of : figures_) {
      drained = std::max(drained, median_if_any(of.process));
      undrained = std::max(undrained, median_if_any(of.process_undrained));
    }
    if (!drained) return;
    result->labels.push_back("By what the process holds, mapped files aside, per record: " + rounded(*drained) +
                             " bytes drained, " + rounded(*undrained) + " undrained, the most of all lines; loading " +
                             "makes absl_btree " + rounded(median(figures_[kLoad].their_process)) + ".");
  }

  const ExperimentPlan& plan_;
  const Shape shape_;
  const unsigned rounds_;
  RunConfig config_;
  std::vector<Step> steps_;
  base::Random random_{plan_.config.seed};
  std::string orders_;  // who began each round
  std::array<Figures, std::size(kLines)> figures_;
};

Status run_integers(const ExperimentPlan& plan, ExperimentResult* result) {
  return SpeedStudy(plan, kIntegers).run(result);
}
Status run_strings(const ExperimentPlan& plan, ExperimentResult* result) {
  return SpeedStudy(plan, kStrings).run(result);
}

Reference integers_reference() {
  Reference reference{{"line", "floor", "goal", "goal Mop/s"}, {}, ReferenceKind::kGoals};
  for (size_t i = 0; i < std::size(kLines); ++i) {
    reference.rows.push_back({i, kLines[i].floor, kLines[i].goal, kLines[i].goal_mops});
  }
  return reference;
}

Reference strings_reference() { return {}; }

}  // namespace

const Registered<Experiment> kSpeedExperiments("speed", []() -> std::vector<Experiment> {
  constexpr const char* kSource = "docs/design.md, section 6";
  return {
      {"speed", "Speed against absl::btree_map", kSource,
       "every line of the goals, 8 + 8 bytes, 10 M records unless --records: ratios, floors, goals, memory",
       run_integers, integers_reference},
      {"speed-strings", "Speed against absl::btree_map, 24 B keys and 100 B values", kSource,
       "the same with 24-byte string keys and 100-byte values, at half the ratios", run_strings, strings_reference}};
});

}  // namespace bonsai::bench
