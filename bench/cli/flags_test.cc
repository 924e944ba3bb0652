// SPDX-License-Identifier: Apache-2.0
// The command line, word by word: which of several flags wins, the bounds of each flag, and the plan that the program
// derives in the end. Nothing is run.
#include "bench/cli/flags.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "bench/cli/command.h"
#include "bench/cli/flag_reader.h"
#include "bench/cli/testing/flags_fixture.h"
#include "bench/results/machine.h"
#include "bonsai/options.h"

namespace bonsai::bench {
namespace {

TEST_F(Flags, HaveDefaultsThatWorkOnALaptop) {
  const RunRequest request = accepted({});
  EXPECT_EQ(request.config.records, 1'000'000U);
  EXPECT_EQ(request.config.operations, 1'000'000U);
  EXPECT_EQ(request.config.threads, 1U) << "as many as absl_btree takes";
  EXPECT_EQ(request.config.key_form, KeyForm::kFixed8);
  EXPECT_EQ(request.config.value_bytes, 8U);
  EXPECT_FALSE(request.config.buffered);
  EXPECT_EQ(request.config.wait_ms_max, 0U);
  EXPECT_EQ(request.config.draw, DrawMode::kAhead);
  EXPECT_EQ(request.config.latency_every, kLatencySampled);
  EXPECT_EQ(request.config.out_dir, "results/latest");
  EXPECT_EQ(request.repeat, 1U);
  std::string steps;
  for (const Step& step : request.steps) steps += (step.load_only ? "load:" : "") + step.workload.name + " ";
  EXPECT_EQ(steps, "load:a a b c f d e ");
  ASSERT_FALSE(request.engines.empty());
}

TEST_F(Flags, MayBeSpeltInManyWays) {
  for (const Words& words : std::vector<Words>{{"--interval-ms=50", "--pin"},
                                               {"--interval_ms=50", "--pin=true"},
                                               {"-interval-ms=50", "-pin"},
                                               {"--interval-ms=50", "--no-pin", "--pin"},
                                               {"--interval-ms", "50", "--pin"},
                                               {"-interval_ms", "50", "--pin=1"},
                                               {"--interval-ms=7", "--pin", "--interval-ms=50"}}) {
    const RunRequest request = accepted(words);
    EXPECT_EQ(request.config.interval_ms, 50U) << ::testing::PrintToString(words);
    EXPECT_TRUE(request.config.pin) << ::testing::PrintToString(words);
  }
  // Where they are not: a word that is no flag, and flags of the library.
  refused({"records=5"}, {"'records=5' is no flag", "--name=value"});
  refused({"---records=5"}, {"'---records=5' is no flag"});
  refused({"-"}, {"'-' is no flag"});
  for (const char* flag : {"--help", "--flagfile=x", "--logtostderr", "--gtest_filter=x"}) {
    refused({flag, "x"}, {"unknown flag", "--records", "--interval-ms"});
  }
}

TEST_F(Flags, RefuseWhatIsOutOfBoundsAndNothingElse) {
  const auto as_run = [] {
    RunRequest request;
    return request_of_flags(&request);
  };
  for (const Bounds& one : std::vector<Bounds>{{"threads", 0, 1024, as_run},
                                               {"depth", 1, 1024, as_run},
                                               {"repeat", 1, 1000, as_run},
                                               {"target", 0, 1'000'000'000, as_run},
                                               {"seconds", 0, 86'400, as_run},
                                               {"interval-ms", 0, 10'000, as_run},
                                               {"wait-ms", 0, 3'600'000, as_run},
                                               {"interval-samples", 0, 1'000'000'000, as_run},
                                               {"records", 1, 10'000'000'000, as_run},
                                               {"operations", 1, 10'000'000'000, as_run},
                                               {"warmup", 0, 10'000'000'000, as_run}}) {
    expect_bounds(one);
  }
}

TEST_F(Flags, RefuseWhatIsNoValue) {
  for (const char* flag : {"--records", "--threads", "--seed", "--warmup", "--interval-ms", "--repeat"}) {
    for (const char* value : {"", "x", "-1", "1.5", "1e6", "0x", "99999999999999999999999999"}) {
      refused({std::string(flag) + "=" + value}, {std::string(flag) + "=" + value, "whole number", "for example"});
    }
  }
  for (const auto& [flag, words] :
       std::vector<std::pair<std::string, std::string>>{{"key", "fixed8 or string"},
                                                        {"durability", "durable or buffered"},
                                                        {"draw", "ahead or live"},
                                                        {"latency", "sampled or all"},
                                                        {"hash", "default or city"},
                                                        {"text", "auto, table or ycsb"}}) {
    for (const char* value : {"", "Fixed8", "other", "ahead,live"}) {
      refused({"--" + flag + "=" + value}, {"--" + flag + "=" + value, words});
    }
  }
  for (const char* value : {"", "8 ", "x", "-1", "8B", "99999999999999999999999999"}) {
    refused({std::string("--value-bytes=") + value}, {"--value-bytes=", "or 'file'"});
  }
  EXPECT_FALSE(accepted({"--value-bytes=file"}).config.value_bytes.has_value());
  EXPECT_EQ(accepted({"--value-bytes=0"}).config.value_bytes, 0U);
  EXPECT_EQ(accepted({"--value-bytes=" + std::to_string(kValueBytesMax)}).config.value_bytes, kValueBytesMax);
  refused({"--value-bytes=" + std::to_string(kValueBytesMax + 1)}, {std::to_string(kValueBytesMax)});
}

TEST_F(Flags, WinOverPropertiesAndTheseOverFiles) {
  const std::string first =
      file("workloadfirst", "readproportion=1\nupdateproportion=0\nrecordcount=10\noperationcount=20\ntarget=30\n");
  const std::string second = file("second", "recordcount=11\nthreadcount=3\nmaxexecutiontime=2\n");
  RunRequest request = accepted({"-P", first});
  EXPECT_EQ(request.config.records, 10U);
  EXPECT_EQ(request.config.operations, 20U);
  EXPECT_EQ(request.config.target_ops_per_s, 30);
  EXPECT_EQ(request.config.seconds_max, 0);
  request = accepted({"-P", first, "-P", second});
  EXPECT_EQ(request.config.records, 11U) << "a later file wins";
  EXPECT_EQ(request.config.operations, 20U);
  EXPECT_EQ(request.config.threads, 3U);
  EXPECT_EQ(request.config.seconds_max, 2);
  request = accepted({"-p", "recordcount=12", "-P", first, "-P", second, "-p", "threadcount=4"});
  EXPECT_EQ(request.config.records, 12U) << "-p wins over files, wherever it is";
  EXPECT_EQ(request.config.threads, 4U);
  request = accepted({"--records=13", "-P", first, "-p", "recordcount=12", "-p", "target=40"});
  EXPECT_EQ(request.config.records, 13U) << "a flag wins over all";
  EXPECT_EQ(request.config.target_ops_per_s, 40);
  ASSERT_EQ(request.steps.size(), 1U);
  EXPECT_EQ(request.steps[0].workload.name, "first") << "workload is no part of the name";
  EXPECT_EQ(request.steps[0].workload.share(OpKind::kRead), 1);
  refused({"-P", first, "--workloads=a"}, {"-P and --workloads", "one of them"});
  refused({"-p", "recordcount"}, {"-p: 'recordcount'", "name=value"});
  refused({"-p", ""}, {"-p needs a value: -p name=value"});
  refused({"-p", "recordcount=0"}, {"-p: recordcount=0", "from 1 to"});
}

TEST_F(Flags, ALoadTakesItsRecordsFromTheWorkloadAfterIt) {
  const std::string small = file("small", "readproportion=1\nfieldcount=1\nfieldlength=10\n");
  const std::string large = file("large", "readproportion=1\nfieldcount=2\nfieldlength=100\n");
  const RunRequest request =
      accepted({"--workloads=load," + small + ",load," + large + "," + small + ",load", "--value-bytes=file"});
  ASSERT_EQ(request.steps.size(), 6U);
  EXPECT_EQ(request.steps[0].workload.record_bytes, 10U);
  EXPECT_EQ(request.steps[2].workload.record_bytes, 200U);
  EXPECT_EQ(request.steps[5].workload.record_bytes, 1000U) << "nothing is after it: as of workload a";
  for (const size_t load : {0, 2, 5}) EXPECT_TRUE(request.steps[load].load_only) << load;
  for (const size_t run : {1, 3, 4}) EXPECT_FALSE(request.steps[run].load_only) << run;
}

TEST_F(Flags, GiveEveryEngineAsManyThreads) {
  const RunRequest both = accepted({"--engines=bonsai,absl_btree"});
  EXPECT_EQ(both.config.threads, 1U);
  if (processors() > 1) {
    ASSERT_EQ(both.notes.size(), 1U);
    EXPECT_NE(both.notes[0].find("absl_btree takes no more; --threads=N"), std::string::npos) << both.notes[0];
  }
  EXPECT_EQ(accepted({"--engines=bonsai"}).config.threads, processors());
  EXPECT_EQ(accepted({"--engines=bonsai,dummy"}).config.threads, processors());
  EXPECT_EQ(accepted({"--engines=bonsai,absl_btree", "--threads=3"}).config.threads, 3U) << "as it was asked";
  EXPECT_EQ(accepted({"--engines=bonsai,absl_btree", "-p", "threadcount=3"}).config.threads, 3U);
  EXPECT_TRUE(accepted({"--engines=bonsai,absl_btree", "--threads=3"}).notes.empty());
}

TEST_F(Flags, OfALoadMakeOneStep) {
  const auto load = [this](const Words& words) {
    RunRequest request;
    EXPECT_EQ(make(words, load_of_flags, &request).ToString(), "OK");
    return request;
  };
  EXPECT_TRUE(load({}).steps.at(0).load_only);
  EXPECT_EQ(load({}).steps.size(), 1U);
  const RunRequest of_files = load({"--engines=dummy", "-P", file("small", "recordcount=7\nfieldlength=2\n")});
  ASSERT_EQ(of_files.steps.size(), 1U);
  EXPECT_TRUE(of_files.steps[0].load_only);
  EXPECT_EQ(of_files.config.records, 7U);
  EXPECT_FALSE(of_files.config.value_bytes.has_value()) << "the file names its fields";
  EXPECT_EQ(of_files.steps[0].workload.record_bytes, 20U);
  EXPECT_EQ(load({"-p", "fieldcount=3", "--value-bytes=9"}).config.value_bytes, 9U) << "a flag wins";
  EXPECT_TRUE(load({"--workloads=" + file("in.trace", "INSERT 1\n")}).steps.at(0).load_only);
  refused({"--workloads=" + file("out.trace", "INSERT 1\nREAD 1\n")}, {"trace out", "bonsai-bench run"}, load_of_flags);
}

TEST_F(Flags, FindWorkloadsByNameAndByPath) {
  for (const char* word : {"b", "workloadb"}) {
    EXPECT_EQ(accepted({std::string("--workloads=") + word}).steps.at(0).workload.name, "b");
  }
  refused({"--workloads=load,zz"}, {"unknown workload 'zz'", "load a b c d e f", "--workload-dir"});
  refused({"--workloads="}, {"--workloads is empty"});
  const std::string bad = file("bad", "readproportion=1\n\nupdateproportion=two\n");
  refused({"--workloads=" + bad}, {"bad:3", "updateproportion=two"});
  const std::string trace = file("mine.trace", "INSERT 1\nINSERT 2\n");
  const RunRequest request = accepted({"--workloads=" + trace});
  EXPECT_TRUE(request.steps.at(0).load_only) << "a trace that only inserts";
  EXPECT_EQ(request.steps.at(0).workload.name, "mine");
}

TEST_F(Flags, ATimeWithoutOperationsIsDrawnLive) {
  RunRequest request = accepted({"--seconds=3", "--target=1000", "--workloads=a"});
  EXPECT_EQ(request.config.operations, 3000U);
  EXPECT_EQ(request.config.draw, DrawMode::kLive);
  request = accepted({"--seconds=3", "--workloads=a", "--threads=2"});
  EXPECT_GE(request.config.operations, 3U * 2 * 10'000'000) << "more than any store does in that time";
  request = accepted({"--seconds=3", "--operations=50", "--workloads=d"});
  EXPECT_EQ(request.config.operations, 50U);
  EXPECT_EQ(request.config.draw, DrawMode::kAhead);
  request = accepted({"--seconds=3", "--target=1000", "--draw=ahead", "--workloads=a"});
  EXPECT_EQ(request.config.draw, DrawMode::kAhead) << "as it was asked";
  refused({"--seconds=3", "--workloads=d"}, {"workload d inserts", "--target or --operations"});
  refused({"--operations=9000000000", "--workloads=a"}, {"MiB", "--draw=live"});
  refused({"--draw=live", "--record=x"}, {"--record", "--draw=ahead"});
  refused({"--out="}, {"--out is empty"});
}

TEST_F(Flags, KnowEveryEngineByItsName) {
  for (const EngineEntry& each : engine_list()) {
    const RunRequest request = accepted({"--engines=" + std::string(each.name)});
    ASSERT_EQ(request.engines.size(), 1U);
    EXPECT_EQ(request.engines[0]->name, each.name);
    refused({"--engines=dummy," + std::string(each.name) + "x"}, {std::string(each.name) + "x", "the engines are"});
  }
  EXPECT_EQ(accepted({"--engines=,dummy,,std_map,"}).engines.size(), 2U);
}

// The manifest lists every flag as it is written, with its value, and none of the library's.
TEST_F(Flags, AreAllInTheManifest) {
  const google::FlagSaver saver;
  ASSERT_TRUE(read_flags({"--records=42", "-p", "a=b", "-p", "c=d"}).ok());
  const std::map<std::string, std::string> values = flag_values();
  EXPECT_EQ(values.at("records"), "42");
  EXPECT_EQ(values.at("p"), "a=b\nc=d");
  EXPECT_EQ(values.at("interval-ms"), "0");
  EXPECT_EQ(values.count("flagfile") + values.count("interval_ms") + values.count("gtest_filter"), 0U);
  for (const auto& [name, value] : values) {
    if (name.size() == 1) continue;
    EXPECT_NE(every_help().find("--" + name), std::string::npos) << name << " is not in the help";
  }
}

TEST_F(Flags, WorkloadsAreListedWithWhatTheySay) {
  const auto rows = known_workloads();
  ASSERT_GE(rows.size(), 6U);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(rows[i][0], std::string(1, static_cast<char>('a' + i)));
    EXPECT_FALSE(rows[i][1].empty()) << rows[i][0];
  }
  const google::FlagSaver saver;
  ASSERT_TRUE(read_flags({"--workload-dir", folder_.file("none")}).ok());
  EXPECT_TRUE(known_workloads().empty());
}

}  // namespace
}  // namespace bonsai::bench
