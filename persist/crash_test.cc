// SPDX-License-Identifier: Apache-2.0
// The crash exploration of the persistence tier. Random lives of pools run on the recorder medium; before fences the
// images that a crash could leave are analysed, some recovered (with a power cut in the recovery, too), and compared
// with a model. Then the same with each flush, non-temporal copy and fence of persist/ left out: the exploration must
// notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/sanitized.h"
#include "persist/testing/creation.h"
#include "persist/testing/life.h"
#include "persist/testing/removing.h"

namespace bonsai::persist {
namespace {

using base::SiteUse;
using bonsai::testing::add_figure;
using bonsai::testing::add_row;
using bonsai::testing::budget;
using testing::Creation;
using testing::Life;
using testing::Manner;
using testing::Mutant;
using testing::Outcome;
using testing::Profile;
using testing::Removing;
using testing::Shares;
using testing::SiteImages;

// offload all, some; batch; large put; reopen; close epoch; put, rolling put; claim an extent; move a run; batch
// over two segments
constexpr Profile kProfiles[] = {
    {"mixed", 120, {2, 4, 2, 2, 1, 4, 15, 2, 2, 2, 2}},
    {"rolling", 80, {1, 1, 1, 0, 1, 2, 5, 16, 0, 1, 3}},
    {"reopening", 80, {1, 3, 1, 0, 12, 1, 6, 0, 1, 2, 2}},
    {"splitting", 80, {2, 12, 1, 1, 1, 1, 10, 0, 1, 2, 1}},
    {"streams", 80, {1, 2, 2, 1, 1, 4, 15, 6, 1, 2, 3}, 96 << 10, 32 << 10},
    {"growing", 56, {1, 3, 1, 1, 8, 2, 8, 1, 1, 2, 1}, kPoolBytesMin, 0, 96 << 10},
    {"short", 8, {2, 2, 1, 1, 1, 1, 4, 1, 8, 1, 1}},
};

constexpr bool kSlow = bonsai::testing::kSanitized;

// Runs everything once, until a violation: a creation, a removal, then a life of each profile at each level.
void explore_all(uint64_t seed, const Manner& manner, Outcome* outcome, std::vector<base::SiteCount>* sites) {
  const auto note = [&](const testing::Explorer& explorer) {
    if (sites != nullptr) sites->insert(sites->end(), explorer.sites.begin(), explorer.sites.end());
  };
  for (const bool in_new_file : {false, true}) {
    Creation creation(seed, manner, outcome);
    creation.run(in_new_file);
    note(creation);
  }
  Removing removing(seed, manner, outcome);
  removing.run();
  note(removing);
  for (const Profile& profile : kProfiles) {
    for (const bool buffered : {false, true}) {
      if (outcome->violations > 0) return;
      Life life(seed++, manner, outcome, buffered, profile);
      life.run();
      note(life);
    }
  }
}

constexpr const char* kTable = "crash images of persist, by the fence that the crash precedes";

void report_sites(const Outcome& outcome) {
  std::printf("  %-22s %9s %9s %10s %9s %9s\n", "crash before", "met", "explored", "exhaustive", "images", "distinct");
  for (const auto& [name, site] : outcome.by_site) {
    std::printf("  %-22s %9llu %9llu %10llu %9llu %9zu\n", name.c_str(), static_cast<unsigned long long>(site.met),
                static_cast<unsigned long long>(site.fences), static_cast<unsigned long long>(site.exhaustive),
                static_cast<unsigned long long>(site.images), site.contents.size());
    add_row(kTable, name,
            {{"fences", site.fences},
             {"exhaustive", site.exhaustive},
             {"images", site.images},
             {"distinct", site.contents.size()},
             {"of_1000", 1000 * site.images / outcome.images}});
  }
}

// A full run has a million images that differ in the bytes that recovery reads: of each site at least a thousand if it
// writes more than a word, and of none more than a tenth of all images.
void expect_shares(const Outcome& outcome) {
  EXPECT_GE(outcome.images, budget<uint64_t>(0, 1'000'000, 100'000'000));
  EXPECT_GE(outcome.contents.size(), 1'000'000U);
  EXPECT_GE(outcome.recovery_images, 10'000U);
  EXPECT_GE(outcome.owners_checked, 10'000U);
  EXPECT_GE(outcome.flips, 10'000U);
  EXPECT_GT(outcome.flips_reported, outcome.flips / 4);
  for (const auto& [name, site] : outcome.by_site) {
    // The mark is one word, which is there or is not; recovery reads four lines of the wiped range.
    const bool is_one_word = name == kSiteMagicFence.name || name == kSiteWipeMarkFence.name;
    EXPECT_GE(site.contents.size(), is_one_word ? 2U : name == kSiteWipeFence.name ? 8U : 1000U) << "before " << name;
    EXPECT_LE(10 * site.images, outcome.images) << "before " << name;
  }
}

TEST(PersistCrash, EveryImageIsAcknowledgedOrInFlight) {
  base::Random random = testing::seeded_random(11);
  const auto rounds = kSlow ? uint64_t{1} : budget<uint64_t>(8, 120, 12'000);
  Shares shares(kSlow ? 200 : budget<uint64_t>(10'000, 145'000, 14'500'000), rounds);
  Outcome all;
  for (uint64_t i = 0; i < rounds && all.violations == 0; ++i) {
    const uint64_t seed = random.next();
    const Manner manner{{}, 12, &shares, i % 4 == 3 ? PersistenceDomain::kEadr : PersistenceDomain::kAdr};
    explore_all(seed, manner, &all, nullptr);
    EXPECT_EQ(all.violations, 0U) << "round " << i << ": " << all.first;
    shares.next_round();
  }
  report_sites(all);
  add_figure("crash_recovery_images", all.recovery_images);
  add_figure("crash_images", all.images);
  add_figure("crash_images_distinct", all.contents.size());
  add_figure("fence_failures", all.fence_failures);
  add_figure("crash_violations", all.violations);
  add_figure("bit_flips", all.flips);
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "%llu crash images, %llu distinct, %llu of recoveries, owners of %llu; %llu fences failed; %llu bits flipped, "
      "%llu reported; %llu refused for room\n",
      number(all.images), number(all.contents.size()), number(all.recovery_images), number(all.owners_checked),
      number(all.fence_failures), number(all.flips), number(all.flips_reported), number(all.refused));
  EXPECT_GT(all.moves, rounds);
  EXPECT_LE(all.refused, all.images / 100);
  // A round has 14 lives; a life that goes on after a kill keeps its runs. In a few rounds two are chance.
  EXPECT_LE(all.filled, std::max<uint64_t>(2, 1 + rounds / 15));
  EXPECT_GT(all.images, 1000U);
  EXPECT_GT(all.fence_failures, rounds);
  if (budget(0, 1, 1) == 1 && !kSlow) expect_shares(all);
}

// Lives with each pool on another node: bytes that were not fenced are not there, bytes come late, and a life that goes
// on after a crash recovers over the far medium.
TEST(PersistCrash, EveryImageOnAnotherNodeIsAcknowledgedOrInFlight) {
  base::Random random = testing::seeded_random(13);
  const auto rounds = kSlow ? uint64_t{1} : budget<uint64_t>(2, 6, 1'200);
  Shares shares(kSlow ? 50 : budget<uint64_t>(1'000, 3'000, 600'000), rounds);
  Outcome all;
  for (uint64_t i = 0; i < rounds && all.violations == 0; ++i) {
    const PersistenceDomain domain = i % 4 == 3 ? PersistenceDomain::kEadr : PersistenceDomain::kAdr;
    explore_all(random.next(), {{}, 12, &shares, domain, true}, &all, nullptr);
    EXPECT_EQ(all.violations, 0U) << "round " << i << ": " << all.first;
    shares.next_round();
  }
  add_figure("crash_images_far", all.images);
  add_figure("crash_violations", all.violations);
  EXPECT_GT(all.images, 1000U);
  EXPECT_GT(all.contents.size(), 1000U);
  EXPECT_GT(all.moves, rounds);
  EXPECT_GT(all.fence_failures, rounds);
}

// ---- mutants

const char* name_of(SiteUse use) {
  return use == SiteUse::kFlush ? "flush" : use == SiteUse::kNtCopy ? "nt_copy" : "fence";
}

using Mutants = std::map<std::pair<std::string, SiteUse>, Mutant>;

// Every use of a site that the lives come to, no image visited.
Mutants mutants_met(base::Random& random) {
  const Shares nothing(0, 1);
  Manner manner;
  manner.shares = &nothing;
  Mutants mutants;
  std::vector<base::SiteCount> counts;
  Outcome outcome;
  for (int i = 0; i < 8; ++i) explore_all(random.next(), manner, &outcome, &counts);
  for (const base::SiteCount& count : counts) {
    if (count.site->name[0] == '(') continue;  // of the test itself
    mutants[{count.site->name, count.use}] = {count.site, count.use};
  }
  return mutants;
}

// The room's code, tests left out.
std::string code_of_room(const std::string& extension) {
  std::ostringstream code;
  for (const auto& entry : std::filesystem::directory_iterator(BONSAI_SOURCE_DIR "/persist")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != extension || name.find("_test.") != std::string::npos || name == "testing.h") {
      continue;
    }
    code << std::ifstream(entry.path()).rdbuf();
  }
  return code.str();
}

// The mutants are complete: each site that the code declares is met, and stands for one place of the code.
TEST(PersistCrash, EverySiteOfTheCodeIsOnePlaceAndIsMet) {
  if (kSlow) GTEST_SKIP() << "it reads the code: the build without sanitizers is enough";
  base::Random random = testing::seeded_random(12);
  std::set<std::string> met;
  for (const auto& [name, mutant] : mutants_met(random)) met.insert(name.first);
  const std::string headers = code_of_room(".h");
  const std::string sources = code_of_room(".cc");
  const std::regex declaration("Site (k[A-Za-z]+)\\{\"([^\"]+)\"\\}");
  size_t declared = 0;
  for (std::sregex_iterator it(headers.begin(), headers.end(), declaration), end; it != end; ++it, ++declared) {
    const std::regex use("\\b" + (*it)[1].str() + "\\b");
    EXPECT_EQ(std::distance(std::sregex_iterator(sources.begin(), sources.end(), use), end), 1)
        << (*it)[1] << " must name one flush, nt copy or fence";
    EXPECT_TRUE(met.contains((*it)[2])) << (*it)[2] << ": no life in the exploration comes to it";
  }
  EXPECT_EQ(declared, met.size()) << "sites are declared in headers";
}

// Leaves out the uses of sites in turn, one at a time.
void expect_noticed(base::Random& random, size_t one_in, int rounds_max, bool far, const std::string& table) {
  const Mutants mutants = mutants_met(random);
  uint64_t tried = 0, killed = 0;
  for (size_t skipped = random.below(one_in); const auto& [name, mutant] : mutants) {
    if (skipped++ % one_in != 0) continue;
    Manner manner{mutant};
    manner.far = far;
    Outcome outcome;
    for (int round = 0; round < rounds_max && outcome.violations == 0; ++round) {
      explore_all(random.next(), manner, &outcome, nullptr);
    }
    const std::string left_out = name.first + " " + name_of(mutant.use);
    const uint64_t is_killed = outcome.violations > 0 ? 1 : 0;
    ++tried;
    killed += is_killed;
    std::printf("  %-30s %s\n", left_out.c_str(), is_killed != 0 ? outcome.first.c_str() : "SURVIVES");
    EXPECT_EQ(is_killed, 1U) << left_out << " can be left out unnoticed";
    add_row(table, left_out, {{"mutants", 1}, {"killed", is_killed}});
  }
  add_figure("mutants", tried);
  add_figure("mutants_killed", killed);
}

TEST(PersistCrash, EverySiteThatIsLeftOutIsNoticed) {
  if (kSlow) GTEST_SKIP() << "one thread and no new code: the build without sanitizers is enough";
  base::Random random = testing::seeded_random(12);
  expect_noticed(random, 1, budget(8, 16, 40), false, "mutants: left out, and noticed");
}

// By day some of them, which the seed chooses.
TEST(PersistCrash, EverySiteThatIsLeftOutOnAnotherNodeIsNoticed) {
  if (kSlow) GTEST_SKIP() << "one thread and no new code: the build without sanitizers is enough";
  base::Random random = testing::seeded_random(14);
  expect_noticed(random, budget<size_t>(12, 6, 1), budget(8, 16, 40), true,
                 "mutants on another node: left out, and noticed");
}

}  // namespace
}  // namespace bonsai::persist
