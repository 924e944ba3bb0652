// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/workload.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace bonsai::bench {
namespace {

Status make(const std::string& text, Workload* workload, std::vector<std::string>* notes) {
  Properties properties;
  Status status = properties.parse(text, "file");
  if (!status.ok()) return status;
  return make_workload("w", properties, workload, notes);
}

TEST(Workload, HasYcsbDefaults) {
  Workload workload;
  std::vector<std::string> notes;
  ASSERT_TRUE(make("", &workload, &notes).ok());
  EXPECT_DOUBLE_EQ(workload.share(OpKind::kRead), 0.95);
  EXPECT_DOUBLE_EQ(workload.share(OpKind::kUpdate), 0.05);
  EXPECT_EQ(workload.requests, Distribution::kUniform);
  EXPECT_EQ(workload.scan_length_min, 1U);
  EXPECT_EQ(workload.scan_length_max, 1000U);
  EXPECT_TRUE(workload.hashed_inserts);
  EXPECT_EQ(workload.record_bytes, 1000U);
  EXPECT_EQ(workload.zero_padding, 1U);
}

TEST(Workload, TakesEveryProperty) {
  Workload workload;
  std::vector<std::string> notes;
  const Status status = make(
      "readproportion=1\nupdateproportion=0\nscanproportion=2\ninsertproportion=0.5\nreadmodifywriteproportion=0.5\n"
      "deleteproportion=1\nrequestdistribution=latest\nscanlengthdistribution=zipfian\nminscanlength=5\n"
      "maxscanlength=50\ninsertorder=ordered\nzeropadding=12\nfieldcount=4\nfieldlength=25\n",
      &workload, &notes);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_DOUBLE_EQ(workload.share(OpKind::kScan), 0.4);  // scaled to sum to 1
  EXPECT_DOUBLE_EQ(workload.share(OpKind::kDelete), 0.2);
  EXPECT_EQ(workload.requests, Distribution::kLatest);
  EXPECT_TRUE(workload.scan_lengths_zipfian);
  EXPECT_EQ(workload.scan_length_min, 5U);
  EXPECT_EQ(workload.scan_length_max, 50U);
  EXPECT_FALSE(workload.hashed_inserts);
  EXPECT_EQ(workload.zero_padding, 12U);
  EXPECT_EQ(workload.record_bytes, 100U);
  EXPECT_TRUE(workload.changes_keys());
  EXPECT_TRUE(notes.empty());
}

TEST(Workload, AcceptsWhatConcernsOthersAndTellsWhatItDoesNotObey) {
  Workload workload;
  std::vector<std::string> notes;
  const Status status = make(
      "workload=site.ycsb.workloads.CoreWorkload\nrecordcount=1000\ntable=usertable\nmongodb.url=mongodb://x\n"
      "readallfields=true\nwriteallfields=false\n",
      &workload, &notes);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("file:6: writeallfields=false"), std::string::npos) << notes[0];
}

struct BadWorkload {
  const char* text;
  const char* where;
  const char* says;
};

class BadWorkloads : public ::testing::TestWithParam<BadWorkload> {};

TEST_P(BadWorkloads, NamesLineAndRemedy) {
  Workload workload;
  std::vector<std::string> notes;
  const Status status = make(GetParam().text, &workload, &notes);
  ASSERT_TRUE(status.IsInvalidArgument());
  EXPECT_NE(status.message().find(GetParam().where), std::string::npos) << status.ToString();
  EXPECT_NE(status.message().find(GetParam().says), std::string::npos) << status.ToString();
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadWorkloads,
    ::testing::Values(BadWorkload{"\nreadpropotion=1", "file:2:", "correct its spelling"},
                      BadWorkload{"readproportion=half", "file:1:", "such as 0.95"},
                      BadWorkload{"readproportion=-1", "file:1:", "such as 0.95"},
                      BadWorkload{"readproportion=nan", "file:1:", "such as 0.95"},
                      BadWorkload{"readproportion=0\nupdateproportion=0", "workload w", "readproportion=1"},
                      BadWorkload{"requestdistribution=zipf", "file:1:", "uniform zipfian latest sequential hotspot"},
                      BadWorkload{"insertorder=random", "file:1:", "hashed ordered"},
                      BadWorkload{"scanlengthdistribution=x", "file:1:", "uniform zipfian"},
                      BadWorkload{"minscanlength=0", "file:1:", "from 1"},
                      BadWorkload{"minscanlength=10\nmaxscanlength=5", "file:2:", "from 10"},
                      BadWorkload{"minscanlength=2000", "workload w", "set maxscanlength"},
                      BadWorkload{"maxscanlength=99999999999999999999", "file:1:", "whole number"},
                      BadWorkload{"zeropadding=5000", "file:1:", "from 1"},
                      BadWorkload{"fieldcount=1.5", "file:1:", "whole number"},
                      BadWorkload{"fieldcount=1000000\nfieldlength=1000", "file:2:", "16 MiB"}));

// The files in conf/workloads say what YCSB's say.
struct Standard {
  const char* file;
  std::array<double, kOpKinds> shares;
  Distribution requests;
};

class StandardWorkloads : public ::testing::TestWithParam<Standard> {};

TEST_P(StandardWorkloads, HaveYcsbValues) {
  Properties properties;
  const std::string path = std::string(std::getenv("BONSAI_WORKLOADS")) + "/" + GetParam().file;
  ASSERT_TRUE(properties.read_file(path).ok()) << path;
  Workload workload;
  std::vector<std::string> notes;
  const Status status = make_workload(GetParam().file, properties, &workload, &notes);
  ASSERT_TRUE(status.ok()) << status.ToString();
  for (size_t kind = 0; kind < kOpKinds; ++kind) EXPECT_DOUBLE_EQ(workload.shares[kind], GetParam().shares[kind]);
  EXPECT_EQ(workload.requests, GetParam().requests);
  EXPECT_TRUE(workload.hashed_inserts);
  EXPECT_EQ(workload.record_bytes, 1000U);
  if (workload.share(OpKind::kScan) > 0) {
    EXPECT_EQ(workload.scan_length_max, 100U);
  }
  EXPECT_TRUE(notes.empty());
}

INSTANTIATE_TEST_SUITE_P(Files, StandardWorkloads,
                         ::testing::Values(Standard{"workloada", {0.5, 0.5}, Distribution::kZipfian},
                                           Standard{"workloadb", {0.95, 0.05}, Distribution::kZipfian},
                                           Standard{"workloadc", {1.0}, Distribution::kZipfian},
                                           Standard{"workloadd", {0.95, 0, 0.05}, Distribution::kLatest},
                                           Standard{"workloade", {0, 0, 0.05, 0.95}, Distribution::kZipfian},
                                           Standard{"workloadf", {0.5, 0, 0, 0, 0.5}, Distribution::kZipfian}));

}  // namespace
}  // namespace bonsai::bench
