// SPDX-License-Identifier: Apache-2.0
// Walks through the entries of a dnode. Invariants: dnode.h.
//
// Thread-safety: one owner, inside an epoch guard that keeps the dnode.
#ifndef BONSAI_PERSIST_DNODE_CURSOR_H_
#define BONSAI_PERSIST_DNODE_CURSOR_H_

#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/key.h"
#include "persist/dnode.h"
#include "persist/merge.h"
#include "persist/run_reader.h"

namespace bonsai::persist {

// Walks the live entries of a dnode in key order, newest run first among equals; tombstones are visited too.
class DnodeCursor {
 public:
  // Consecutive entries of one run: a maximal sequence in a uniform run, a single entry in a variable one.
  struct Stretch {
    Rows rows;
    bool tombstone = false;
    bool large = false;  // the value is a LargeRef's bytes
  };

  // Whether entries are verified before they are returned. kSampled: a random one in kSampledOneIn cursors verifies;
  // only for readers that requested it. A caller that copies or writes what it reads always verifies.
  enum class Verify { kAlways, kSampled };
  static constexpr uint32_t kSampledOneIn = 64;

  // Requires: the dnode outlives the cursor (epoch guard), as does the reader, which keeps the bytes that the cursor
  // reads.
  DnodeCursor(RunReader* reader, const Dnode& dnode, Verify verify = Verify::kAlways)
      : dnode_(dnode), verify_(verify), reader_(*reader) {}
  // A cursor with a reader of its own.
  DnodeCursor(const scale::Volume& volume, const Dnode& dnode, Verify verify = Verify::kAlways)
      : dnode_(dnode), verify_(verify), own_(volume), reader_(*own_) {}

  // Goes to the first entry at or after `key`; an empty key means the first. `entries`: how many of each run the caller
  // expects to read. seek() waits for the reads of these; later the cursor waits only when it passes them in a far run.
  // If they are many, as by default, the checksums of whole runs are verified instead of each entry's.
  void seek(const base::Key& key, uint64_t entries = UINT64_MAX) { seek_in(key, inside(key), entries, {}); }
  // Seeks without comparing with the dnode's range. `located`: of any dnode; if of this one, neither searches nor
  // fetches again what was located. Requires: key is in the range, or is empty; located for this key, or for the
  // beginning of the range if it is empty.
  void seek_inside(const base::Key& key, uint64_t entries, const Dnode::Located& located = {}) {
    seek_in(key, !key.bytes.empty(), entries, located);
  }
  // The oldest run, null without runs, and the number of entries of all runs. Both are read from the cursor: the
  // dnode's parts are two lines of memory further off.
  [[nodiscard]] const RunView* body() const { return sources_.empty() ? nullptr : &sources_.back().run; }
  [[nodiscard]] uint64_t entries() const;
  // A key before which there are at least `entries` entries for the cursor to visit; an entry and those that it hides
  // count once. None if the oldest run has fewer, or the key is not known.
  [[nodiscard]] std::optional<base::Key> key_ahead(uint64_t entries) const;
  [[nodiscard]] bool valid() const { return best_ != nullptr; }
  // The reason if the cursor became invalid although there may be more entries.
  [[nodiscard]] Trouble trouble() const { return trouble_; }
  // Requires, as next() and take(): valid().
  [[nodiscard]] const base::Key& key() const { return best_->key; }
  [[nodiscard]] Entry entry() const;
  void next();
  // Returns the current entry and those adjacent to it in its run, at most `max`, all below `below` (null: no bound).
  // The cursor moves past them. Requires: key() is below `below`, max > 0.
  Stretch take(const base::Key* below, uint64_t max);
  // Merges the remaining entries below `below` (null: no bound) with *updates, which are newer and also below it: calls
  // sink->add() for each update and Stretch in key order, tombstones too, while sink->left() is not 0. Leaves in
  // *updates those not added yet: at the end, the ones after all entries. Ends before trouble.
  template <class Update, class Sink>
  void merge(const base::Key* below, std::span<const Update>* updates, Sink* sink);
  // Adds the remaining entries below `below` (null: no bound) and `updates`, which are newer, to *merge, all verified,
  // and moves the cursor past them. False, and nothing changed: no entries are left, keys differ in size, or there is
  // or may be trouble; the caller must visit the entries one by one. Requires: updates are sorted and in the dnode's
  // range.
  [[nodiscard]] bool take_all(const base::Key* below, std::span<const Entry> updates, Merge* merge);
  // take_all(), which also calls visit(entry) for the newest entry of each key, tombstones too, by *merged or by
  // merge(). Ends before trouble.
  template <class Visit>
  void visit_all(const base::Key* below, std::span<const Entry> updates, Merge* merged, Visit visit);

 private:
  // Constructed in place: a copy of bytes that were just written in smaller parts stalls.
  struct Source {
    Source(const Dnode& dnode, size_t i, const std::byte* bytes, uint64_t identity, const Dnode::EntryRange& part)
        : run(dnode.run_view(i, bytes, identity)), index(part.lo), end(part.hi), there(run.count()) {}

    RunView run;
    uint32_t index, end;
    uint32_t there;  // the run's entries [index, there) can be read
    base::Key key;
    Entry entry;  // of a variable run

    [[nodiscard]] bool valid() const { return index < end; }
  };
  [[nodiscard]] bool inside(const base::Key& key) const {
    return !key.bytes.empty() && !(key < dnode_.lo().key()) && dnode_.hi().above(key);
  }
  void seek_in(const base::Key& key, bool inside, uint64_t entries, const Dnode::Located& located);
  [[nodiscard]] bool carry(const base::Key& key, bool inside, uint64_t entries);
  [[nodiscard]] static bool has_begin(const Source& source, const base::Key& key, uint32_t first);
  void issue(Source* source, uint32_t first, uint32_t end);
  [[nodiscard]] bool arrived();
  [[nodiscard]] bool bring_more(Source* source);
  [[nodiscard]] bool bring_rest();
  void open(const base::Key& key, bool inside, uint64_t entries, const Dnode::Located& located);
  void load(Source& source);
  void advance(Source& source) {
    ++source.index;
    load(source);
  }
  void pass_hidden();
  void choose();
  using Ends = std::array<uint32_t, kRunsMax>;  // of each source
  [[nodiscard]] bool mergeable(uint32_t key_bytes, std::span<const Entry> updates) const;
  [[nodiscard]] bool find_sound_ends(const base::Key* below, Ends* ends) const;
  [[nodiscard]] bool decode_variable(uint32_t key_bytes, std::vector<Entry>* entries) const;
  void await(uint64_t entries);
  void found_damage() {
    if (trouble_ == Trouble::kNone) trouble_ = reader_.not_mended();
  }

  static constexpr uint32_t kMoreMin = 64;

  const Dnode& dnode_;
  const Verify verify_;
  std::optional<RunReader> own_;
  RunReader& reader_;
  boost::container::static_vector<Source, kRunsMax> sources_;  // newest run first
  std::array<uint64_t, kRunsMax> heads_;  // of the sources' keys; the highest value at a source's end
  bool whole_ = false;                    // runs are verified as wholes
  bool tied_ = false;                     // other sources may have the current key, too
  Source* best_ = nullptr;
  Trouble trouble_ = Trouble::kNone;
};

template <class Update, class Sink>
void DnodeCursor::merge(const base::Key* below, std::span<const Update>* updates, Sink* sink) {
  const auto take_update = [&] {
    sink->add(updates->front());
    *updates = updates->subspan(1);
  };
  while (sink->left() > 0 && valid() && (below == nullptr || key() < *below)) {
    while (sink->left() > 0 && !updates->empty() && updates->front().key < key()) take_update();
    if (sink->left() == 0) break;
    if (!updates->empty() && updates->front().key == key()) {
      take_update();
      next();
    } else {
      sink->add(take(updates->empty() ? below : &updates->front().key, sink->left()));
    }
  }
}

template <class Visit>
void DnodeCursor::visit_all(const base::Key* below, std::span<const Entry> updates, Merge* merged, Visit visit) {
  if (take_all(below, updates, merged)) {
    merged->visit(visit);
    return;
  }
  struct Sink {
    Visit& visit;

    [[nodiscard]] static uint64_t left() { return UINT64_MAX; }
    void add(const Entry& update) { visit(update); }
    void add(const Stretch& stretch) {
      const auto& [rows, tombstone, large] = stretch;
      for (size_t i = 0; i < rows.count; ++i) visit(Entry{base::Key::of(rows.key(i)), rows.value(i), tombstone, large});
    }
  } sink{visit};
  merge(below, &updates, &sink);
  if (trouble_ != Trouble::kNone) return;
  for (const Entry& update : updates) visit(update);
}

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_DNODE_CURSOR_H_
