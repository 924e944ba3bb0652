// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "testing/scratch.h"

namespace bonsai::bench {
namespace {

// A file in a folder of this process, so that two runs of the tests at one time do not share files.
std::string scratch(const std::string& name) {
  static const testing::ScratchFolder kFolder;
  return kFolder.file(name);
}

TEST(ParseTrace, ReadsEveryFormOfALine) {
  Trace trace;
  const Status status = parse_trace(
      "# comment\n\nINSERT 1\r\n  READ\tuser2  \nUPDATE 18446744073709551615\nSCAN 4 100\nDELETE 5\nRMW user6", "x",
      &trace);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(trace.requests.size(), 6U);
  const std::pair<OpKind, uint64_t> expected[] = {{OpKind::kInsert, 1},          {OpKind::kRead, 2},
                                                  {OpKind::kUpdate, UINT64_MAX}, {OpKind::kScan, 4},
                                                  {OpKind::kDelete, 5},          {OpKind::kReadModifyWrite, 6}};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(trace.requests[i].kind, expected[i].first);
    EXPECT_EQ(trace.requests[i].key, expected[i].second);
    EXPECT_EQ(trace.requests[i].source, KeySource::kReady);
    EXPECT_EQ(trace.count(expected[i].first), 1U);
  }
  EXPECT_EQ(trace.requests[3].scan_length, 100U);
  EXPECT_FALSE(trace.is_load());
  ASSERT_TRUE(parse_trace("INSERT 1\nINSERT 2\n", "x", &trace).ok());
  EXPECT_TRUE(trace.is_load());
}

struct BadTrace {
  const char* text;
  const char* where;
  const char* remedy;
};

class BadTraces : public ::testing::TestWithParam<BadTrace> {};

TEST_P(BadTraces, NameLineAndRemedyAndChangeNothing) {
  Trace trace;
  ASSERT_TRUE(parse_trace("READ 1", "good", &trace).ok());
  const std::string path = scratch("bad.trace");
  std::ofstream(path) << GetParam().text;
  for (const Status& status : {parse_trace(GetParam().text, path, &trace), read_trace(path, &trace)}) {
    EXPECT_TRUE(status.IsInvalidArgument());
    EXPECT_NE(status.message().find(path + GetParam().where), std::string::npos) << status.ToString();
    EXPECT_NE(status.message().find(GetParam().remedy), std::string::npos) << status.ToString();
  }
  EXPECT_EQ(trace.requests.size(), 1U);
}

const std::string kLongLine(kTraceLineBytesMax + 1, 'x');

INSTANTIATE_TEST_SUITE_P(
    Texts, BadTraces,
    ::testing::Values(BadTrace{"", ": ", "write lines such as READ 42"},
                      BadTrace{"# nothing\n", ": ", "write lines such as READ 42"},
                      BadTrace{"READ 1\nread 2\n", ":2: ", "INSERT, READ, UPDATE, SCAN, DELETE or RMW"},
                      BadTrace{"\n\nREADX 2", ":3: ", "INSERT, READ"},
                      BadTrace{"READ", ":1: the key is missing", "below 2^64"},
                      BadTrace{"READ x", ":1: 'x'", "below 2^64"}, BadTrace{"READ user", ":1: ", "below 2^64"},
                      BadTrace{"READ -1", ":1: ", "below 2^64"}, BadTrace{"READ 1.5", ":1: ", "below 2^64"},
                      BadTrace{"READ 18446744073709551616", ":1: ", "below 2^64"},
                      BadTrace{"SCAN 1", ":1: the number of records is missing", "SCAN key records"},
                      BadTrace{"SCAN 1 0", ":1: '0' records", "SCAN key records"},
                      BadTrace{"SCAN 1 1000000001", ":1: ", "SCAN key records"},
                      BadTrace{"READ 1 2", ":1: '2' follows", "one request per line"},
                      BadTrace{"SCAN 1 2 3", ":1: '3' follows", "one request per line"},
                      BadTrace{kLongLine.c_str(), ":1: longer than", "give a text file"}));

TEST(ReadTrace, SaysWhatIsWrongWithAFile) {
  Trace trace;
  EXPECT_TRUE(read_trace("/nowhere.trace", &trace).IsIoError());
  EXPECT_FALSE(read_trace("/", &trace).ok());
}

// Lines that cross the pieces in which a file is read.
TEST(ReadTrace, ReadsFilesOfAnySize) {
  const std::string path = scratch("large.trace");
  {
    std::ofstream out(path);
    for (int i = 0; i < 200'000; ++i) out << "UPDATE user" << i << "\n";
  }
  Trace trace;
  const Status status = read_trace(path, &trace);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(trace.requests.size(), 200'000U);
  for (uint64_t i = 0; i < 200'000; ++i) ASSERT_EQ(trace.requests[i].key, i);
  std::filesystem::remove(path);
}

TEST(ReadTrace, DoesNotSwallowAFileWithoutLines) {
  Trace trace;
  const Status status = read_trace("/dev/zero", &trace);
  EXPECT_TRUE(status.IsInvalidArgument());
  EXPECT_NE(status.message().find("longer than"), std::string::npos);
}

class RoundTrip : public ::testing::TestWithParam<Distribution> {};

TEST_P(RoundTrip, GivesEachThreadItsRequestsBack) {
  Workload workload;
  workload.shares = {0.3, 0.2, 0.2, 0.1, 0.1, 0.1};
  workload.requests = GetParam();
  for (const unsigned threads : {1U, 3U}) {
    const RecordShape shape;
    const RequestPlan plan = draw_requests(workload, shape, 500, 3001, threads, 5);
    const std::string path = scratch("made/round.trace");
    ASSERT_TRUE(write_trace(path, plan, shape, 500).ok());
    Trace trace;
    ASSERT_TRUE(read_trace(path, &trace).ok());
    const RequestPlan replayed = plan_of_trace(trace, shape, threads);
    ASSERT_EQ(replayed.operations, 3001U);
    uint64_t unresolved = 0;
    for (unsigned thread = 0; thread < threads; ++thread) {
      const MappedVector<Request>& before = plan.threads[thread].requests;
      const MappedVector<Request>& after = replayed.threads[thread].requests;
      ASSERT_EQ(before.size(), after.size());
      ASSERT_EQ(replayed.threads[thread].operations, after.size());
      for (size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(before[i].kind, after[i].kind);
        EXPECT_EQ(before[i].scan_length, after[i].scan_length);
        if (before[i].source == KeySource::kReady) {
          EXPECT_EQ(before[i].key, after[i].key);
        } else {
          ++unresolved;
        }
      }
    }
    EXPECT_GT(unresolved, 500U);  // the inserts at least
  }
}

INSTANTIATE_TEST_SUITE_P(Distributions, RoundTrip,
                         ::testing::Values(Distribution::kZipfian, Distribution::kLatest, Distribution::kUniform));

TEST(WriteTrace, ResolvesAsOneThreadWould) {
  RequestPlan plan;
  plan.threads.resize(1);
  plan.threads[0].requests = {
      {0, 0, 0, OpKind::kRead, KeySource::kBehindNewest},  {0, 0, 0, OpKind::kInsert, KeySource::kNew},
      {0, 0, 0, OpKind::kRead, KeySource::kBehindNewest},  {3, 0, 0, OpKind::kRead, KeySource::kBehindNewest},
      {99, 0, 0, OpKind::kRead, KeySource::kBehindNewest}, {10, 0, 0, OpKind::kUpdate, KeySource::kIfInserted},
      {11, 7, 0, OpKind::kScan, KeySource::kIfInserted}};
  plan.operations = plan.threads[0].requests.size();
  RecordShape shape;
  shape.hashed = false;
  const std::string path = scratch("resolved.trace");
  ASSERT_TRUE(write_trace(path, plan, shape, 10).ok());
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, "READ 9\nINSERT 10\nREAD 10\nREAD 7\nREAD 0\nUPDATE 10\nSCAN 1 7\n");
}

TEST(WriteTrace, SaysWhereItCannot) {
  const Status status = write_trace("/proc/none/x.trace", draw_load(RecordShape(), 1, 1), RecordShape(), 1);
  EXPECT_TRUE(status.IsIoError());
  EXPECT_NE(status.message().find("--record"), std::string::npos);
}

TEST(PlanOfTrace, KnowsTheGreatestInsertedKey) {
  Trace trace;
  ASSERT_TRUE(parse_trace("INSERT 5\nINSERT 12\nREAD 99\nINSERT 7", "x", &trace).ok());
  char room[8];
  EXPECT_EQ(plan_of_trace(trace, RecordShape(), 2).key_max, encode_key(RecordShape(), 12, room));
  const RecordShape strings{KeyForm::kString, true, 1, 8};
  EXPECT_EQ(plan_of_trace(trace, strings, 2).key_max, "user7");
}

}  // namespace
}  // namespace bonsai::bench
