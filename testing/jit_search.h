// SPDX-License-Identifier: Apache-2.0
// Decides whether a concurrent history can be explained by one order of its operations that respects real time:
// "just-in-time linearization" after Lowe, over any sequential model.
//
// It walks the history once and keeps every configuration that is still possible: which pending operations have taken
// effect, and the state that resulted. Updates take effect as late as possible, when some operation that must have
// happened returns; reads as early as possible, since they change nothing. Exact, and linear in the length of the
// history while few updates are pending at a time: the number of configurations is bounded by 2^pending times states.
#ifndef BONSAI_TESTING_JIT_SEARCH_H_
#define BONSAI_TESTING_JIT_SEARCH_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "testing/history.h"

namespace bonsai::testing {

// A Model has: State (ordered, copyable), Payload, and static functions
//   bool matches(const Payload& read, const State&)     could this read have returned what it did in this state?
//   bool allows(const Payload& update, const State&)    could this update have taken effect in this state?
//   void apply(const Payload& update, State*)
template <class Model>
class JitSearch {
 public:
  using State = typename Model::State;

  struct Op {
    uint64_t invoke;
    uint64_t ret;  // kOpen: may take effect at any time after `invoke`, or never
    bool update;
    typename Model::Payload payload;
    size_t after = kNone;  // an update's: index of one that takes effect before it does; kNone: any order
  };
  static constexpr size_t kNone = SIZE_MAX;

  enum class End { kExplained, kStuck, kGaveUp };
  struct Result {
    End end;
    size_t op;  // kStuck: the operation by whose return no order is left; kGaveUp: where it became too much
  };

  static constexpr size_t kPendingMax = 64;
  static constexpr size_t kConfigurationsMax = 1 << 20;

  explicit JitSearch(std::span<const Op> ops) : ops_(ops) {}

  Result run(State initial) {
    configurations_ = {{0, std::move(initial)}};
    slot_of_.assign(ops_.size(), 0);
    for (const Event& event : events()) {
      const bool fits = event.is_return ? finish(event.op) : start(event.op);
      if (!fits) return {End::kGaveUp, event.op};
      if (configurations_.empty()) return {End::kStuck, event.op};
    }
    return {End::kExplained, 0};
  }

 private:
  struct Event {
    uint64_t ordinal;
    bool is_return;
    size_t op;
    auto operator<=>(const Event&) const = default;
  };
  struct Configuration {
    uint64_t done;  // bits of pending operations that took effect
    State state;
    auto operator<=>(const Configuration&) const = default;
  };

  [[nodiscard]] std::vector<Event> events() const {
    std::vector<Event> all;
    for (size_t i = 0; i < ops_.size(); ++i) {
      const bool open = ops_[i].ret == kOpen;
      if (open && !ops_[i].update) continue;  // a read whose result nobody saw says nothing
      all.push_back({ops_[i].invoke, false, i});
      if (!open) all.push_back({ops_[i].ret, true, i});
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  bool start(size_t op) {
    if (in_use_ == ~uint64_t{0}) return false;
    const size_t slot = static_cast<size_t>(__builtin_ctzll(~in_use_));
    in_use_ |= uint64_t{1} << slot;
    slot_of_[op] = slot;
    pending_[slot] = op;
    if (ops_[op].update) {
      updates_ |= uint64_t{1} << slot;
    } else {
      for (Configuration& each : configurations_) take_reads(&each);
    }
    return true;
  }

  bool finish(size_t op) {
    const uint64_t bit = uint64_t{1} << slot_of_[op];
    std::vector<Configuration> next;
    std::vector<Configuration> todo = std::move(configurations_);
    for (size_t rounds = 0; !todo.empty(); ++rounds) {
      if (rounds > kConfigurationsMax) return false;
      Configuration each = std::move(todo.back());
      todo.pop_back();
      if ((each.done & bit) != 0) {
        each.done &= ~bit;
        next.push_back(std::move(each));
        continue;
      }
      for (uint64_t left = updates_ & ~each.done; left != 0; left &= left - 1) {
        const auto slot = static_cast<size_t>(__builtin_ctzll(left));
        const Op& candidate = ops_[pending_[slot]];
        const bool allowed = may_be_next(each, candidate) && Model::allows(candidate.payload, each.state);
        if (allowed) todo.push_back(after(each, slot));
      }
      if (rounds % 1024 == 1023) unify(&todo);
    }
    unify(&next);
    configurations_ = std::move(next);
    in_use_ &= ~bit;
    updates_ &= ~bit;
    return true;
  }

  // The update that must precede has ended, or has taken effect.
  [[nodiscard]] bool may_be_next(const Configuration& each, const Op& op) const {
    if (op.after == kNone) return true;
    const size_t slot = slot_of_[op.after];
    return pending_[slot] != op.after || ((in_use_ & ~each.done) >> slot & 1) == 0;
  }

  [[nodiscard]] Configuration after(const Configuration& before, size_t slot) const {
    Configuration result = before;
    result.done |= uint64_t{1} << slot;
    Model::apply(ops_[pending_[slot]].payload, &result.state);
    take_reads(&result);
    return result;
  }

  void take_reads(Configuration* each) const {
    for (uint64_t left = in_use_ & ~updates_ & ~each->done; left != 0; left &= left - 1) {
      const size_t slot = static_cast<size_t>(__builtin_ctzll(left));
      if (Model::matches(ops_[pending_[slot]].payload, each->state)) each->done |= uint64_t{1} << slot;
    }
  }

  static void unify(std::vector<Configuration>* set) {
    std::sort(set->begin(), set->end());
    set->erase(std::unique(set->begin(), set->end()), set->end());
  }

  std::span<const Op> ops_;
  std::vector<Configuration> configurations_;
  std::vector<size_t> slot_of_;
  size_t pending_[kPendingMax] = {};
  uint64_t in_use_ = 0;
  uint64_t updates_ = 0;
};

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_JIT_SEARCH_H_
