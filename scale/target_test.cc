// SPDX-License-Identifier: Apache-2.0
// The contract of a target, of this machine and of another node.
#include "scale/target.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "base/units.h"
#include "scale/read_batch.h"
#include "testing/served.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kMadeBytes = uint64_t{1} << 20;
constexpr uint64_t kTargetMark = 0x4b52414d;
constexpr base::Site kTargetFlushSite{"test.flush"}, kTargetFenceSite{"test.fence"};

class TargetTest : public ::testing::TestWithParam<bool> {
 protected:
  TargetTest() { std::filesystem::create_directories(folder_.file("served")); }

  static TargetConfig config() {
    TargetConfig config;
    config.mark = kTargetMark;
    config.first_bytes = 2 * base::kPageBytes;
    return config;
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file("served/" + name); }
  [[nodiscard]] std::string name_of(const std::string& name) const {
    return GetParam() ? testing::served(file(name)) : file(name);
  }
  // Targets of these names.
  [[nodiscard]] std::unique_ptr<Targets> targets(const std::string& names) const {
    auto made = std::make_unique<Targets>(config());
    std::vector<TargetName> parsed;
    EXPECT_EQ("OK", parse_target_names(names, &parsed).ToString());
    for (TargetName& name : parsed) EXPECT_EQ("OK", made->add(std::move(name)).ToString());
    return made;
  }
  // Whether a target of that name exists.
  [[nodiscard]] bool exists(const std::string& name, bool discard_unfinished) const {
    bool found = false;
    EXPECT_EQ("OK", (*targets(name_of(name)))[0].exists(discard_unfinished, &found).ToString());
    return found;
  }
  // One whose creation has ended: the mark is replaced.
  void create(const std::string& name) const {
    const auto made = targets(name_of(name));
    ASSERT_EQ("OK", (*made)[0].create(kMadeBytes).ToString());
    const auto volume = made->hooked_volume();
    constexpr uint64_t kWord = 1;
    volume->nt_copy(Addr(0, 0), &kWord, sizeof kWord, kTargetFlushSite);
    ASSERT_TRUE(volume->fence(kTargetFenceSite));
    ASSERT_EQ("OK", made->complete().ToString());
  }

  const testing::TempFolder folder_;
};

TEST_P(TargetTest, ANewOneHasNoNameBeforeItIsComplete) {
  EXPECT_FALSE(exists("p", false));
  {
    const auto made = targets(name_of("p"));
    Target& target = (*made)[0];
    ASSERT_EQ("OK", target.create(kMadeBytes).ToString());
    EXPECT_EQ(target.bytes(), kMadeBytes);
    EXPECT_NE(target.medium_text().find("domain ADR"), std::string::npos) << target.medium_text();
    EXPECT_FALSE(std::filesystem::exists(file("p")));
  }
  EXPECT_FALSE(exists("p", false)) << "it is gone";
  create("p");
  EXPECT_TRUE(exists("p", true));
  EXPECT_EQ(std::filesystem::file_size(file("p")), kMadeBytes);
  const auto second = targets(name_of("p"));
  ASSERT_FALSE((*second)[0].create(kMadeBytes).ok() && second->complete().ok()) << "the name is taken";
  EXPECT_EQ("OK", (*second)[0].remove().ToString());
  EXPECT_TRUE(std::filesystem::exists(file("p"))) << "that one was another";
}

TEST_P(TargetTest, WhatIsWrittenToItsMediumIsReadFromIt) {
  const uint64_t content[2] = {17, 18};
  {
    const auto made = targets(name_of("a") + "," + name_of("b"));
    for (const auto& target : *made) ASSERT_EQ("OK", target->create(kMadeBytes).ToString());
    EXPECT_EQ(made->need_hooks(), GetParam());
    const auto volume = made->hooked_volume();
    volume->nt_copy(Addr(1, kMadeBytes / 2), content, sizeof content, kTargetFlushSite);
    ASSERT_TRUE(volume->fence(kTargetFenceSite));
    for (const auto& target : *made) EXPECT_EQ("OK", target->sync().ToString());
    ASSERT_EQ("OK", made->complete().ToString());
    EXPECT_EQ(made->traffic().messages() != 0, GetParam());
  }
  const auto read = targets(name_of("a") + "," + name_of("b"));
  ASSERT_EQ("OK", read->open_read_only().ToString());
  EXPECT_EQ(read->need_hooks(), GetParam());
  const auto volume = read->hooked_volume();
  EXPECT_EQ(volume->has_far(), GetParam());
  ReadBatch reads(*volume);
  const std::byte* const at = reads.issue(Addr(1, kMadeBytes / 2), sizeof content);
  ASSERT_EQ("OK", reads.wait().ToString());
  EXPECT_EQ(0, std::memcmp(at, content, sizeof content));
  EXPECT_EQ("OK", read->confirm_reads().ToString());
}

TEST_P(TargetTest, AnEnlargedOneGetsItsSizeBack) {
  create("p");
  {
    const auto opened = targets(name_of("p"));
    Target& target = (*opened)[0];
    bool found = false;
    ASSERT_EQ("OK", target.exists(false, &found).ToString());
    ASSERT_EQ("OK", target.open(kMadeBytes / 2).ToString());
    EXPECT_FALSE(target.enlarged());
    target.shrink_back();
    EXPECT_EQ(target.bytes(), kMadeBytes) << "as it was";
  }
  const auto opened = targets(name_of("p"));
  Target& target = (*opened)[0];
  ASSERT_EQ("OK", target.open(2 * kMadeBytes).ToString());
  EXPECT_EQ(target.bytes(), 2 * kMadeBytes);
  EXPECT_TRUE(target.enlarged());
  target.shrink_back();
  EXPECT_FALSE(target.enlarged());
  EXPECT_EQ(std::filesystem::file_size(file("p")), kMadeBytes);
  EXPECT_EQ("OK", target.remove().ToString());
  EXPECT_FALSE(std::filesystem::exists(file("p")));
  EXPECT_EQ("OK", target.remove().ToString()) << "nothing to do";
}

TEST_P(TargetTest, UnfinishedFilesAreDiscardedWhenThatIsAskedForAlone) {
  std::ofstream(file("p"), std::ios::binary).write(reinterpret_cast<const char*>(&kTargetMark), sizeof kTargetMark);
  std::filesystem::resize_file(file("p"), kMadeBytes);
  EXPECT_TRUE(exists("p", false));
  EXPECT_TRUE(std::filesystem::exists(file("p")));
  EXPECT_FALSE(exists("p", true));
  EXPECT_FALSE(std::filesystem::exists(file("p")));
}

TEST_P(TargetTest, AMissingOneIsNotOpened) {
  const auto missing = targets(name_of("p"));
  EXPECT_TRUE((*missing)[0].open(0).IsIoError());
  EXPECT_TRUE(missing->open_read_only().IsIoError());
  std::string text;
  EXPECT_EQ("OK", (*missing)[0].describe(&text).ToString());
  EXPECT_FALSE(text.empty());
}

TEST_P(TargetTest, TheLabelNamesEachMediumOnceWithItsRole) {
  const auto made =
      targets(name_of("a") + "?role=log," + name_of("b") + "?role=dnodes," + name_of("c") + "?role=dnodes");
  for (const auto& target : *made) ASSERT_EQ("OK", target->create(kMadeBytes).ToString());
  const std::string medium = (*made)[0].medium_text();
  EXPECT_EQ(made->medium_text(), medium + ", for log; " + medium + ", for dnodes");
  for (const auto& target : *made) target->set_role(TargetRole::kBoth);
  EXPECT_EQ(made->medium_text(), medium);
  EXPECT_TRUE(made->emulated());
}

INSTANTIATE_TEST_SUITE_P(Kinds, TargetTest, ::testing::Bool(),
                         [](const auto& about) { return about.param ? "remote" : "local"; });

TEST(TargetsTest, MemoryIsOfThisProcessAlone) {
  TargetConfig config;
  config.in_memory = true;
  Targets targets(config);
  TargetName plain, remote;
  ASSERT_TRUE(parse_target_name("word", &plain).ok());
  ASSERT_TRUE(parse_target_name("shm://node/word", &remote).ok());
  EXPECT_TRUE(targets.add(remote).IsInvalidArgument());
  ASSERT_EQ("OK", targets.add(plain).ToString());
  ASSERT_EQ("OK", targets[0].create(kMadeBytes).ToString());
  EXPECT_EQ(targets[0].medium_text(), "DRAM (no NVM), volatile");
  EXPECT_FALSE(std::filesystem::exists("word"));
}

}  // namespace
}  // namespace bonsai::scale
