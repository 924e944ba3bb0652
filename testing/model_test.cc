// SPDX-License-Identifier: Apache-2.0
// The product store against the model: all operations of one thread, reopened now and then.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/random.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/units.h"
#include "testing/model_run.h"
#include "testing/open.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

struct Shape {
  const char* name;
  KeyFormat key_format;
  size_t keys;
  size_t value_bytes_max;
  size_t large_bytes_max;
  uint64_t log_bytes;
  uint32_t background_threads;
  size_t targets;
  Durability durability;
};

using base::kKiB;
using base::kMiB;
const Shape kShapes[] = {
    {"Bytes", KeyFormat::kBytes, 400, 64 * kKiB, 3 * kMiB, 8 * kMiB, 1, 1, Durability::kDurable},
    {"BytesNoBackground", KeyFormat::kBytes, 400, 64 * kKiB, 3 * kMiB, 4 * kMiB, 0, 1, Durability::kDurable},
    {"BytesSmallLog", KeyFormat::kBytes, 2000, 500, 0, 1 * kMiB, 1, 1, Durability::kDurable},
    {"BytesTwoTargets", KeyFormat::kBytes, 400, 64 * kKiB, 3 * kMiB, 8 * kMiB, 1, 2, Durability::kDurable},
    {"BytesBuffered", KeyFormat::kBytes, 400, 4 * kKiB, 0, 4 * kMiB, 1, 1, Durability::kBuffered},
    {"Fixed8", KeyFormat::kFixed8, 1000, 64 * kKiB, 3 * kMiB, 8 * kMiB, 1, 1, Durability::kDurable},
    {"Fixed8Small", KeyFormat::kFixed8, 5000, 8, 0, 1 * kMiB, 1, 1, Durability::kDurable},
    {"Fixed8TwoTargets", KeyFormat::kFixed8, 1000, 4 * kKiB, 2 * kMiB, 4 * kMiB, 0, 2, Durability::kDurable},
};

std::string name_of_shape(const ::testing::TestParamInfo<Shape>& shape) { return shape.param.name; }

class Model : public ::testing::TestWithParam<Shape> {};

TEST_P(Model, StoreAnswersAsTheModel) {
  const Shape& shape = GetParam();
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const uint64_t steps = budget<uint64_t>(2'000, 15'000, 300'000);
  const ScratchFolder folder;
  const std::string pool = folder.pool(shape.targets);
  Options options;
  options.create_if_missing = true;
  options.key_format = shape.key_format;
  options.pool_bytes = 192 * kMiB / shape.targets;
  options.log_bytes = shape.log_bytes;
  options.background_threads = shape.background_threads;
  options.durability = shape.durability;
  const Verdict verdict = run_against_model({.key_format = shape.key_format,
                                             .steps = steps,
                                             .seed = seed,
                                             .keys = shape.keys,
                                             .value_bytes_max = shape.value_bytes_max,
                                             .large_bytes_max = shape.large_bytes_max},
                                            [&](std::unique_ptr<DB>* db) { return open_db(options, pool, db); });
  ASSERT_TRUE(verdict.ok) << verdict.text;
  add_figure("model_steps", steps);
  CheckReport report;
  ASSERT_TRUE(Check(file_names(pool), &report).ok());
  EXPECT_TRUE(report.ok()) << report.damages[0].where << ": " << report.damages[0].what;
  EXPECT_TRUE(report.clean);
}

INSTANTIATE_TEST_SUITE_P(, Model, ::testing::ValuesIn(kShapes), name_of_shape);

}  // namespace
}  // namespace bonsai::testing
