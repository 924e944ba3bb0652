// SPDX-License-Identifier: Apache-2.0
// The history of a store's clients: their calls and results, in a form that checkers can judge.
//
// Keys and values are numbers here: the test maps key numbers to key bytes, and each update writes a value number that
// no other update of that key writes (see codec.h). Value 0 stands for "no value".
//
// Time is an ordinal drawn from one counter, so that it orders operations as a global clock would: if one operation
// returned before another was invoked, then its `ret` is below the other's `invoke`.
#ifndef BONSAI_TESTING_HISTORY_H_
#define BONSAI_TESTING_HISTORY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bonsai::testing {

inline constexpr uint64_t kAbsent = 0;            // the value number of "no value"
inline constexpr uint64_t kOpen = UINT64_MAX;     // `ret` of an operation whose outcome nobody saw
inline constexpr uint64_t kGarbled = kOpen - 1;   // the value number of bytes that no update can have written
inline constexpr uint64_t kAnyValue = kOpen - 2;  // of a condition: the key has some value

// An update that changes several cells does so at one moment; a read that has several cells saw them at one moment.
// kConditional: an update before which all its `required` cells held. kRefused: one that changed nothing, because they
// did not all hold; it counts as a read.
enum class OpKind : uint32_t { kPut, kDelete, kBatch, kConditional, kGet, kScan, kSnapshotRead, kRecovered, kRefused };

constexpr bool is_update(OpKind kind) { return kind <= OpKind::kConditional; }
const char* name_of(OpKind kind);

// One key that an operation wrote or read. A scan has a cell for every key of its range, the absent ones too.
struct Cell {
  uint64_t key;
  uint64_t value;
  bool required = false;  // by a condition; not written

  [[nodiscard]] bool holds_in(uint64_t state) const { return value == kAnyValue ? state != kAbsent : value == state; }
};

struct Operation {
  uint64_t invoke;
  uint64_t ret;  // kOpen: unknown outcome; it may have taken effect at any time since `invoke`, or never
  OpKind kind;
  uint32_t thread;
  uint64_t cells_first;  // index into History::cells
  uint64_t cells_count;
};

struct History {
  std::vector<Operation> operations;
  std::vector<Cell> cells;

  [[nodiscard]] std::span<const Cell> cells_of(const Operation& op) const {
    return std::span(cells).subspan(op.cells_first, op.cells_count);
  }
  void add(OpKind kind, uint32_t thread, uint64_t invoke, uint64_t ret, std::span<const Cell> cells_of_op);
  void add(OpKind kind, uint32_t thread, uint64_t invoke, uint64_t ret, std::initializer_list<Cell> cells_of_op) {
    add(kind, thread, invoke, ret, std::span(cells_of_op.begin(), cells_of_op.size()));
  }
  // Appends all of `other`.
  void append(const History& other);
  // The greatest ordinal in use.
  [[nodiscard]] uint64_t last_ordinal() const;
  // One line of text, e.g. "[12,17] thread 2 batch k3=71 k4=deleted"; at most `cells_max` cells are shown.
  [[nodiscard]] std::string text_of(const Operation& op, size_t cells_max = 8) const;
};

// The verdict of a checker. `text` describes the fault, with the operations that show it.
struct Verdict {
  bool ok = true;
  std::string text;

  explicit operator bool() const { return ok; }
  static Verdict wrong(std::string text) { return {false, std::move(text)}; }
};

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_HISTORY_H_
