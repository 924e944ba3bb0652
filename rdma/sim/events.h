// SPDX-License-Identifier: Apache-2.0
// The future events of a simulated network, ordered by time, then by creation. Internal to rdma/sim/.
#ifndef BONSAI_RDMA_SIM_EVENTS_H_
#define BONSAI_RDMA_SIM_EVENTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace bonsai::rdma {

// Thread-safety: none. Allocates only to grow. An event is not moved before it has run.
class SimEvents {
 public:
  SimEvents() = default;
  ~SimEvents() { clear(); }
  SimEvents(const SimEvents&) = delete;
  SimEvents& operator=(const SimEvents&) = delete;

  [[nodiscard]] bool empty() const { return order_.empty(); }
  // The time of the first event. Requires: not empty.
  [[nodiscard]] uint64_t first_ns() const {
    BONSAI_DCHECK(!empty());
    return order_.front().due_ns;
  }

  template <class Event>
  void add(uint64_t due_ns, Event event) {
    static_assert(sizeof(Event) <= kEventBytesMax && alignof(Event) <= alignof(std::max_align_t));
    if (unused_.empty()) unused_.push_back(&slots_.emplace_back());
    Slot* const slot = unused_.back();
    unused_.pop_back();
    new (static_cast<void*>(slot->bytes)) Event(std::move(event));
    slot->end = [](void* made, bool runs) {
      auto* const ends = static_cast<Event*>(made);
      if (runs) (*ends)();
      ends->~Event();
    };
    order_.push_back({due_ns, ++made_, slot});
    std::push_heap(order_.begin(), order_.end(), Later());
  }
  // Runs the first event, which may add others. Requires: not empty.
  void run_first() { end_first(true); }
  void clear() {
    while (!empty()) end_first(false);
  }

 private:
  static constexpr size_t kEventBytesMax = 64;
  struct Slot {
    alignas(std::max_align_t) std::byte bytes[kEventBytesMax];
    void (*end)(void* event, bool runs);
  };
  struct Entry {
    uint64_t due_ns, number;
    Slot* slot;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.due_ns != b.due_ns ? a.due_ns > b.due_ns : a.number > b.number;
    }
  };
  void end_first(bool runs) {
    BONSAI_DCHECK(!empty());
    std::pop_heap(order_.begin(), order_.end(), Later());
    Slot* const slot = order_.back().slot;
    order_.pop_back();
    slot->end(slot->bytes, runs);
    unused_.push_back(slot);
  }

  uint64_t made_ = 0;
  std::vector<Entry> order_;  // a heap
  std::deque<Slot> slots_;
  std::vector<Slot*> unused_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SIM_EVENTS_H_
