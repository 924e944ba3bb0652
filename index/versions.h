// Versions and snapshots: the global version, and the announcements that keep old versions alive.
//
// After KiWi (Basin et al., PPoPP 2017): scans take a version by fetch-and-add, updates take theirs from the counter
// after they are published, with help from whoever meets them. The announcement comes *before* the fetch-and-add:
// a slot holds 0 (free), kProvisional | a (a scan that will get a version > a is about to), or the scan's version.
//
// Memory ordering. announce stores release before the fetch-and-add; a pruner loads the slots (acquire) after it knows
// the version of the node that it keeps. Whoever learns a version > s read it from the counter after the fetch-and-add
// that gave s, and so sees the announcement. Every access to the counter is seq_cst: publish-then-load-counter here
// against fetch-and-add-then-load-pointers there is the store-buffering pattern.
#ifndef BONSAI_INDEX_VERSIONS_H_
#define BONSAI_INDEX_VERSIONS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/step.h"
#include "index/mutants.h"
#include "index/node.h"

namespace bonsai::index {

inline constexpr size_t kSnapshotsMax = 1024;

// The announcements at one moment.
class LiveScans {
 public:
  void clear() { count_ = 0; }
  void add(uint64_t entry) { entries_[count_++] = entry; }
  [[nodiscard]] bool none() const { return count_ == 0; }

  // Does an announced scan need a node of version `below` directly under a kept node of version `above`?
  [[nodiscard]] bool need(uint64_t below, uint64_t above) const;

 private:
  size_t count_ = 0;
  std::array<uint64_t, kSnapshotsMax> entries_;
};

class Versions {
 public:
  static constexpr uint64_t kProvisional = uint64_t{1} << 63;

  explicit Versions(size_t snapshots_max) : slots_max_(std::min(snapshots_max, kSnapshotsMax)) {}
  Versions(const Versions&) = delete;
  Versions& operator=(const Versions&) = delete;

  // A scan's announcement: its version, kept alive until it is destroyed. Not thread-safe; the version may be shared.
  class Announcement {
   public:
    Announcement() = default;
    Announcement(Announcement&& other) noexcept { *this = std::move(other); }
    Announcement& operator=(Announcement&& other) noexcept {
      std::swap(versions_, other.versions_);
      std::swap(slot_, other.slot_);
      std::swap(version_, other.version_);
      return *this;
    }
    ~Announcement() {
      if (versions_ != nullptr) versions_->slots_[slot_].store(0, std::memory_order_release);
    }
    [[nodiscard]] uint64_t version() const { return version_; }
    explicit operator bool() const { return versions_ != nullptr; }

   private:
    friend class Versions;
    Versions* versions_ = nullptr;
    size_t slot_ = 0;
    uint64_t version_ = 0;
  };

  // Announces a scan and gives it its version; empty when all slots are taken. Wait-free: one pass over the slots.
  [[nodiscard]] Announcement announce();

  [[nodiscard]] uint64_t now() const { return global_.load(std::memory_order_seq_cst); }

  // The version of a published node, giving it one if it has none. kNoVersion: it belongs to a batch that is still
  // being published, and is invisible. Lock-free, one try: if the exchange fails, somebody else has set it.
  uint64_t settle(Node* node) {
    base::step("load node version");
    const uint64_t version = node->version.load(std::memory_order_acquire);
    return version != kNoVersion ? version : settle_slowly(node);
  }

  // Gives a ready batch its version if it has none.
  void settle(Batch* batch) {
    uint64_t ready = Batch::kReady;
    if (batch->cell.load(std::memory_order_seq_cst) == ready) batch->cell.compare_exchange_strong(ready, now());
  }

  // Reads all announcements. Requires: the version of the node that will be kept is known already.
  void load(LiveScans* live) const;

 private:
  uint64_t settle_slowly(Node* node);

  alignas(64) std::atomic<uint64_t> global_{kVersionFirst};
  alignas(64) std::atomic<size_t> slots_used_{0};  // high-water mark
  const size_t slots_max_;
  alignas(64) std::array<std::atomic<uint64_t>, kSnapshotsMax> slots_{};
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_VERSIONS_H_
