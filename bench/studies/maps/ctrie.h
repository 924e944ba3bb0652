// SPDX-License-Identifier: Apache-2.0
// A concurrent hash trie with atomic snapshots, after Prokopec, Bronson, Bagwell and Odersky (2012).
//
// A main node has up to 32 branches, chosen by five bits of a key's hash. A branch is a record, or a place (in the
// paper: I-node) that holds the main node of the next level. Main nodes never change: an update copies one and swaps
// the copy into its place. Every place belongs to a generation, and a snapshot gives the root a new one. An update that
// comes to a place of an older generation first copies the place into the new generation, so that the snapshot keeps
// its state. A swap counts only if the root still has the place's generation: the new main node names the old one until
// that is settled (in the paper: GCAS), and every thread that meets it in between settles it. The root is exchanged if
// its main node is the expected one (in the paper: RDCSS). A swap in flight may prevent that; then the snapshot begins
// again.
//
// So scans are atomic, and concurrent puts copy. Hashes are in no order: a scan visits all of a snapshot and sorts the
// records found, however few the caller wants.
//
// Differences: a snapshot's exchange is settled by its state, which is never in doubt (in the paper a helper may report
// it late). Gets copy nothing: a place of an older generation is unchanged since its successor was copied.
// Simplified: main nodes are not contracted when all but one of their records are removed, so there are no tombs;
// hashes have 64 bits and are all different, so there are no lists of keys that collide.
//
// Memory order: all operations are sequentially consistent, except that gets and scans acquire.
#ifndef BONSAI_BENCH_STUDIES_MAPS_CTRIE_H_
#define BONSAI_BENCH_STUDIES_MAPS_CTRIE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "bench/studies/maps/map.h"
#include "bench/studies/maps/memory.h"

namespace bonsai::bench::maps {

struct CtrieOptions {
  uint32_t bits = 5;  // of the hash, per level; 1 to 5
};

class Ctrie final : public Map {
 public:
  explicit Ctrie(const CtrieOptions& options = {});
  ~Ctrie() override;

  [[nodiscard]] bool get(uint64_t key, uint64_t* value) override;
  void put(uint64_t key, uint64_t value) override { update({key, value}, false); }
  void remove(uint64_t key) override { update({key, 0}, true); }
  void scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) override;
  [[nodiscard]] bool scans_are_atomic() const override { return true; }
  [[nodiscard]] uint64_t bytes() const override { return memory_.bytes(); }
  [[nodiscard]] Counters counters() const override {
    return {.scans_restarted = scans_restarted_.load(), .nodes_copied = nodes_copied_.load()};
  }

 private:
  static constexpr uintptr_t kAborted = 1;   // of Main::previous
  static constexpr uintptr_t kExchange = 1;  // of the root

  struct Place;
  // A record, or a place.
  union Branch {
    Record record;
    Place* place;
  };
  struct Main {
    std::atomic<uintptr_t> previous;  // until it is settled; with kAborted: to be put back
    uint32_t branches;                // a bit each
    uint32_t places;                  // of them

    [[nodiscard]] Branch* at(uint32_t bit) { return begin() + __builtin_popcount(branches & (bit - 1)); }
    [[nodiscard]] Branch* begin() { return reinterpret_cast<Branch*>(this + 1); }
    [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(__builtin_popcount(branches)); }
    [[nodiscard]] bool has_record(uint32_t bit) const { return (branches & ~places & bit) != 0; }
    [[nodiscard]] bool has_place(uint32_t bit) const { return (places & bit) != 0; }
  };
  struct Place {
    std::atomic<Main*> main;
    const uint64_t generation;
  };
  // The root, while a snapshot takes place.
  struct Exchange {
    Place* const before;
    Main* const expected;
    Place* const after;
    enum State : uint32_t { kOpen, kDone, kGivenUp };
    std::atomic<uint32_t> state{kOpen};
  };
  enum class Outcome { kDone, kAgain };

  static uint64_t hash_of(uint64_t key);
  [[nodiscard]] uint32_t bit_of(uint64_t hash, uint32_t level) const {
    return uint32_t{1} << ((hash >> (level * bits_)) & ((1U << bits_) - 1));
  }
  static size_t bytes_of(uint32_t branches) { return sizeof(Main) + branches * sizeof(Branch); }

  Main* make_main(uint32_t branches, uint32_t places);
  Main* copy_with(Main* main, uint32_t bit, bool is_place, Branch branch);
  Main* copy_without(Main* main, uint32_t bit);
  Main* copy_into(Main* main, uint64_t generation);
  Main* make_pair(const Record& a, const Record& b, uint32_t level, uint64_t generation);

  Place* root();
  Place* settle(Exchange* exchange, bool gives_up);
  Main* main_of(Place* place);
  Main* settle(Place* place, Main* main);
  bool swap(Place* place, Main* old, Main* fresh);
  Place* snapshot();

  void update(const Record& record, bool removes);
  Outcome update_below(Place* place, const Record& record, bool removes, uint64_t generation);
  Outcome update_in(Place* place, Main* main, uint32_t level, const Record& record, bool removes);

  enum class Fate { kRetired, kFreed };
  void dispose(Main* main, Fate fate);
  void dispose(Place* place, Fate fate);
  void dispose_with_own(Main* main, Main* other, bool and_below, Fate fate);
  void free_tree(Place* place);

  const uint32_t bits_;
  Memory memory_;
  std::atomic<uint64_t> generations_{1};
  std::atomic<uintptr_t> root_;  // a Place, or an Exchange with kExchange
  alignas(64) std::atomic<uint64_t> scans_restarted_{0};
  alignas(64) std::atomic<uint64_t> nodes_copied_{0};
};

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_CTRIE_H_
