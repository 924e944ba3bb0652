// SPDX-License-Identifier: Apache-2.0
// Reads: the newest visible node of the topmost layer that has one, else the dnode.
#include <algorithm>
#include <array>
#include <optional>

#include "base/small_copy.h"
#include "base/spread_sort.h"
#include "index/index.h"
#include "index/prefetch.h"

namespace bonsai::index {

using base::Key;
using base::step;

// The first node of a chain that a reader at `version` sees; null if there is none.
Node* Index::visible(Node* head, uint64_t version) {
  for (Node* node = head; node != nullptr;) {
    // Before the version: a batch node that is still invisible then has not been pruned under.
    step("load next");
    Node* next = node->next.load(std::memory_order_acquire);
    step("load version");
    const uint64_t own = versions_.settle(node);
    if (own != kNoVersion && own <= version) return node;
    node = next;
  }
  return nullptr;
}

// Looks for the key among a bnode's own updates. False: it has none that the reader sees.
bool Index::find_update(const Bnode& bnode, const Key& key, uint64_t hash, uint64_t version, Lookup* lookup) {
  const Slots* slots = bnode.slots();
  if (slots == nullptr) return false;
  const Node* node = visible(Slots::find(slots, bnode.capacity(), key, hash).head(), version);
  if (node == nullptr) return false;
  lookup->found = node->tombstone() ? Found::kAbsent : Found::kValue;
  lookup->value.set(node->value(), node->large(), false);
  return true;
}

// Sets the result of a lookup that ended in a dnode.
void Index::answer(persist::Find found, const persist::Entry& entry, Lookup* lookup) {
  lookup->value.set(entry.value, entry.large, true);
  if (found == persist::Find::kDamaged) {
    lookup->found = Found::kDamaged;
  } else if (found == persist::Find::kUnavailable) {
    lookup->found = Found::kUnavailable;
  } else {
    lookup->found = found == persist::Find::kAbsent || entry.tombstone ? Found::kAbsent : Found::kValue;
  }
}

// Gets request the compaction of a range only while it has no updates, which would soon become new runs.
void Index::note_get(Bnode* bnode, const persist::Dnode& dnode, uint64_t hash) {
  if (bnode->slots() == nullptr && dnode.note_get(hash)) compactions_.ask(bnode);
}

// Scans go through a range's updates, too.
void Index::note_scan(Bnode* bnode, const persist::Dnode& dnode) {
  const Slots* slots = bnode->slots();
  if (dnode.note_scan(slots != nullptr ? slots->used() : 0)) compactions_.ask(bnode);
}

// Uploads metadata after a reader has read all of a dnode without it: it has all bytes that the metadata is made of,
// and no other reader need read them again. If the dnode is not the key's any more, its successor's readers do this.
void Index::upload_metadata(const Key& key, const persist::Dnode& dnode, persist::RunReader* reader) {
  if (dnodes_.metadata()) replacer_.upload_metadata(newest_successor(tree_.find_to_read(key), key), &dnode, reader);
}

// Inlined where it is used twice, so that a get has no further call.
[[gnu::always_inline]] inline void Index::search_dnode(const persist::Dnode& dnode, uint64_t hash, Lookup* lookup) {
  persist::Entry entry;
  persist::DnodeSearch search;
  persist::RunReader reader(dnodes_.volume());
  answer(search.run(&reader, dnode, lookup->key, hash, &entry), entry, lookup);
  take_metadata(lookup->key, dnode, &reader);
}

void Index::get_from_dnode(const persist::Dnode& dnode, uint64_t hash, Lookup* lookup) {
  search_dnode(dnode, hash, lookup);
}

void Index::get_from(Bnode* bnode, uint64_t hash, uint64_t version, Lookup* lookup) {
  const Key& key = lookup->key;
  for (;;) {
    if (find_update(*bnode, key, hash, version, lookup)) return;
    step("load base");
    const Base base = bnode->base();
    if (const persist::Dnode* dnode = base.dnode()) {
      search_dnode(*dnode, hash, lookup);
      note_get(bnode, *dnode, hash);
      return;
    }
    bnode = base.layer() != nullptr ? base.layer()->old_for(key) : base.residue();
  }
}

void Index::get(uint64_t version, Lookup* lookup) {
  step("load index");
  const Key& key = lookup->key;
  get_from(newest_successor(tree_.find_to_read(key), key), key.hash(), version, lookup);
}

// get_many(), in three stages, by two blocks of lookups that take turns. While one block descends the tree, what the
// other will read in its next stage comes from memory or, by its ReadBatch, from the device. So the work of some hides
// the waits of others; only after the last block there is no work left.
class Index::Gets {
 public:
  Gets(Index& index, uint64_t version, Asker& asker, size_t count)
      : index_(index), version_(version), asker_(asker), count_(count) {
    block_max_ = blocks_[0].reader.searches_together(count, kBlock);
  }

  void run() {
    Block* older = &blocks_[0];
    Block* newer = &blocks_[1];
    do {
      look(older, find(newer));
      start(older);
      std::swap(older, newer);
    } while (next_ < count_ || older->count + newer->count != 0);
  }

 private:
  static constexpr size_t kBlock = Tree::kFindManyMax;

  // Lookups that go on to a dnode.
  struct Block {
    explicit Block(const scale::Volume& volume) : reader(volume) {}

    size_t count = 0;
    size_t again = 0;  // the first so many have failed at an entry before: it had their fingerprint, but another key
    std::array<size_t, kBlock> asked;
    std::array<persist::DnodeSearch, kBlock> searches;
    persist::RunReader reader;
  };

  // Fills the block. Looks at the bnodes' own updates, then at the dnodes' samples; fetches fingerprints.
  void start(Block* block) {
    size_t n = 0;
    for (; next_ < count_ && n + block->count < block_max_; ++next_) {
      if (asker_.key(next_, &keys_[n])) asked_[n++] = next_;
    }
    if (n == 0) return;
    index_.current_bnodes({keys_.data(), n}, Fetch::kUpdatesAndDnode, hashes_, bnodes_);
    for (size_t i = 0; i < n; ++i) {
      Lookup lookup{.key = keys_[i]};
      if (!index_.find_update(*bnodes_[i], keys_[i], hashes_[i], version_, &lookup)) {
        step("load base");
        if (const persist::Dnode* dnode = bnodes_[i]->base().dnode()) {
          block->searches[block->count].start(index_.dnodes_.volume(), *dnode, keys_[i], hashes_[i]);
          block->asked[block->count++] = asked_[i];
          index_.note_get(bnodes_[i], *dnode, hashes_[i]);
          continue;
        }
        index_.get_from(bnodes_[i], hashes_[i], version_, &lookup);
      }
      asker_.answer(asked_[i], lookup);
    }
  }
  // Looks at fingerprints; fetches entries. Returns a reading of the clock, if it took one.
  uint64_t find(Block* block) {
    for (size_t i = block->again; i < block->count; ++i) block->searches[i].issue(&block->reader);
    return block->reader.begin();
  }
  // Looks at entries. now_ns: a reading of the clock, if there is one.
  void look(Block* block, uint64_t now_ns) {
    if (!block->reader.wait(now_ns).ok()) [[unlikely]]
      give_up(block);
    block->again = 0;
    for (size_t i = 0; i < block->count; ++i) {
      persist::Find found;
      persist::Entry entry;
      if (block->searches[i].look(&found, &entry, &block->reader)) {
        Lookup lookup{.key = block->searches[i].key()};
        Index::answer(found, entry, &lookup);
        index_.take_metadata(lookup.key, block->searches[i].dnode(), &block->reader);
        asker_.answer(block->asked[i], lookup);
      } else {
        block->searches[block->again] = block->searches[i];
        block->asked[block->again++] = block->asked[i];
      }
    }
    block->count = block->again;
  }

  // Answers those whose entries did not come; the others stay.
  void give_up(Block* block) {
    size_t left = 0;
    for (size_t i = 0; i < block->count; ++i) {
      if (block->searches[i].lost(block->reader)) {
        const Lookup lookup{.key = block->searches[i].key(), .found = Found::kUnavailable};
        asker_.answer(block->asked[i], lookup);
      } else {
        block->searches[left] = block->searches[i];
        block->asked[left++] = block->asked[i];
      }
    }
    block->count = left;
  }

  Index& index_;
  const uint64_t version_;
  Asker& asker_;
  const size_t count_;
  size_t block_max_ = kBlock;
  size_t next_ = 0;  // of those that were not asked for yet
  std::array<Block, 2> blocks_{Block(index_.dnodes_.volume()), Block(index_.dnodes_.volume())};
  // Lookups that are about to start.
  std::array<size_t, kBlock> asked_;
  std::array<Key, kBlock> keys_;
  std::array<uint64_t, kBlock> hashes_;
  std::array<Bnode*, kBlock> bnodes_;
};

void Index::get_many(uint64_t version, size_t count, Asker* asker) { Gets(*this, version, *asker, count).run(); }

// A visible update of one key, and how deep its layer is.
struct Index::Layered {
  Key key;
  const Node* node;
  uint32_t depth;

  [[nodiscard]] Piece piece() const {
    return {{key.bytes.data(), node->value().data(), 1, 0, node->key_bytes, node->value_bytes}, node->large()};
  }
};

// The sources of a window.
struct Index::Collected {
  boost::container::small_vector<Layered, 64> updates;
  boost::container::small_vector<const persist::Dnode*, 4> dnodes;  // in range order
  bool other_range = false;                                         // of one is not the window's

  void sort() {
    const auto head_of = [](const Layered& each) { return each.key.head; };
    base::spread_sort(updates.begin(), updates.end(), head_of, [](const Layered& a, const Layered& b) {
      const auto order = compare(a.key, b.key);
      return order != 0 ? order < 0 : a.depth < b.depth;
    });
    const auto same = [](const Layered& a, const Layered& b) { return a.key == b.key; };
    updates.erase(std::unique(updates.begin(), updates.end(), same), updates.end());
  }
};

// Collects the visible updates of `bnode` itself that are in the window.
void Index::collect_updates(const Bnode& bnode, uint32_t depth, const Window& window, const Key& from, uint64_t version,
                            Collected* all) {
  const Slots* slots = bnode.slots();
  if (slots == nullptr) return;
  Prefetch::heads(*slots);  // their cache misses overlap
  slots->for_each_head([&](Node* head) {
    const Key key = head->key();
    if (key < from || !window.hi.above(key)) return;
    if (const Node* node = visible(head, version)) all->updates.push_back({node->key(), node, depth});
  });
}

// Collects a bnode, the layers below it, and the dnodes under them, these in the order of their ranges.
void Index::collect(const Bnode& bnode, const Window& window, const Key& from, uint64_t version, Collected* all) {
  struct Below {
    const Bnode* bnode;
    uint32_t depth;
  };
  boost::container::small_vector<Below, 8> left{{&bnode, 0}};
  while (!left.empty()) {
    const auto [next, depth] = left.back();
    left.pop_back();
    collect_updates(*next, depth, window, from, version, all);
    step("scan: load base");
    const Base base = next->base();
    if (const persist::Dnode* dnode = base.dnode()) {
      dnode->prefetch_search();
      all->dnodes.push_back(dnode);
    } else if (const Bnode* residue = base.residue()) {
      left.push_back({residue, depth + 1});
    } else {
      const Layer::Bnodes& olds = base.layer()->olds;
      for (auto old = olds.rbegin(); old != olds.rend(); ++old) {
        if (!((*old)->lo() < window.hi) || !(window.lo < (*old)->hi())) continue;
        all->other_range = all->other_range || (*old)->lo() != window.lo || (*old)->hi() != window.hi;
        left.push_back({*old, depth + 1});
      }
    }
  }
}

namespace {
constexpr uint64_t kReadAheadRecords = 256;    // a scan of as many will go on after its first window
constexpr uint64_t kTogetherRecordsMin = 128;  // for fewer it is not worth putting a range together
constexpr uint64_t kTogetherBytesMax = 64;     // larger records are not copied
constexpr uint64_t kScatteredOneIn = 32;       // a range with fewer newer entries is mostly stretches of its body
}  // namespace

// Puts the records of a range that are scattered over runs and updates side by side. False, and nothing is
// done, if they may as well be read where they are.
bool Index::read_together(persist::DnodeCursor* cursor, const Collected& all, uint64_t records_max, Window* window) {
  const persist::RunView* body = cursor->body();
  if (records_max < kTogetherRecordsMin || body == nullptr || !body->uniform()) return false;
  const uint64_t newer = cursor->entries() - body->count() + all.updates.size();
  const Rows first = body->rows(0, 1);
  const uint32_t key_bytes = first.key_bytes, value_bytes = first.value_bytes;
  const size_t row_bytes = size_t{key_bytes} + value_bytes;
  if (newer * kScatteredOneIn < body->count() || row_bytes > kTogetherBytesMax) return false;
  std::vector<persist::Entry>& updates = window->updates;
  updates.clear();
  for (const Layered& each : all.updates) {
    updates.push_back({each.key, each.node->value(), each.node->tombstone(), each.node->large()});
  }
  if (!cursor->take_all(nullptr, updates, &window->merge)) return false;
  std::vector<char>& together = window->together;
  const uint64_t rows_max = std::min<uint64_t>(records_max, newer + body->count());
  if (together.size() < (rows_max + 1) * row_bytes) together.resize((rows_max + 1) * row_bytes);
  const auto add_rows = [&](std::span<const char> rows) {
    const char* const begin = rows.data();
    const size_t count = rows.size() / row_bytes;
    if (count > 0) window->pieces.push_back({{begin, begin + key_bytes, count, row_bytes, key_bytes, value_bytes}});
  };
  const auto add_other = [&](const persist::Entry& entry) {
    window->pieces.push_back(
        {{entry.key.bytes.data(), entry.value.data(), 1, 0, key_bytes, static_cast<uint32_t>(entry.value.size())},
         entry.large});
  };
  window->merge.copy_rows(records_max, together.data(), add_rows, add_other);
  return true;
}

// Collects records from cursors and updates, in key order, until there are enough.
class Index::Pieces {
 public:
  Pieces(const Collected& all, uint64_t records_max, Window* window)
      : updates_(all.updates.data(), all.updates.size()), left_(records_max), window_(window) {}

  // All below `end`; null: all that the cursor comes to.
  void add(persist::DnodeCursor* cursor, const Key* end) { cursor->merge(end, &updates_, this); }
  void add_updates() {
    for (; left_ > 0 && !updates_.empty(); updates_ = updates_.subspan(1)) add(updates_.front());
  }

  // As the cursor's sink.
  [[nodiscard]] uint64_t left() const { return left_; }
  void add(const Layered& update) {
    if (!update.node->tombstone()) add(update.piece());
  }
  void add(const persist::DnodeCursor::Stretch& stretch) {
    if (!stretch.tombstone) add(Piece{stretch.rows, stretch.large});
  }

 private:
  void add(const Piece& piece) {
    window_->pieces.push_back(piece);
    left_ -= piece.rows.count;
  }

  std::span<const Layered> updates_;
  uint64_t left_;
  Window* const window_;
};

// Scans few records from `start` on in a range that has one dnode. In the dnode's oldest run the scan has enough after
// `records_max` records, unless some were deleted: the window ends there, and updates after it are not read. The dnode
// may be read before the updates: they are newer than its entries, whenever they came.
void Index::read_few(Bnode* bnode, const persist::Dnode& dnode, const Key& start, uint64_t version,
                     uint64_t records_max, persist::RunReader* reader, const persist::Dnode::Located& located,
                     Window* window) {
  const base::Fence& hi = bnode->hi();
  persist::DnodeCursor cursor(reader, dnode, window->verify);
  cursor.seek_inside(bnode->lo().key() < start ? start : Key(), records_max, located);
  take_metadata(start, dnode, reader);
  std::optional<Key> end = cursor.key_ahead(records_max);
  if (end && !(start < *end && hi.above(*end))) end.reset();  // a damaged one, not verified
  if (end) {
    window->hi.assign(end->bytes);
  } else {
    window->hi = hi;
  }
  Collected all;
  collect_updates(*bnode, 0, *window, start, version, &all);
  all.sort();
  Pieces pieces(all, records_max, window);
  pieces.add(&cursor, end ? &*end : nullptr);
  window->trouble = cursor.trouble();
  if (window->trouble == persist::Trouble::kNone) pieces.add_updates();
  note_scan(bnode, dnode);
}

void Index::read_range(Bnode* bnode, const Key& from, uint64_t version, bool whole, uint64_t records_max,
                       persist::RunReader* reader, const persist::Dnode::Located& located, Window* window) {
  window->lo = bnode->lo();
  window->pieces.clear();
  window->trouble = persist::Trouble::kNone;
  const Key start = whole || from < window->lo.key() ? window->lo.key() : from;
  step("scan: load base");
  if (const persist::Dnode* dnode = bnode->base().dnode(); dnode != nullptr && records_max < kTogetherRecordsMin)
    return read_few(bnode, *dnode, start, version, records_max, reader, located, window);
  window->hi = bnode->hi();
  Collected all;
  collect(*bnode, *window, start, version, &all);
  all.sort();

  Pieces pieces(all, records_max, window);
  const Key end = window->hi.key();
  const bool whole_range = all.dnodes.size() == 1 && !all.other_range;
  for (const persist::Dnode* dnode : all.dnodes) {
    persist::DnodeCursor cursor(reader, *dnode, window->verify);
    if (whole_range) {
      cursor.seek_inside(window->lo.key() < start ? start : Key(), pieces.left());
    } else {
      cursor.seek(start, pieces.left());
    }
    take_metadata(start, *dnode, reader);
    if (whole_range && read_together(&cursor, all, pieces.left(), window)) {
      note_scan(bnode, *dnode);
      return;
    }
    pieces.add(&cursor, whole_range || window->hi.is_infinite() ? nullptr : &end);
    if (all.dnodes.size() == 1) note_scan(bnode, *dnode);
    window->trouble = cursor.trouble();
    if (window->trouble != persist::Trouble::kNone) return;
    if (pieces.left() == 0) return;
  }
  pieces.add_updates();
}

// Fetches what the next windows read: of each what the one before had shown where to find. Returns where the records of
// the next one are, if side by side: these come while the caller reads those before them.
std::span<const char> Index::prefetch_following(const ScanAhead& ahead) const {
  if (const Bnode* fourth = ahead.peek(3)) Prefetch::bnode(*fourth);
  if (const Bnode* third = ahead.peek(2)) {
    Prefetch::range(*third);
    if (const Slots* slots = third->slots()) Prefetch::marks(*slots);
  }
  if (const Bnode* second = ahead.peek(1)) {
    if (const Slots* slots = second->slots()) Prefetch::words(*slots);
    if (const persist::Dnode* dnode = second->base().dnode()) dnode->prefetch_search();
  }
  const Bnode* first = ahead.peek(0);
  if (const Slots* slots = first != nullptr ? first->slots() : nullptr) Prefetch::heads(*slots);
  const persist::Dnode* dnode = first != nullptr ? first->base().dnode() : nullptr;
  if (dnode == nullptr) return {};
  dnode->prefetch_runs(dnodes_.volume());
  return dnode->oldest_run(dnodes_.volume());
}

// Reads, in one list, the runs of the bnode and its next neighbours that must be carried, as far as `records_max`
// records reach; none if those of the bnode are here. If a bnode is replaced meanwhile, its other runs are read when
// the scan gets there.
void Index::read_runs_ahead(const Bnode& first, uint64_t records_max, ScanAhead* ahead) const {
  const scale::Volume& volume = dnodes_.volume();
  const persist::Dnode* first_dnode = first.base().dnode();
  if (!ahead->reader(volume).carries()) return;
  if (first_dnode != nullptr && ahead->reader(volume).has(first_dnode->runs())) return;
  persist::RunReader& reader = ahead->fresh_reader(volume);
  uint64_t records = 0;
  const Bnode* bnode = &first;
  for (size_t i = 0; bnode != nullptr && records < records_max; bnode = ahead->peek(i++)) {
    if (i > ahead->runs_ahead()) break;
    const persist::Dnode* dnode = bnode->base().dnode();
    if (dnode == nullptr || dnode->runs().empty()) continue;
    for (const persist::RunDesc& run : dnode->runs()) reader.expect(run);
    records += dnode->runs().front().count;
  }
  if (!reader.wait().ok()) ahead->read_alone();
}

void Index::read_window(const Key& from, uint64_t version, bool whole, uint64_t records_max, Window* window,
                        ScanAhead* ahead) {
  step("load index");
  const bool goes_on = records_max >= kReadAheadRecords;
  Bnode* bnode = ahead->take(from);
  if (bnode == nullptr && goes_on) {
    bnode = tree_.find_to_scan(from, ahead);
    read_runs_ahead(*newest_successor(bnode, from), records_max, ahead);
  } else if (bnode == nullptr) {
    bnode = tree_.find_to_read(from);
  }
  ahead->set_records(goes_on ? prefetch_following(*ahead) : std::span<const char>());
  persist::RunReader& reader = ahead->reader(dnodes_.volume());
  read_range(newest_successor(bnode, from), from, version, whole, records_max, &reader, ahead->located(), window);
  ahead->located().dnode = nullptr;  // the next read begins elsewhere
}

void Index::find_starts(std::span<ScanAhead> scans) const {
  BONSAI_CHECK(scans.size() <= kStartsMax);
  std::array<Key, kStartsMax> keys;
  std::array<Bnode*, kStartsMax> bnodes, followers;
  const size_t n = scans.size();
  for (size_t i = 0; i < n; ++i) keys[i] = scans[i].from();
  tree_.find_many({keys.data(), n}, bnodes, {followers.data(), n});
  for (size_t i = 0; i < n; ++i) {
    scans[i].add(bnodes[i]);
    if (followers[i] != nullptr) scans[i].add(followers[i]);
  }
}

void Index::prefetch_start(ScanAhead* scan, size_t stage) const {
  if (stage == 0) {
    Bnode* const first = newest_successor(scan->peek(0), scan->from());
    scan->replace_next(first);
    Prefetch::directory(*first);
  } else if (stage == 1) {
    const uint64_t records =
        Prefetch::records(*scan->peek(0), dnodes_.volume(), scan->from(), scan->records_max(), &scan->located());
    const Bnode* const next = scan->peek(1);
    if (records >= scan->records_max() || next == nullptr) return;
    scan->set_beyond_max(scan->records_max() - records);
    Prefetch::bnode(*next);
  } else if (stage == 2) {
    if (const Slots* slots = scan->peek(0)->slots()) Prefetch::heads(*slots);
    if (scan->beyond_max() != 0) Prefetch::directory(*scan->peek(1));
  } else if (scan->beyond_max() != 0) {
    const Bnode& next = *scan->peek(1);
    persist::Dnode::Located unused;  // the scan begins this range at its first entry
    Prefetch::records(next, dnodes_.volume(), next.lo().key(), scan->beyond_max(), &unused);
  }
}

void Index::read_window_below(const base::Fence& fence, uint64_t version, Window* window) {
  Bnode* bnode = tree_.find_below(fence);
  for (Layer* layer = bnode->layer(); layer != nullptr && layer->installed.load(std::memory_order_seq_cst);
       layer = bnode->layer()) {
    const auto behind = std::partition_point(layer->news.begin() + 1, layer->news.end(),
                                             [&](const Bnode* each) { return each->lo() < fence; });
    bnode = *(behind - 1);
  }
  persist::RunReader reader(dnodes_.volume());
  read_range(bnode, bnode->lo().key(), version, true, UINT64_MAX, &reader, {}, window);
}

}  // namespace bonsai::index
