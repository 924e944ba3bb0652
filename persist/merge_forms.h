// SPDX-License-Identifier: Apache-2.0
// Forms of what merge_lists.h merges. There are two kinds: rows of two words, a key and a value of eight bytes each;
// and entries with keys of any one size. Each kind has an item, of which the newer lists consist, a form that makes
// items of items, and one that makes rows.
#ifndef BONSAI_PERSIST_MERGE_FORMS_H_
#define BONSAI_PERSIST_MERGE_FORMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/key.h"
#include "base/small_copy.h"
#include "persist/merge_lists.h"

namespace bonsai::persist {

// A row, its key and value as they are in memory.
struct WordItem {
  std::array<uint64_t, 2> words;
  uint64_t bytes;  // of the row made of it: kWordRowBytes, or 0 for a tombstone
};
inline constexpr size_t kWordRowBytes = sizeof(WordItem::words);

// Orders rows and items by their first word, which is the whole key.
struct OrderOfWords {
  static constexpr size_t kItemBytes = sizeof(WordItem);

  [[nodiscard]] static uint64_t head(const char* entry) {
    uint64_t word;
    std::memcpy(&word, entry, sizeof word);
    return __builtin_bswap64(word);
  }
  [[nodiscard]] static Order order(const char* newer, const char* older) {
    const uint64_t newer_head = head(newer), older_head = head(older);
    return {mask_of(newer_head <= older_head), mask_of(older_head <= newer_head)};
  }
};

// Makes items of items by copying them.
template <class OrderOfItems>
struct ItemForm : OrderOfItems {
  [[nodiscard]] static Row newer_row(const char* item) { return {item, item, item, OrderOfItems::kItemBytes}; }
  [[nodiscard]] static Row older_row(const char* item) { return newer_row(item); }
  [[nodiscard]] static Row row(const char* newer, const char* older, uint64_t takes_newer) {
    return newer_row(select(takes_newer, newer, older));
  }
  [[nodiscard]] static size_t made_bytes() { return OrderOfItems::kItemBytes; }
  [[nodiscard]] static char* put(const Row& row, char* to) {
    std::memcpy(to, row.entry, OrderOfItems::kItemBytes);
    return to + OrderOfItems::kItemBytes;
  }
};
using WordItemForm = ItemForm<OrderOfWords>;

// Makes rows of items and of a run's rows. Leaves tombstones out.
struct WordRowForm : OrderOfWords {
  [[nodiscard]] static Row newer_row(const char* item) {
    uint64_t bytes;
    std::memcpy(&bytes, item + offsetof(WordItem, bytes), sizeof bytes);
    return {item, item, item, bytes};
  }
  [[nodiscard]] static Row older_row(const char* row) { return {row, row, row, kWordRowBytes}; }
  [[nodiscard]] static Row row(const char* newer, const char* older, uint64_t takes_newer) {
    const char* const entry = select(takes_newer, newer, older);
    return {entry, entry, entry, select(takes_newer, newer_row(newer).bytes, kWordRowBytes)};
  }
  [[nodiscard]] static size_t made_bytes() { return kWordRowBytes; }
  [[nodiscard]] static char* put(const Row& row, char* to) {
    std::memcpy(to, row.entry, kWordRowBytes);
    return to + row.bytes;
  }
};

// An entry of any kind. `head`: eight bytes of its key. Equal heads decide nothing.
struct EntryItem {
  uint64_t head;
  const char *key, *value;
  uint32_t value_bytes;
  uint32_t bytes;  // of the row made of it; 0: a tombstone; a constant below: unlike the rows
};
inline constexpr uint32_t kOtherSizeBytes = UINT32_MAX - 1, kLargeBytes = UINT32_MAX;

// All keys have `key_bytes` and are equal before byte `skipped`. kHeadsDecide: they also end within the head.
template <bool kHeadsDecide>
struct OrderOfEntries {
  static constexpr size_t kItemBytes = sizeof(EntryItem);

  [[nodiscard]] static const EntryItem& item(const char* entry) { return *reinterpret_cast<const EntryItem*>(entry); }
  [[nodiscard]] static uint64_t head(const char* entry) { return item(entry).head; }
  [[nodiscard]] Order order(const char* newer, const char* older) const {
    return order(item(newer), item(older).head, item(older).key);
  }
  [[nodiscard]] Order order(const EntryItem& newer, uint64_t older_head, const char* older_key) const {
    if (!kHeadsDecide && newer.head == older_head) {
      const int order = std::memcmp(newer.key, older_key, key_bytes);
      return {mask_of(order <= 0), mask_of(order >= 0)};
    }
    return {mask_of(newer.head <= older_head), mask_of(older_head <= newer.head)};
  }

  size_t key_bytes = 0;
};
template <bool kHeadsDecide>
using EntryItemForm = ItemForm<OrderOfEntries<kHeadsDecide>>;

// An entry that is not like the rows. It is not copied; at its place there is room for a row.
struct OtherEntry {
  const char* at;
  const EntryItem* item;
};

// Makes rows of items and of a run's rows. Leaves tombstones out; notes in *others the entries that are not like rows.
template <bool kHeadsDecide>
struct EntryRowForm : OrderOfEntries<kHeadsDecide> {
  using Base = OrderOfEntries<kHeadsDecide>;

  [[nodiscard]] uint64_t head(const char* row) const {
    return base::key_head({row + skipped, Base::key_bytes - skipped});
  }
  [[nodiscard]] Order order(const char* newer, const char* row) const {
    return Base::order(Base::item(newer), head(row), row);
  }
  [[nodiscard]] Row newer_row(const char* newer) const {
    const EntryItem& item = Base::item(newer);
    return {newer, item.key, item.value, item.bytes};
  }
  [[nodiscard]] Row older_row(const char* row) const { return {row, row, row + Base::key_bytes, row_bytes}; }
  // put() reads the entry only where the item is unlike the rows, and then it is the newer one.
  [[nodiscard]] Row row(const char* newer, const char* older, uint64_t takes_newer) const {
    const Row a = newer_row(newer), b = older_row(older);
    return {newer, select(takes_newer, a.key, b.key), select(takes_newer, a.value, b.value),
            select(takes_newer, a.bytes, b.bytes)};
  }
  [[nodiscard]] size_t made_bytes() const { return row_bytes; }
  [[nodiscard]] char* put(const Row& row, char* to) const {
    if (row.bytes >= kOtherSizeBytes) [[unlikely]] {
      others->push_back({to, &Base::item(row.entry)});
      return to + row_bytes;
    }
    base::copy_small(base::copy_small(to, {row.key, Base::key_bytes}), {row.value, value_bytes});
    return to + row.bytes;
  }

  size_t skipped = 0, value_bytes = 0, row_bytes = 0;
  std::vector<OtherEntry>* others = nullptr;
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_MERGE_FORMS_H_
