// SPDX-License-Identifier: Apache-2.0
// Runs the built bonsai-bench ($BONSAI_BENCH) as a shell would, in a directory that goes away with the test.
#ifndef BONSAI_BENCH_CLI_TESTING_PROGRAM_H_
#define BONSAI_BENCH_CLI_TESTING_PROGRAM_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"

namespace bonsai::bench {

struct Outcome {
  int exit_code = -1;
  std::string output;  // stdout and stderr
};

class Program : public ::testing::Test {
 protected:
  static constexpr uint64_t kWaitMsMax = 60'000;

  void SetUp() override {
    const char* program = std::getenv("BONSAI_BENCH");
    ASSERT_NE(program, nullptr) << "set BONSAI_BENCH to the program";
    program_ = program;
  }

  [[nodiscard]] Outcome run(const std::string& arguments) const {
    FILE* pipe = popen(("cd " + directory_ + " && '" + program_ + "' " + arguments + " 2>&1").c_str(), "r");
    Outcome outcome;
    std::array<char, 4096> part;
    while (const size_t bytes = std::fread(part.data(), 1, part.size(), pipe))
      outcome.output.append(part.data(), bytes);
    outcome.exit_code = WEXITSTATUS(pclose(pipe));
    return outcome;
  }

  // Begins the program; log() has what it prints.
  void start(std::vector<std::string> words) {
    words.insert(words.begin(), program_);
    ASSERT_EQ("OK", base::ChildProcess::start(words, {.out = file("log")}, &child_).ToString());
  }
  // Waits until something is so. False: the program ended before, or it took too long.
  [[nodiscard]] bool until(const std::function<bool()>& is_so) const {
    for (base::BoundedWait wait("program.until", kWaitMsMax); !is_so(); wait.pause()) {
      if (child_->ended() || wait.expired()) return is_so();
    }
    return true;
  }
  // Each returns the exit code, or 128 + the signal; -1 if the program does not end in time.
  int stop(int signal) {
    child_->signal(signal);
    return wait_for_end();
  }
  int wait_for_end() { return child_->wait(kWaitMsMax).value_or(-1); }

  // Expects that each command line whose output cannot be written says so and fails.
  void expect_lost_output_is_an_error(const std::vector<std::string>& command_lines) const {
    if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "/dev/full is not here";
    for (const std::string& line : command_lines) {
      const Outcome outcome = run(line + " >/dev/full 2>err; code=$?; cat err; exit $code #");
      EXPECT_EQ(outcome.exit_code, 1) << line << ": " << outcome.output;
      EXPECT_NE(outcome.output.find("standard output cannot be written"), std::string::npos) << line << outcome.output;
    }
  }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  [[nodiscard]] std::string text_of(const std::string& name) const { return testing::read_file(file(name)); }
  [[nodiscard]] std::string log() const { return text_of("log"); }
  [[nodiscard]] nlohmann::json json_of(const std::string& name) const {
    return nlohmann::json::parse(text_of(name), nullptr, false);
  }

  const testing::TempFolder folder_;
  const std::string& directory_ = folder_.path();
  std::string program_;
  std::unique_ptr<base::ChildProcess> child_;
};

// A refused command line: the fault that the message names, and the remedy in it.
struct BadLine {
  const char* arguments;
  const char* says;
  const char* remedy;
};

// Expects that the program refuses it, and leaves nothing.
class BadCommandLines : public Program, public ::testing::WithParamInterface<BadLine> {
 protected:
  void expect_refusal() const {
    const Outcome outcome = run(GetParam().arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    EXPECT_NE(outcome.output.find(GetParam().says), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find(GetParam().remedy), std::string::npos) << outcome.output;
    EXPECT_TRUE(std::filesystem::is_empty(directory_));
  }
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_CLI_TESTING_PROGRAM_H_
