#include "index/versions.h"

namespace bonsai::index {

using base::mutant;
using base::step;

bool LiveScans::need(uint64_t below, uint64_t above) const {
  if (mutant(kPruneAll) || below == above) return false;
  for (size_t i = 0; i < count_; ++i) {
    const uint64_t entry = entries_[i];
    if ((entry & Versions::kProvisional) != 0) {
      if (!mutant(kSnapshotUnannounced) && above > (entry & ~Versions::kProvisional)) return true;
    } else if (below <= entry && entry < above) {
      return true;
    }
  }
  return false;
}

Versions::Announcement Versions::announce() {
  Announcement own;
  for (size_t i = 0; i < slots_max_; ++i) {
    if (slots_[i].load(std::memory_order_relaxed) != 0) continue;
    size_t used = slots_used_.load(std::memory_order_relaxed);
    while (used < i + 1 && !slots_used_.compare_exchange_weak(used, i + 1)) {
    }
    const uint64_t bound = now();
    uint64_t free = 0;
    step("announce provisionally");
    if (mutant(kAnnounceLate)) {
      step("take version unannounced");
      own.version_ = global_.fetch_add(1);
      step("announce late");
    }
    if (!slots_[i].compare_exchange_strong(free, kProvisional | bound)) continue;
    if (!mutant(kAnnounceLate)) {
      step("take version");
      own.version_ = global_.fetch_add(1);
    }
    step("announce version");
    slots_[i].store(own.version_, std::memory_order_seq_cst);
    own.versions_ = this;
    own.slot_ = i;
    return own;
  }
  return own;
}

void Versions::load(LiveScans* live) const {
  live->clear();
  const size_t used = slots_used_.load(std::memory_order_seq_cst);
  for (size_t i = 0; i < used; ++i) {
    step("load announcement");
    if (const uint64_t entry = slots_[i].load(std::memory_order_seq_cst)) live->add(entry);
  }
}

uint64_t Versions::settle_slowly(Node* node) {
  Batch* batch = node->batch();
  std::atomic<uint64_t>& cell = batch != nullptr ? batch->cell : node->version;
  uint64_t value = cell.load(std::memory_order_seq_cst);
  if (batch != nullptr && value == Batch::kPublishing) return kNoVersion;
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
  if (batch != nullptr) node->version.store(value, std::memory_order_release);
  return value;
}

}  // namespace bonsai::index
