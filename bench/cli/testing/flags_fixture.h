// SPDX-License-Identifier: Apache-2.0
// The fixture of tests of flags: words become a request, and nothing is run.
#ifndef BONSAI_BENCH_CLI_TESTING_FLAGS_FIXTURE_H_
#define BONSAI_BENCH_CLI_TESTING_FLAGS_FIXTURE_H_

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "bench/cli/command.h"
#include "bench/cli/flag_reader.h"
#include "bench/cli/flags.h"
#include "testing/scratch.h"

namespace bonsai::bench {

using Words = std::vector<std::string>;

// The help of every command.
inline std::string every_help() {
  std::string text;
  for (const Command& each : Registered<Command>::all()) text += help_text(each);
  return text;
}

class Flags : public ::testing::Test {
 protected:
  Flags() {
    const char* workloads = std::getenv("BONSAI_WORKLOADS");
    EXPECT_NE(workloads, nullptr) << "set BONSAI_WORKLOADS to the directory of the workload files";
    EXPECT_TRUE(read_flags({"--workload-dir", workloads == nullptr ? "" : workloads}).ok());
  }

  // Reads `words` as if the program had just begun, and has `make` turn the flags into a request.
  template <class Request>
  Status make(const Words& words, Status (*how)(Request*), Request* request) const {
    const google::FlagSaver saver;
    *request = Request();
    const Status status = read_flags(words);
    return status.ok() ? how(request) : status;
  }
  Status run(const Words& words, RunRequest* request) const { return make(words, request_of_flags, request); }
  [[nodiscard]] RunRequest accepted(const Words& words) const {
    RunRequest request;
    const Status status = run(words, &request);
    EXPECT_TRUE(status.ok()) << ::testing::PrintToString(words) << ": " << status.ToString();
    return request;
  }
  // Expects a refusal that says all of `says`.
  template <class Request = RunRequest>
  void refused(const Words& words, const Words& says, Status (*how)(Request*) = request_of_flags) const {
    Request request;
    const Status status = make(words, how, &request);
    EXPECT_TRUE(status.IsInvalidArgument()) << ::testing::PrintToString(words) << ": " << status.ToString();
    for (const std::string& part : says) {
      EXPECT_NE(status.message().find(part), std::string::npos) << part << " in: " << status.ToString();
    }
  }
  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    const std::string path = folder_.file(name);
    std::ofstream(path) << text;
    return path;
  }

  const google::FlagSaver saver_;
  testing::ScratchFolder folder_;
};

// A flag that is a number, its least and greatest value, and what reads it.
struct Bounds {
  const char* flag;
  uint64_t least, greatest;
  std::function<Status()> read;
};

// Expects that the flag is taken within its bounds and refused outside of them, with the bounds.
inline void expect_bounds(const Bounds& one) {
  const std::string flag = std::string("--") + one.flag + "=";
  const auto read = [&](uint64_t value) {
    const google::FlagSaver saver;
    // Drawn live, requests take no memory; these workloads insert nothing.
    const Status status = read_flags({"--draw=live", "--workloads=a", flag + std::to_string(value)});
    return status.ok() ? one.read() : status;
  };
  EXPECT_TRUE(read(one.least).ok()) << flag << one.least << ": " << read(one.least).ToString();
  EXPECT_TRUE(read(one.greatest).ok()) << flag << one.greatest << ": " << read(one.greatest).ToString();
  std::vector<uint64_t> outside = {one.greatest + 1, UINT32_MAX};
  if (one.greatest > UINT32_MAX) outside = {one.greatest + 1};
  if (one.least > 0) outside.push_back(one.least - 1);
  for (const uint64_t value : outside) {
    const Status status = read(value);
    EXPECT_TRUE(status.IsInvalidArgument()) << flag << value;
    const std::string bounds = "give " + std::to_string(one.least) + " to " + std::to_string(one.greatest);
    EXPECT_NE(status.message().find(bounds), std::string::npos) << status.ToString();
    EXPECT_NE(status.message().find(flag + std::to_string(value)), std::string::npos) << status.ToString();
  }
}

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_CLI_TESTING_FLAGS_FIXTURE_H_
