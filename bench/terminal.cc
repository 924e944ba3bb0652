#include "bench/terminal.h"

#include <algorithm>
#include <optional>

namespace bonsai::bench {
namespace {

constexpr const char* kDash = "-";

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string per_record(const std::optional<uint64_t>& bytes, const RunResult& run) {
  if (!bytes) return kDash;
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
  return text.empty() ? kDash : text;
}

// How far the repetitions lie apart, of their median.
std::string spread(const RunResult& run) {
  const std::vector<double>& rates = run.repeats_ops_per_s;
  if (rates.size() < 2 || run.throughput_ops_per_s <= 0) return kDash;
  const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
  return number(100 * (*high - *low) / run.throughput_ops_per_s, 0) + " %";
}

std::vector<std::string> row(const RunResult& run) {
  return {run.workload,
          run.engine,
          run.durability.value_or(kDash),
          std::to_string(run.threads),
          number(run.throughput_ops_per_s / 1e6, 3),
          spread(run),
          per_record(run.memory.dram_bytes, run),
          per_record(run.memory.nvm_bytes, run),
          run.settle_seconds < 0.005 ? kDash : number(run.settle_seconds, 2),
          std::to_string(run.failures),
          latencies(run)};
}

// Runs of one phase side by side: the first run of each phase gives the phase its place.
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
  return what_ + ": " + number(share * 100, 0) + " %, " + number(rate / 1e6, 2) + " Mop/s, " + number(seconds_left, 0) +
         " s left";
}

void StatusLine::show(const PhaseProgress& progress) {
  if (!live_) return;
  std::fprintf(out_, "\r\033[K%s", text(progress).c_str());
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
                                                 "DRAM B/rec", "NVM B/rec", "settle s", "failures",
                                                 "latency us, p50 / p99"}};
  std::string failures;
  for (const RunResult* run : by_phase(runs)) {
    rows.push_back(row(*run));
    if (run->failures == 0) continue;
    failures += "FAILED: " + run->engine + ", " + run->workload + ": " + std::to_string(run->failures) +
                " operations; the first: " + run->first_failure + "\n";
  }
  return align(rows, 3) + failures;
}

}  // namespace bonsai::bench
