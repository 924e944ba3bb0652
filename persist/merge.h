// SPDX-License-Identifier: Apache-2.0
// Merges entries of one range from several places: those of each run and the updates, each list sorted.
#ifndef BONSAI_PERSIST_MERGE_H_
#define BONSAI_PERSIST_MERGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/key.h"
#include "base/narrow.h"
#include "persist/merge_forms.h"
#include "persist/merge_lists.h"
#include "persist/run.h"

namespace bonsai::persist {

// Call clear(), add() for each list, oldest first, and then visit() or copy_rows() once. Not thread-safe; keeps its
// memory for the next merge. Requires: the lists outlive the merge.
class Merge {
 public:
  // All keys have `key_bytes`. They are equal in the first `skipped` bytes, and have at least eight more after those,
  // unless they are shorter than eight.
  void clear(uint32_t key_bytes, size_t skipped) {
    key_bytes_ = key_bytes;
    skipped_ = skipped;
    sources_.clear();
  }
  // Rows [from, to) of a run.
  void add(const Rows& rows, uint32_t from, uint32_t to) { sources_.push_back({rows, nullptr, from, to}); }
  // Entries that are not rows: updates, or decoded ones.
  void add(std::span<const Entry> entries) {
    sources_.push_back({{}, entries.data(), 0, base::checked_narrow<uint32_t>(entries.size())});
  }
  // Memory for entries that the caller decodes before clear().
  [[nodiscard]] std::vector<Entry>& decoded() { return decoded_; }

  // Calls visit(entry) for the newest entry of each key, in key order, tombstones too.
  template <class Visit>
  void visit(Visit visit) {
    if (sources_.empty()) return;
    find_newer(nullptr);
    oldest_.resize(sources_[0].count(), kUninitialized);
    find_items(sources_[0], nullptr, oldest_.data());
    const SortedList oldest{reinterpret_cast<const char*>(oldest_.data()), oldest_.size(), sizeof(EntryItem)};
    made_.resize(newer_.count() + oldest.count, kUninitialized);
    char* const made = reinterpret_cast<char*>(made_.data());
    const auto take = [&](std::span<const char> items) {
      for (const char* item = items.data(); item != items.data() + items.size(); item += sizeof(EntryItem)) {
        visit(entry(*reinterpret_cast<const EntryItem*>(item)));
      }
    };
    const auto merge = [&]<bool kHeadsDecide>() {
      const EntryItemForm<kHeadsDecide> form{{key_bytes_}};
      newer_.merge(oldest, form, form, UINT64_MAX, made, take);
    };
    heads_decide() ? merge.template operator()<true>() : merge.template operator()<false>();
  }

  // Copies the newest entries, one for each key, to `to` as adjacent rows of key and value, the first `rows_max` of
  // them. Calls, in key order, rows(bytes) for each stretch of rows, and other(entry) for each entry that is unlike the
  // oldest list's (large, or of another size) and so is not copied. Tombstones are left out. Requires: the oldest list
  // has rows; room for one row more than there can be.
  template <class TakeRows, class TakeOther>
  void copy_rows(uint64_t rows_max, char* to, TakeRows rows, TakeOther other) {
    BONSAI_CHECK(!sources_.empty() && sources_[0].entries == nullptr);
    const Rows& like = sources_[0].rows;
    const SortedList oldest{like.keys + sources_[0].from * like.stride_bytes, sources_[0].count(), like.stride_bytes};
    if (key_bytes_ == sizeof(uint64_t) && like.value_bytes == sizeof(uint64_t) && find_newer_words()) {
      return newer_words_.merge(oldest, WordItemForm(), WordRowForm(), rows_max, to, rows);
    }
    no_value_.resize(like.value_bytes);
    find_newer(&like.value_bytes);
    const size_t row_bytes = size_t{key_bytes_} + like.value_bytes;
    others_.clear();
    const auto take = [&](std::span<const char> made) { take_stretch(made, row_bytes, rows, other); };
    const auto merge = [&]<bool kHeadsDecide>() {
      const OrderOfEntries<kHeadsDecide> order{key_bytes_};
      newer_.merge(oldest, EntryItemForm<kHeadsDecide>{order},
                   EntryRowForm<kHeadsDecide>{order, skipped_, like.value_bytes, row_bytes, &others_}, rows_max, to,
                   take);
    };
    heads_decide() ? merge.template operator()<true>() : merge.template operator()<false>();
  }

 private:
  struct Source {
    Rows rows;
    const Entry* entries;  // null: rows
    uint32_t from, to;

    [[nodiscard]] size_t count() const { return to - from; }
  };

  [[nodiscard]] uint64_t head_of(std::string_view key) const { return base::key_head(key.substr(skipped_)); }
  [[nodiscard]] bool heads_decide() const { return key_bytes_ <= skipped_ + sizeof(uint64_t); }
  [[nodiscard]] Entry entry(const EntryItem& item) const {
    return {base::Key::of({item.key, key_bytes_}),
            {item.value, item.value_bytes},
            item.bytes == 0,
            item.bytes == kLargeBytes};
  }

  // Makes the items of the newer lists. *row_value_bytes: value size of the rows to be made; null: no rows are made.
  void find_newer(const uint32_t* row_value_bytes) {
    newer_.clear();
    for (const Source& source : std::span(sources_).subspan(1)) {
      find_items(source, row_value_bytes, newer_.add(source.count()).data());
    }
  }
  void find_items(const Source& source, const uint32_t* row_value_bytes, EntryItem* item) const {
    const auto bytes_of = [this, row_value_bytes](size_t value_bytes) {
      const bool is_row = row_value_bytes != nullptr && value_bytes == *row_value_bytes;
      return is_row ? key_bytes_ + *row_value_bytes : kOtherSizeBytes;
    };
    if (source.entries == nullptr) {
      const Rows& rows = source.rows;
      const uint32_t bytes = bytes_of(rows.value_bytes);
      for (uint32_t i = source.from; i < source.to; ++i) {
        const std::string_view key = rows.key(i);
        *item++ = {head_of(key), key.data(), rows.value(i).data(), rows.value_bytes, bytes};
      }
      return;
    }
    for (const Entry& entry : std::span(source.entries + source.from, source.entries + source.to)) {
      const std::string_view key = entry.key.bytes, value = entry.value;
      const bool gone = entry.tombstone;  // it is copied, too, and overwritten by what follows
      *item++ = {head_of(key), key.data(), gone ? no_value_.data() : value.data(),
                 base::low_bits<uint32_t>(gone ? 0 : value.size()),
                 gone          ? 0
                 : entry.large ? kLargeBytes
                               : bytes_of(value.size())};
    }
  }

  // Passes the merged entries on: stretches of rows, and between them the other entries.
  template <class TakeRows, class TakeOther>
  void take_stretch(std::span<const char> made, size_t row_bytes, const TakeRows& take_rows,
                    const TakeOther& take_other) {
    const char* begin = made.data();
    const char* const end = begin + made.size();
    const auto end_rows = [&](const char* at) {
      if (at != begin) take_rows(std::span<const char>(begin, at));
    };
    std::sort(others_.begin(), others_.end(), [](const OtherEntry& a, const OtherEntry& b) { return a.at < b.at; });
    for (const OtherEntry& other : others_) {
      if (other.at < begin || other.at >= end) continue;
      end_rows(other.at);
      take_other(entry(*other.item));
      begin = other.at + row_bytes;
    }
    end_rows(end);
  }

  // Makes the items of the newer lists if all keys and values have eight bytes. False: some value does not.
  bool find_newer_words() {
    newer_words_.clear();
    for (const Source& source : std::span(sources_).subspan(1)) {
      const std::span<WordItem> items = newer_words_.add(source.count());
      if (source.entries != nullptr ? !words_of_entries(source, items) : !words_of_rows(source, items)) return false;
    }
    return true;
  }
  static bool words_of_rows(const Source& source, std::span<WordItem> items) {
    if (source.rows.value_bytes != sizeof(uint64_t)) return false;
    const char* row = source.rows.keys + source.from * source.rows.stride_bytes;
    for (WordItem& item : items) {
      std::memcpy(item.words.data(), row, kWordRowBytes);
      item.bytes = kWordRowBytes;
      row += source.rows.stride_bytes;
    }
    return true;
  }
  // No branch on tombstones, since it could not be predicted either.
  static bool words_of_entries(const Source& source, std::span<WordItem> items) {
    constexpr std::array<char, sizeof(uint64_t)> kNoValue{};
    bool all = true;
    const Entry* entry = source.entries + source.from;
    for (WordItem& item : items) {
      const bool is_word = (entry->value.size() == sizeof item.words[1]) & !entry->large;
      all = all & (is_word | entry->tombstone);
      std::memcpy(&item.words[0], entry->key.bytes.data(), sizeof item.words[0]);
      std::memcpy(&item.words[1], select(mask_of(is_word), entry->value.data(), kNoValue.data()), sizeof item.words[1]);
      item.bytes = entry->tombstone ? 0 : kWordRowBytes;
      ++entry;
    }
    return all;
  }

  uint32_t key_bytes_ = 0;
  size_t skipped_ = 0;
  std::vector<Source> sources_;
  std::vector<Entry> decoded_;
  ListMerge<EntryItem> newer_;
  ListMerge<WordItem> newer_words_;  // if all entries are two words
  Items<EntryItem> oldest_, made_;
  std::vector<OtherEntry> others_;
  std::vector<char> no_value_;  // copied for a tombstone; row 0 of a far run may not be here
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_MERGE_H_
