// SPDX-License-Identifier: Apache-2.0
// The instruments on stores of known quality: they accept the right one and notice each broken one.
#include <gtest/gtest.h>

#include "base/testing/budget.h"
#include "testing/broken_db.h"
#include "testing/client.h"

namespace bonsai::testing {
namespace {

struct Finding {
  bool found = false;
  std::string text;
};

Finding judge(Defect defect, const ClientOptions& options, uint64_t seed, uint64_t steps) {
  Options db_options;
  db_options.key_format = options.key_format;
  BrokenDb db(db_options, defect);
  const WorkloadResult result = run_workload(&db, options, seed, steps);
  if (!result.error.empty()) return {true, result.error};
  const Verdict verdict = check_workload(result.history, options);
  return {!verdict.ok, verdict.text};
}

TEST(Workload, CorrectStorePasses) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  for (const uint64_t keys : {8, 64, 2000}) {
    for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed8}) {
      ClientOptions options;
      options.keys = keys;
      options.key_format = format;
      options.mix.conditional = 20;
      const Finding finding = judge(Defect::kNone, options, seed + keys, budget(300, 1'000, 20'000));
      EXPECT_FALSE(finding.found) << finding.text;
    }
  }
}

TEST(Workload, EveryDefectIsNoticed) {
  constexpr uint64_t kRoundsMax = 20;
  for (const Defect defect : kDefects) {
    ClientOptions options;
    options.keys = 24;
    options.mix.conditional = 20;
    Finding finding;
    uint64_t rounds = 0;
    while (!finding.found && rounds < kRoundsMax) finding = judge(defect, options, ++rounds, 1'000);
    EXPECT_TRUE(finding.found) << name_of(defect);
    RecordProperty(name_of(defect), static_cast<int>(rounds));
  }
}

// One client finds what needs no second one, so that the finding does not depend on a scheduler.
TEST(Workload, OneClientNoticesEveryDefectThatNeedsNoOther) {
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  for (const Defect defect : kDefects) {
    if (defect == Defect::kTearsBatches || defect == Defect::kTearsScans || defect == Defect::kJudgesEarly) continue;
    ClientOptions options;
    options.clients = 1;
    options.keys = 24;
    options.mix.conditional = 20;
    EXPECT_TRUE(judge(defect, options, seed, 5'000).found) << name_of(defect);
  }
}

TEST(Codec, KeysKeepTheOrderOfTheirNumbersAndComeBack) {
  for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed8}) {
    const KeyCodec codec(format);
    for (uint64_t number = 0; number < 2000; ++number) {
      EXPECT_EQ(codec.number_of(codec.key_of(number)), number);
      EXPECT_LT(codec.key_of(number), codec.key_of(number + 1));
    }
    EXPECT_EQ(codec.number_of("foreign"), std::nullopt);
  }
}

TEST(Codec, AnyChangedByteOfAValueIsNoticed) {
  for (const size_t bytes : {16, 17, 23, 24, 100}) {
    const std::string value = encode_value(123, bytes);
    ASSERT_EQ(value.size(), bytes);
    EXPECT_EQ(decode_value(value), 123u);
    for (size_t i = 0; i < bytes; ++i) {
      std::string changed = value;
      changed[i] = static_cast<char>(changed[i] ^ 4);
      EXPECT_EQ(decode_value(changed), kGarbled);
    }
    EXPECT_EQ(decode_value(value.substr(1)), kGarbled);
  }
}

}  // namespace
}  // namespace bonsai::testing
