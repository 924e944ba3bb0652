// SPDX-License-Identifier: Apache-2.0
#include "bench/report/terminal.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "bench/report/charts.h"
#include "bench/report/ycsb_text.h"
#include "bench/results/machine.h"

namespace bonsai::bench {
namespace {

constexpr const char* kNone = "-";

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string per_record(const std::optional<uint64_t>& bytes, const RunResult& run) {
  if (!bytes) return kNone;
  return number(static_cast<double>(*bytes) / static_cast<double>(run.records), 1);
}

std::string latencies(const RunResult& run) {
  std::string text;
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    const Histogram& histogram = run.latency[kind];
    if (histogram.count() == 0) continue;
    if (!text.empty()) text += ", ";
    text += std::string(op_kind_name(static_cast<OpKind>(kind))) + " " +
            number(static_cast<double>(histogram.percentile(50)) / 1000, 2) + " / " +
            number(static_cast<double>(histogram.percentile(99)) / 1000, 2);
  }
  return text.empty() ? kNone : text;
}

// The spread of the repetitions, relative to their median.
std::string spread(const RunResult& run) {
  const std::vector<double>& rates = run.repeats_ops_per_s;
  if (rates.size() < 2 || run.throughput_ops_per_s <= 0) return kNone;
  const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
  return number(100 * (*high - *low) / run.throughput_ops_per_s, 0) + " %";
}

std::vector<std::string> row(const RunResult& run) {
  return {run.workload,
          run.engine,
          run.durability.value_or(kNone),
          std::to_string(run.threads),
          number(run.throughput_ops_per_s / 1e6, 3),
          spread(run),
          per_record(run.memory.dram_bytes, run),
          per_record(run.memory.process_bytes, run),
          per_record(run.memory.nvm_bytes, run),
          run.settle_seconds < 0.005 ? kNone : number(run.settle_seconds, 2),
          std::to_string(run.failures),
          latencies(run)};
}

// Runs of one phase side by side, with the phases in order of their first run.
std::vector<const RunResult*> by_phase(const std::vector<RunResult>& runs) {
  std::vector<const RunResult*> sorted;
  std::vector<std::string> done;
  for (const RunResult& first : runs) {
    if (std::find(done.begin(), done.end(), first.workload) != done.end()) continue;
    done.push_back(first.workload);
    for (const RunResult& run : runs) {
      if (run.workload == first.workload) sorted.push_back(&run);
    }
  }
  return sorted;
}

}  // namespace

std::optional<std::string> YcsbStatus::line(const PhaseProgress& progress) {
  if (progress.seconds < next_seconds_ || progress.done == 0) return std::nullopt;
  next_seconds_ += kSecondsBetween;
  const double rate = static_cast<double>(progress.done) / progress.seconds;
  const double current =
      static_cast<double>(progress.done - last_.done) / std::max(progress.seconds - last_.seconds, 1e-9);
  const double left = static_cast<double>(operations_ - std::min(operations_, progress.done)) / rate;
  std::string text = utc_now("%Y-%m-%d %H:%M:%S:000") + " " + number(std::floor(progress.seconds), 0) +
                     " sec: " + std::to_string(progress.done) + " operations; " + number(current, 2) +
                     " current ops/sec; est completion in " + number(std::ceil(left), 0) + " seconds ";
  for (size_t i = 0; i < kOpKinds; ++i) {
    LatencyCounts since = progress.latency[i];
    since.subtract(last_.latency[i]);
    if (since.count() == 0) continue;
    text += "[" + std::string(ycsb_name(static_cast<OpKind>(i))) + ": Count=" + std::to_string(since.count());
    for (const auto& [name, percent] : std::initializer_list<std::pair<const char*, double>>{
             {"Max", 100}, {"50", 50}, {"90", 90}, {"99", 99}, {"99.9", 99.9}, {"99.99", 99.99}}) {
      text += std::string(", ") + name + "=" + number(static_cast<double>(since.percentile(percent)) / 1000, 2);
    }
    text += "] ";
  }
  last_ = progress;
  return text;
}

void StatusLine::start(const std::string& engine, const std::string& phase, uint64_t operations) {
  what_ = engine + (phase.find("load") == std::string::npos ? ", workload " : ", ") + phase;
  operations_ = operations;
  show({});
}

std::string StatusLine::text(const PhaseProgress& progress) const {
  if (progress.done == 0 || progress.seconds <= 0) return what_ + ": starting";
  const double share = static_cast<double>(progress.done) / static_cast<double>(std::max<uint64_t>(operations_, 1));
  const double rate = static_cast<double>(progress.done) / progress.seconds;
  const double seconds_left = static_cast<double>(operations_ - std::min(operations_, progress.done)) / rate;
  LatencyCounts all;
  for (const LatencyCounts& kind : progress.latency) all.add(kind);
  const std::string p99 =
      all.count() == 0 ? "" : "p99 " + short_number(static_cast<double>(all.percentile(99)) / 1000) + " us, ";
  return what_ + ": " + number(share * 100, 0) + " %, " + number(rate / 1e6, 2) + " Mop/s, " + p99 +
         number(seconds_left, 0) + " s left";
}

void StatusLine::show(const PhaseProgress& progress) {
  if (live_) show_text(text(progress));
}

void StatusLine::show_text(const std::string& text) {
  if (!live_) return;
  std::fprintf(out_, "\r\033[K%s", text.c_str());
  std::fflush(out_);
}

void StatusLine::clear() {
  if (!live_) return;
  std::fputs("\r\033[K", out_);
  std::fflush(out_);
}

std::string align(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths;
  for (const auto& cells : rows) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text;
  for (const auto& cells : rows) {
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool last = i + 1 == cells.size();
      const std::string padding(widths[i] - cells[i].size(), ' ');
      if (i > 0) text += "  ";
      text += i < left || last ? cells[i] + (last ? "" : padding) : padding + cells[i];
    }
    text += '\n';
  }
  return text;
}

std::string results_table(const std::vector<RunResult>& runs) {
  std::vector<std::vector<std::string>> rows = {{"workload", "engine", "level", "threads", "Mop/s", "spread",
                                                 "DRAM B/rec", "process", "NVM B/rec", "settle s", "failures",
                                                 "latency us, p50 / p99"}};
  std::string failures, fabric;
  for (const RunResult* run : by_phase(runs)) {
    rows.push_back(row(*run));
    if (run->fabric && run->operations > 0) {
      const auto each = [&](uint64_t count) {
        return number(static_cast<double>(count) / static_cast<double>(run->operations), 2);
      };
      fabric += "fabric: " + run->engine + ", " + run->workload + ": " + each(run->fabric->round_trips) +
                " round trips, " + each(run->fabric->messages) + " messages, " + each(run->fabric->bytes) +
                " bytes per operation\n";
    }
    if (run->failures == 0) continue;
    failures += "FAILED: " + run->engine + ", " + run->workload + ": " + std::to_string(run->failures) +
                " operations; the first: " + run->first_failure + "\n";
  }
  return align(rows, 3) + fabric + failures;
}

}  // namespace bonsai::bench
