// SPDX-License-Identifier: Apache-2.0
#include "bench/results/noise.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/clock.h"

namespace bonsai::bench {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

std::string percent_text(double percent) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", percent);
  return text.data();
}

}  // namespace

void read_processors(std::string_view line, double ticks_per_s, MachineCounters* counters) {
  std::istringstream in{std::string(line)};
  std::string word;
  in >> word;
  if (word != "cpu") return;
  // user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in user's.
  std::array<double, 8> ticks{};
  for (double& each : ticks) {
    if (!(in >> each)) return;
  }
  const double idle = ticks[3] + ticks[4], stolen = ticks[7];
  double all = 0;
  for (const double each : ticks) all += each;
  counters->all_s = all / ticks_per_s;
  counters->busy_s = (all - idle - stolen) / ticks_per_s;
  counters->stolen_s = stolen / ticks_per_s;
}

MachineCounters machine_counters() {
  MachineCounters counters;
  std::ifstream stat("/proc/stat");
  std::string line;
  if (std::getline(stat, line)) read_processors(line, static_cast<double>(sysconf(_SC_CLK_TCK)), &counters);
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (getrusage(who, &usage) != 0) continue;
    counters.own_s += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    counters.involuntary += static_cast<uint64_t>(usage.ru_nivcsw);
  }
  double load = 0;
  if (std::ifstream("/proc/loadavg") >> load) counters.load = load;
  counters.at_ns = base::now_ns();
  return counters;
}

Noise noise_between(const MachineCounters& start, const MachineCounters& end) {
  Noise noise{.load = start.load};
  const double seconds = static_cast<double>(end.at_ns - start.at_ns) / 1e9;
  if (seconds > 0) noise.involuntary_per_s = static_cast<double>(end.involuntary - start.involuntary) / seconds;
  if (!start.all_s || !end.all_s || *end.all_s <= *start.all_s) return noise;
  const double all = *end.all_s - *start.all_s;
  const double others = (*end.busy_s - *start.busy_s) - (end.own_s - start.own_s);
  noise.stolen_percent = 100 * (*end.stolen_s - *start.stolen_s) / all;
  noise.others_percent = std::max(0.0, 100 * others / all);
  return noise;
}

std::string Noise::verdict() const {
  const bool stolen = stolen_percent.value_or(0) > kStolenPercentMax;
  const bool others = others_percent.value_or(0) > kOthersPercentMax;
  if (!stolen && !others) return {};
  return "other programs took " + percent_text(others_percent.value_or(0)) +
         " of the processors' time, other machines " + percent_text(stolen_percent.value_or(0)) + "; at most " +
         percent_text(kOthersPercentMax) + " and " + percent_text(kStolenPercentMax) +
         " are quiet: run it again in a quiet hour";
}

}  // namespace bonsai::bench
