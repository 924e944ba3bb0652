// SPDX-License-Identifier: Apache-2.0
#include "testing/sim/without_rule.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/testing/figures.h"
#include "base/testing/mutants.h"
#include "testing/scratch.h"

namespace bonsai::testing::sim {

uint64_t lives_until_noticed(uint64_t bit, uint64_t first, uint64_t processes_max, const IsWrong& is_wrong) {
  const ScratchFolder scratch;  // what children leave goes with it
  const std::string folder = std::filesystem::path(scratch.file("child")).parent_path();
  for (uint64_t n = 0; n < processes_max; ++n) {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("BONSAI_TEST_DIR", folder.c_str(), 1);
      mutants_on.store(bit);
      ::alarm(60);
      if (std::freopen("/dev/null", "w", stdout) == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr) {
        ::_exit(2);
      }
      // Several to a process, since making one takes as long as a short life.
      for (uint64_t i = 0; i < 16; ++i) {
        if (is_wrong(first + 16 * n + i)) ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (status != 0) return 16 * (n + 1);
  }
  return 0;
}

uint64_t rules_noticed(const char* table, std::span<const Rule> rules, uint64_t first, uint64_t processes_max,
                       const IsWrong& is_wrong) {
  uint64_t killed = 0;
  for (const Rule& rule : rules) {
    const uint64_t lives = lives_until_noticed(rule.bit, first, processes_max, is_wrong);
    killed += lives != 0 ? 1 : 0;
    std::printf("  %-52s %s\n", rule.name, lives == 0 ? "SURVIVES" : ("after " + std::to_string(lives)).c_str());
    std::fflush(stdout);
    EXPECT_NE(lives, 0U) << rule.name << ": nothing notices it";
    add_row(table, rule.name, {{"mutants", 1}, {"killed", lives != 0 ? 1 : 0}, {"lives", lives}});
  }
  return killed;
}

}  // namespace bonsai::testing::sim
