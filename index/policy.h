// SPDX-License-Identifier: Apache-2.0
// Policy of replacement: whether a range's updates are appended to its dnode, whether the dnode is compacted, split or
// merged, and how large the successors' tables are. Replacing and offloading collect the facts and carry out these
// decisions.
//
// Pure functions of their arguments: no state, no NVM, no clock. Thread-safety: any thread.
#ifndef BONSAI_INDEX_POLICY_H_
#define BONSAI_INDEX_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/key.h"
#include "persist/dnode.h"
#include "persist/pool.h"

namespace bonsai::index::policy {

using persist::Limits;

// A number of entries, and the bytes that they take in a dnode.
struct Weight {
  uint64_t entries = 0, bytes = 0;

  friend Weight operator+(const Weight& a, const Weight& b) { return {a.entries + b.entries, a.bytes + b.bytes}; }
};

// A dnode, hidden entries included.
struct Shape {
  size_t runs = 0;
  Weight all, body;  // body: the oldest run
  uint64_t newest_entries = 0;
  bool has_large = false;

  static Shape of(const persist::Dnode& dnode);
};

// A bnode's table of updates.
struct Table {
  bool exists = false;
  uint32_t capacity = 0, used = 0;  // capacity: of the table that there would be, too
  bool above_high_mark = false;
};

// A bnode that is to be replaced.
struct Facts {
  Weight updates;
  Shape dnode;
  Table table;
  bool rising = false;   // keys come in rising order
  bool log_low = false;  // ranges wait for the log
  bool carries = false;  // to read the dnode is a round trip

  // Overwritten entries count twice.
  [[nodiscard]] Weight all() const { return updates + dnode.all; }
};

struct Plan {
  double fresh = 0;       // Layer::fresh
  bool splits = false;    // the range is cut, if its keys have a place for it
  bool merges = false;    // with its right neighbour, if both fit_together()
  uint32_t capacity = 0;  // of the successor's table, where there is one
};

// The limits by which ranges are planned. A split takes a header, and unused parts of two blocks. While space is short,
// deletes need the reserve, so a range is split for its bytes alone, and neighbours are merged sooner.
[[nodiscard]] Limits limits_now(const Limits& limits, bool space_short);
// Whether `weight` is more than `dnodes` dnodes may hold.
[[nodiscard]] bool exceeds(const Weight& weight, const Limits& limits, uint64_t dnodes = 1);
// Whether a dnode may take the updates as a run, or is to be compacted (and perhaps split). `fresh`: of the entries
// appended since the last compaction, the share that hides no older entry.
[[nodiscard]] bool may_append(const Shape& dnode, const Weight& updates, const Limits& limits, double fresh);
// Whether the newest run is written once more together with appended updates: it is small, and the dnode would
// otherwise run out of runs before its body is compacted. Requires: updates > 0.
[[nodiscard]] bool absorbs_newest(const Shape& dnode, uint64_t updates, const Limits& limits, double fresh);
// Whether readers gain if an idle range is compacted.
[[nodiscard]] bool is_compactable(size_t runs, bool has_updates);

// Whether plan() should get an estimate of the range's weight once each key has one entry.
[[nodiscard]] bool wants_a_look(const Facts& facts, const Limits& limits);
// `left`: that estimate; nothing: none was made. It may be the whole weight if the estimate failed.
[[nodiscard]] Plan plan(const Facts& facts, const Limits& limits, const std::optional<Weight>& left);
// Whether two neighbours may become one.
[[nodiscard]] bool fit_together(const Weight& a, const Weight& b, const Limits& limits);
// Capacity of one part's table if a range is cut into `parts`. `last`: the rightmost part.
[[nodiscard]] uint32_t capacity_of_part(const Plan& plan, bool rising, size_t parts, bool last);
// Capacity of the table of a part in which a batch found no room, for `items` items of the batch.
[[nodiscard]] uint32_t capacity_for_batch(const Table& table, bool is_cut, uint64_t items);

// A key, and the bytes of its entry in a dnode.
struct Sized {
  base::Key key;
  uint64_t bytes;
};
// Cuts a range of these keys: the first keys of all parts but the first. `rising`: all parts but the last are nearly
// full; else they are of about equal weight. None if the range need not be cut.
[[nodiscard]] std::vector<std::string> cuts_of(std::span<const Sized> keys, bool rising, const Limits& limits);

}  // namespace bonsai::index::policy

#endif  // BONSAI_INDEX_POLICY_H_
