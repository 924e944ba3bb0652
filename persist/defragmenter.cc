// SPDX-License-Identifier: Apache-2.0
#include "persist/defragmenter.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/step.h"

namespace bonsai::persist {

using base::step;

// One call of run(), under the mutex.
class Defragmenter::Pass {
 public:
  Pass(Defragmenter& parent, Owners& owners)
      : store_(parent.store_),
        epochs_(parent.epochs_),
        space_(store_.space()),
        owners_(owners),
        upwards_(parent.upwards_) {
    const auto guard = epochs_.enter();
    owners_.for_each([&](size_t owner, const Dnode& dnode) {
      for (const RunDesc& run : dnode.runs()) runs_[run.addr] = {round_up(run.bytes, kBlockBytes), owner};
    });
  }

  // Moves runs until a free piece has `bytes_wanted`. False: the longest one has not become longer.
  bool run(uint64_t bytes_wanted) {
    const uint64_t bytes_before = space_.longest_free_bytes();
    uint64_t bytes = bytes_before;
    for (int jumps = 0; jumps <= kJumpsMax && bytes < bytes_wanted; ++jumps) {
      if (jumps > 0 && !jump()) break;
      if (!walk(space_.relocation_bytes_wanted() + bytes_wanted)) return false;
      space_.restore_relocation_reserve(upwards_);
      bytes = space_.longest_free_bytes();
    }
    return bytes > bytes_before;
  }

 private:
  static constexpr uint64_t kReadersMs = 100;
  static constexpr int kJumpsMax = 4;
  static constexpr uint64_t kJumpGain = 2;  // a jump is made if the longest free piece could be so many times as long

  struct Run {
    uint64_t bytes;
    size_t owner;
  };

  // Widens the piece to `bytes`, or as far as runs in either direction can be moved. False: it is not there, since a
  // reader was preempted.
  bool walk(uint64_t bytes) {
    for (int turns = 0; turns < 2; ++turns) {
      for (;;) {
        if (space_.relocation_reserve().bytes == 0) return false;
        space_.widen_relocation_reserve();
        if (space_.relocation_reserve().bytes >= bytes) return true;
        if (!move_neighbour()) break;
        static_cast<void>(epochs_.drain(kReadersMs));
      }
      upwards_ = !upwards_;
    }
    return true;
  }

  // A stretch of the area that is free, or a run's.
  struct Stretch {
    uint64_t at, bytes;
    bool free;

    [[nodiscard]] uint64_t end() const { return at + bytes; }
    [[nodiscard]] uint64_t live() const { return free ? 0 : bytes; }
  };
  // Stretches that are side by side, between two things that will not move.
  struct Pocket {
    std::span<const Stretch> stretches;
    uint64_t free = 0, longest_free = 0;
  };
  // Some stretches of a pocket.
  struct Window {
    Space::Piece piece;
    std::vector<uint64_t> runs;
  };

  // Called when runs at both ends of the piece cannot move. Makes room elsewhere by moving runs into the piece, and
  // goes on from there; the rest of the old place becomes free. False: there is no such place.
  bool jump() {
    for (const Window& window : windows_to_go_on()) {
      if (!exchange(window)) continue;
      static_cast<void>(epochs_.drain(kReadersMs));
      return true;
    }
    return false;
  }

  // Moves the runs of a window into the piece. All their owners are held before, so that none of the moves fails for
  // another thread. False: they could not be held, or the window has changed.
  bool exchange(const Window& window) {
    step("move runs");
    const auto guard = epochs_.enter();
    uint64_t bytes = 0;
    bool all = true;
    for (const uint64_t from : window.runs) {
      bytes += runs_.at(from).bytes;
      all = all && owners_.hold(runs_.at(from).owner);
    }
    const bool begun = all && space_.begin_exchange(window.piece, bytes);
    for (size_t i = 0; begun && i < window.runs.size(); ++i) {
      const auto it = runs_.find(window.runs[i]);
      const uint64_t to = move_run(it->first, it->second, Way::kInto);
      if (to == 0) {  // it is not there any more, or the volume has failed
        space_.give_up_exchange();
        break;
      }
      runs_[to] = it->second;
      runs_.erase(it);
    }
    owners_.release();
    return begun;
  }

  // Places to which the piece may go: in the pockets with the most to collect, with runs that fit into the piece. A
  // jump also carries free bytes: the old place has as many more as the new one had. None if the gain is too small.
  [[nodiscard]] std::vector<Window> windows_to_go_on() const {
    const Space::Piece piece = space_.relocation_reserve();
    const std::vector<Stretch> stretches = stretches_in_order();
    std::vector<Pocket> pockets = pockets_of(stretches);
    const auto scattered = [](const Pocket& pocket) { return pocket.free - pocket.longest_free; };
    std::sort(pockets.begin(), pockets.end(),
              [&](const Pocket& a, const Pocket& b) { return scattered(a) > scattered(b); });
    uint64_t free = 0;
    for (const Pocket& pocket : pockets) free += pocket.free;
    std::vector<Window> windows;
    if (free < kJumpGain * space_.longest_free_bytes()) return windows;
    for (const Pocket& pocket : pockets) {
      if (scattered(pocket) == 0) break;
      Window window = widest_window(pocket, piece.bytes, space_.relocation_bytes_wanted());
      if (window.piece.bytes >= std::min(piece.bytes, space_.relocation_bytes_wanted()))
        windows.push_back(std::move(window));
    }
    return windows;
  }

  [[nodiscard]] std::vector<Stretch> stretches_in_order() const {
    std::vector<Stretch> stretches;
    for (size_t target = 0; target < space_.targets(); ++target) {
      for (const Space::Piece& free : space_.free_pieces(target))
        stretches.push_back({free.addr.bits(), free.bytes, true});
    }
    for (const auto& [at, run] : runs_) stretches.push_back({at, run.bytes, false});
    std::sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) { return a.at < b.at; });
    return stretches;
  }

  static std::vector<Pocket> pockets_of(std::span<const Stretch> stretches) {
    std::vector<Pocket> pockets;
    for (size_t first = 0, i = 0; i < stretches.size(); ++i) {
      if (i == 0 || stretches[i - 1].end() != stretches[i].at) {
        first = i;
        pockets.emplace_back();
      }
      Pocket& pocket = pockets.back();
      pocket.stretches = stretches.subspan(first, i + 1 - first);
      if (!stretches[i].free) continue;
      pocket.free += stretches[i].bytes;
      pocket.longest_free = std::max(pocket.longest_free, stretches[i].bytes);
    }
    return pockets;
  }

  // The widest window with less than `live_max` bytes in use; among those of at least `bytes_wanted`, the one with the
  // fewest bytes in use. So a piece that has become short grows from jump to jump.
  static Window widest_window(const Pocket& pocket, uint64_t live_max, uint64_t bytes_wanted) {
    const std::span<const Stretch> stretches = pocket.stretches;
    std::span<const Stretch> best;
    uint64_t best_bytes = 0, best_live = 0, live = 0;
    for (size_t first = 0, end = 0; end < stretches.size(); ++end) {
      live += stretches[end].live();
      for (; first <= end; live -= stretches[first++].live()) {
        const uint64_t bytes = std::min(stretches[end].end() - stretches[first].at, bytes_wanted);
        if (live < live_max && (bytes > best_bytes || (bytes == best_bytes && live < best_live))) {
          best = stretches.subspan(first, end + 1 - first);
          best_bytes = bytes;
          best_live = live;
        }
        if (live < live_max && bytes < bytes_wanted) break;
      }
    }
    Window window;
    if (best.empty()) return window;
    window.piece = {scale::Addr::of_bits(best.front().at), best.back().end() - best.front().at};
    for (const Stretch& stretch : best) {
      if (!stretch.free) window.runs.push_back(stretch.at);
    }
    return window;
  }

  // Lets the run at one end of the piece cross it. False: there is none, or it cannot be moved now.
  bool move_neighbour() {
    const Space::Piece piece = space_.relocation_reserve();
    auto it = runs_.lower_bound(piece.addr.bits());
    if (upwards_) {
      it = runs_.find(piece.end().bits());
    } else if (it == runs_.begin() || (--it)->first + it->second.bytes != piece.addr.bits()) {
      return false;
    }
    return it != runs_.end() && it->second.bytes <= piece.bytes && move_across(it);
  }

  enum class Way {
    kAcross,  // the piece; it is then where the run was
    kInto,    // the piece, which gets shorter; where the run was is free
  };

  // False if the run is not its owner's any more, or cannot be moved now.
  bool move_across(std::map<uint64_t, Run>::iterator it) {
    step("move run");
    const auto guard = epochs_.enter();
    const auto [from, run] = *it;
    const uint64_t to = owners_.hold(run.owner) ? move_run(from, run, Way::kAcross) : 0;
    owners_.release();
    if (to == 0) return false;
    runs_.erase(it);
    runs_[to] = run;
    return true;
  }

  // Returns the run's new place, or 0. Requires: its owner is held.
  uint64_t move_run(uint64_t from, const Run& run, Way way) {
    if (store_.volume().failed()) return 0;  // the last move may not have ended
    const Dnode* old = owners_.dnode(run.owner);
    if (old == nullptr) return 0;
    const auto& runs = old->runs();
    const auto desc = std::find_if(runs.begin(), runs.end(), [&](const auto& other) { return other.addr == from; });
    // Other threads replace runs meanwhile: the run there now may be a longer or a shorter one of the same owner.
    if (desc == runs.end() || round_up(desc->bytes, kBlockBytes) != run.bytes) return 0;
    const bool across = way == Way::kAcross;
    const scale::Addr to =
        across ? space_.begin_slide({scale::Addr::of_bits(from), run.bytes}) : space_.cut_relocation_reserve(run.bytes);
    DnodeWriter writer(store_);
    Dnode* moved = nullptr;
    if (!writer.add_moved(*old, static_cast<size_t>(desc - runs.begin()), to, &moved).ok()) {
      across ? space_.end_slide(false) : space_.free(to, run.bytes);
      return 0;
    }
    step("persist moved run");
    std::vector<std::unique_ptr<Dnode>> fresh;
    if (!writer.commit(&fresh).ok()) return 0;   // and neither place is used again
    static_cast<void>(fresh.front().release());  // the owner's from now on
    step("exchange moved run");
    owners_.exchange(run.owner, moved);
    if (!store_.retire({old}).ok()) {
      epochs_.retire_delete(const_cast<Dnode*>(old));
      return 0;
    }
    epochs_.retire(
        new Replaced{std::unique_ptr<const Dnode>(old), across ? runs : moved->runs(), moved->long_fences(), across},
        &Replaced::reclaim, &store_);
    return to.bits();
  }

  // A replaced dnode, kept until its last reader has ended.
  struct Replaced {
    std::unique_ptr<const Dnode> dnode;
    Runs kept;
    scale::Addr kept_fences;
    bool slides;  // the old place of its run belongs to the piece

    static void reclaim(void* object, void* store) {
      const std::unique_ptr<Replaced> self(static_cast<Replaced*>(object));
      auto* dnodes = static_cast<DnodeStore*>(store);
      dnodes->free(*self->dnode, self->kept, self->kept_fences);
      if (self->slides) dnodes->space().end_slide(true);
    }
  };

  DnodeStore& store_;
  base::EpochDomain& epochs_;
  Space& space_;
  Owners& owners_;
  bool& upwards_;
  std::map<uint64_t, Run> runs_;  // by address
};

bool Defragmenter::run(Owners* owners, uint64_t bytes_wanted) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || store_.space().relocation_reserve().bytes == 0 || store_.volume().failed()) return false;
  return Pass(*this, *owners).run(bytes_wanted);
}

}  // namespace bonsai::persist
