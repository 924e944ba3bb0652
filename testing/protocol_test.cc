// SPDX-License-Identifier: Apache-2.0
// The product's own code under thousands of seeded interleavings of small programs, crashes included; and with each
// rule of the put protocol switched off in turn, where the same cases must fail.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/step.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "index/testing/mutants.h"
#include "persist/format.h"
#include "store/db_impl.h"
#include "store/tiers.h"
#include "testing/protocol_rig.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

// Where rules of their own are tested, which the hunt for a mutant may begin with.
constexpr const char kNearlyFull[] = "writers and drains compete for a crowded range";
constexpr const char kEqualKeys[] = "groups of equal keys, writers make room";
constexpr const char kStacked[] = "a batch stacks on a successor while one below it publishes";
constexpr const char kConditional[] = "two conditional puts of a key, gets";
constexpr const char kOvertaken[] = "puts overtaken by conditional ones";
constexpr const char kChecks[] = "checks of each other's keys, puts, scan";
constexpr const char kNoSpace[] = "no space for an offload, puts, scans";

// The small configurations of docs/put-protocol.md, section 5, with batches, iterators and snapshots.
const ProtocolCase kCases[] = {
    {"two puts of a key, scan, get", 1, "put0", "put0 | put0 | scan get0"},
    {"two puts of a key, two readers", 1, "put0", "put0 | put0 | get0 get0 | get0 get0"},
    {"puts on two keys, two scans", 2, "", "put0 | put1 | scan | scan"},
    {"puts on two keys, scan and gets", 2, "put0 put1", "put0 | put1 | scan | get0 get1"},
    {"writer of two keys, two scans", 2, "put0 put1", "put0 put1 | scan scan | scan"},
    {"three keys, scan", 3, "put0 put1 put2", "put0 put1 | put2 put0 | scan scan"},
    {"superseded put, then scan", 1, "", "put0 scan | put0 scan | put0 get0"},
    {"superseded put, then get", 1, "put0", "put0 get0 | put0 get0 | scan"},
    {"three puts, two scans", 1, "put0", "put0 put0 | put0 | scan | scan"},
    {"four puts and a scan", 1, "put0", "put0 | put0 | put0 | put0 | scan scan"},
    {"puts, deletes, get, scan", 1, "put0", "put0 delete0 | delete0 put0 | get0 get0 | scan"},
    {"replace, put, get, scan", 1, "put0", "drain | put0 | get0 get0 | scan"},
    {"replace, two writers, get, scan", 1, "put0", "drain | put0 put0 | put0 | get0 scan"},
    {"replace, two keys, puts, scan", 2, "put0 put1", "drain | put0 put1 | scan scan | get1"},
    {"replace of drained keys, overwrites, scans", 2, "put0 put1 drain", "put0 put1 drain | scan scan | scan"},
    {"two replacements, puts, scan", 2, "put0 put1", "drain put0 drain | put1 put0 | scan scan"},
    {"replacements while a snapshot is held", 2, "put0 put1 drain",
     "snapshot read-snapshot read-snapshot | put0 put1 drain put0 drain | put1"},
    {"snapshots, overwrites, pruning", 2, "put0 put1",
     "snapshot read-snapshot read-snapshot | put0 put0 put0 | put1 put1"},
    {"batch and scans", 2, "put0 put1", "batch | scan scan | scan"},
    {"batch, gets, put on its keys", 2, "put0 put1", "batch | get0 get1 | get1 get0 | put1"},
    {"two batches of the same keys, scan", 2, "", "batch | batch | scan scan"},
    {"batch with delete, replace, scan", 3, "put0 put1 put2", "batch-delete batch | drain | scan scan"},
    {"batch, puts on top, multi-get", 2, "put0 put1", "batch get0 | put0 put1 | multi-get scan"},
    {"multi-put, put, gets", 2, "put0 put1", "multi-put | put0 multi-put | get0 get1 | scan"},
    {"multi-put, replace, scans", 2, "put0 put1", "multi-put multi-put | drain | scan scan | get1 get0"},
    {"multi-put in different bnodes, merge", 2, "put0 put1 fill-and-empty put0 put1",
     "multi-put | drain multi-put | scan scan | get0", true},
    {"iterators, replace", 2, "put0 put1", "iterate iterate | put0 put1 | drain"},
    {"keys in different bnodes", 2, "put0 put1", "put0 put1 | scan scan | drain", true},
    {"keys in different bnodes, batch", 3, "put0 put1 put2", "batch | scan | put1 drain | scan", true},
    {"keys in different bnodes, snapshot", 2, "put0 put1 drain",
     "snapshot read-snapshot read-snapshot | put0 put1 drain | put0", true},
    {"merge, puts, scans", 2, "put0 put1 fill-and-empty put0 put1", "drain | put0 put1 | scan scan", true},
    {"merge, batch, gets", 2, "put0 put1 fill-and-empty put0 put1", "drain | batch | get0 get1 | get1 get0", true},
    {"merge, puts, iterators", 3, "put0 put1 put2 fill-and-empty put0 put1 put2",
     "drain | put0 put1 put2 drain | iterate iterate | scan scan", true},
    {"merge while a snapshot is held", 2, "put0 put1 fill-and-empty put0 put1",
     "snapshot read-snapshot read-snapshot | put0 drain put1 | drain put0", true},
    {kNearlyFull, 4, "put0 drain put1 drain put2 drain put3 drain crowd",
     "put0 put1 put2 put3 | put3 put2 put1 put0 | drain get3 | drain scan"},
    {"writers make room, drains, scans", 4, "put0 drain put0 drain put0 drain put0 drain crowd",
     "put0 put1 put2 put3 | drain get0 get2 | scan scan | drain put1"},
    {"a batch makes room, a drain, a put", 4, "put1 drain put1 drain put1 drain put1 drain crowd",
     "batch get0 | put3 put2 | drain | scan scan"},
    {"two batches make room, drains", 4, "crowd", "batch scan | batch get3 | drain | drain"},
    {"scans ask for compaction, writers make room", 4, "put0 drain put1 drain put2 drain put3 drain crowd",
     "scan scan scan | put0 put1 put2 put3 | drain scan | drain"},
    {"two drains compete", 2, "put0 put1", "drain put0 drain | drain put1 drain | scan scan | get0 get1"},
    {"two drains compete for a merge", 3, "put0 put1 put2 fill-and-empty put0 put1 put2",
     "drain put0 | drain put2 | scan scan | put1 drain", true},
    {"a merge and writers that make room", 2, "put0 put1 fill-and-empty crowd",
     "put0 put1 | drain get0 | drain put1 | scan scan", true},
    {kEqualKeys, 4, "put0 drain put0 drain put0 drain put0 drain crowd",
     "multi-put-equal get0 | multi-put-equal | put1 put2 | drain get3"},
    {"sessions of equal keys, drains", 4, "put0 drain put0 drain put0 drain put0 drain crowd",
     "session get0 | drain session | drain put1 | put2 get3"},
    {"groups of equal keys in different bnodes", 2, "put0 put1",
     "multi-put-equal session | drain | drain multi-put-equal | scan get0", true},
    {kStacked, 4, "put1 drain put1 drain put1 drain put1 drain put1 drain",
     "long-batch2 | fill-near1 | fill-near1 | late-batch1 | await-late1 put1 get3 | await-late1 scan scan scan scan",
     true},
    {"batches stack on batches, gets, scan", 4, "put1 drain put1 drain put1 drain put1 drain put1 drain",
     "long-batch1 get2 | long-batch1 put1 | fill-near1 late-batch1 get0 | get2 scan", true},
    {"a batch stacks on a successor, a drain", 4, "put1 drain put1 drain put1 drain put1 drain",
     "long-batch2 | fill-near1 fill-near1 | late-batch1 put1 get3 | drain scan get1 get3", true},
    {"groups of equal keys, batches", 2, "put0 put1 crowd",
     "multi-put-equal | batch session | drain get0 | batch-delete get1"},
    {kConditional, 1, "put0", "put-if0 get0 | put-if0 | get0 get0 | scan"},
    {"conditional puts, a put, deletes", 1, "put0", "put-if-seen0 get0 | put0 | delete-if0 | put-if0 get0"},
    {"a conditional put, gets", 1, "put0", "put-if0 | get0 get0 get0 | get0 get0"},
    {kOvertaken, 1, "", "put-if-seen0 | put-if-seen0 | put0 put0 | put0 get0"},
    {"groups of equal keys, conditional puts", 1, "put0", "multi-put-equal get0 | put-if-seen0 put-if-seen0 | put-if0"},
    {"conditional puts, replacements, scans", 2, "put0 put1",
     "put-if0 put-if1 | put-if0 put0 | drain drain | scan get1"},
    {"conditional puts of drained keys", 2, "put0 put1 drain", "put-if0 put-if1 | put-if1 put-if0 | drain get0 | put0"},
    {"conditional puts and writers that make room", 4, "put0 drain put0 drain put0 drain put0 drain crowd",
     "put-if0 put-if-seen1 | put-if-seen0 put1 | drain put2 put3 | put-if1 scan"},
    {"unchanged since a snapshot", 2, "put0 put1",
     "put-unchanged0 put-unchanged0 | put0 put-if-seen0 | drain drain | get0"},
    {"conditional batches of the same keys, scans", 2, "put0 put1", "batch-if get0 | batch-if get1 | scan scan"},
    {"conditional batches, puts", 2, "put0 put1", "batch-if | batch-if-seen get0 | put0 put1 | scan get1"},
    {"conditional batches and updates, replacements", 2, "put0 put1 drain put0",
     "batch-if batch-if-seen | put-if0 put-if1 | drain drain | scan scan"},
    {kChecks, 2, "put0 put1", "check-if0 get1 | check-if1 get0 | put1 | scan"},
    {"checks, snapshots, replacement", 2, "put0 put1 drain",
     "check-if0 | put1 put-if-seen1 | snapshot read-snapshot read-snapshot | drain put0"},
    {"conditional batches in different bnodes", 3, "put0 put1 put2",
     "batch-if | batch-if-seen check-if1 | drain put-if0 | scan put2", true},
    {kNoSpace, 2, "put0 put1", "take-space drain give-space drain | put0 put1 get0 | scan scan"},
    {"no space for a while, deletes", 2, "put0 put1 drain put0",
     "take-space | delete0 put1 drain | put0 get0 give-space | scan scan"},
    {"no space, a batch, gets", 2, "put0 put1",
     "take-space batch give-space batch | drain drain | get0 get1 | get1 get0"},
    {"no space, crowded, scans", 4, "put0 drain put0 drain put0 drain put0 drain crowd",
     "take-space drain give-space | put0 put1 put2 put3 | scan scan"},
    {"no space for a merge", 2, "put0 put1 fill-and-empty put0 put1",
     "take-space drain give-space drain | put0 put1 | scan scan", true},
    {"no space while a snapshot is held", 2, "put0 put1 drain",
     "snapshot read-snapshot read-snapshot | put0 take-space drain give-space drain | put1 drain"},
};

// Fewer schedules for cases that fill and empty ranges, or wait for space: each one takes longer.
uint64_t share_of(const ProtocolCase& what, uint64_t schedules) {
  const bool slow = performs(what, "fill-and-empty") || performs(what, "fill-near") || performs(what, "take-space");
  return slow ? schedules / 10 : schedules;
}

// A store on the shadow medium whose file can be copied at any step.
class Pools {
 public:
  explicit Pools(bool crashes) : crashes_(crashes) {
    store_.open = [this] { return open_new(); };
    store_.hoard = [this](bool take) { take ? take_space() : give_space(); };
    if (!crashes) return;
    store_.copy_durable = [this] {
      std::filesystem::copy_file(pool_, copy_, std::filesystem::copy_options::overwrite_existing);
    };
    store_.open_copy = [this](std::unique_ptr<DB>* db) { return OpenForTest(options(), test_options(), copy_, db); };
    store_.schedules_per_store = 100;
  }
  [[nodiscard]] const ProtocolStore& store() const { return store_; }

 private:
  [[nodiscard]] Options options() const {
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = uint64_t{1} << 20;  // small: it is copied at every crash
    options.background_threads = 0;
    options.persistence_domain = PersistenceDomain::kAdr;
    return options;
  }
  [[nodiscard]] TestOptions test_options() const {
    return {.medium = crashes_ ? TestMedium::kShadow : TestMedium::kNone};
  }

  std::unique_ptr<DB> open_new() {
    pool_ = folder_.file("pool." + std::to_string(++pools_));
    copy_ = folder_.file("copy." + std::to_string(pools_));
    auto tiers = std::make_unique<store::Tiers>();
    const Status status = store::open_tiers(options(), test_options(), pool_, tiers.get());
    if (!status.ok()) {
      std::fprintf(stderr, "cannot open the pool: %s\n", status.ToString().c_str());
      std::abort();
    }
    space_ = &tiers->space;
    store::BackgroundThreads threads;
    EXPECT_TRUE(store::BackgroundThreads::reserve(options(), &threads).ok());
    return std::make_unique<store::DbImpl>(options(), std::move(tiers), std::move(threads));
  }

  void take_space() {
    for (uint64_t bytes = options().pool_bytes; bytes >= persist::kBlockBytes; bytes /= 2) {
      for (;;) {
        const scale::Addr at = space_->allocate(bytes, persist::Space::Use::kReserve);
        if (at.is_nil()) break;
        taken_.emplace_back(at, bytes);
      }
    }
  }
  void give_space() {
    for (const auto& [at, bytes] : taken_) space_->free(at, bytes);
    taken_.clear();
  }

  const bool crashes_;
  ScratchFolder folder_;
  std::string pool_;
  std::string copy_;
  uint64_t pools_ = 0;
  persist::Space* space_ = nullptr;                      // of the open store
  std::vector<std::pair<scale::Addr, uint64_t>> taken_;  // of it
  ProtocolStore store_;
};

class Protocol : public ::testing::TestWithParam<bool> {};

TEST_P(Protocol, EveryCaseHoldsUnderEverySchedule) {
  const bool crashes = GetParam();
  const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const uint64_t schedules = crashes ? budget<uint64_t>(40, 200, 5'000) : budget<uint64_t>(300, 2'500, 100'000);
  uint64_t merges = 0;
  uint64_t splits = 0;
  uint64_t replacements = 0;
  uint64_t refused = 0;
  for (const ProtocolCase& what : kCases) {
    Pools pools(crashes);
    const ProtocolResult result = run_case(what, pools.store(), seed, share_of(what, schedules));
    EXPECT_TRUE(result.verdict.ok) << result.verdict.text;
    add_figure("protocol_schedules", result.schedules);
    add_figure("protocol_crashes", result.crashes);
    merges += result.merges;
    splits += result.splits;
    replacements += result.replacements;
    refused += result.refused;
  }
  std::printf("%llu splits, %llu merges, %llu replacements by writers, %llu refused for room\n",
              static_cast<unsigned long long>(splits), static_cast<unsigned long long>(merges),
              static_cast<unsigned long long>(replacements), static_cast<unsigned long long>(refused));
  EXPECT_GT(replacements, schedules / 20);
  EXPECT_GT(refused, schedules / 20);
  EXPECT_GT(merges, schedules / 20);
  EXPECT_GT(splits, schedules / 20);
}

INSTANTIATE_TEST_SUITE_P(, Protocol, ::testing::Values(false, true),
                         [](const auto& crashes) { return crashes.param ? "Crashing" : "Running"; });

struct MutantCase {
  const char* name;
  uint64_t bit;
  const char* first = kCases[0].name;  // the case that the hunt begins with
};

#define BONSAI_MUTANT(name) \
  MutantCase { #name, index::name }
const MutantCase kMutants[] = {
    BONSAI_MUTANT(kVersionBeforePublish),
    BONSAI_MUTANT(kNoHelpBeforePush),
    BONSAI_MUTANT(kSupersededNoHelp),
    BONSAI_MUTANT(kFreezeIgnored),
    BONSAI_MUTANT(kRetryReusesRecord),
    BONSAI_MUTANT(kSnapshotUnregistered),
    BONSAI_MUTANT(kIgnoreUnversioned),
    BONSAI_MUTANT(kReturnBeforeVersion),
    BONSAI_MUTANT(kPublishBeforePersist),
    BONSAI_MUTANT(kNoSupersedeTest),
    BONSAI_MUTANT(kHeadsNotHelpedAtFreeze),
    BONSAI_MUTANT(kNoCarry),
    BONSAI_MUTANT(kNoCarryBase),
    BONSAI_MUTANT(kRegisterLate),
    BONSAI_MUTANT(kPruneFromOwnNode),
    BONSAI_MUTANT(kPruneAll),
    BONSAI_MUTANT(kGenerationEqual),
    BONSAI_MUTANT(kBatchReadyEarly),
    BONSAI_MUTANT(kBatchNotHelped),
    BONSAI_MUTANT(kMarkLate),
    {"kJudgeOnce", index::kJudgeOnce, kConditional},
    {"kPendingNotHelped", index::kPendingNotHelped, kConditional},
    {"kOvertakenIsSuperseded", index::kOvertakenIsSuperseded, kOvertaken},
    {"kCheckNotPinned", index::kCheckNotPinned, kChecks},
    {"kClaimIgnored", index::kClaimIgnored, kNearlyFull},
    {"kEqualKeysApart", index::kEqualKeysApart, kEqualKeys},
    {"kSettledByOwnHeads", index::kSettledByOwnHeads, kStacked},
    {"kLayerForgotten", index::kLayerForgotten, kNoSpace},
};
#undef BONSAI_MUTANT

// Runs all cases by turns until one fails. Its own process, for a broken rule may well end in a crash.
[[noreturn]] void hunt(const MutantCase& mutant, uint64_t schedules_max, unsigned seconds_max) {
  constexpr uint64_t kTurn = 200, kFirstTurns = 10;  // at once, of the case to begin with
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  alarm(seconds_max);  // a broken rule may hang, too; who finds nothing for so long ends before
  const uint64_t end_ns = base::now_ns() + seconds_max * base::kNsPerSecond / 5 * 4;
  bonsai::testing::mutants_on.store(mutant.bit);
  uint64_t schedules = 0;
  size_t first = 0;
  while (std::string_view(kCases[first].name) != mutant.first) ++first;
  for (uint64_t turn = 0; schedules < schedules_max; ++turn) {
    for (size_t i = 0; i < std::size(kCases); ++i) {
      const ProtocolCase& what = kCases[(first + i) % std::size(kCases)];
      Pools pools(turn % 2 == 0);
      const uint64_t share = i == 0 && first != 0 ? kFirstTurns * kTurn : share_of(what, kTurn);
      const ProtocolResult result = run_case(what, pools.store(), 1 + turn, share);
      schedules += result.schedules;
      if (result.verdict.ok && base::now_ns() > end_ns) _exit(0);
      if (!result.verdict.ok) {
        std::printf("%s: caught after %llu schedules: %s\n", mutant.name, static_cast<unsigned long long>(schedules),
                    result.verdict.text.substr(0, 1200).c_str());
        std::fflush(stdout);
        _exit(1);
      }
    }
  }
  _exit(0);
}

// Hunts in a process of its own, whose scratch files go with the folder. Returns its wait status.
int hunt_apart(const MutantCase& mutant, uint64_t schedules_max, unsigned seconds_max) {
  const ScratchFolder folder;
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setenv("BONSAI_TEST_DIR", folder.file(".").c_str(), 1);
    hunt(mutant, schedules_max, seconds_max);
  }
  EXPECT_GT(child, 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// The slowest is caught in 4 s alone on a machine, by a sanitizer in 30. A rule whose loss frees a node twice may hang
// where no sanitizer looks on.
constexpr unsigned kMutantSecondsMax = BONSAI_SCALABLE_MEMORY != 0 ? 60 : 90;

std::string name_of_mutant(const ::testing::TestParamInfo<MutantCase>& mutant) { return mutant.param.name; }

class Mutants : public ::testing::TestWithParam<MutantCase> {};

TEST_P(Mutants, IsCaught) {
  const MutantCase& mutant = GetParam();
  const int status = hunt_apart(mutant, budget<uint64_t>(30'000, 200'000, 2'000'000), kMutantSecondsMax);
  const bool killed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  add_figure("mutants", 1);
  add_figure("mutants_killed", killed ? 1 : 0);
  add_row("mutants: left out, and noticed", mutant.name, {{"mutants", 1}, {"killed", killed ? 1U : 0U}});
  EXPECT_TRUE(killed) << mutant.name << ": no case fails without this rule";
  if (WIFSIGNALED(status)) std::printf("%s: caught by signal %d\n", mutant.name, WTERMSIG(status));
}

// With all rules on the hunt ends in peace: what it reports above is the mutants' doing.
TEST(MutantControl, TheHuntAloneKillsNothing) {
  const int status =
      hunt_apart({"none", 0}, budget<uint64_t>(1'500, 30'000, 100'000), budget<unsigned>(300, 300, 3'000));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

INSTANTIATE_TEST_SUITE_P(, Mutants, ::testing::ValuesIn(kMutants), name_of_mutant);

}  // namespace
}  // namespace bonsai::testing
