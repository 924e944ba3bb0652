// The exploration of crashes that the tests of persist/ share: a recorder medium, the images that a crash could leave
// before each of its fences, verdicts on them, and one site that may be left out.
#ifndef BONSAI_PERSIST_TESTING_EXPLORER_H_
#define BONSAI_PERSIST_TESTING_EXPLORER_H_

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

struct Outcome {
  uint64_t images = 0;
  uint64_t violations = 0;
  uint64_t refused = 0;  // recoveries that found no room: a known gap, see README.md; the pool itself is unharmed
  std::string first;     // what the first violation was
};

// What all explorations share: the recorder, the images, the verdicts.
class Explorer {
 public:
  Explorer(uint64_t seed, std::optional<Mutant> mutant, uint64_t images_per_fence)
      : random_(seed), mutant_(mutant), images_per_fence_(images_per_fence) {}
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
    medium_ = std::make_unique<base::RecorderMedium>(image, Domain::kAdr, [] { return uint64_t{0}; });
    if (mutant_) medium_->drop(*mutant_->site, mutant_->use);
    medium_->set_before_fence([this] { at_fence(); });
  }
  void collect_sites() {
    if (medium_ == nullptr) return;
    for (const base::SiteCount& count : medium_->site_counts()) sites.push_back(count);
  }

  void explore() {
    if (failed()) return;
    const auto seen = medium_->each_crash_image(images_per_fence_, random_, [this](std::span<const std::byte> image) {
      if (failed()) return;
      std::memcpy(scratch_.view(), image.data(), image.size());
      judge();
    });
    outcome.images += seen.visited;
  }

  // At a fence chosen in advance one image is kept, to go on from.
  void at_fence() {
    explore();
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
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_EXPLORER_H_
