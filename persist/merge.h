// SPDX-License-Identifier: Apache-2.0
// Merges entries of one range from several places: those of each run and the updates, each list sorted.
//
// The inner loop has no data-dependent branch: which of two random keys is less is a coin toss, and a wrong prediction
// costs more than several comparisons. Eight bytes of each key stand for it. The lists are short (those of a dnode), so
// all of them stay in the processor's cache.
#ifndef BONSAI_PERSIST_MERGE_H_
#define BONSAI_PERSIST_MERGE_H_

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/narrow.h"
#include "base/small_copy.h"
#include "persist/merge_words.h"
#include "persist/run.h"

namespace bonsai::persist {

// An entry of a list: eight bytes of its key, their order being the keys' order, ties undecided; and where it is.
struct Merged {
  uint64_t head;
  uint32_t source, index;
};

// To be filled by clear() and add() of each list, oldest first; then put_together() or copy_rows(), once. Not
// thread-safe; keeps its memory for the next time. Requires: what it is given outlives it.
class Merge {
 public:
  // All keys have `key_bytes`. They differ in nothing before byte `skipped`, where they have eight more, unless they
  // are shorter than that.
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

  // Makes one list of all, which has the newest entry of each key.
  void put_together() {
    put_newer_together();
    oldest_.clear();
    if (!sources_.empty()) list(0, &oldest_);
    other_.resize(items_.size() + oldest_.size());
    const Merged* const items = items_.data();
    const Merged* const oldest = oldest_.data();
    const auto merge = heads_decide() ? &Merge::merge<true> : &Merge::merge<false>;
    const Merged* const end =
        (this->*merge)(items, items + items_.size(), oldest, oldest + oldest_.size(), other_.data());
    other_.resize(static_cast<size_t>(end - other_.data()));
    std::swap(items_, other_);
  }
  // After put_together().
  [[nodiscard]] std::span<const Merged> items() const { return items_; }
  [[nodiscard]] Entry entry(const Merged& item) const {
    const Source& source = sources_[item.source];
    if (source.entries != nullptr) return source.entries[item.index];
    return {base::Key::of(source.rows.key(item.index)), source.rows.value(item.index)};
  }

  // Copies the newest entry of each key to `to`, key and value, side by side as rows, the first `rows_max` of them; in
  // key order rows(bytes) is called for each stretch of rows, and other(entry) for what is not like the oldest list's
  // entries (large, or of another size), which is not copied. Tombstones are left out. Requires: the oldest list has
  // rows; room for one row more than there can be.
  template <class TakeRows, class TakeOther>
  void copy_rows(uint64_t rows_max, char* to, TakeRows rows, TakeOther other) {
    BONSAI_CHECK(!sources_.empty() && sources_[0].entries == nullptr);
    const Source& oldest = sources_[0];
    const bool words = key_bytes_ == sizeof(uint64_t) && oldest.rows.value_bytes == sizeof(uint64_t);
    if (words && find_newer_words()) {
      const WordRows body{oldest.rows.keys + oldest.from * oldest.rows.stride_bytes, oldest.to - oldest.from,
                          oldest.rows.stride_bytes};
      return words_.merge(body, rows_max, to, rows);
    }
    put_newer_together();
    find_newer();
    heads_decide() ? copy_rows_one_by_one<true>(rows_max, to, rows, other)
                   : copy_rows_one_by_one<false>(rows_max, to, rows, other);
  }

 private:
  struct Source {
    Rows rows;
    const Entry* entries;  // null: rows
    uint32_t from, to;
  };
  // An entry of a newer list than the oldest one, and where it is.
  enum class Kind : uint32_t { kRow, kTombstone, kOther };
  struct Newer {
    uint64_t head;
    const char *key, *value;
    Kind kind;
  };

  [[nodiscard]] uint64_t head_of(std::string_view key) const { return base::key_head(key.substr(skipped_)); }
  [[nodiscard]] bool heads_decide() const { return key_bytes_ <= skipped_ + sizeof(uint64_t); }
  // Appends what a source has.
  void list(size_t number, std::vector<Merged>* items) const {
    const Source& source = sources_[number];
    const size_t before = items->size();
    items->resize(before + source.to - source.from);
    Merged* item = items->data() + before;
    for (uint32_t i = source.from; i < source.to; ++i) {
      const uint64_t head = head_of(source.entries != nullptr ? source.entries[i].key.bytes : source.rows.key(i));
      *item++ = {head, base::checked_narrow<uint32_t>(number), i};
    }
  }
  // Neighbouring lists first, so that each entry is moved about log2(lists) times; the oldest, mostly longer than the
  // others together, later.
  void put_newer_together() {
    items_.clear();
    ends_.clear();
    for (size_t number = 1; number < sources_.size(); ++number) {
      list(number, &items_);
      ends_.push_back(items_.size());
    }
    while (ends_.size() > 1) heads_decide() ? pass<true>() : pass<false>();
  }

  template <bool kHeadsDecide>
  void pass() {
    other_.resize(items_.size());
    Merged* out = other_.data();
    const Merged* begin = items_.data();
    size_t lists = 0;
    for (size_t i = 0; i < ends_.size(); i += 2) {
      const Merged* const middle = items_.data() + ends_[i];
      const Merged* const end = i + 1 < ends_.size() ? items_.data() + ends_[i + 1] : middle;
      out = merge<kHeadsDecide>(middle, end, begin, middle, out);
      begin = end;
      ends_[lists++] = static_cast<size_t>(out - other_.data());
    }
    ends_.resize(lists);
    other_.resize(static_cast<size_t>(out - other_.data()));
    std::swap(items_, other_);
  }

  // The entries of [a, a_end), the newer ones, and of [b, b_end). Returns the end of what was written at `out`.
  template <bool kHeadsDecide>
  Merged* merge(const Merged* a, const Merged* a_end, const Merged* b, const Merged* b_end, Merged* out) const {
    while (a != a_end && b != b_end) {
      auto a_ahead = static_cast<ptrdiff_t>(a->head <= b->head);
      auto b_ahead = static_cast<ptrdiff_t>(b->head <= a->head);
      if (!kHeadsDecide && a->head == b->head) {
        const auto order = compare(entry(*a).key, entry(*b).key);
        a_ahead = order <= 0 ? 1 : 0;
        b_ahead = order >= 0 ? 1 : 0;
      }
      *out++ = b[(a - b) & -a_ahead];
      a += a_ahead;
      b += b_ahead;
    }
    out = std::copy(a, a_end, out);
    return std::copy(b, b_end, out);
  }

  void find_newer() {
    newer_.clear();
    const uint32_t value_bytes = sources_[0].rows.value_bytes;
    no_value_.resize(value_bytes);
    for (const Merged& item : items_) {
      const Source& source = sources_[item.source];
      if (source.entries == nullptr) {
        const Kind kind = source.rows.value_bytes == value_bytes ? Kind::kRow : Kind::kOther;
        newer_.push_back({item.head, source.rows.key(item.index).data(), source.rows.value(item.index).data(), kind});
        continue;
      }
      const Entry& entry = source.entries[item.index];
      if (entry.tombstone) {  // it is copied, too, and overwritten by what follows
        newer_.push_back({item.head, entry.key.bytes.data(), no_value_.data(), Kind::kTombstone});
        continue;
      }
      const bool like_rows = !entry.large && entry.value.size() == value_bytes;
      newer_.push_back({item.head, entry.key.bytes.data(), entry.value.data(), like_rows ? Kind::kRow : Kind::kOther});
    }
  }

  // The newer lists where all keys and values have eight bytes. False: some value has not.
  bool find_newer_words() {
    words_.clear();
    for (const Source& source : std::span(sources_).subspan(1)) {
      const std::span<NewerWord> words = words_.add(source.to - source.from);
      if (source.entries != nullptr ? !words_of_entries(source, words) : !words_of_rows(source, words)) return false;
    }
    return true;
  }
  static bool words_of_rows(const Source& source, std::span<NewerWord> words) {
    if (source.rows.value_bytes != sizeof(uint64_t)) return false;
    const char* row = source.rows.keys + source.from * source.rows.stride_bytes;
    for (NewerWord& word : words) {
      std::memcpy(word.row.data(), row, kWordRowBytes);
      word.bytes = kWordRowBytes;
      row += source.rows.stride_bytes;
    }
    return true;
  }
  // Without a branch on what is deleted, which is a coin toss, too.
  static bool words_of_entries(const Source& source, std::span<NewerWord> words) {
    constexpr std::array<char, sizeof(uint64_t)> kNoValue{};
    bool all = true;
    const Entry* entry = source.entries + source.from;
    for (NewerWord& word : words) {
      const bool is_word = (entry->value.size() == sizeof word.row[1]) & !entry->large;
      all = all & (is_word | entry->tombstone);
      std::memcpy(&word.row[0], entry->key.bytes.data(), sizeof word.row[0]);
      std::memcpy(&word.row[1], select(mask_of(is_word), entry->value.data(), kNoValue.data()), sizeof word.row[1]);
      word.bytes = entry->tombstone ? 0 : kWordRowBytes;
      ++entry;
    }
    return all;
  }

  template <bool kHeadsDecide, class TakeRows, class TakeOther>
  void copy_rows_one_by_one(uint64_t left, char* to, const TakeRows& take_rows, const TakeOther& take_other) const {
    const Rows& rows = sources_[0].rows;
    const size_t key_bytes = key_bytes_, value_bytes = rows.value_bytes;
    const char* begin = to;
    const auto copy = [&](const char* key, const char* value) {
      base::copy_small(base::copy_small(to, {key, key_bytes}), {value, value_bytes});
    };
    const auto end_stretch = [&] {
      if (to != begin) take_rows(std::span<const char>(begin, to));
      begin = to;
    };
    const auto pass_other = [&](const Newer* each) {
      end_stretch();
      take_other(entry(items_[static_cast<size_t>(each - newer_.data())]));
      --left;
    };
    const char* b = rows.keys + sources_[0].from * rows.stride_bytes;
    const char* const b_end = rows.keys + sources_[0].to * rows.stride_bytes;
    const Newer* a = newer_.data();
    const Newer* const a_end = a + newer_.size();
    while (a != a_end && b != b_end && left > 0) {
      const uint64_t b_head = head_of({b, key_bytes});
      bool takes_a = a->head <= b_head, passes_b = b_head <= a->head;
      if (!kHeadsDecide && a->head == b_head) {
        const int order = std::memcmp(a->key, b, key_bytes);
        takes_a = order <= 0;
        passes_b = order >= 0;
      }
      if (takes_a & (a->kind == Kind::kOther)) [[unlikely]] {
        pass_other(a);
      } else {
        copy(takes_a ? a->key : b, takes_a ? a->value : b + key_bytes);
        const size_t stays = (takes_a & (a->kind == Kind::kTombstone)) ? 0 : 1;
        to += stays * (key_bytes + value_bytes);
        left -= stays;
      }
      a += takes_a ? 1 : 0;
      b += passes_b ? rows.stride_bytes : 0;
    }
    for (; a != a_end && left > 0; ++a) {
      if (a->kind == Kind::kOther) pass_other(a);
      if (a->kind != Kind::kRow) continue;
      copy(a->key, a->value);
      to += key_bytes + value_bytes;
      --left;
    }
    for (; b != b_end && left > 0; b += rows.stride_bytes, --left) {
      copy(b, b + key_bytes);
      to += key_bytes + value_bytes;
    }
    end_stretch();
  }

  uint32_t key_bytes_ = 0;
  size_t skipped_ = 0;
  std::vector<Source> sources_;
  std::vector<Entry> decoded_;
  std::vector<Merged> oldest_;         // the first list
  std::vector<Merged> items_, other_;  // the other lists
  std::vector<size_t> ends_;           // of those, oldest first
  std::vector<Newer> newer_;           // where the items are
  WordsMerge words_;                   // or what they say
  std::vector<char> no_value_;         // what is copied for a tombstone: of a far run row 0 need not be there
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_MERGE_H_
