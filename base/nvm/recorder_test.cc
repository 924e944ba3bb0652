// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/recorder.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "base/nvm/counters.h"
#include "base/nvm/crash_choices.h"
#include "base/nvm/racy_copy.h"

namespace bonsai::base {
namespace {

constexpr Site kSite{"test"};
constexpr size_t kBytes = 4096;

using Words = std::vector<uint64_t>;

class Recorder : public ::testing::Test {
 protected:
  std::byte* at(size_t offset) { return medium_.view() + offset; }

  // The set of possible contents of some words after a crash now.
  std::set<Words> possible(std::initializer_list<size_t> offsets) { return possible_of(medium_, offsets); }

  static std::set<Words> possible_of(RecorderMedium& medium, std::initializer_list<size_t> offsets) {
    std::set<Words> found;
    Random random(1);
    last_ = medium.each_crash_image(10'000, random, [&](std::span<const std::byte> image) {
      Words words;
      for (const size_t offset : offsets) {
        uint64_t word;
        std::memcpy(&word, image.data() + offset, 8);
        words.push_back(word);
      }
      found.insert(words);
    });
    return found;
  }

  static inline CrashImages last_;
  uint64_t thread_ = 0;
  std::vector<std::byte> zeros_{kBytes};
  RecorderMedium medium_{zeros_, PersistenceDomain::kAdr, [this] { return thread_; }};
};

TEST_F(Recorder, NothingPendingIsOneImage) {
  EXPECT_EQ(possible({0}), (std::set<Words>{{0}}));
  EXPECT_TRUE(last_.exhaustive);
  EXPECT_EQ(last_.visited, 1U);
}

TEST_F(Recorder, ALineIsAPrefixInProgramOrder) {
  medium_.store8(at(8), 1);
  medium_.store8(at(0), 2);
  medium_.store8(at(8), 3);
  EXPECT_EQ(possible({8, 0}), (std::set<Words>{{0, 0}, {1, 0}, {1, 2}, {3, 2}}));
}

TEST_F(Recorder, LinesAreIndependent) {
  medium_.store8(at(0), 1);
  medium_.store8(at(64), 2);
  EXPECT_EQ(possible({0, 64}), (std::set<Words>{{0, 0}, {1, 0}, {0, 2}, {1, 2}}));
}

TEST_F(Recorder, FlushAndFenceMakeDurableWhatTheLineHeldAtTheFlush) {
  medium_.store8(at(0), 1);
  medium_.flush(at(0), 8, kSite);
  medium_.store8(at(0), 2);
  EXPECT_EQ(possible({0}), (std::set<Words>{{0}, {1}, {2}}));
  medium_.fence(kSite);
  EXPECT_EQ(possible({0}), (std::set<Words>{{1}, {2}}));
  EXPECT_EQ(medium_.pending_words(), 1U);
}

TEST_F(Recorder, AFenceCompletesItsOwnThreadsFlushesOnly) {
  medium_.store8(at(0), 1);
  medium_.flush(at(0), 8, kSite);
  thread_ = 1;
  medium_.store8(at(64), 2);
  medium_.flush(at(64), 8, kSite);
  medium_.fence(kSite);
  EXPECT_EQ(possible({0, 64}), (std::set<Words>{{0, 2}, {1, 2}}));
  thread_ = 0;
  medium_.fence(kSite);
  EXPECT_EQ(possible({0, 64}), (std::set<Words>{{1, 2}}));
}

TEST_F(Recorder, AFlushCoversOtherThreadsStoresToTheLine) {
  medium_.store8(at(0), 1);
  thread_ = 1;
  medium_.flush(at(0), 8, kSite);
  medium_.fence(kSite);
  EXPECT_EQ(possible({0}), (std::set<Words>{{1}}));
}

TEST_F(Recorder, NonTemporalWordsAreUnorderedUntilTheirThreadsFence) {
  const Words source = {1, 2};
  medium_.nt_copy(at(0), source.data(), 16, kSite);
  EXPECT_EQ(possible({0, 8}), (std::set<Words>{{0, 0}, {1, 0}, {0, 2}, {1, 2}}));
  thread_ = 1;
  medium_.fence(kSite);
  medium_.flush(at(0), 16, kSite);
  medium_.fence(kSite);
  EXPECT_EQ(possible({0, 8}).size(), 4U);
  thread_ = 0;
  medium_.fence(kSite);
  EXPECT_EQ(possible({0, 8}), (std::set<Words>{{1, 2}}));
}

TEST_F(Recorder, AnOlderStoreNeverReplacesADurableNewerOne) {
  const Words source = {1};
  medium_.nt_copy(at(0), source.data(), 8, kSite);
  thread_ = 1;
  medium_.store8(at(0), 2);
  medium_.flush(at(0), 8, kSite);
  medium_.fence(kSite);
  EXPECT_EQ(possible({0}), (std::set<Words>{{2}}));
  thread_ = 0;
  medium_.fence(kSite);
  EXPECT_EQ(possible({0}), (std::set<Words>{{2}}));
}

TEST_F(Recorder, CopiesTearAtAlignedWordsAndKeepTheBytesAround) {
  medium_.store8(at(0), 0x1111111111111111);
  medium_.flush(at(0), 8, kSite);
  medium_.fence(kSite);
  medium_.copy(at(6), "\x22\x22\x22\x22", 4);
  EXPECT_EQ(word_at(at(0)).load(), 0x2222111111111111U);
  EXPECT_EQ(word_at(at(8)).load(), 0x2222U);
  EXPECT_EQ(possible({0, 8}),
            (std::set<Words>{{0x1111111111111111, 0}, {0x2222111111111111, 0}, {0x2222111111111111, 0x2222}}));
}

TEST_F(Recorder, EadrIsOneGlobalPrefix) {
  RecorderMedium medium(zeros_, PersistenceDomain::kEadr, [this] { return thread_; });
  medium.store8(medium.view() + 640, 1);
  medium.store8(medium.view(), 2);
  thread_ = 1;
  medium.store8(medium.view() + 64, 3);
  const std::set<Words> prefixes = {{0, 0, 0}, {1, 0, 0}, {1, 2, 0}, {1, 2, 3}};
  EXPECT_EQ(possible_of(medium, {640, 0, 64}), prefixes);
  medium.flush(medium.view() + 64, 8, kSite);
  EXPECT_EQ(possible_of(medium, {640, 0, 64}), prefixes);
  thread_ = 0;
  medium.fence(kSite);  // this thread's stores, and all stores before them
  EXPECT_EQ(possible_of(medium, {640, 0, 64}), (std::set<Words>{{1, 2, 0}, {1, 2, 3}}));
}

TEST_F(Recorder, HookRunsBeforeTheFenceTakesEffect) {
  size_t calls = 0;
  medium_.set_before_fence([&](const Site&) {
    ++calls;
    EXPECT_EQ(possible({0}), (std::set<Words>{{0}, {1}}));
  });
  medium_.store8(at(0), 1);
  medium_.flush(at(0), 8, kSite);
  medium_.fence(kSite);
  EXPECT_EQ(calls, 1U);
}

TEST_F(Recorder, UsesOfSitesCanBeDroppedAndAreCounted) {
  static constexpr Site kOther{"other"};
  const Words source = {5};
  medium_.drop(kSite, SiteUse::kFlush);
  medium_.drop(kOther, SiteUse::kFence);
  medium_.drop(kOther, SiteUse::kNtCopy);
  medium_.store8(at(0), 1);
  medium_.store8(at(64), 2);
  medium_.flush(at(0), 8, kSite);    // dropped
  medium_.flush(at(64), 8, kOther);  // carried out
  medium_.fence(kOther);             // dropped
  EXPECT_EQ(possible({0, 64}).size(), 4U);
  medium_.nt_copy(at(128), source.data(), 8, kOther);  // becomes an ordinary copy
  medium_.fence(kSite);
  EXPECT_EQ(possible({0, 64, 128}), (std::set<Words>{{0, 2, 0}, {1, 2, 0}, {0, 2, 5}, {1, 2, 5}}));
  std::vector<std::string> counts;
  for (const SiteCount& each : medium_.site_counts()) {
    counts.push_back(std::string(each.site->name) + std::to_string(static_cast<int>(each.use)) + "=" +
                     std::to_string(each.calls));
  }
  EXPECT_EQ(counts, (std::vector<std::string>{"other0=1", "other1=1", "other2=1", "test0=1", "test2=1"}));
}

TEST_F(Recorder, StartsWithTheGivenImage) {
  zeros_[100] = std::byte{7};
  RecorderMedium medium(zeros_, PersistenceDomain::kAdr);
  EXPECT_EQ(medium.bytes(), kBytes);
  EXPECT_EQ(medium.view()[100], std::byte{7});
  EXPECT_EQ(medium.durable_image()[100], std::byte{7});
}

TEST_F(Recorder, VisitsLeaveTheDurableImageAsItWas) {
  for (size_t i = 0; i < 64; ++i) medium_.store8(at(i * 16), i + 1);
  Random random(3);
  const CrashImages images = medium_.each_crash_image(100, random, [](std::span<const std::byte>) {});
  EXPECT_FALSE(images.exhaustive);
  EXPECT_EQ(images.generated, 100U);
  EXPECT_LE(images.visited, images.generated);
  EXPECT_EQ(std::memcmp(medium_.durable_image().data(), zeros_.data(), kBytes), 0);
}

TEST_F(Recorder, EqualStoresAreOneImage) {
  medium_.store8(at(0), 0);  // the value that the word has already
  medium_.store8(at(64), 1);
  medium_.store8(at(64), 1);
  EXPECT_EQ(possible({0, 64}).size(), 2U);
  EXPECT_EQ(last_.generated, 6U);
  EXPECT_EQ(last_.visited, 2U);
}

TEST_F(Recorder, RealThreadsAreKeptApart) {
  RecorderMedium medium(zeros_, PersistenceDomain::kAdr);
  std::thread([&] {
    medium.store8(medium.view(), 1);
    medium.flush(medium.view(), 8, kSite);
  }).join();
  std::thread([&] { medium.fence(kSite); }).join();  // not the thread that flushed, even if it got its number
  EXPECT_EQ(possible_of(medium, {0}), (std::set<Words>{{0}, {1}}));
}

TEST_F(Recorder, RealThreadsMayRace) {
  RecorderMedium medium(zeros_, PersistenceDomain::kAdr);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 1; i <= 500; ++i) {
        medium.store8(medium.view() + 8 * t, i);
        medium.flush(medium.view() + 8 * t, 8, kSite);
        medium.fence(kSite);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(possible_of(medium, {0, 8, 16, 24}), (std::set<Words>{{500, 500, 500, 500}}));
}

TEST(CrashChoices, AllOfThemWhenFew) {
  Random random(1);
  std::set<std::vector<size_t>> seen;
  EXPECT_TRUE(each_crash_choice({{2, 0}, {1, 1}, {3, 2}}, 24, random, [&](const auto& kept) { seen.insert(kept); }));
  EXPECT_EQ(seen.size(), 24U);
  EXPECT_TRUE(each_crash_choice({}, 2, random, [&](const auto& kept) { EXPECT_TRUE(kept.empty()); }));
}

TEST(CrashChoices, SmallDeviationsWhenMany) {
  std::vector<ChoiceUnit> units;
  for (size_t line = 0; line < 20; ++line) {
    units.push_back({2, line});
    units.push_back({1, line});
  }
  Random random(1);
  std::vector<std::vector<size_t>> seen;
  EXPECT_FALSE(each_crash_choice(units, 100, random, [&](const auto& kept) { seen.push_back(kept); }));
  ASSERT_EQ(seen.size(), 100U);
  std::vector<size_t> none(40, 0), all, third_alone(40, 0), third_missing;
  for (const ChoiceUnit& unit : units) all.push_back(unit.stores);
  third_missing = all;
  for (const size_t i : {6, 7}) std::swap(third_alone[i], third_missing[i]);
  EXPECT_EQ(seen[0], none);
  EXPECT_EQ(seen[1], all);
  EXPECT_EQ(std::count(seen.begin(), seen.begin() + 42, third_alone), 1);
  EXPECT_EQ(std::count(seen.begin(), seen.begin() + 42, third_missing), 1);
  for (const auto& kept : seen) {
    for (size_t i = 0; i < kept.size(); ++i) ASSERT_LE(kept[i], units[i].stores);
  }
}

TEST(CrashChoices, NeverMoreThanAskedFor) {
  const std::vector<ChoiceUnit> units(500, {1, 7});
  for (const uint64_t choices_max : {2, 3, 10}) {
    Random random(1);
    uint64_t emitted = 0;
    EXPECT_FALSE(each_crash_choice(units, choices_max, random, [&](const auto&) { ++emitted; }));
    EXPECT_EQ(emitted, choices_max);
  }
}

// ---- The system under test of crash_enum_sketch.cpp: an append-only log whose first word commits a record.

constexpr size_t kLogBytes = 64 * 1024;

enum class Bug { kNone, kCommitWithPayload, kPayloadNotFlushed, kAckBeforeFence, kTornUpdate };

struct Record {  // spans two lines
  uint64_t commit, key, value[8];
};

uint64_t commit_word(uint64_t number) { return 0xC0FFEE0000000000U | number; }

class Log {
 public:
  Log(RecorderMedium& medium, Bug bug) : medium_(medium), bug_(bug) {}

  void put(uint64_t key, uint64_t value) {
    const auto found = where_.find(key);
    if (bug_ == Bug::kTornUpdate && found != where_.end()) {
      std::byte* const record = medium_.view() + found->second;
      const Words values(8, value);
      medium_.copy(record + offsetof(Record, value), values.data(), 64);
      medium_.flush(record, sizeof(Record), kSite);
      medium_.fence(kSite);
      return;
    }
    std::byte* const record = medium_.view() + tail_;
    Record content{commit_word(tail_ / 128), key, {}};
    for (uint64_t& each : content.value) each = value;
    where_[key] = tail_;
    tail_ += 128;
    medium_.copy(record + 8, &content.key, sizeof content - 8);
    if (bug_ == Bug::kCommitWithPayload) {
      medium_.store8(record, content.commit);
      medium_.flush(record, sizeof content, kSite);
      medium_.fence(kSite);
      return;
    }
    medium_.flush(record, bug_ == Bug::kPayloadNotFlushed ? 64 : sizeof content, kSite);
    medium_.fence(kSite);
    medium_.store8(record, content.commit);
    medium_.flush(record, 8, kSite);
    if (bug_ != Bug::kAckBeforeFence) medium_.fence(kSite);
  }

 private:
  RecorderMedium& medium_;
  Bug bug_;
  size_t tail_ = 0;
  std::map<uint64_t, size_t> where_;
};

using Contents = std::map<uint64_t, uint64_t>;

std::optional<Contents> recover(std::span<const std::byte> image) {
  Contents contents;
  for (size_t offset = 0; offset + 128 <= image.size(); offset += 128) {
    Record record;
    std::memcpy(&record, image.data() + offset, sizeof record);
    if (record.commit != commit_word(offset / 128)) break;
    for (const uint64_t each : record.value) {
      if (each != record.value[0]) return std::nullopt;
    }
    contents[record.key] = record.value[0];
  }
  return contents;
}

struct Result {
  uint64_t points = 0, images = 0, visited = 0, violations = 0;
  bool operator==(const Result&) const = default;
};

Result explore(Bug bug, uint64_t seed, int operations, uint64_t images_max) {
  Random random(seed);
  const std::vector<std::byte> zeros(kLogBytes);
  RecorderMedium medium(zeros, PersistenceDomain::kAdr);
  Log log(medium, bug);
  Contents acknowledged, with_in_flight;
  Result result;
  const auto check = [&] {
    ++result.points;
    const CrashImages images = medium.each_crash_image(images_max, random, [&](std::span<const std::byte> image) {
      const auto found = recover(image);
      if (!found || (*found != acknowledged && *found != with_in_flight)) ++result.violations;
    });
    result.images += images.generated;
    result.visited += images.visited;
  };
  medium.set_before_fence([&](const Site&) { check(); });
  for (int i = 0; i < operations; ++i) {
    const uint64_t key = random.below(16), value = random.next() | 1;
    with_in_flight[key] = value;
    log.put(key, value);
    acknowledged = with_in_flight;
  }
  check();
  return result;
}

TEST(CrashExplorer, FindsTheFourSeededBugsAndNothingElse) {
  const uint64_t seed = seed_from_env_or(42);
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  const Result right = explore(Bug::kNone, seed, 400, 256);
  EXPECT_EQ(right.violations, 0U);
  EXPECT_EQ(right.points, 801U);
  EXPECT_GT(right.visited, 5000U);
  std::printf("[ figures  ] crash points %lu, images %lu, distinct %lu\n", right.points, right.images, right.visited);
  for (const Bug bug : {Bug::kCommitWithPayload, Bug::kPayloadNotFlushed, Bug::kAckBeforeFence, Bug::kTornUpdate}) {
    EXPECT_GT(explore(bug, seed, 100, 256).violations, 0U) << static_cast<int>(bug);
    EXPECT_GT(explore(bug, seed, 100, 4).violations, 0U)
        << "with four images per crash point, " << static_cast<int>(bug);
  }
}

TEST(CrashExplorer, EqualSeedsExploreEqually) {
  const uint64_t seed = seed_from_env_or(fresh_seed());
  SCOPED_TRACE("BONSAI_SEED=" + std::to_string(seed));
  EXPECT_EQ(explore(Bug::kTornUpdate, seed, 100, 64), explore(Bug::kTornUpdate, seed, 100, 64));
}

}  // namespace
}  // namespace bonsai::base
