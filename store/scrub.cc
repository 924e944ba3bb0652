// SPDX-License-Identifier: Apache-2.0
#include "store/scrub.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "persist/large.h"
#include "persist/run_reader.h"
#include "scale/layout.h"

namespace bonsai::store {
namespace {

using persist::Dnode;
using scale::Addr;
using scale::ScrubBlock;

class Judging {
 public:
  Judging(const Tiers& tiers, size_t target, std::span<ScrubBlock> blocks)
      : tiers_(tiers), target_(target), blocks_(blocks) {}

  void judge() {
    for_each_dnode([this](const Dnode& dnode) { judge_runs(dnode); });
    if (some_are_unknown()) for_each_dnode([this](const Dnode& dnode) { judge_large_values(dnode); });
  }

 private:
  // A guard for each range: what is replaced meanwhile is not held back for long.
  void for_each_dnode(const std::function<void(const Dnode&)>& visit) const {
    for (base::Fence at; !at.is_infinite();) {
      const auto guard = tiers_.epochs->enter();
      at = tiers_.index->visit_dnodes(at, visit);
    }
  }
  [[nodiscard]] bool some_are_unknown() const {
    return std::any_of(blocks_.begin(), blocks_.end(),
                       [](const ScrubBlock& block) { return block.verdict == ScrubBlock::Verdict::kUnknown; });
  }

  // Calls visit(block, begin, end) for each block that has some of the bytes, these. False: there is none.
  template <class Visit>
  bool each_touched(Addr addr, uint64_t n, Visit visit) const {
    bool found = false;
    tiers_.volume->layout().each_piece(addr, n, [&](Addr place, uint64_t, uint64_t bytes) {
      if (place.target() != target_) return;
      const auto ends_before = [](const ScrubBlock& block, uint64_t at) { return block.offset + block.bytes <= at; };
      auto block = std::lower_bound(blocks_.begin(), blocks_.end(), place.offset(), ends_before);
      for (; block != blocks_.end() && block->offset < place.offset() + bytes; ++block) {
        visit(&*block, std::max(block->offset, place.offset()),
              std::min(block->offset + block->bytes, place.offset() + bytes));
        found = true;
      }
    });
    return found;
  }
  // Mends what is at these bytes if a block has some of them. What owns a block owns all of it (persist/space.h): so
  // nobody uses its other bytes. Two things may have had it one after the other: it is damaged if one is.
  void judge(Addr addr, uint64_t n, const std::function<bool()>& mend) const {
    if (!each_touched(addr, n, [](ScrubBlock*, uint64_t, uint64_t) {})) return;
    const bool is_mended = mend();
    each_touched(addr, n, [is_mended](ScrubBlock* block, uint64_t begin, uint64_t end) {
      const bool is_first = block->verdict == ScrubBlock::Verdict::kUnknown;
      block->checked_begin = is_first ? begin : std::min(block->checked_begin, begin);
      block->checked_end = is_first ? end : std::max(block->checked_end, end);
      if (!is_mended) block->verdict = ScrubBlock::Verdict::kDamaged;
      if (is_first && is_mended) block->verdict = ScrubBlock::Verdict::kMended;
    });
  }

  void judge_runs(const Dnode& dnode) const {
    for (const persist::RunDesc& run : dnode.runs()) {
      judge(Addr::of_bits(run.addr), run.bytes, [&] {
        persist::RunReader reader(*tiers_.volume);
        return reader.mended(run) != nullptr;
      });
    }
  }
  // Of entries that are sound, or become so.
  void judge_large_values(const Dnode& dnode) const {
    if (!dnode.has_large()) return;
    for (const persist::RunDesc& run : dnode.runs()) {
      persist::RunReader reader(*tiers_.volume);
      std::vector<persist::Entry> entries;
      if (persist::read_entries(&reader, run, &entries) != persist::Trouble::kNone) continue;
      for (const persist::Entry& entry : entries) {
        if (!entry.large || entry.tombstone) continue;
        const persist::LargeRef ref = persist::large_ref(entry.value);
        judge(Addr::of_bits(ref.addr), ref.value_bytes, [&] { return tiers_.large->mend(ref); });
      }
    }
  }

  const Tiers& tiers_;
  const size_t target_;
  const std::span<ScrubBlock> blocks_;
};

}  // namespace

void judge_differing(const Tiers& tiers, size_t target, std::span<ScrubBlock> blocks) {
  Judging(tiers, target, blocks).judge();
}

}  // namespace bonsai::store
