// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/maps/ctrie.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/random.h"
#include "base/step.h"

namespace bonsai::bench::maps {

using base::step;

namespace {

// The bits of a set, one after the other.
template <class Visit>
void for_each_bit(uint32_t bits, Visit visit) {
  for (; bits != 0; bits &= bits - 1) visit(bits & -bits);
}

bool is_before(const Record& a, const Record& b) { return a.key < b.key; }

}  // namespace

Ctrie::Ctrie(const CtrieOptions& options)
    : bits_(options.bits), root_(reinterpret_cast<uintptr_t>(memory_.make<Place>(make_main(0, 0), uint64_t{0}))) {
  BONSAI_CHECK(options.bits >= 1 && options.bits <= 5);
}

Ctrie::~Ctrie() { free_tree(reinterpret_cast<Place*>(root_.load())); }

void Ctrie::free_tree(Place* place) {
  Main* const main = place->main.load();
  for_each_bit(main->places, [&](uint32_t bit) { free_tree(main->at(bit)->place); });
  dispose(main, Fate::kFreed);
  dispose(place, Fate::kFreed);
}

// One to one, so that no two keys have the same.
uint64_t Ctrie::hash_of(uint64_t key) { return base::splitmix64(key); }

// ---- main nodes

Ctrie::Main* Ctrie::make_main(uint32_t branches, uint32_t places) {
  const auto size = static_cast<uint32_t>(__builtin_popcount(branches));
  Main* const main = new (memory_.allocate(bytes_of(size))) Main{{0}, branches, places};
  for (uint32_t i = 0; i < size; ++i) new (main->begin() + i) Branch{};
  return main;
}

Ctrie::Main* Ctrie::copy_with(Main* main, uint32_t bit, bool is_place, Branch branch) {
  Main* const copy = make_main(main->branches | bit, is_place ? main->places | bit : main->places & ~bit);
  for_each_bit(main->branches & ~bit, [&](uint32_t each) { *copy->at(each) = *main->at(each); });
  *copy->at(bit) = branch;
  return copy;
}

Ctrie::Main* Ctrie::copy_without(Main* main, uint32_t bit) {
  Main* const copy = make_main(main->branches & ~bit, main->places);
  for_each_bit(copy->branches, [&](uint32_t each) { *copy->at(each) = *main->at(each); });
  return copy;
}

// With new places, which have the same main nodes, for those of earlier generations. A place of this generation stays:
// swaps count there, and of two places for one main node one would lose them.
Ctrie::Main* Ctrie::copy_into(Main* main, uint64_t generation) {
  Main* const copy = make_main(main->branches, main->places);
  for_each_bit(main->branches, [&](uint32_t bit) {
    *copy->at(bit) = *main->at(bit);
    if (!main->has_place(bit) || main->at(bit)->place->generation == generation) return;
    copy->at(bit)->place = memory_.make<Place>(main_of(main->at(bit)->place), generation);
  });
  return copy;
}

// For two records that have the same hash above this level.
Ctrie::Main* Ctrie::make_pair(const Record& a, const Record& b, uint32_t level, uint64_t generation) {
  const uint32_t bit_a = bit_of(hash_of(a.key), level), bit_b = bit_of(hash_of(b.key), level);
  if (bit_a == bit_b) {
    Main* const below = make_pair(a, b, level + 1, generation);
    Main* const main = make_main(bit_a, bit_a);
    main->begin()->place = memory_.make<Place>(below, generation);
    return main;
  }
  Main* const main = make_main(bit_a | bit_b, 0);
  main->at(bit_a)->record = a;
  main->at(bit_b)->record = b;
  return main;
}

// ---- places: a swap counts if the root has the same generation

// The main node of the place, after settling.
Ctrie::Main* Ctrie::main_of(Place* place) {
  step("ctrie.read");
  Main* const main = place->main.load();
  return main->previous.load() == 0 ? main : settle(place, main);
}

Ctrie::Main* Ctrie::settle(Place* place, Main* main) {
  for (;;) {
    uintptr_t previous = main->previous.load();
    if (previous == 0) return main;
    if ((previous & kAborted) != 0) {
      Main* const old = reinterpret_cast<Main*>(previous & ~kAborted);
      Main* expected = main;
      step("ctrie.put_back");
      if (!place->main.compare_exchange_strong(expected, old)) {
        main = expected;
        continue;
      }
      dispose_with_own(main, old, true, Fate::kRetired);
      return old;
    }
    const bool counts = root()->generation == place->generation;
    step("ctrie.settle");
    if (!main->previous.compare_exchange_strong(previous, counts ? 0 : previous | kAborted) || !counts) continue;
    dispose_with_own(reinterpret_cast<Main*>(previous), main, false, Fate::kRetired);
    return main;
  }
}

// False when the place had been changed, or a snapshot was taken; the caller must not use `fresh` then.
bool Ctrie::swap(Place* place, Main* old, Main* fresh) {
  fresh->previous.store(reinterpret_cast<uintptr_t>(old), std::memory_order_relaxed);
  Main* expected = old;
  step("ctrie.swap");
  if (!place->main.compare_exchange_strong(expected, fresh)) {
    dispose_with_own(fresh, old, true, Fate::kFreed);
    return false;
  }
  settle(place, fresh);
  return fresh->previous.load() == 0;
}

// ---- the root

// Gives up an exchange in flight: the caller is about to settle a swap, for which the exchange would wait.
Ctrie::Place* Ctrie::root() {
  step("ctrie.root");
  const uintptr_t word = root_.load();
  if ((word & kExchange) == 0) return reinterpret_cast<Place*>(word);
  return settle(reinterpret_cast<Exchange*>(word & ~kExchange), true);
}

// Ends an exchange. Returns the root that it leaves, which may have been replaced since.
Ctrie::Place* Ctrie::settle(Exchange* exchange, bool gives_up) {
  const bool is_as_expected = !gives_up && main_of(exchange->before) == exchange->expected;
  uint32_t state = Exchange::kOpen;
  step("ctrie.decide");
  if (exchange->state.compare_exchange_strong(state, is_as_expected ? Exchange::kDone : Exchange::kGivenUp)) {
    state = is_as_expected ? Exchange::kDone : Exchange::kGivenUp;
  }
  Place* const left = state == Exchange::kDone ? exchange->after : exchange->before;
  uintptr_t expected = reinterpret_cast<uintptr_t>(exchange) | kExchange;
  step("ctrie.exchange");
  root_.compare_exchange_strong(expected, reinterpret_cast<uintptr_t>(left));
  return left;
}

// The root of the map's state at one moment, valid as long as the caller's guard.
Ctrie::Place* Ctrie::snapshot() {
  for (;; scans_restarted_.fetch_add(1, std::memory_order_relaxed)) {
    Place* const before = root();
    Main* const main = main_of(before);
    Place* const after = memory_.make<Place>(main, generations_.fetch_add(1));
    auto* const exchange = memory_.make<Exchange>(before, main, after);
    uintptr_t expected = reinterpret_cast<uintptr_t>(before);
    step("ctrie.snapshot");
    if (!root_.compare_exchange_strong(expected, reinterpret_cast<uintptr_t>(exchange) | kExchange)) {
      memory_.destroy(exchange);
      memory_.destroy(after);
      continue;
    }
    settle(exchange, false);
    const bool is_done = exchange->state.load() == Exchange::kDone;
    memory_.retire_object(exchange);
    if (is_done) {
      dispose(before, Fate::kRetired);
      return before;
    }
    memory_.destroy(after);
  }
}

// ---- memory

void Ctrie::dispose(Main* main, Fate fate) {
  const size_t bytes = bytes_of(main->size());
  if (fate == Fate::kFreed) return memory_.free(main, bytes);
  memory_.retire(
      main,
      [](void* dead, void* memory) {
        static_cast<Memory*>(memory)->free(dead, bytes_of(static_cast<const Main*>(dead)->size()));
      },
      &memory_, bytes);
}

void Ctrie::dispose(Place* place, Fate fate) {
  fate == Fate::kFreed ? memory_.destroy(place) : memory_.retire_object(place);
}

// The main node and those of its places that `other` has not; and_below: where `other` has no place at all, what that
// place holds, too.
void Ctrie::dispose_with_own(Main* main, Main* other, bool and_below, Fate fate) {
  for_each_bit(main->places, [&](uint32_t bit) {
    Place* const place = main->at(bit)->place;
    if (other != nullptr && other->has_place(bit)) {
      if (other->at(bit)->place != place) dispose(place, fate);
    } else if (and_below) {
      dispose_with_own(place->main.load(), nullptr, true, fate);
      dispose(place, fate);
    }
  });
  dispose(main, fate);
}

// ---- operations

bool Ctrie::get(uint64_t key, uint64_t* value) {
  const auto guard = memory_.enter();
  const uint64_t hash = hash_of(key);
  // While an exchange is in flight either root will do: they have the same main node, or the exchange is given up.
  const uintptr_t word = root_.load();
  Place* place = (word & kExchange) == 0 ? reinterpret_cast<Place*>(word)
                                         : settle(reinterpret_cast<Exchange*>(word & ~kExchange), false);
  for (uint32_t level = 0;; ++level) {
    step("hop");
    Main* const main = main_of(place);
    const uint32_t bit = bit_of(hash, level);
    if (main->has_place(bit)) {
      place = main->at(bit)->place;
      continue;
    }
    if (!main->has_record(bit) || main->at(bit)->record.key != key) return false;
    *value = main->at(bit)->record.value;
    return true;
  }
}

void Ctrie::update(const Record& record, bool removes) {
  const auto guard = memory_.enter();
  for (;;) {
    Place* const place = root();
    if (update_below(place, record, removes, place->generation) == Outcome::kDone) return;
  }
}

Ctrie::Outcome Ctrie::update_below(Place* place, const Record& record, bool removes, uint64_t generation) {
  const uint64_t hash = hash_of(record.key);
  for (uint32_t level = 0;;) {
    Main* const main = main_of(place);
    const uint32_t bit = bit_of(hash, level);
    if (!main->has_place(bit)) return update_in(place, main, level, record, removes);
    Place* const below = main->at(bit)->place;
    if (below->generation == generation) {
      place = below;
      ++level;
      continue;
    }
    nodes_copied_.fetch_add(1, std::memory_order_relaxed);
    if (!swap(place, main, copy_into(main, generation))) return Outcome::kAgain;
  }
}

// Where the record, or another one, is a branch of this main node.
Ctrie::Outcome Ctrie::update_in(Place* place, Main* main, uint32_t level, const Record& record, bool removes) {
  const uint32_t bit = bit_of(hash_of(record.key), level);
  const bool is_taken = main->has_record(bit);
  const bool is_there = is_taken && main->at(bit)->record.key == record.key;
  if (removes && !is_there) return Outcome::kDone;
  Main* fresh;
  if (removes) {
    fresh = copy_without(main, bit);
  } else if (is_taken && !is_there) {
    Main* const pair = make_pair(main->at(bit)->record, record, level + 1, place->generation);
    fresh = copy_with(main, bit, true, {.place = memory_.make<Place>(pair, place->generation)});
  } else {
    fresh = copy_with(main, bit, false, {.record = record});
  }
  return swap(place, main, fresh) ? Outcome::kDone : Outcome::kAgain;
}

void Ctrie::scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) {
  const auto guard = memory_.enter();
  records->clear();
  std::vector<Place*> left = {snapshot()};
  while (!left.empty()) {
    Main* const main = main_of(left.back());
    left.pop_back();
    for_each_bit(main->branches, [&](uint32_t bit) {
      step("hop");
      if (main->has_place(bit)) return left.push_back(main->at(bit)->place);
      const Record& record = main->at(bit)->record;
      if (record.key >= from && record.key <= to) records->push_back(record);
    });
  }
  if (records->size() > limit) {
    std::nth_element(records->begin(), records->begin() + static_cast<ptrdiff_t>(limit), records->end(), is_before);
    records->resize(limit);
  }
  std::sort(records->begin(), records->end(), is_before);
}

}  // namespace bonsai::bench::maps
