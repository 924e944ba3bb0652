// SPDX-License-Identifier: Apache-2.0
// The exploration of crashes that the tests of persist/ share: a recorder medium, the images that a crash could leave
// before each of its fences, verdicts on them, and one site that may be left out.
//
// At a fence that is explored the images are all legal ones, or else: nothing kept, everything kept, each line alone,
// each line missing, and random ones.
#ifndef BONSAI_PERSIST_TESTING_EXPLORER_H_
#define BONSAI_PERSIST_TESTING_EXPLORER_H_

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/nvm/far.h"
#include "base/nvm/recorder.h"
#include "base/random.h"
#include "persist/testing.h"
#include "persist/testing/read_set.h"
#include "scale/testing/file_on_medium.h"

namespace bonsai::persist::testing {

struct Mutant {
  const base::Site* site;
  base::SiteUse use;
};

// Counts of the images explored before the fences of one site.
struct SiteImages {
  uint64_t met = 0;         // fences
  uint64_t fences = 0;      // of them, those explored
  uint64_t exhaustive = 0;  // of them, those of which all legal images were visited
  uint64_t images = 0;
  std::unordered_set<uint64_t> contents;  // hashes of the bytes that recovery reads
};

struct Outcome {
  uint64_t images = 0;
  uint64_t recovery_images = 0;  // states that a power cut within a recovery left, each recovered again
  uint64_t flips = 0;            // images in which one bit was damaged
  uint64_t flips_reported = 0;   // of them, those that were refused
  uint64_t owners_checked = 0;   // recoveries whose space was compared with what is in the pool
  std::map<std::string, SiteImages> by_site;
  std::unordered_set<uint64_t> contents;  // of all sites together: what differs in nothing that recovery reads is one
  uint64_t violations = 0;
  uint64_t refused = 0;  // recoveries that found no room: a known gap, see README.md; the pool itself is unharmed
  uint64_t moves = 0;    // of runs
  uint64_t filled = 0;   // lives that ended early, with no room left for their updates
  uint64_t fence_failures = 0;
  std::string first;  // what the first violation was
};

// Chooses the fences that a campaign of many lives explores, so that no site takes more than its share of the images,
// and early fences take no more than late ones.
class Shares {
 public:
  // Up to about `images_max` images per site, spread over all rounds.
  Shares(uint64_t images_max, uint64_t rounds) : images_max_(images_max), rounds_(rounds) {}

  void next_round() { ++round_; }
  // Whether to explore this fence, which takes up to `images`.
  [[nodiscard]] bool grants(const SiteImages& site, uint64_t images, base::Random& random) const {
    // If images hardly differ in what recovery reads, a quarter of the share is enough.
    const bool alike = 10 * site.contents.size() < site.images;
    const uint64_t due = images_max_ * std::min(round_, rounds_) / rounds_ / (alike ? 4 : 1);
    if (due <= site.images) return false;
    if (round_ == 1 || site.fences == 0) return true;
    const uint64_t each = std::min(images, site.images / site.fences + 1);
    const uint64_t fences_a_round = site.met / (round_ - 1) + 1;
    const uint64_t wanted = (due - site.images) / each + 1;  // fences
    return wanted >= fences_a_round || random.chance(wanted, fences_a_round);
  }

 private:
  const uint64_t images_max_;
  const uint64_t rounds_;
  uint64_t round_ = 1;
};

// Bounds of the counted sets, so that a nightly run keeps its memory.
constexpr size_t kDistinctMax = 1'000'000;  // per site
constexpr size_t kDistinctOfAllMax = 16'000'000;

// Options of an exploration.
struct Manner {
  std::optional<Mutant> mutant;
  uint64_t samples = 12;           // random images at a fence that has too many to visit all
  const Shares* shares = nullptr;  // null: every fence is explored
  PersistenceDomain domain = PersistenceDomain::kAdr;
  bool far = false;  // the recorder is the memory of another node
};

// Shared by all explorations: recorder, images, verdicts. `outcome` may have seen other explorations.
//
// The targets of a pool, `target_bytes` large, follow each other in an image. A fence of one makes durable what its
// thread flushed of that one, so that a crash may come between the fences of two.
class Explorer {
 public:
  Explorer(uint64_t seed, const Manner& manner, Outcome* outcome, uint64_t target_bytes = kPoolBytesMin,
           size_t targets = 1)
      : outcome_(*outcome),
        random_(seed),
        target_bytes_(target_bytes),
        scratch_(targets * target_bytes),
        manner_(manner) {
    for (size_t i = 0; i < targets; ++i) {
      scratch_targets_.push_back(
          std::make_unique<scale::FileOnMedium>(scratch_, target_bytes, nullptr, i * target_bytes));
    }
  }
  virtual ~Explorer() = default;
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  std::vector<base::SiteCount> sites;

 protected:
  // Judges one image, which is in scratch_ and may be changed. Returns the bytes that recovery read of it.
  virtual ReadSet judge() = 0;
  // Runs when a fence is about to be explored.
  virtual void before_exploring() {}
  // The row of the table in which a fence is counted.
  [[nodiscard]] virtual std::string row_of(const base::Site& site) const { return site.name; }
  // The thread that the recorder takes the caller for.
  [[nodiscard]] virtual uint64_t thread() const { return 0; }

  void start(std::span<const std::byte> image) {
    collect_sites();
    far_.clear();
    targets_.clear();
    medium_ = std::make_unique<base::RecorderMedium>(image, manner_.domain,
                                                     [this] { return thread() * targets() + at_target_; });
    for (size_t i = 0; i < targets(); ++i) {
      targets_.push_back(std::make_unique<scale::FileOnMedium>(
          *medium_, target_bytes_, [this, i] { at_target_ = i; }, i * target_bytes_));
    }
    if (manner_.mutant) medium_->drop(*manner_.mutant->site, manner_.mutant->use);
    medium_->set_before_fence([this](const base::Site& site) { at_fence(site); });
  }
  [[nodiscard]] size_t targets() const { return scratch_targets_.size(); }
  // A target's medium for an opening: on the recorder, or a new far medium over that, as on a node that starts anew.
  [[nodiscard]] base::HookedMedium& opened(size_t target = 0) {
    if (!manner_.far) return *targets_[target];
    return *far_.emplace_back(
        std::make_unique<base::FarMedium>(*targets_[target], base::FarOptions{.seed = random_.next()}));
  }
  [[nodiscard]] std::vector<base::HookedMedium*> scratch() const {
    std::vector<base::HookedMedium*> media;
    for (const auto& target : scratch_targets_) media.push_back(target.get());
    return media;
  }
  void collect_sites() {
    if (medium_ == nullptr) return;
    for (const base::SiteCount& count : medium_->site_counts()) sites.push_back(count);
  }

  // Visits the images of this moment, whose next fence is of the site `before`.
  void explore(const std::string& before = kAtRest) {
    if (failed()) return;
    SiteImages& site = outcome_.by_site[before];
    ++site.met;
    const uint64_t images_max = 2 + 2 * medium_->pending_lines() + manner_.samples;
    if (manner_.shares != nullptr && !manner_.shares->grants(site, images_max, random_)) return;
    before_ = before;
    before_exploring();
    const auto seen = medium_->each_crash_image(images_max, random_, [&](std::span<const std::byte> image) {
      if (failed()) return;
      std::memcpy(scratch_.view(), image.data(), image.size());
      const uint64_t hash = judge().hash(image.data());
      if (site.contents.size() < kDistinctMax) site.contents.insert(hash);
      if (outcome_.contents.size() < kDistinctOfAllMax) outcome_.contents.insert(hash);
    });
    outcome_.images += seen.visited;
    site.images += seen.visited;
    ++site.fences;
    site.exhaustive += seen.exhaustive ? 1 : 0;
    before_ = kAtRest;
  }

  // At a fence chosen in advance one image is kept, to go on from.
  void at_fence(const base::Site& site) {
    if (mute_) return;
    explore(row_of(site));
    if (fences_to_crash_ != 0 && --fences_to_crash_ == 0) choose_crash_image();
  }
  void choose_crash_image() {
    crash_image_.clear();
    uint64_t met = 0;
    static_cast<void>(medium_->each_crash_image(16, random_, [&](std::span<const std::byte> image) {
      if (random_.chance(1, ++met)) crash_image_.assign(image.begin(), image.end());
    }));
  }

  // Recovery looks at nothing outside the set: random bytes there change nothing.
  void judge_rest(const ReadSet& read, const std::optional<Content>& content) {
    const std::vector<std::byte> image = scratch_.image();
    read.scramble_rest(scratch_.view(), scratch_.bytes(), random_);
    Rig rig(scratch());
    const Status status = rig.analyse_only();
    if (!content && status.ok()) violation("bytes elsewhere make a pool of none");
    if (content && (!status.ok() || analysed_content(rig) != content)) violation("bytes elsewhere change the content");
    std::memcpy(scratch_.view(), image.data(), image.size());
  }

  // Recovery with a power cut inside, then twice: the content stays, and every block has one owner.
  void judge_recovery(const Content& content) {
    scratch_.cut_power_after(random_.below(12));
    static_cast<void>(Rig(scratch()).open());
    ++outcome_.recovery_images;
    scratch_.cut_power_after(UINT64_MAX);
    for (int again = 0; again < 2; ++again) {
      Rig rig(scratch());
      const Status status = rig.open();
      if (status.IsNoSpace()) return judge_refusal(content);
      if (!status.ok()) return violation("recovery: " + status.ToString());
      if (recovered_content(rig) != content) return violation("recovery changes the content");
      if (again == 1) judge_owners(rig);
    }
  }

  // Every block of the pool has one owner at most, and the owners' space is the space in use.
  void judge_owners(const Rig& recovered) {
    Rig rig(scratch());
    static_cast<void>(rig.analyse_only());
    const std::optional<uint64_t> owned = owned_bytes(rig);
    if (!owned) violation("two owners of one block after recovery");
    if (owned && *owned != recovered.space.used_bytes()) violation("space without an owner after recovery");
    ++outcome_.owners_checked;
  }

  void judge_refusal(const Content& content) {
    ++outcome_.refused;
    Rig rig(scratch());
    static_cast<void>(rig.analyse_only());
    if (analysed_content(rig) != content) violation("a refused recovery changes the content");
  }

  [[nodiscard]] bool failed() const { return outcome_.violations > 0; }
  void violation(const std::string& what) {
    if (outcome_.violations++ == 0) outcome_.first = "before " + before_ + ": " + what;
  }

  static constexpr const char* kAtRest = "(at rest)";

  Outcome& outcome_;
  base::Random random_;
  const uint64_t target_bytes_;
  std::unique_ptr<base::RecorderMedium> medium_;
  std::vector<std::unique_ptr<scale::FileOnMedium>> targets_;  // on medium_
  std::vector<std::unique_ptr<base::FarMedium>> far_;          // over targets_, for each opening
  MemoryMedium scratch_;
  std::string before_ = kAtRest;  // the fence that is explored
  bool mute_ = false;             // fences are the test's own
  uint64_t fences_to_crash_ = 0;  // 0 = none chosen
  std::vector<std::byte> crash_image_;

 private:
  const Manner manner_;
  std::vector<std::unique_ptr<scale::FileOnMedium>> scratch_targets_;
  size_t at_target_ = 0;  // whose operation it is
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_EXPLORER_H_
