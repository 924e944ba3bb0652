// SPDX-License-Identifier: Apache-2.0
// Helpers of the tests of persist/: a medium in plain memory that records its operations, and a rig that connects the
// tiers of one pool over any hooked media.
#ifndef BONSAI_PERSIST_TESTING_H_
#define BONSAI_PERSIST_TESTING_H_

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/epoch.h"
#include "base/nvm/medium.h"
#include "base/random.h"
#include "base/testing/far.h"
#include "persist/analysis.h"
#include "persist/dnode_cursor.h"
#include "persist/dnode_search.h"
#include "persist/dnode_store.h"
#include "persist/large.h"
#include "persist/log.h"
#include "persist/old_copy.h"
#include "persist/opening.h"
#include "persist/pool.h"
#include "persist/recovery.h"
#include "persist/space.h"
#include "scale/testing/served_medium.h"
#include "scale/volume.h"

namespace bonsai::persist::testing {

// A random sequence whose seed is printed and replayed from BONSAI_SEED.
inline base::Random seeded_random(uint64_t fallback) {
  const uint64_t seed = base::seed_from_env_or(fallback);
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return base::Random(seed);
}

// Memory that costs nothing until it is touched, so that a target may be 64 GiB large. All stores are durable at once;
// with `record` on, every operation is noted in order.
class MemoryMedium final : public base::HookedMedium {
 public:
  struct Event {
    char op;  // 's'tore8, 'c'opy, 'n't_copy, 'f'lush, '|' fence
    uint64_t offset;
    size_t bytes;
    std::string site;
  };

  explicit MemoryMedium(size_t bytes) : HookedMedium(map(bytes), bytes) {}
  explicit MemoryMedium(std::span<const std::byte> image) : MemoryMedium(image.size()) {
    std::memcpy(view(), image.data(), image.size());
  }
  ~MemoryMedium() override { ::munmap(view(), bytes()); }

  void store8(std::byte* dst, uint64_t value) override {
    if (!note('s', dst, 8, "")) return;
    __atomic_store_n(reinterpret_cast<uint64_t*>(dst), value, __ATOMIC_RELEASE);
  }
  void copy(std::byte* dst, const void* src, size_t n) override {
    if (!note('c', dst, n, "")) return;
    std::memcpy(dst, src, n);
  }
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site& site) override {
    BONSAI_CHECK(reinterpret_cast<uintptr_t>(dst) % 8 == 0 && n % 8 == 0);
    if (!note('n', dst, n, site.name)) return;
    if (n != 0) std::memcpy(dst, src, n);
  }
  void flush(const std::byte* dst, size_t n, const base::Site& site) override {
    static_cast<void>(note('f', dst, n, site.name));
  }
  bool fence(const base::Site& site) override {
    static_cast<void>(note('|', view(), 0, site.name));
    return fences_left_ == UINT64_MAX || (fences_left_ > 0 && fences_left_-- > 0);
  }

  void record(bool on) {
    const std::lock_guard lock(mutex_);
    events_.clear();
    recording_ = on;
  }
  // The events so far. Locked, since a node that serves the medium uses it on a thread of its own.
  [[nodiscard]] std::vector<Event> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  // Index of the first event `op` at `site` from `from` on; events().size() if there is none.
  [[nodiscard]] size_t first(char op, const base::Site& site, size_t from = 0) const {
    const std::lock_guard lock(mutex_);
    while (from < events_.size() && (events_[from].op != op || events_[from].site != site.name)) ++from;
    return from;
  }
  [[nodiscard]] size_t last(char op, const base::Site& site) const {
    const std::lock_guard lock(mutex_);
    size_t i = events_.size();
    while (i-- > 0) {
      if (events_[i].op == op && events_[i].site == site.name) return i;
    }
    return events_.size();
  }

  // After `stores` more stores, all others are lost: a crash of an eADR machine. For one thread.
  void cut_power_after(uint64_t stores) { stores_left_ = stores; }

  // After `fences` more fences, all others fail; the stores between stay. UINT64_MAX: none fails. For one thread.
  void fail_after(uint64_t fences) { fences_left_ = fences; }

  [[nodiscard]] std::vector<std::byte> image() const { return {view(), view() + bytes()}; }
  void flip(uint64_t offset, unsigned bit) { view()[offset] ^= static_cast<std::byte>(1U << bit); }

 private:
  static std::byte* map(size_t bytes) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    BONSAI_CHECK(at != MAP_FAILED);
    return static_cast<std::byte*>(at);
  }
  // False when the power is off.
  bool note(char op, const std::byte* at, size_t n, const char* site) {
    BONSAI_CHECK(at >= view() && static_cast<size_t>(at - view()) + n <= bytes());
    if (recording_) {
      const std::lock_guard lock(mutex_);
      events_.push_back({op, static_cast<uint64_t>(at - view()), n, site});
    }
    if (op == 'f' || op == '|' || stores_left_ == UINT64_MAX) return true;
    return stores_left_ > 0 && stores_left_-- > 0;
  }

  uint64_t stores_left_ = UINT64_MAX, fences_left_ = UINT64_MAX;
  std::atomic<bool> recording_{false};
  mutable std::mutex mutex_;
  std::vector<Event> events_;
};

// Whether a MemoryMedium in a rig notes each store.
inline bool stores_are_recorded() { return !bonsai::testing::shm_asked(); }

inline constexpr uint64_t kPoolId[2] = {0x1111, 0x2222};

// Commits and returns the dnodes. Requires: the media do not fail.
inline std::vector<std::unique_ptr<Dnode>> committed(DnodeWriter& writer) {
  std::vector<std::unique_ptr<Dnode>> dnodes;
  BONSAI_CHECK(writer.commit(&dnodes).ok());
  return dnodes;
}
// Extends the data areas by the room that the volume's targets were enlarged by.
inline Status grow(scale::Volume& volume, Pool* pool) {
  Pool grown;
  const Status planned = plan_growth(volume, *pool, &grown);
  return planned.ok() ? grow_pool(volume, grown, pool) : planned;
}
inline void retire(DnodeStore& store, const std::vector<const Dnode*>& dnodes) {
  BONSAI_CHECK(store.retire(dnodes).ok());
}

// The tiers of one pool. format() or open() first; after open() everything but an index is there.
class Rig {
 public:
  explicit Rig(std::vector<base::HookedMedium*> media, bool buffered = false)
      : volume(as_asked(std::move(media))), buffered_(buffered) {
    volume.set_epochs(&epochs_);
  }

  Status format(uint64_t log_bytes = 0, std::vector<uint64_t> roles = {}) {
    Options options;
    options.log_bytes = log_bytes;
    return format_pool(volume, options, kPoolId, std::move(roles));
  }

  Status analyse_only() {
    Status status = read_pool(volume, std::vector<std::string>(volume.targets(), "pool"), &pool);
    return status.ok() ? analyse(volume, pool, &analysis) : status;
  }

  Status open() {
    Status status = analyse_only();
    if (!status.ok()) return status;
    if (!analysis.damages.empty()) return damage_status(analysis.damages);
    pool.add_targets(&space);
    store = std::make_unique<DnodeStore>(volume, space, pool.geometry());
    large = std::make_unique<LargeStore>(volume, space);
    log = make_log(volume, pool.log_config(buffered_));
    status = claim_space(&analysis, pool, store.get());
    if (status.ok()) status = settle_superblocks(volume, &pool);
    if (status.ok()) status = note_opening(volume, pool);
    if (status.ok()) status = note_marks(volume, pool, analysis.sequence_max);
    if (!status.ok()) return status;
    log->set_marks(log_marks(volume, pool));
    status = recover(&analysis, pool, store.get(), log.get(), &ranges);
    if (!status.ok()) return status;
    if (after_recovery) after_recovery();
    return write_run_state(volume, pool, buffered_ ? RunState::kOpenBuffered : RunState::kOpenDurable);
  }

 private:
  std::vector<base::HookedMedium*> as_asked(std::vector<base::HookedMedium*> media) {
    constexpr size_t kBytesMax = size_t{64} << 20;  // of one that is elsewhere
    for (base::HookedMedium*& medium : media) {
      if (medium->bytes() > kBytesMax) continue;
      asked_.push_back(std::make_unique<scale::AskedMedium>(*medium, asked_.size() + 1));
      medium = asked_.back()->medium();
    }
    return media;
  }

  std::vector<std::unique_ptr<scale::AskedMedium>> asked_;  // over the rig's media
  base::EpochDomain epochs_;
  const base::EpochDomain::Guard guard_ = epochs_.enter();  // what was read stays

 public:
  std::function<void()> after_recovery;  // runs in open() between recover() and the new run state
  scale::VolumeOf<base::HookedMedium> volume;
  Pool pool;
  Analysis analysis;
  Space space;
  std::unique_ptr<DnodeStore> store;
  std::unique_ptr<LargeStore> large;
  std::unique_ptr<Log> log;
  std::vector<RecoveredRange> ranges;

 private:
  bool buffered_;
};

// A formatted pool in memory, open.
struct MemoryPool {
  explicit MemoryPool(uint64_t bytes = kPoolBytesMin, bool buffered = false, uint64_t log_bytes = 0)
      : medium(bytes), rig({&medium}, buffered) {
    BONSAI_CHECK(rig.format(log_bytes).ok());
    BONSAI_CHECK(rig.open().ok());
  }
  MemoryMedium medium;
  Rig rig;
};

// Owns the bytes of the entries that tests make.
class Entries {
 public:
  void put(std::string key, std::string value) { add(std::move(key), std::move(value), false, false); }
  void del(std::string key) { add(std::move(key), "", true, false); }
  void put_large(std::string key, const LargeRef& ref) { add(std::move(key), std::string(bytes_of(ref)), false, true); }
  [[nodiscard]] const std::vector<Entry>& list() const { return list_; }

 private:
  void add(std::string key, std::string value, bool tombstone, bool large) {
    const std::string& k = owned_.emplace_back(std::move(key));
    const std::string& v = owned_.emplace_back(std::move(value));
    list_.push_back({base::Key::of(k), v, tombstone, large});
  }
  std::deque<std::string> owned_;
  std::vector<Entry> list_;
};

// The content that a store would return: dnodes under the log's records. nullopt if something is damaged.
using Content = std::map<std::string, std::string>;

inline std::optional<std::string> value_of(const Rig& rig, std::string_view value, bool large) {
  if (!large) return std::string(value);
  Space unused;
  std::string out;
  const LargeStore store(const_cast<scale::VolumeOf<base::HookedMedium>&>(rig.volume), unused);
  if (store.read(large_ref(value), &out) != Trouble::kNone) return std::nullopt;
  return out;
}

inline bool overlay(const Rig& rig, const std::vector<LiveRecord>& records, Content* content) {
  for (const LiveRecord& record : records) {
    const std::string key(record.update.key);
    if (record.update.tombstone) {
      content->erase(key);
      continue;
    }
    const auto value = value_of(rig, record.update.value, record.update.large);
    if (!value) return false;
    (*content)[key] = *value;
  }
  return true;
}

inline bool collect(const Rig& rig, const Dnode& dnode, const base::Fence& lo, const base::Fence& hi,
                    Content* content) {
  DnodeCursor cursor(rig.volume, dnode);
  for (cursor.seek(lo.key()); cursor.valid() && hi.above(cursor.entry().key); cursor.next()) {
    if (cursor.entry().tombstone) continue;
    const auto value = value_of(rig, cursor.entry().value, cursor.entry().large);
    if (!value) return false;
    (*content)[std::string(cursor.entry().key.bytes)] = *value;
  }
  return cursor.trouble() == Trouble::kNone;
}

// The content of a rig that was only analysed.
inline std::optional<Content> analysed_content(const Rig& rig) {
  if (!rig.analysis.damages.empty()) return std::nullopt;
  Content content;
  for (const Tile& tile : rig.analysis.tiles) {
    if (!collect(rig, *rig.analysis.dnodes[tile.dnode], tile.lo, tile.hi, &content)) return std::nullopt;
  }
  for (const Tile& tile : rig.analysis.tiles) {
    if (!overlay(rig, tile.records, &content)) return std::nullopt;
  }
  return content;
}

// The content of a rig that was opened.
inline std::optional<Content> recovered_content(const Rig& rig) {
  Content content;
  for (const RecoveredRange& range : rig.ranges) {
    const Dnode& dnode = *range.dnode;
    if (!collect(rig, dnode, dnode.lo(), dnode.hi(), &content)) return std::nullopt;
    if (!overlay(rig, range.records, &content)) return std::nullopt;
  }
  return content;
}

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_H_
