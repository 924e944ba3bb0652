// SPDX-License-Identifier: Apache-2.0
// The tests of layouts, of read-repair and of scrubbing can fail: each rule of a layout, of a volume that has one, and
// of repair is left out in a run of this program's tests of its own, which must notice it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/testing/figures.h"
#include "base/testing/sanitized.h"
#include "scale/testing/mutants.h"

namespace bonsai::scale {
namespace {

constexpr const char* kRuleLeftOut = "BONSAI_LAYOUT_MUTANT";

// In the process that shall notice it.
[[maybe_unused]] const bool kLeftOut = [] {
  const char* bit = std::getenv(kRuleLeftOut);
  if (bit != nullptr) bonsai::testing::mutants_on.store(std::strtoull(bit, nullptr, 10));
  return bit != nullptr;
}();

// The exit code of the tests.
int run_without(uint64_t rule, const std::string& tests) {
  const std::vector<std::string> words = {"/usr/bin/env", kRuleLeftOut + ("=" + std::to_string(rule)),
                                          "BONSAI_TEST_BUDGET=fast", std::filesystem::read_symlink("/proc/self/exe"),
                                          "--gtest_filter=" + tests};
  std::unique_ptr<base::ChildProcess> child;
  EXPECT_EQ("OK", base::ChildProcess::start(words, {.out = "/dev/null"}, &child).ToString());
  return child->wait(60'000).value_or(-1);
}

TEST(LayoutMutants, TheLossOfEachRuleIsNoticed) {
  if (bonsai::testing::kSanitized) GTEST_SKIP() << "the build without sanitizers is enough";
  const struct {
    uint64_t rule;
    const char* name;
    const char* noticed_by;
  } all[] = {{kTurnsOnceMore, "a unit is on the next target", "Layout.IsABijection*"},
             {kOffsetTurns, "a unit is one unit on", "Layout.IsABijection*"},
             {kUnitsCrossed, "a piece goes on into the next unit", "Layout.NoPieceCrosses*"},
             {kUnitsCrossed, "a piece goes on into the next unit", "*StripedVolume.*"},
             {kWritesNotSplit, "a write is for one target", "*StripedVolume.Writes*"},
             {kReadsNotSplit, "a read is from one target", "*StripedVolume.Reads*"},
             {kFirstTrusted, "what most members hold is sound", "Mend.*-*IsOut*"},
             {kNotCombined, "members are not put together", "Mend.*-*IsOut*"},
             {kNotTakenApart, "neighbours stay one block", "Mend.ASound*"},
             {kSoundRepaired, "a sound member is repaired", "Mend.*-*IsOut*"},
             {kNotRepaired, "the damage stays", "Mend.*-*IsOut*"},
             {kAwayIsDamaged, "what a member that is away may have is damaged", "Mend.WhileASound*"},
             {kScrubComparesNothing, "what members hold is not compared", "Scrub.Damage*"},
             {kScrubWrittenDiffers, "what is written meanwhile is damage", "Scrub.WhatIsWritten*"},
             {kScrubRepairsWritten, "a repair replaces newer bytes", "Scrub.ARepair*"},
             {kScrubTrustsFewest, "the damage is copied", "Scrub.Damage*"},
             {kScrubIgnoresMemory, "most members decide against memory", "Scrub.ThisNodes*"},
             {kScrubIgnoresVerdict, "most members decide against a check", "Scrub.ACheck*"},
             {kScrubTrustsAnyOfTwo, "one of two members is right", "Scrub.OfTwo*"},
             {kScrubLeavesUnused, "bytes beside checked ones differ", "Scrub.WhatIsBeside*"},
             {kScrubForgetsWritten, "what is not repaired is not counted", "Scrub.WhatIsBeside*"},
             {kScrubCountsTwice, "what differs is counted by each attempt", "Scrub.WhatIsBeside*"}};
  EXPECT_EQ(run_without(0, "Layout.*:*StripedVolume*:Mend.*:Scrub.*-*IsOut*:*Alone*"), 0) << "with all rules";
  uint64_t noticed = 0;
  for (const auto& [rule, name, tests] : all) {
    const bool failed = run_without(rule, tests) != 0;
    EXPECT_TRUE(failed) << name << ": " << tests << " do not notice it";
    noticed += failed ? 1 : 0;
  }
  testing::add_figure("mutants", std::size(all));
  testing::add_figure("mutants_killed", noticed);
}

}  // namespace
}  // namespace bonsai::scale
