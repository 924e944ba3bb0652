// SPDX-License-Identifier: Apache-2.0
// A growing ring. It returns the oldest element, or one chosen by its place.
#ifndef BONSAI_BASE_CORO_READY_QUEUE_H_
#define BONSAI_BASE_CORO_READY_QUEUE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace bonsai::base {

// Thread-safety: one owner. Allocates only to grow, and not below what reserve() asked for.
template <class T>
class ReadyQueue {
 public:
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] size_t size() const { return count_; }

  void reserve(size_t elements) {
    while (ring_.size() < elements) grow();
  }

  void push(T value) {
    if (count_ == ring_.size()) grow();
    at(count_++) = std::move(value);
  }

  // Takes the oldest. Requires: not empty.
  T pop() {
    BONSAI_DCHECK(count_ != 0);
    T value = std::move(at(0));
    first_ = (first_ + 1) & (ring_.size() - 1);
    --count_;
    return value;
  }

  // Takes the index-th oldest; the oldest moves to its place. Requires: index < size().
  T pop_at(size_t index) {
    BONSAI_DCHECK(index < count_);
    std::swap(at(0), at(index));
    return pop();
  }

 private:
  T& at(size_t index) { return ring_[(first_ + index) & (ring_.size() - 1)]; }

  void grow() {
    std::vector<T> larger(ring_.empty() ? 16 : ring_.size() * 2);
    for (size_t i = 0; i < count_; ++i) larger[i] = std::move(at(i));
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> ring_;  // its size is a power of two
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CORO_READY_QUEUE_H_
