// Gathering free space: when no free piece of the data area is long enough for a dnode, though together they would be,
// the piece that is set aside (persist/space.h) walks through the area. Run after run crosses it, and the free blocks
// between the runs stay with it, until it is long enough to give some away.
//
// A run that crosses is a dnode written again: the same range, generation and entries. So no record of the log changes
// its meaning, and a crash leaves one of the two live; they say the same.
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "index/index.h"

namespace bonsai::index {

using base::step;
using persist::Dnode;
using persist::Space;

class Index::Gather {
 public:
  // Requires: nobody else works on the layers `held`.
  Gather(Index& index, const std::deque<Layer*>& held) : index_(index), space_(index.dnodes_.space()) {
    const auto guard = index_.epochs_.enter();
    for (const Layer* layer : held) {
      for (Bnode* old : layer->olds) note(*old, old);
    }
    index_.tree_.for_each([&](Bnode* bnode) {
      if (bnode->layer() == nullptr) note(*bnode, nullptr);
    });
  }

  // Moves runs until a free piece has `bytes_wanted`. False: the longest one has not become longer.
  bool run(uint64_t bytes_wanted) {
    const uint64_t bytes_before = space_.longest_free_bytes();
    uint64_t bytes = bytes_before;
    for (int jumps = 0; jumps <= kJumpsMax && bytes < bytes_wanted; ++jumps) {
      if (jumps > 0 && !jump()) break;
      if (!walk(space_.aside_bytes_wanted() + bytes_wanted)) return false;
      space_.restore_aside(index_.gather_upwards_);
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
    base::Fence lo;  // of its bnode
    Bnode* frozen;   // the bnode, if it is one of a held layer
  };

  // Old versions that live scans need may be between a bnode and its dnode.
  static Bnode* holder_of(Bnode* bnode) {
    Bnode* residue = bnode->base().residue();
    return residue != nullptr ? residue : bnode;
  }

  void note(Bnode& bnode, Bnode* frozen) {
    const Dnode* dnode = holder_of(&bnode)->base().dnode();
    if (dnode == nullptr) return;
    for (const persist::RunDesc& run : dnode->runs()) {
      runs_[run.addr] = {persist::round_up(run.bytes, persist::kBlockBytes), bnode.lo(), frozen};
    }
  }

  // Widens the piece to `bytes`, or as far as runs in either direction can be moved. False: it is not there, since a
  // reader was preempted.
  bool walk(uint64_t bytes) {
    for (int turns = 0; turns < 2; ++turns) {
      for (;;) {
        if (space_.aside().bytes == 0) return false;
        space_.widen_aside();
        if (space_.aside().bytes >= bytes) return true;
        if (!move_neighbour()) break;
        static_cast<void>(index_.epochs_.drain(kReadersMs));
      }
      index_.gather_upwards_ = !index_.gather_upwards_;
    }
    return true;
  }

  // A stretch of the area that is free, or a run's.
  struct Part {
    uint64_t at, bytes;
    bool free;

    [[nodiscard]] uint64_t end() const { return at + bytes; }
    [[nodiscard]] uint64_t live() const { return free ? 0 : bytes; }
  };
  // Parts that are side by side, between two things that will not move.
  struct Pocket {
    std::span<const Part> parts;
    uint64_t free = 0, longest_free = 0;
  };
  // Some parts of a pocket.
  struct Window {
    Space::Piece piece;
    std::vector<uint64_t> runs;
  };

  // What will not move is at both ends of the piece. Makes room elsewhere, by moving runs into the piece, to go on from
  // there; the rest of the old place becomes free. False: there is no such place.
  bool jump() {
    for (const Window& window : windows_to_go_on()) {
      if (!exchange(window)) continue;
      static_cast<void>(index_.epochs_.drain(kReadersMs));
      return true;
    }
    return false;
  }

  // Moves the runs of a window into the piece, under claims that were all taken before, so that none of them fails for
  // another thread. False: they could not be taken, or the window has changed.
  bool exchange(const Window& window) {
    step("move runs");
    const auto guard = index_.epochs_.enter();
    std::vector<Claimed> claimed;
    uint64_t bytes = 0;
    bool all = true;
    for (const uint64_t from : window.runs) {
      bytes += runs_.at(from).bytes;
      all = all && claim(runs_.at(from), &claimed);
    }
    const bool begun = all && space_.begin_exchange(window.piece, bytes);
    for (size_t i = 0; begun && i < window.runs.size(); ++i) {
      const auto it = runs_.find(window.runs[i]);
      const uint64_t to = move_run(claimed[i].bnode, it->first, it->second, Way::kInto);
      if (to == 0) {  // it is not there any more, or the volume has failed
        space_.give_up_exchange();
        break;
      }
      runs_[to] = it->second;
      runs_.erase(it);
    }
    for (const Claimed& each : claimed) {
      if (each.mine) each.bnode->unclaim();
    }
    return begun;
  }

  struct Claimed {
    Bnode* bnode;
    bool mine;  // the claim
  };
  // Of a run's bnode, whose claim is taken once for all its runs. False: it is another thread's.
  bool claim(const Run& run, std::vector<Claimed>* claimed) {
    Bnode* bnode = run.frozen != nullptr ? run.frozen : index_.tree_.find(run.lo.key());
    const bool had = run.frozen != nullptr || std::any_of(claimed->begin(), claimed->end(),
                                                          [&](const Claimed& each) { return each.bnode == bnode; });
    if (!had && !bnode->claim()) return false;
    claimed->push_back({bnode, !had});
    return run.frozen != nullptr || bnode->layer() == nullptr;
  }

  // Where the piece may be put: in the pockets that have the most to be gathered, and what is there must fit into the
  // piece. A jump also carries free bytes: as many more are at the old place as the new one had. None if all that is
  // free is not worth it.
  [[nodiscard]] std::vector<Window> windows_to_go_on() const {
    const Space::Piece piece = space_.aside();
    const std::vector<Part> parts = parts_in_order();
    std::vector<Pocket> pockets = pockets_of(parts);
    const auto scattered = [](const Pocket& pocket) { return pocket.free - pocket.longest_free; };
    std::sort(pockets.begin(), pockets.end(),
              [&](const Pocket& a, const Pocket& b) { return scattered(a) > scattered(b); });
    uint64_t free = 0;
    for (const Pocket& pocket : pockets) free += pocket.free;
    std::vector<Window> windows;
    if (free < kJumpGain * space_.longest_free_bytes()) return windows;
    for (const Pocket& pocket : pockets) {
      if (scattered(pocket) == 0) break;
      Window window = widest_window(pocket, piece.bytes, space_.aside_bytes_wanted());
      if (window.piece.bytes >= std::min(piece.bytes, space_.aside_bytes_wanted()))
        windows.push_back(std::move(window));
    }
    return windows;
  }

  [[nodiscard]] std::vector<Part> parts_in_order() const {
    std::vector<Part> parts;
    for (size_t target = 0; target < space_.targets(); ++target) {
      for (const Space::Piece& free : space_.free_pieces(target)) parts.push_back({free.addr.bits(), free.bytes, true});
    }
    for (const auto& [at, run] : runs_) parts.push_back({at, run.bytes, false});
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.at < b.at; });
    return parts;
  }

  static std::vector<Pocket> pockets_of(std::span<const Part> parts) {
    std::vector<Pocket> pockets;
    for (size_t first = 0, i = 0; i < parts.size(); ++i) {
      if (i == 0 || parts[i - 1].end() != parts[i].at) {
        first = i;
        pockets.emplace_back();
      }
      Pocket& pocket = pockets.back();
      pocket.parts = parts.subspan(first, i + 1 - first);
      if (!parts[i].free) continue;
      pocket.free += parts[i].bytes;
      pocket.longest_free = std::max(pocket.longest_free, parts[i].bytes);
    }
    return pockets;
  }

  // The widest window with less than `live_max` bytes in use; of those that are `bytes_wanted` wide the one with the
  // least. So a piece that has become short grows from jump to jump.
  static Window widest_window(const Pocket& pocket, uint64_t live_max, uint64_t bytes_wanted) {
    const std::span<const Part> parts = pocket.parts;
    std::span<const Part> best;
    uint64_t best_bytes = 0, best_live = 0, live = 0;
    for (size_t first = 0, end = 0; end < parts.size(); ++end) {
      live += parts[end].live();
      for (; first <= end; live -= parts[first++].live()) {
        const uint64_t bytes = std::min(parts[end].end() - parts[first].at, bytes_wanted);
        if (live < live_max && (bytes > best_bytes || (bytes == best_bytes && live < best_live))) {
          best = parts.subspan(first, end + 1 - first);
          best_bytes = bytes;
          best_live = live;
        }
        if (live < live_max && bytes < bytes_wanted) break;
      }
    }
    Window window;
    if (best.empty()) return window;
    window.piece = {scale::Addr::of_bits(best.front().at), best.back().end() - best.front().at};
    for (const Part& part : best) {
      if (!part.free) window.runs.push_back(part.at);
    }
    return window;
  }

  // Lets the run at one end of the piece cross it. False: there is none, or it cannot be moved now.
  bool move_neighbour() {
    const Space::Piece piece = space_.aside();
    auto it = runs_.lower_bound(piece.addr.bits());
    if (index_.gather_upwards_) {
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

  // False if the run is not its bnode's any more, or cannot be moved now.
  bool move_across(std::map<uint64_t, Run>::iterator it) {
    step("move run");
    const auto guard = index_.epochs_.enter();
    const auto [from, run] = *it;
    std::vector<Claimed> claimed;
    const uint64_t to = claim(run, &claimed) ? move_run(claimed.front().bnode, from, run, Way::kAcross) : 0;
    for (const Claimed& each : claimed) {
      if (each.mine) each.bnode->unclaim();
    }
    if (to == 0) return false;
    runs_.erase(it);
    runs_[to] = run;
    return true;
  }

  // Returns the run's new place, or 0. Requires: the bnode's claim or its layer.
  uint64_t move_run(Bnode* bnode, uint64_t from, const Run& run, Way way) {
    if (index_.dnodes_.volume().failed()) return 0;  // the last move may not have ended
    Bnode* holder = holder_of(bnode);
    const Dnode* old = holder->base().dnode();
    if (old == nullptr) return 0;
    const auto& runs = old->runs();
    const auto desc = std::find_if(runs.begin(), runs.end(), [&](const auto& other) { return other.addr == from; });
    // Others replace runs meanwhile: what is there now may be a longer or a shorter one of the same bnode.
    if (desc == runs.end() || persist::round_up(desc->bytes, persist::kBlockBytes) != run.bytes) return 0;
    const bool across = way == Way::kAcross;
    const scale::Addr to =
        across ? space_.begin_slide({scale::Addr::of_bits(from), run.bytes}) : space_.cut_aside(run.bytes);
    persist::DnodeWriter writer(index_.dnodes_);
    Dnode* moved = nullptr;
    if (!writer.add_moved(*old, static_cast<size_t>(desc - runs.begin()), to, &moved).ok()) {
      across ? space_.end_slide(false) : space_.free(to, run.bytes);
      return 0;
    }
    step("persist moved run");
    std::vector<std::unique_ptr<Dnode>> fresh;
    if (!writer.commit(&fresh).ok()) return 0;   // and neither place is used again
    static_cast<void>(fresh.front().release());  // the holder's from now on
    step("switch base to moved run");
    holder->set_base(Base::of(moved));
    if (run.frozen == nullptr && holder == bnode) index_.tree_.replace({bnode}, {bnode});  // knows its new dnode now
    if (!index_.dnodes_.retire({old}).ok()) {
      index_.epochs_.retire_delete(const_cast<Dnode*>(old));
      return 0;
    }
    index_.work_.moves.fetch_add(1, std::memory_order_relaxed);
    index_.epochs_.retire(
        new Replaced{std::unique_ptr<const Dnode>(old), across ? runs : moved->runs(), moved->long_fences(), across},
        &Replaced::reclaim, &index_.dnodes_);
    return to.bits();
  }

  // A dnode that was written again, until nobody reads it.
  struct Replaced {
    std::unique_ptr<const Dnode> dnode;
    persist::Runs kept;
    scale::Addr kept_fences;
    bool slides;  // the old place of its run belongs to the piece

    static void reclaim(void* object, void* store) {
      const std::unique_ptr<Replaced> self(static_cast<Replaced*>(object));
      auto* dnodes = static_cast<persist::DnodeStore*>(store);
      dnodes->free(*self->dnode, self->kept, self->kept_fences);
      if (self->slides) dnodes->space().end_slide(true);
    }
  };

  Index& index_;
  Space& space_;
  std::map<uint64_t, Run> runs_;  // by address
};

bool Index::gather() {
  const std::unique_lock lock(gather_mutex_, std::try_to_lock);
  if (!lock.owns_lock() || dnodes_.space().aside().bytes == 0 || dnodes_.volume().failed()) return false;
  std::deque<Layer*> held;
  {
    const std::lock_guard queue_lock(queue_mutex_);
    held.swap(urgent_);
  }
  const bool gained = Gather(*this, held).run(kDnodesGathered * config_.limits.dnode_bytes_max);
  const std::lock_guard queue_lock(queue_mutex_);
  urgent_.insert(urgent_.begin(), held.begin(), held.end());
  return gained;
}

Index::OffloadResult Index::offload_into_reserve(Which which) {
  const std::unique_lock lock(gather_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return {};
  dnodes_.space().lend_aside(true);
  const OffloadResult result = offload(1, which);
  dnodes_.space().lend_aside(false);
  return result;
}

}  // namespace bonsai::index
