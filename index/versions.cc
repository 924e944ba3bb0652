// SPDX-License-Identifier: Apache-2.0
#include "index/versions.h"

#include <algorithm>
#include <memory>

#include "base/check.h"

namespace bonsai::index {

using base::step;

void LiveScans::clear() {
  bound_ = kNoBound;
  asked_ = 0;
  versions_.clear();
}

void LiveScans::add(uint64_t entry) {
  if ((entry & Versions::kProvisional) != 0) {
    bound_ = std::min(bound_, entry & ~Versions::kProvisional);
  } else {
    versions_.push_back(entry);
  }
}

bool LiveScans::need(uint64_t below, uint64_t above) {
  BONSAI_INVARIANT(below <= above);
  if (below == above) return false;
  if (above > bound_) return true;
  if (asked_ < kAskedMax) {
    const auto picks = [below, above](uint64_t version) { return below <= version && version < above; };
    if (++asked_ < kAskedMax) return std::any_of(versions_.begin(), versions_.end(), picks);
    std::sort(versions_.begin(), versions_.end());
  }
  const auto at = std::lower_bound(versions_.begin(), versions_.end(), below);
  return at != versions_.end() && *at < above;
}

Versions::~Versions() {
  for (size_t i = 1; i < kBlocks; ++i) delete[] blocks_[i].load();
}

// Makes the block if it is not there. Requires: those before it are.
Versions::Word* Versions::block_at(size_t index) {
  Word* block = blocks_[index].load(std::memory_order_seq_cst);
  if (block != nullptr) return block;
  auto made = std::make_unique<Word[]>(words_in(index));
  if (blocks_[index].compare_exchange_strong(block, made.get())) block = made.release();
  return block;
}

// A slot of `block`, which now holds `entry`; null: none was free. Looks at all, from the one after `first` on.
Versions::Word* Versions::take_slot(Word* block, size_t slots, size_t first, uint64_t entry) {
  size_t at = first;
  for (size_t looked_at = 0; looked_at < slots; ++looked_at) {
    at = at == slots ? 1 : at + 1;
    uint64_t free = 0;
    if (block[at].load(std::memory_order_relaxed) == 0 && block[at].compare_exchange_strong(free, entry)) {
      return &block[at];
    }
  }
  return nullptr;
}

// take_slot() after claiming one of the block's slots.
Versions::Word* Versions::claim_slot(Word* block, size_t slots, uint64_t entry) {
  if (block[kClaims].load(std::memory_order_relaxed) >= slots) return nullptr;
  const uint64_t claims = block[kClaims].fetch_add(1);
  Word* slot = claims < slots ? take_slot(block, slots, claims, entry) : nullptr;  // at once, if filled in order
  if (slot == nullptr) BONSAI_INVARIANT(block[kClaims].fetch_sub(1) > 0);
  return slot;
}

Versions::Registration Versions::register_scan() {
  Registration own;
  const uint64_t entry = kProvisional | now();
  step("register provisionally");
  size_t left = limit_;
  size_t slots = std::min(kFirstWords - 1, left);
  own.slot_ = take_slot(first_block_.data(), slots, 0, entry);
  for (size_t i = 1; own.slot_ == nullptr && i < kBlocks && left > slots; ++i) {
    left -= slots;
    slots = std::min(words_in(i) - 1, left);
    Word* const block = block_at(i);
    own.slot_ = claim_slot(block, slots, entry);
    if (own.slot_ != nullptr) own.claims_ = &block[kClaims];
  }
  if (own.slot_ == nullptr) return own;
  step("take version");
  own.version_ = global_.fetch_add(1);
  BONSAI_INVARIANT(own.version_ >= kVersionFirst && own.version_ < kProvisional);
  step("register version");
  own.slot_->store(own.version_, std::memory_order_seq_cst);
  return own;
}

void Versions::load(LiveScans* live) const {
  live->clear();
  for (size_t i = 0; i < kBlocks; ++i) {
    step("load registrations");
    const Word* block = blocks_[i].load(std::memory_order_seq_cst);
    if (block == nullptr) return;
    if (i != 0 && block[kClaims].load(std::memory_order_seq_cst) == 0) continue;
    for (size_t slot = 1; slot < words_in(i); ++slot) {
      if (block[slot].load(std::memory_order_acquire) == 0) continue;
      step("load registration");
      if (const uint64_t entry = block[slot].load(std::memory_order_seq_cst)) live->add(entry);
    }
  }
}

uint64_t Versions::settle_slowly(Node* node) {
  Batch* batch = node->batch();
  std::atomic<uint64_t>& cell = batch != nullptr ? batch->cell : node->version;
  uint64_t value = cell.load(std::memory_order_seq_cst);
  if (batch != nullptr) {
    if (Batch::is_undecided(value)) return kNoVersion;
    if (Batch::is_refused(value)) {
      node->version.store(kPassed, std::memory_order_release);
      return kPassed;
    }
  }
  uint64_t unset = batch != nullptr ? Batch::kReady : kNoVersion;
  if (value == unset) {
    step("load global version");
    const uint64_t version = now();
    step("set node version");
    if (cell.compare_exchange_strong(unset, version)) {
      value = version;
    } else {
      value = unset;
    }
  }
  BONSAI_INVARIANT(value >= kVersionFirst && value < kLatest);
  if (batch == nullptr) return value;
  if (node->checks_only()) value = kPassed;  // only now: what comes on top of it must not be older than the batch
  node->version.store(value, std::memory_order_release);
  return value;
}

}  // namespace bonsai::index
