// SPDX-License-Identifier: Apache-2.0
// Sorts elements by the heads of their keys, which are spread about evenly between the least and the greatest in most
// ranges. Each element is first placed near its final position, and then ordered among its neighbours. Time is linear
// in the number of elements; where heads cluster, it is that of std::sort.
#ifndef BONSAI_BASE_SPREAD_SORT_H_
#define BONSAI_BASE_SPREAD_SORT_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

namespace bonsai::base {

// Bounds on the number of elements. Below, std::sort is faster; above, it takes less stack.
inline constexpr size_t kSpreadLeast = 16;
inline constexpr size_t kSpreadMost = 1024;

// The sort below, within these bounds. Not inline: callers with few elements need not pay for its stack.
template <class It, class HeadOf, class Less>
[[gnu::noinline]] void spread_sort_many(It begin, It end, HeadOf head_of, Less less) {
  constexpr uint16_t kPlaceMax = 16;  // more elements for one place: the heads cluster
  struct Item {
    uint64_t head;
    uint32_t from;  // where the element is
  };
  const auto n = static_cast<size_t>(end - begin);
  uint64_t least = UINT64_MAX, greatest = 0;
  for (It at = begin; at != end; ++at) {
    const uint64_t head = head_of(*at);
    least = std::min(least, head);
    greatest = std::max(greatest, head);
  }
  const int shift = std::max(static_cast<int>(std::bit_width(greatest - least)) - 32, 0);
  const uint64_t scale = (static_cast<uint64_t>(n) << 32) / (((greatest - least) >> shift) + 1);
  const auto place_of = [&](uint64_t head) { return static_cast<size_t>(((head - least) >> shift) * scale >> 32); };

  std::array<uint16_t, kSpreadMost> next;  // per place: the number of elements, then the position of the next one
  std::fill_n(next.begin(), n, uint16_t{0});
  for (It at = begin; at != end; ++at) {
    if (++next[place_of(head_of(*at))] > kPlaceMax) return std::sort(begin, end, less);
  }
  uint16_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum = static_cast<uint16_t>(sum + std::exchange(next[i], sum));
  std::array<Item, kSpreadMost> items;
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t head = head_of(begin[i]);
    items[next[place_of(head)]++] = {head, i};
  }
  for (size_t i = 1; i < n; ++i) {
    const Item item = items[i];
    size_t to = i;
    for (; to > 0 && (items[to - 1].head > item.head ||
                      (items[to - 1].head == item.head && less(begin[item.from], begin[items[to - 1].from])));
         --to) {
      items[to] = items[to - 1];
    }
    items[to] = item;
  }
  for (uint32_t i = 0; i < n; ++i) {  // cycle by cycle
    if (items[i].from == i) continue;
    auto first = std::move(begin[i]);
    uint32_t to = i;
    for (uint32_t from = items[to].from; from != i; from = items[to].from) {
      begin[to] = std::move(begin[from]);
      items[to].from = to;
      to = from;
    }
    begin[to] = std::move(first);
    items[to].from = to;
  }
}

// Sorts [begin, end), random access, by `less`, which orders by head_of(element), a uint64_t, first. Not stable.
// Allocates nothing.
template <class It, class HeadOf, class Less>
void spread_sort(It begin, It end, HeadOf head_of, Less less) {
  const auto n = static_cast<size_t>(end - begin);
  if (n < kSpreadLeast || n > kSpreadMost) return std::sort(begin, end, less);
  spread_sort_many(begin, end, head_of, less);
}

}  // namespace bonsai::base

#endif  // BONSAI_BASE_SPREAD_SORT_H_
