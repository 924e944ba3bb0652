// SPDX-License-Identifier: Apache-2.0
#include "bench/results/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace bonsai::bench {
namespace {

std::string quoted(const std::string& text) {
  std::string shell = "'";
  for (const char c : text) shell += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return shell + "'";
}

// The git commit of the work tree in which the program was built.
std::optional<std::string> commit() {
  const std::string command =
      "git -C " + quoted(program_directory()) + " describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::array<char, 128> line{};
  const bool read = std::fgets(line.data(), static_cast<int>(line.size()), pipe) != nullptr;
  const bool ok = pclose(pipe) == 0;
  std::string text(line.data());
  text.erase(text.find_last_not_of(" \n") + 1);
  if (!read || !ok || text.empty()) return std::nullopt;
  return text;
}

std::optional<std::string> cpu() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return std::nullopt;
}

// The system's figures of this process's memory, in kilobytes, by the system's names; empty if there are none.
std::vector<std::pair<std::string, double>> use_of_memory() {
  std::ifstream in("/proc/self/smaps_rollup");
  std::vector<std::pair<std::string, double>> use;
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    use.emplace_back(line.substr(0, colon), std::strtod(line.c_str() + colon + 1, nullptr));
  }
  return use;
}

}  // namespace

std::string utc_now(const char* form) {
  const auto seconds = static_cast<time_t>(base::wall_seconds());
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), form, &parts);
  return text.data();
}

std::string program_directory() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : program.parent_path().string();
}

unsigned processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(CPU_COUNT(&set));
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<unsigned>(online) : 1;
}

std::optional<uint64_t> memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return std::nullopt;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

std::optional<double> huge_page_share() {
  double resident = 0, huge = 0;
  for (const auto& [name, kilobytes] : use_of_memory()) {
    if (name == "Rss") resident = kilobytes;
    if (name == "AnonHugePages" || name == "ShmemPmdMapped" || name == "FilePmdMapped") huge += kilobytes;
  }
  if (resident <= 0) return std::nullopt;
  return huge / resident;
}

std::optional<uint64_t> process_bytes() {
  for (const auto& [name, kilobytes] : use_of_memory()) {
    if (name == "Anonymous") return static_cast<uint64_t>(kilobytes * 1024);
  }
  return std::nullopt;
}

void describe_machine(Manifest* manifest) {
  manifest->commit = commit();
  manifest->cpu = cpu();
  if (utsname names{}; uname(&names) == 0) manifest->kernel = std::string(names.sysname) + " " + names.release;
  manifest->processors = processors();
  manifest->memory_bytes = memory_bytes();
  manifest->started = utc_now("%Y-%m-%dT%H:%M:%SZ");
}

}  // namespace bonsai::bench
