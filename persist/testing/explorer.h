// The exploration of crashes that the tests of persist/ share: a recorder medium, the images that a crash could leave
// before each of its fences, verdicts on them, and one site that may be left out.
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

#include "base/crc.h"
#include "base/nvm/recorder.h"
#include "base/random.h"
#include "persist/testing.h"

namespace bonsai::persist::testing {

struct Mutant {
  const base::Site* site;
  base::SiteUse use;
};

struct Amount {
  int operations;
  uint64_t images_per_fence;
};

// What was explored before the fences of one site.
struct SiteImages {
  uint64_t fences = 0;
  uint64_t exhaustive = 0;  // of them, those of which all legal images were visited
  uint64_t images = 0;
  std::unordered_set<uint64_t> contents;  // hashes of what differs within one life
};

struct Outcome {
  uint64_t images = 0;
  uint64_t recovery_images = 0;  // states that a power cut within a recovery left, each recovered again
  std::map<std::string, SiteImages> by_site;
  uint64_t violations = 0;
  uint64_t refused = 0;  // recoveries that found no room: a known gap, see README.md; the pool itself is unharmed
  std::string first;     // what the first violation was
};

// What all explorations share: the recorder, the images, the verdicts.
class Explorer {
 public:
  Explorer(uint64_t seed, std::optional<Mutant> mutant, uint64_t images_per_fence, Domain domain = Domain::kAdr)
      : random_(seed), mutant_(mutant), images_per_fence_(images_per_fence), domain_(domain) {}
  virtual ~Explorer() = default;
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  Outcome outcome;
  std::vector<base::SiteCount> sites;

 protected:
  // Judges one image, which lies in scratch_ and may be changed.
  virtual void judge() = 0;

  void start(std::span<const std::byte> image) {
    collect_sites();
    medium_ = std::make_unique<base::RecorderMedium>(image, domain_, [] { return uint64_t{0}; });
    if (mutant_) medium_->drop(*mutant_->site, mutant_->use);
    medium_->set_before_fence([this](const base::Site& site) { at_fence(site); });
  }
  void collect_sites() {
    if (medium_ == nullptr) return;
    for (const base::SiteCount& count : medium_->site_counts()) sites.push_back(count);
  }

  void explore(const char* before = "between fences") {
    if (failed()) return;
    SiteImages& site = outcome.by_site[before];
    const auto seen = medium_->each_crash_image(images_per_fence_, random_, [&](std::span<const std::byte> image) {
      if (failed()) return;
      site.contents.insert(base::crc32c(image.data(), image.size(), 0));
      std::memcpy(scratch_.view(), image.data(), image.size());
      judge();
    });
    outcome.images += seen.visited;
    site.images += seen.visited;
    ++site.fences;
    site.exhaustive += seen.exhaustive ? 1 : 0;
  }

  // At a fence chosen in advance one image is kept, to go on from.
  void at_fence(const base::Site& site) {
    explore(site.name);
    if (fences_to_crash_ == 0 || --fences_to_crash_ != 0) return;
    crash_image_.clear();
    uint64_t met = 0;
    static_cast<void>(medium_->each_crash_image(16, random_, [&](std::span<const std::byte> image) {
      if (random_.chance(1, ++met)) crash_image_.assign(image.begin(), image.end());
    }));
  }

  [[nodiscard]] bool failed() const { return outcome.violations > 0; }
  void violation(const std::string& what) {
    if (outcome.violations++ == 0) outcome.first = what;
  }

  base::Random random_;
  std::unique_ptr<base::RecorderMedium> medium_;
  MemoryMedium scratch_{kPoolBytesMin};
  uint64_t fences_to_crash_ = 0;  // 0 = none chosen
  std::vector<std::byte> crash_image_;

 private:
  const std::optional<Mutant> mutant_;
  const uint64_t images_per_fence_;
  const Domain domain_;
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_EXPLORER_H_
