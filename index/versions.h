// SPDX-License-Identifier: Apache-2.0
// Versions and snapshots: the global version, and the registrations that keep old versions alive.
//
// After KiWi (Basin et al., PPoPP 2017): scans take a version by fetch-and-add, updates take theirs from the counter
// after they are published, with help from any thread that meets them. The registration comes *before* the
// fetch-and-add: a slot holds 0 (free), kProvisional | a (a scan that will get a version > a is about to), or the
// scan's version. Slots are in blocks, each twice as large as the one before. A block is made when those before it are
// full, and stays: claims on it are counted, so that pruners skip an empty one. Only the first, one line, has no count.
//
// Memory ordering. `register_scan` stores in this order: the block (or has seen it), a claim on it, the slot; then
// comes the fetch-and-add. A pruner loads the blocks, their claims and the slots after it knows the version of the node
// that it keeps. A thread that sees a version > s loaded the counter after the fetch-and-add that produced s, and so
// sees block, claim and registration of s, until they are released. Release goes the other way, the slot first, so that
// claims are never fewer than registrations. Every access to the counter is seq_cst: publish-then-load-counter here
// against fetch-and-add-then-load-pointers there is the store-buffering pattern.
#ifndef BONSAI_INDEX_VERSIONS_H_
#define BONSAI_INDEX_VERSIONS_H_

#include <array>
#include <atomic>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/step.h"
#include "index/node.h"

namespace bonsai::index {

// The registrations at one moment. Not thread-safe.
class LiveScans {
 public:
  void clear();
  void add(uint64_t entry);
  [[nodiscard]] bool none() const { return versions_.empty() && bound_ == kNoBound; }

  // Does a registered scan need a node of version `below` directly under a kept node of version `above`?
  [[nodiscard]] bool need(uint64_t below, uint64_t above);

 private:
  static constexpr uint64_t kNoBound = UINT64_MAX;
  static constexpr uint32_t kAskedMax = 32;  // up to so many linear searches cost less than sorting

  uint64_t bound_ = kNoBound;  // each provisional scan will get a version above this
  uint32_t asked_ = 0;
  boost::container::small_vector<uint64_t, 32> versions_;  // sorted once need() was asked kAskedMax times
};

class Versions {
  using Word = std::atomic<uint64_t>;

 public:
  static constexpr uint64_t kProvisional = uint64_t{1} << 63;

  // At most `limit` registrations at one time.
  explicit Versions(size_t limit = SIZE_MAX) : limit_(limit) { blocks_[0] = first_block_.data(); }
  ~Versions();
  Versions(const Versions&) = delete;
  Versions& operator=(const Versions&) = delete;

  // A scan's registration: its version, kept alive until it is destroyed. Not thread-safe; the version may be shared.
  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept { *this = std::move(other); }
    Registration& operator=(Registration&& other) noexcept {
      std::swap(slot_, other.slot_);
      std::swap(claims_, other.claims_);
      std::swap(version_, other.version_);
      return *this;
    }
    ~Registration() {
      if (slot_ != nullptr) slot_->store(0, std::memory_order_release);
      if (claims_ != nullptr) BONSAI_INVARIANT(claims_->fetch_sub(1, std::memory_order_release) > 0);
    }
    [[nodiscard]] uint64_t version() const { return version_; }
    explicit operator bool() const { return slot_ != nullptr; }

   private:
    friend class Versions;
    Word* slot_ = nullptr;
    Word* claims_ = nullptr;  // of the slot's block, if they are counted
    uint64_t version_ = 0;
  };

  // Registers a scan and gives it its version; empty when there are `limit` already. Wait-free: at most one pass over
  // each block, of which there are few.
  [[nodiscard]] Registration register_scan();

  [[nodiscard]] uint64_t now() const { return global_.load(std::memory_order_seq_cst); }

  // The version of a node in a chain, giving it one if it has none. kNoVersion: it belongs to a batch that is still
  // being published, and is invisible. kPendingVersion, kPassed: it is invisible, too. Lock-free, one
  // try: if the exchange fails, somebody else has set it.
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

  // Reads all registrations. Requires: the version of the node that will be kept is known already.
  void load(LiveScans* live) const;

 private:
  // A block's first word counts its claims, the others are slots. The first block is one line, which is always looked
  // at: its claims are not counted. The next has two lines, ...
  static constexpr size_t kClaims = 0;
  static constexpr size_t kFirstWords = 8;
  static constexpr size_t kBlocks = 40;
  static constexpr size_t words_in(size_t block) { return kFirstWords << block; }

  Word* block_at(size_t index);
  static Word* take_slot(Word* block, size_t slots, size_t first, uint64_t entry);
  static Word* claim_slot(Word* block, size_t slots, uint64_t entry);
  uint64_t settle_slowly(Node* node);

  alignas(64) std::atomic<uint64_t> global_{kVersionFirst};
  alignas(64) const size_t limit_;
  std::array<std::atomic<Word*>, kBlocks> blocks_{};  // null from the first one on that was not needed yet
  alignas(64) std::array<Word, kFirstWords> first_block_{};
};

}  // namespace bonsai::index

#endif  // BONSAI_INDEX_VERSIONS_H_
