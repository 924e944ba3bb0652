// Gathering free space: when no free piece of the data area is long enough for a dnode, though together they would be,
// the piece that is set aside (persist/space.h) walks through the area. Run after run crosses it, and the free blocks
// between the runs stay with it, until it is long enough to give some away.
//
// A run that crosses is a dnode written again: the same range, generation and entries. So no record of the log changes
// its meaning, and a crash leaves one of the two live; they say the same.
#include <algorithm>
#include <map>
#include <optional>

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
    const uint64_t bytes_before = longest_free();
    uint64_t bytes = bytes_before;
    for (int jumps = 0; jumps <= kJumpsMax && bytes < bytes_wanted; ++jumps) {
      if (jumps > 0 && !jump()) break;
      if (!walk(space_.aside_bytes_wanted() + bytes_wanted)) return false;
      space_.restore_aside(index_.gather_upwards_);
      bytes = longest_free();
    }
    return bytes > bytes_before;
  }

 private:
  static constexpr uint64_t kReadersMs = 100;
  static constexpr int kJumpsMax = 4;
  static constexpr uint64_t kJumpGain = 16;  // a jump to a place of which less than this part is free is not worth it

  struct Run {
    uint64_t bytes;
    base::Fence lo;  // of its bnode
    Bnode* frozen;   // the bnode, if it is one of a held layer
  };

  // Old versions that live scans need may lie between a bnode and its dnode.
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
  // reader is held up.
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

  [[nodiscard]] uint64_t longest_free() const {
    uint64_t bytes = 0;
    for (const Space::Piece& piece : space_.free_pieces(space_.aside().addr.target()))
      bytes = std::max(bytes, piece.bytes);
    return bytes;
  }

  // What will not move is at both ends of the piece. Makes room elsewhere, by moving runs into the piece, to go on from
  // there; the rest of the old place becomes free. False: there is no such place. If a run there cannot be moved after
  // all, the piece stays where it is, and is shorter until it is next widened.
  bool jump() {
    const Space::Piece piece = space_.aside();
    const uint64_t bytes = std::min(piece.bytes, space_.aside_bytes_wanted());
    const std::optional<Window> window = window_with_least(bytes);
    if (!window || window->live + bytes / kJumpGain > bytes || window->live >= piece.bytes) return false;
    for (const uint64_t from : window->runs) {
      const auto it = runs_.find(from);
      if (it == runs_.end() || !move(it, Way::kInto)) return true;
    }
    static_cast<void>(index_.epochs_.drain(kReadersMs));
    static_cast<void>(space_.replace_aside(window->piece));
    return true;
  }

  // A part of the area in which everything is free or can be moved.
  struct Window {
    Space::Piece piece;
    uint64_t live = 0;
    std::vector<uint64_t> runs;
  };

  // That of at least `bytes`, in the target of the piece, with the fewest bytes in use.
  std::optional<Window> window_with_least(uint64_t bytes) const {
    struct Part {
      uint64_t at, bytes;
      bool free;
    };
    std::vector<Part> parts;
    const size_t target = space_.aside().addr.target();
    for (const Space::Piece& free : space_.free_pieces(target)) parts.push_back({free.addr.bits(), free.bytes, true});
    for (const auto& [at, run] : runs_) {
      if (scale::Addr::of_bits(at).target() == target) parts.push_back({at, run.bytes, false});
    }
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.at < b.at; });
    size_t best_first = 0, best_end = 0, first = 0;
    uint64_t best_live = UINT64_MAX, live = 0;
    for (size_t end = 0; end < parts.size(); ++end) {
      if (end > first && parts[end - 1].at + parts[end - 1].bytes != parts[end].at) {
        first = end;
        live = 0;
      }
      live += parts[end].free ? 0 : parts[end].bytes;
      for (; parts[end].at + parts[end].bytes - parts[first].at >= bytes; ++first) {
        if (live < best_live) {
          best_live = live;
          best_first = first;
          best_end = end + 1;
        }
        live -= parts[first].free ? 0 : parts[first].bytes;
        if (first == end) {
          ++first;
          break;
        }
      }
    }
    if (best_end == 0) return std::nullopt;
    Window window{{scale::Addr::of_bits(parts[best_first].at), 0}, best_live, {}};
    for (size_t i = best_first; i < best_end; ++i) {
      window.piece.bytes += parts[i].bytes;
      if (!parts[i].free) window.runs.push_back(parts[i].at);
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
    return it != runs_.end() && it->second.bytes <= piece.bytes && move(it, Way::kAcross);
  }

  enum class Way {
    kAcross,  // the piece; it then lies where the run was
    kInto,    // the piece, which gets shorter; where the run was is free
  };

  // False if the run is not its bnode's any more, or cannot be moved now.
  bool move(std::map<uint64_t, Run>::iterator it, Way way) {
    const auto guard = index_.epochs_.enter();
    const auto [from, run] = *it;
    Bnode* bnode = run.frozen != nullptr ? run.frozen : index_.tree_.find(run.lo.key());
    if (run.frozen == nullptr && !bnode->claim()) return false;
    const bool mine = run.frozen != nullptr || bnode->layer() == nullptr;
    const uint64_t to = mine ? move_run(bnode, from, run, way) : 0;
    if (run.frozen == nullptr) bnode->unclaim();
    if (to == 0) return false;
    runs_.erase(it);
    runs_[to] = run;
    return true;
  }

  // Returns the run's new place, or 0. Requires: the bnode's claim or its layer.
  uint64_t move_run(Bnode* bnode, uint64_t from, const Run& run, Way way) {
    Bnode* holder = holder_of(bnode);
    const Dnode* old = holder->base().dnode();
    if (old == nullptr) return 0;
    const auto& runs = old->runs();
    const auto desc = std::find_if(runs.begin(), runs.end(), [&](const auto& other) { return other.addr == from; });
    if (desc == runs.end()) return 0;
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
    for (auto& dnode : writer.commit()) static_cast<void>(dnode.release());  // the holder's from now on
    step("switch base to moved run");
    holder->set_base(Base::of(moved));
    if (run.frozen == nullptr && holder == bnode) index_.tree_.replace({bnode}, {bnode});  // knows its new dnode now
    index_.dnodes_.retire({old});
    index_.work_.moves.fetch_add(1, std::memory_order_relaxed);
    index_.epochs_.retire(new Replaced{std::unique_ptr<const Dnode>(old), across ? runs : moved->runs(), across},
                          &Replaced::reclaim, &index_.dnodes_);
    return to.bits();
  }

  // A dnode that was written again, until nobody reads it.
  struct Replaced {
    std::unique_ptr<const Dnode> dnode;
    persist::Runs kept;
    bool slides;  // the old place of its run belongs to the piece

    static void reclaim(void* object, void* store) {
      const std::unique_ptr<Replaced> self(static_cast<Replaced*>(object));
      auto* dnodes = static_cast<persist::DnodeStore*>(store);
      dnodes->free(*self->dnode, self->kept);
      if (self->slides) dnodes->space().end_slide(true);
    }
  };

  Index& index_;
  Space& space_;
  std::map<uint64_t, Run> runs_;  // by address
};

bool Index::gather() {
  const std::unique_lock lock(gather_mutex_, std::try_to_lock);
  if (!lock.owns_lock() || dnodes_.space().aside().bytes == 0) return false;
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

}  // namespace bonsai::index
