// SPDX-License-Identifier: Apache-2.0
// Tests of the flags of the studies' commands, one by one. Nothing is run.
#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bench/cli/command.h"
#include "bench/cli/flag_reader.h"
#include "bench/cli/testing/flags_fixture.h"
#include "bench/studies/commands/requests.h"

namespace bonsai::bench {
namespace {

using StudyFlags = Flags;

TEST_F(StudyFlags, OfASweep) {
  SweepRequest request;
  ASSERT_TRUE(make({"--workloads=load,a,c", "--engines=dummy", "--threads=3"}, sweep_of_flags, &request).ok());
  EXPECT_EQ(request.plan.workloads.size(), 2U) << "a load is part of every sample";
  EXPECT_EQ(request.plan.threads_max, 3U);
  EXPECT_EQ(request.plan.each.seconds, 30);
  EXPECT_EQ(request.plan.each.interval_ms, 25U);
  EXPECT_EQ(request.plan.samples, 5U);
  ASSERT_TRUE(make({"--workloads=a", "--engines=dummy", "--seconds=2", "--interval-ms=100", "--idle-seconds=1",
                    "--rate-first=5", "--rate-step=6", "--rate-max=17", "--samples=2", "--interval-samples=9",
                    "--hash=city", "--records=77"},
                   sweep_of_flags, &request)
                  .ok());
  EXPECT_EQ(request.plan.each.seconds, 2);
  EXPECT_EQ(request.plan.each.interval_ms, 100U);
  EXPECT_EQ(request.plan.each.idle_seconds, 1);
  EXPECT_EQ(request.plan.rate_first, 5);
  EXPECT_EQ(request.plan.rate_step, 6);
  EXPECT_EQ(request.plan.rate_max, 17);
  EXPECT_EQ(request.plan.samples, 2U);
  EXPECT_EQ(request.plan.each.latency_per_interval, 9U);
  EXPECT_EQ(request.plan.each.map.hash, HashKind::kCity);
  EXPECT_EQ(request.plan.each.records, 77U);
  const std::string trace = file("t.trace", "READ 1\n");
  refused<SweepRequest>({"--workloads=" + trace}, {"not traces"}, sweep_of_flags);
  refused<SweepRequest>({"--rate-first=9", "--rate-max=5"}, {"below the first", "--rate-max"}, sweep_of_flags);
  refused<SweepRequest>({"--idle-seconds=0"}, {"idle phase", "--idle-seconds"}, sweep_of_flags);
}

TEST_F(StudyFlags, OfAnExperiment) {
  const auto named = [](const std::string& name, const Words& words, ExperimentRequest* request) {
    const google::FlagSaver saver;
    const Status status = read_flags(words);
    return status.ok() ? experiment_of_flags(name, request) : status;
  };
  for (const Experiment& each : experiment_list()) {
    ExperimentRequest request;
    ASSERT_TRUE(named(std::string(each.name), {}, &request).ok()) << each.name;
    ASSERT_EQ(request.experiments.size(), 1U) << each.name;
    EXPECT_EQ(request.experiments[0], &each);
    EXPECT_FALSE(request.resumes);
    EXPECT_EQ(request.plan.scale, Scale::kSmall);
    EXPECT_FALSE(request.plan.asked.records || request.plan.asked.operations || request.plan.asked.threads ||
                 request.plan.asked.depth)
        << "nothing was asked";
  }
  ExperimentRequest request;
  ASSERT_TRUE(named("kiwi", {"--scale=paper", "--records=5", "--threads=2", "--repeat=3"}, &request).ok());
  EXPECT_GT(request.experiments.size(), 5U);
  EXPECT_EQ(request.plan.scale, Scale::kPaper);
  EXPECT_EQ(request.plan.repeat, 3U);
  EXPECT_EQ(request.plan.threads_max, 2U);
  EXPECT_EQ(request.plan.asked.records, 5U);
  EXPECT_EQ(request.plan.asked.threads, 2U);
  EXPECT_FALSE(request.plan.asked.depth.has_value());
  ASSERT_TRUE(named("all", {}, &request).ok());
  EXPECT_EQ(request.experiments.size(), experiment_list().size());
  EXPECT_TRUE(request.resumes);
  for (const auto& [name, words, says] : std::vector<std::tuple<std::string, Words, std::string>>{
           {"", {}, "no experiment is named"},
           {"kiw", {}, "unknown experiment 'kiw'"},
           {"kiwi", {"--scale=seed"}, "--scale=seed is unknown; give trial, small or paper"},
           {"kiwi", {"--repeat=0"}, "--repeat=0"},
           {"kiwi", {"--out="}, "--out is empty"}}) {
    const Status status = named(name, words, &request);
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    EXPECT_NE(status.message().find(says), std::string::npos) << status.ToString();
  }
}

TEST_F(StudyFlags, OfTheFabric) {
  FabricConfig config;
  ASSERT_TRUE(make({}, fabric_of_flags, &config).ok());
  EXPECT_TRUE(config.providers.empty());
  EXPECT_FALSE(config.peer.has_value());
  EXPECT_EQ(config.runs, 9U);
  EXPECT_EQ(fabric_cells(config.grid).size(), 38U);
  config = {};
  ASSERT_TRUE(make({"--providers=shm,sim", "--requests=cas", "--sizes=8,65536", "--batches=32", "--depths=64",
                    "--repeat=2", "--waits=block", "--perftest=false"},
                   fabric_of_flags, &config)
                  .ok());
  ASSERT_EQ(config.providers.size(), 2U);
  EXPECT_EQ(config.providers[0]->name, "shm");
  EXPECT_EQ(config.providers[1]->name, "sim");
  EXPECT_EQ(config.runs, 2U);
  EXPECT_TRUE(config.blocks);
  EXPECT_FALSE(config.perftest);
  const auto refuses = [&](const Words& words, const Words& says) {
    refused<FabricConfig>(words, says, fabric_of_flags);
  };
  refuses({"--providers=shm,ib"}, {"'ib' is unknown", "shm,sim,verbs"});
  refuses({"--sizes=7"}, {"'7' is out of bounds", "multiples of 8"});
  refuses({"--batches=0"}, {"'0' is out of bounds"});
  refuses({"--depths="}, {"--depths"});
  refuses({"--requests=read,,cas"}, {"no request"});
  refuses({"--serve=b:1"}, {"--serve is for the far side", "bonsai-bench fabric --serve=b:1"});
  refuses({"--peer=a:1", "--providers=shm"}, {"give one of them"});
  refuses({"--peer=a:99999"}, {"--peer=a:99999"});
  refuses({"--waits=spin"}, {"--waits=spin", "poll or block"});
}

TEST_F(StudyFlags, OfTheFarSideOfTheFabric) {
  ServeRequest request;
  ASSERT_TRUE(make({"--serve=/tmp/folder/name"}, serve_of_flags, &request).ok());
  EXPECT_EQ(request.address.provider->name, "shm");
  EXPECT_FALSE(request.once);
  EXPECT_FALSE(request.config.blocks);
  ASSERT_TRUE(make({"--serve=b:1", "--once", "--waits=block", "--device=rxe0"}, serve_of_flags, &request).ok());
  EXPECT_EQ(request.address.provider->name, "verbs");
  EXPECT_TRUE(request.once);
  EXPECT_TRUE(request.config.blocks);
  EXPECT_EQ(request.config.device, "rxe0");
  refused<ServeRequest>({}, {"--serve=ADDR", "bonsai-bench experiment fabric"}, serve_of_flags);
  refused<ServeRequest>({"--serve=b"}, {"--serve=b is no address", "FOLDER/NAME"}, serve_of_flags);
  refused<ServeRequest>({"--serve=b:1", "--peer=a:1"}, {"one end is one of them"}, serve_of_flags);
  refused<ServeRequest>({"--serve=b:1", "--waits=spin"}, {"--waits=spin", "poll or block"}, serve_of_flags);
}

// `experiment` takes them, whatever it measures.
TEST_F(StudyFlags, OfTheFabricReachTheExperiment) {
  const google::FlagSaver saver;
  ASSERT_TRUE(read_flags({"--providers=sim", "--cell-ms=7", "--repeat=4"}).ok());
  ExperimentRequest request;
  ASSERT_TRUE(experiment_of_flags("fabric", &request).ok());
  ASSERT_EQ(request.experiments.size(), 1U);
  EXPECT_EQ(request.plan.fabric.providers.size(), 1U);
  EXPECT_EQ(request.plan.fabric.cell_ms, 7U);
  EXPECT_EQ(request.plan.fabric.runs, 4U);
  ASSERT_TRUE(read_flags({"--sizes=7"}).ok());
  EXPECT_TRUE(experiment_of_flags("speed", &request).IsInvalidArgument());
}

// The commands of the studies bring their flags into the manifest and the help.
TEST_F(StudyFlags, AreAmongOursAndInTheHelp) {
  const std::map<std::string, std::string> values = flag_values();
  for (const char* name : {"records", "scale", "rate-first", "idle-seconds", "providers", "cell-ms", "perftest"}) {
    EXPECT_EQ(values.count(name), 1U) << name;
  }
  for (const auto& [name, value] : values) {
    if (name.size() == 1) continue;
    EXPECT_NE(every_help().find("--" + name), std::string::npos) << name << " is not in the help";
  }
  refused({"--flagfile=x"}, {"unknown flag", "--records", "--rate-step"});
  for (const char* flag : {"--rate-first", "--samples"}) {
    refused({std::string(flag) + "=1.5"}, {std::string(flag) + "=1.5", "whole number", "for example"});
  }
}

TEST_F(StudyFlags, HaveBounds) {
  const auto as_fabric = [] {
    FabricConfig config;
    return fabric_of_flags(&config);
  };
  expect_bounds({"cell-ms", 0, 600'000, as_fabric});
  expect_bounds({"repeat", 1, 1000, as_fabric});
}

}  // namespace
}  // namespace bonsai::bench
