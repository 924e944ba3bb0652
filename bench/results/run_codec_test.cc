// SPDX-License-Identifier: Apache-2.0
#include "bench/results/run_codec.h"

#include <gtest/gtest.h>

#include "bench/results/repeats.h"
#include "bench/testing/run.h"

namespace bonsai::bench {
namespace {

// Each field has a value that is unique and is not its default.
RunResult strange_run() {
  RunResult run = full_run();
  run.depth = 77;
  run.requests = "drawn";
  run.interval_ms = 78;
  run.seconds_max = 79.5;
  run.pinned = true;
  run.memory_unsettled.process_bytes = 80;
  run.start_wall_seconds = 1e9 + 1.0 / 3;
  run.joules = 0.1;
  run.first_failure = std::string("a key \xff\0 of bytes", 17);
  run.failures = 3;
  run.stopped = true;
  return run;
}

std::string text_of(const RunResult& run) { return results_json({Manifest(), {run}, {}, {}}); }

TEST(RunCodec, KeepsAllThatIsInAResult) {
  const RunResult run = strange_run();
  RunResult read;
  ASSERT_TRUE(decode_run(encode_run(run), &read));
  EXPECT_EQ(text_of(read), text_of(run));
  EXPECT_EQ(encode_run(read), encode_run(run));
  // Fields that results.json does not hold in this form.
  EXPECT_EQ(read.start_wall_seconds, run.start_wall_seconds);
  EXPECT_EQ(read.first_failure, run.first_failure);
  EXPECT_EQ(read.failures_of, run.failures_of);
  EXPECT_EQ(read.stopped, run.stopped);
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    EXPECT_EQ(read.latency[kind].buckets(), run.latency[kind].buckets());
    EXPECT_EQ(read.latency[kind].count(), run.latency[kind].count());
  }
}

TEST(RunCodec, ADecodedResultTakesPartInRepetitions) {
  const RunResult run = strange_run();
  RunResult read;
  ASSERT_TRUE(decode_run(encode_run(run), &read));
  EXPECT_EQ(text_of(merge_repeats({run, read})), text_of(merge_repeats({run, run})));
}

TEST(RunCodec, AnEmptyResultStaysEmpty) {
  RunResult read = strange_run();
  ASSERT_TRUE(decode_run(encode_run(RunResult()), &read));
  EXPECT_EQ(encode_run(read), encode_run(RunResult()));
}

TEST(RunCodec, RefusesOtherBytes) {
  const std::string bytes = encode_run(strange_run());
  RunResult read;
  EXPECT_FALSE(decode_run("", &read));
  EXPECT_FALSE(decode_run("{}", &read));
  EXPECT_FALSE(decode_run(std::string_view(bytes).substr(0, bytes.size() - 1), &read));
  EXPECT_FALSE(decode_run(bytes + "x", &read));
}

}  // namespace
}  // namespace bonsai::bench
