// SPDX-License-Identifier: Apache-2.0
// Runs every fuzz target on its seeds and on the inputs of testing/corpora/: those that reach deep into the code, and
// those that once crashed. So each build tries them, not only the fuzzing build.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/figures.h"
#include "base/testing/fuzz.h"

namespace bonsai::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kCorpora = fs::path(BONSAI_SOURCE_DIR) / "testing" / "corpora";
constexpr std::string_view kCanary = "canary";
constexpr uint64_t kFileBytesMax = 8192;

std::string bytes_of(const fs::path& path) {
  std::stringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

std::vector<fs::path> kept_of(const std::string& target) {
  std::vector<fs::path> files;
  if (!fs::exists(kCorpora / target)) return files;
  for (const auto& entry : fs::directory_iterator(kCorpora / target)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class FuzzReplay : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzReplay, SeedsAndKeptInputsPass) {
  const FuzzTarget& target = GetParam();
  const std::vector<std::string> seeds = target.seeds();
  EXPECT_FALSE(seeds.empty()) << "a fuzzer without seeds seldom gets past the first check";
  for (size_t i = 0; i < seeds.size(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(i));
    target.run(seeds[i]);
  }
  const std::vector<fs::path> kept = kept_of(target.name);
  for (const fs::path& file : kept) {
    std::printf("%s\n", file.filename().c_str());  // the last one printed is the one that crashed
    std::fflush(stdout);
    target.run(bytes_of(file));
  }
  target.run({});
  add_figure("fuzz_replayed", seeds.size() + kept.size());
}

std::vector<FuzzTarget> targets_but_the_canary() {
  std::vector<FuzzTarget> targets = fuzz_targets();
  std::erase_if(targets, [](const FuzzTarget& target) { return target.name == kCanary; });
  return targets;
}

INSTANTIATE_TEST_SUITE_P(All, FuzzReplay, ::testing::ValuesIn(targets_but_the_canary()),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(FuzzReplayDeathTest, TheCanaryDies) {
  const FuzzTarget* canary = find_fuzz_target(kCanary);
  ASSERT_NE(canary, nullptr);
  for (const std::string& seed : canary->seeds()) canary->run(seed);
  EXPECT_DEATH(canary->run("bug!"), "broken invariant");
}

TEST(Corpora, BelongToTargetsAndAreSmall) {
  for (const auto& folder : fs::directory_iterator(kCorpora)) {
    const std::string name = folder.path().filename().string();
    EXPECT_NE(find_fuzz_target(name), nullptr) << "no target is called " << name << "; delete testing/corpora/" << name;
    for (const fs::path& file : kept_of(name)) EXPECT_LE(fs::file_size(file), kFileBytesMax) << file;
  }
}

TEST(FuzzTargets, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const FuzzTarget& target : fuzz_targets()) EXPECT_TRUE(names.insert(target.name).second) << target.name;
  EXPECT_GT(names.size(), 10U);
}

TEST(FuzzInput, TakesValuesAndThenZeros) {
  const std::string bytes = fuzz_bytes(uint16_t{0x201}) + "abc" + fuzz_bytes(uint8_t{9});
  FuzzInput input(bytes);
  EXPECT_EQ(input.take<uint16_t>(), 0x201);
  EXPECT_EQ(input.take_bytes(3), "abc");
  EXPECT_EQ(input.rest().size(), 1U);
  EXPECT_EQ(input.take<uint32_t>(), 9U) << "what is there, then zeros";
  EXPECT_TRUE(input.empty());
  EXPECT_EQ(input.take<uint64_t>(), 0U);
  EXPECT_EQ(input.take_bytes(5), "");
}

}  // namespace
}  // namespace bonsai::testing
