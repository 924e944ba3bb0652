// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/fabric/perftest.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace bonsai::bench {
namespace {

// Columns of the line of figures, counted from 0 (perftest 4.5 to 6).
constexpr size_t kTypicalColumn = 4;  // #bytes #iterations t_min t_max t_typical ...
constexpr size_t kRateColumn = 4;     // #bytes #iterations peak average MsgRate[Mpps]
constexpr uint64_t kIterationsMin = 100, kIterationsMax = 1'000'000;
constexpr int kListening = 0x0A;  // TCP_LISTEN

std::string word_of(rdma::Verb verb) {
  switch (verb) {
    case rdma::Verb::kRead:
      return "read";
    case rdma::Verb::kWrite:
      return "write";
    case rdma::Verb::kSend:
      return "send";
    default:
      return "atomic";
  }
}

std::string last_line(const std::string& output) {
  const size_t end = output.find_last_not_of(" \n");
  if (end == std::string::npos) return "it printed nothing";
  const size_t begin = output.rfind('\n', end);
  return output.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

}  // namespace

bool perftest_tells_latency(const FabricCell& cell) { return cell.alone(); }

bool perftest_measures(const FabricCell& cell, bool blocks) {
  return !blocks || cell.verb != rdma::Verb::kWrite || !perftest_tells_latency(cell);
}

std::string perftest_program(const FabricCell& cell) {
  return "ib_" + word_of(cell.verb) + (perftest_tells_latency(cell) ? "_lat" : "_bw");
}

std::vector<std::string> perftest_command(const PerftestOrder& order, const std::string& device,
                                          const std::string& server) {
  const FabricCell& cell = order.cell;
  std::vector<std::string> words = {
      perftest_program(cell),          "-F", "-d", device, "-p", std::to_string(order.port), "-n",
      std::to_string(order.iterations)};
  const auto add = [&words](const char* flag, const std::string& value) { words.insert(words.end(), {flag, value}); };
  if (cell.verb == rdma::Verb::kCas) {
    add("-A", "CMP_AND_SWAP");
  } else if (cell.verb == rdma::Verb::kFaa) {
    add("-A", "FETCH_AND_ADD");
  } else {
    add("-s", std::to_string(cell.bytes));
  }
  if (!perftest_tells_latency(cell)) {
    add("-t", std::to_string(cell.batch * cell.depth));
    add("-Q", std::to_string(cell.batch));
    if (cell.batch > 1) add("-l", std::to_string(cell.batch));
  }
  if (order.blocks != 0) words.emplace_back("-e");
  if (!server.empty()) words.push_back(server);
  return words;
}

uint64_t perftest_iterations(const FabricCell& cell, double messages_per_s, uint64_t ms) {
  const double wanted =
      std::clamp(messages_per_s * static_cast<double>(ms) / 1000, double{kIterationsMin}, double{kIterationsMax});
  const uint64_t window = cell.batch * cell.depth;
  return (static_cast<uint64_t>(wanted) + 4 * window) / window * window;
}

Status parse_perftest(const FabricCell& cell, const std::string& output, double* figure) {
  std::istringstream lines(output);
  bool below_head = false, found = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (line.find("#bytes") != std::string::npos) {
      below_head = true;
      continue;
    }
    const size_t wanted = perftest_tells_latency(cell) ? kTypicalColumn : kRateColumn;
    double value = 0;
    size_t column = 0;
    while (column <= wanted && words >> value) ++column;
    if (!below_head || column <= wanted) continue;
    *figure = perftest_tells_latency(cell) ? value : value * 1e6;
    found = value > 0;
  }
  if (found) return Status::OK();
  const size_t end = output.find_last_not_of(" -\n");
  const size_t begin = end == std::string::npos ? end : output.rfind('\n', end);
  const std::string last = end == std::string::npos ? "" : output.substr(begin == std::string::npos ? 0 : begin + 1);
  return Status::Corruption(perftest_program(cell) + " printed no figure; is its version known (4.5 to 6)? " + last);
}

bool is_listening(const std::string& table, uint64_t port) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    unsigned local = 0, state = 0;
    if (std::sscanf(line.c_str(), " %*d: %*x:%x %*x:%*x %x", &local, &state) != 2) continue;
    if (local == port && state == kListening) return true;
  }
  return false;
}

Status finish(base::ChildProcess* child, const std::string& out_path, uint64_t limit_ms, std::string* output) {
  const std::optional<int> exit_code = child->wait(limit_ms);
  if (!exit_code) return Status::Unavailable("it did not end within " + std::to_string(limit_ms) + " ms");
  std::ifstream in(out_path);
  output->assign(std::istreambuf_iterator<char>(in), {});
  if (*exit_code == 0) return Status::OK();
  const std::string how =
      *exit_code > 128 ? "signal " + std::to_string(*exit_code - 128) : "exit code " + std::to_string(*exit_code);
  return Status::IoError(how + ": " + last_line(*output));
}

}  // namespace bonsai::bench
