// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/recorder.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>
#include <unordered_set>

#include "base/check.h"
#include "base/nvm/counters.h"
#include "base/nvm/crash_choices.h"
#include "base/nvm/racy_copy.h"

namespace bonsai::base {
namespace {

std::vector<Line> lines_from(std::span<const std::byte> image) {
  BONSAI_CHECK(image.size() % kLineBytes == 0);
  std::vector<Line> lines(image.size() / kLineBytes);
  if (!image.empty()) std::memcpy(lines.data(), image.data(), image.size());
  return lines;
}

// Serials are never reused, unlike thread ordinals: no thread may complete the flushes of an ended thread.
uint64_t thread_serial() {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

std::byte* shared_copy(std::span<const std::byte> image) {
  if (image.empty()) return nullptr;
  void* const at = ::mmap(nullptr, image.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  BONSAI_CHECK(at != MAP_FAILED);
  std::memcpy(at, image.data(), image.size());
  return static_cast<std::byte*>(at);
}

}  // namespace

RecorderMedium::RecorderMedium(std::span<const std::byte> image, PersistenceDomain domain, ThreadOf thread_of)
    : HookedMedium(shared_copy(image), image.size()),
      eadr_(domain == PersistenceDomain::kEadr),
      thread_of_(std::move(thread_of)),
      durable_lines_(lines_from(image)),
      durable_sequence_(image.size() / 8, 0) {
  BONSAI_CHECK(domain != PersistenceDomain::kAuto);
}

RecorderMedium::~RecorderMedium() {
  if (bytes() != 0) ::munmap(view(), bytes());
}

void RecorderMedium::store8(std::byte* dst, uint64_t value) {
  BONSAI_CHECK(reinterpret_cast<uintptr_t>(dst) % 8 == 0);
  store_words(dst, &value, 8, false);
  count_stored(8);
}

void RecorderMedium::copy(std::byte* dst, const void* src, size_t n) {
  store_words(dst, src, n, false);
  count_stored(n);
}

void RecorderMedium::nt_copy(std::byte* dst, const void* src, size_t n, const Site& site) {
  BONSAI_CHECK(reinterpret_cast<uintptr_t>(dst) % 8 == 0 && n % 8 == 0);
  store_words(dst, src, n, count_use(site, SiteUse::kNtCopy));
  count_nt(dst, n);
}

void RecorderMedium::flush(const std::byte* dst, size_t n, const Site& site) {
  BONSAI_CHECK(dst >= view() && static_cast<size_t>(dst - view()) + n <= bytes());
  count_flush(dst, n);
  if (!count_use(site, SiteUse::kFlush) || n == 0) return;
  const std::lock_guard lock(mutex_);
  Pending& pending = pending_[my_thread()];
  const auto begin = static_cast<size_t>(dst - view());
  for (size_t line = begin / kLineBytes; line <= (begin + n - 1) / kLineBytes; ++line) {
    if (groups_.contains(line)) pending.flushed_before[line] = next_sequence_;
  }
}

bool RecorderMedium::fence(const Site& site) {
  count_fence();
  if (!count_use(site, SiteUse::kFence)) return true;
  if (before_fence_) before_fence_(site);
  const std::lock_guard lock(mutex_);
  const uint64_t thread = my_thread();
  const bool fails = fences_to_failure_ != 0 && --fences_to_failure_ == 0;
  const auto found = pending_.find(thread);
  if (found == pending_.end()) return !fails;
  if (fails) {
    pending_.erase(found);
    return false;
  }
  const Pending& pending = found->second;
  for (const auto& [line, sequence_end] : pending.flushed_before) settle_prefix(line, sequence_end);
  for (const size_t line : pending.loose_lines) settle_loose(line, thread);
  if (eadr_) settle_prefix(kEveryLine, pending.stores_end);
  pending_.erase(found);
  return true;
}

uint64_t RecorderMedium::my_thread() const { return thread_of_ ? thread_of_() : thread_serial(); }

bool RecorderMedium::count_use(const Site& site, SiteUse use) {
  const std::lock_guard lock(mutex_);
  const SiteKey key{&site, use};
  auto entry = std::find_if(counts_.begin(), counts_.end(), [&](const auto& each) { return each.first == key; });
  if (entry == counts_.end()) entry = counts_.insert(counts_.end(), {key, 0});
  ++entry->second;
  return std::find(dropped_.begin(), dropped_.end(), key) == dropped_.end();
}

void RecorderMedium::store_words(std::byte* dst, const void* src, size_t n, bool loose) {
  BONSAI_CHECK(dst >= view() && static_cast<size_t>(dst - view()) + n <= bytes());
  const std::lock_guard lock(mutex_);
  const uint64_t thread = my_thread();
  const auto begin = static_cast<size_t>(dst - view()), end = begin + n;
  const auto* const from = static_cast<const std::byte*>(src);
  for (size_t at = begin; at < end;) {
    const size_t word = at / 8, stop = std::min(end, 8 * (word + 1));
    uint64_t value = word_at(view() + 8 * word).load(std::memory_order_relaxed);
    std::memcpy(reinterpret_cast<std::byte*>(&value) + at % 8, from + (at - begin), stop - at);
    store_word(word, value, loose, thread);
    at = stop;
  }
}

void RecorderMedium::store_word(size_t word, uint64_t value, bool loose, uint64_t thread) {
  word_at(view() + 8 * word).store(value, std::memory_order_release);
  const size_t line = word / kWordsPerLine;
  const Store store{word, value, next_sequence_++, thread};
  Pending& pending = pending_[thread];
  if (loose) {
    groups_[line].loose.push_back(store);
    if (pending.loose_lines.empty() || pending.loose_lines.back() != line) pending.loose_lines.push_back(line);
  } else {
    groups_[eadr_ ? kEveryLine : line].ordered.push_back(store);
    pending.stores_end = next_sequence_;
  }
}

void RecorderMedium::settle_prefix(size_t group, uint64_t sequence_end) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  std::vector<Store>& stores = found->second.ordered;
  const auto end =
      std::find_if(stores.begin(), stores.end(), [&](const Store& s) { return s.sequence >= sequence_end; });
  for (auto store = stores.begin(); store != end; ++store) apply(*store);
  stores.erase(stores.begin(), end);
  if (stores.empty() && found->second.loose.empty()) groups_.erase(found);
}

void RecorderMedium::settle_loose(size_t group, uint64_t thread) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  std::vector<Store>& stores = found->second.loose;
  for (const Store& store : stores) {
    if (store.thread == thread) apply(store);
  }
  std::erase_if(stores, [&](const Store& store) { return store.thread == thread; });
  if (stores.empty() && found->second.ordered.empty()) groups_.erase(found);
}

// Keeps the newest durable store of a word, in whatever order its stores become durable.
void RecorderMedium::apply(const Store& store) {
  if (store.sequence < durable_sequence_[store.word]) return;
  durable_sequence_[store.word] = store.sequence;
  durable_word(store.word) = store.value;
}

CrashImages RecorderMedium::each_crash_image(uint64_t images_max, Random& random, const Visit& visit) {
  // A unit is the ordered stores of a group, or one loose store.
  std::vector<ChoiceUnit> units;
  std::vector<Choosable> stores;
  for (const auto& [line, group] : groups_) {
    for (size_t place = 0; place < group.ordered.size(); ++place) {
      stores.push_back({&group.ordered[place], units.size(), place});
    }
    if (!group.ordered.empty()) units.push_back({group.ordered.size(), line});
    for (const Store& store : group.loose) {
      stores.push_back({&store, units.size(), 0});
      units.push_back({1, line});
    }
  }
  // Stores older than the word's durable store change nothing.
  std::erase_if(stores,
                [&](const Choosable& each) { return each.store->sequence < durable_sequence_[each.store->word]; });
  std::sort(stores.begin(), stores.end(), [](const Choosable& a, const Choosable& b) {
    return a.store->word != b.store->word ? a.store->word < b.store->word : a.store->sequence < b.store->sequence;
  });
  CrashImages result;
  std::unordered_set<uint64_t> seen;
  Changes changes;
  result.exhaustive = each_crash_choice(units, images_max, random, [&](const std::vector<size_t>& kept) {
    ++result.generated;
    changes_of(stores, kept, &changes);
    uint64_t hash = 0;
    for (const auto& [word, value] : changes) hash ^= splitmix64(splitmix64(word) + value);
    if (!seen.insert(hash).second) return;
    ++result.visited;
    visit_changed(&changes, visit);
  });
  return result;
}

// Computes the changes of a crash that keeps `kept[i]` stores of unit i. Requires: the stores are ordered by word, then
// by sequence.
void RecorderMedium::changes_of(const std::vector<Choosable>& stores, const std::vector<size_t>& kept,
                                Changes* changes) {
  changes->clear();
  for (size_t i = 0; i < stores.size();) {
    const size_t word = stores[i].store->word;
    const Store* newest = nullptr;
    for (; i < stores.size() && stores[i].store->word == word; ++i) {
      if (stores[i].place < kept[stores[i].unit]) newest = stores[i].store;
    }
    if (newest != nullptr && newest->value != durable_word(word)) changes->emplace_back(word, newest->value);
  }
}

// Puts the changes into the durable image, visits it, and takes them out again.
void RecorderMedium::visit_changed(Changes* changes, const Visit& visit) {
  const auto swap_in = [&] {
    for (auto& [word, value] : *changes) std::swap(durable_word(word), value);
  };
  swap_in();
  visit(durable_image());
  swap_in();
}

std::vector<SiteCount> RecorderMedium::site_counts() const {
  const std::lock_guard lock(mutex_);
  std::vector<SiteCount> counts;
  for (const auto& [key, calls] : counts_) counts.push_back({key.site, key.use, calls});
  std::sort(counts.begin(), counts.end(), [](const SiteCount& a, const SiteCount& b) {
    const int by_name = std::string_view(a.site->name).compare(b.site->name);
    return by_name != 0 ? by_name < 0 : a.use < b.use;
  });
  return counts;
}

std::span<const std::byte> RecorderMedium::durable_image() const {
  return {reinterpret_cast<const std::byte*>(durable_lines_.data()), bytes()};
}

size_t RecorderMedium::pending_words() const {
  const std::lock_guard lock(mutex_);
  size_t words = 0;
  for (const auto& [line, group] : groups_) words += group.ordered.size() + group.loose.size();
  return words;
}

size_t RecorderMedium::pending_lines() const {
  const std::lock_guard lock(mutex_);
  return groups_.size();
}

}  // namespace bonsai::base
