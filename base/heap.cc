// SPDX-License-Identifier: Apache-2.0
#include "base/heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/huge_range.h"

namespace bonsai::base {
namespace {

constexpr size_t kCacheLineBytes = 64;
constexpr size_t kSmallStep = 16;
constexpr size_t kSmallMax = 1024;  // sizes up to this are multiples of the step; larger ones fill a slab
constexpr size_t kSlabsPerRegion = Heap::kRegionBytes / Heap::kSlabBytes;
constexpr int kTries = 64;  // attempts to lock a shard, which other threads hold for some 50 ns

}  // namespace

// The header of a slab, at the beginning of its memory.
struct alignas(kCacheLineBytes) Heap::Slab {
  Shard* shard;
  Region* region;
  Slab* before = nullptr;  // in the list of slabs of its class that have room
  Slab* behind = nullptr;
  void* free = nullptr;  // list of freed blocks
  uint32_t block_bytes;
  uint16_t slab_class;
  uint16_t slabs = 1;   // number of 64 KiB slabs that it spans
  uint16_t blocks = 0;  // in use or freed
  uint16_t blocks_used = 0;
  uint16_t blocks_max;

  [[nodiscard]] bool full() const { return blocks_used == blocks_max; }
};

struct Heap::Region {
  struct ByAddress {
    bool operator()(const Region* a, const Region* b) const { return a->begin < b->begin; }
  };
  using Set = std::set<Region*, ByAddress>;

  std::byte* begin;
  size_t bytes;
  uint32_t free_slabs = 0;    // a bit per slab; a region of one large block has none
  Set::node_type place = {};  // in the set of regions with room while it is not there, so that entering needs no memory

  static constexpr uint32_t kAll = UINT32_MAX;
  static_assert(kSlabsPerRegion == 32);

  // The first of `slabs` adjacent free slabs; kSlabsPerRegion if there are none.
  [[nodiscard]] size_t find(size_t slabs) const {
    uint32_t at = free_slabs;
    for (size_t i = 1; i < slabs; ++i) at &= at >> 1;
    return static_cast<size_t>(std::countr_zero(at));
  }
  static uint32_t mask(size_t first, size_t slabs) {
    return (slabs == kSlabsPerRegion ? kAll : (uint32_t{1} << slabs) - 1) << first;
  }
};

// The heap's memory in slabs, shared by all shards: if each shard had its own regions, each shard would leave some
// partly used. Thread-safety: all methods. They are called once per slab of blocks, so the mutex is mostly free.
class Heap::Regions {
 public:
  Regions() = default;
  ~Regions() {
    set_reserve(0);
    give_back(0);
    BONSAI_CHECK(held_bytes_ == 0);
  }
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  // Takes adjacent slabs. Null: there is no memory.
  std::byte* take(size_t slabs, Region** region) {
    const std::lock_guard lock(mutex_);
    return slabs > kSlabsPerRegion ? take_region(slabs, region) : take_slabs(slabs, region);
  }

  void give(const std::byte* begin, size_t slabs, Region* region) {
    const std::lock_guard lock(mutex_);
    if (slabs > kSlabsPerRegion) return unmap(region);
    if (region->free_slabs == 0) enter(region);
    region->free_slabs |= Region::mask(static_cast<size_t>(begin - region->begin) / kSlabBytes, slabs);
    if (region->free_slabs != Region::kAll) return;
    ++empty_;
    give_back_locked(1 + held_bytes_ / kRegionBytes / kKeptOneIn);
  }

  void give_back(size_t kept) {
    const std::lock_guard lock(mutex_);
    give_back_locked(kept);
  }

  [[nodiscard]] uint64_t held_bytes() const {
    const std::lock_guard lock(mutex_);
    return held_bytes_;
  }

  bool set_reserve(size_t regions) {
    const std::lock_guard lock(mutex_);
    BONSAI_CHECK(regions <= kReserveRegionsMax);
    reserve_wanted_ = regions;
    while (reserve_count_ > reserve_wanted_) release(reserve_[--reserve_count_]);
    return refill_locked();
  }

  bool refill() {
    const std::lock_guard lock(mutex_);
    return refill_locked();
  }

  bool spend_reserve() {
    const std::lock_guard lock(mutex_);
    Region* region = take_reserve();
    if (region != nullptr) release(region);
    return region != nullptr;
  }

  [[nodiscard]] size_t reserve_count() const {
    const std::lock_guard lock(mutex_);
    return reserve_count_;
  }

 private:
  static constexpr size_t kKeptOneIn = 8;  // one in this many regions may be kept empty

  std::byte* take_slabs(size_t slabs, Region** region) {
    size_t first = kSlabsPerRegion;
    for (Region* each : with_room_) {
      first = each->find(slabs);
      *region = each;
      if (first < kSlabsPerRegion) break;
    }
    if (first >= kSlabsPerRegion) {
      *region = map(kRegionBytes);
      if (*region == nullptr) *region = take_reserve();
      if (*region == nullptr) return nullptr;
      held_bytes_ += kRegionBytes;
      (*region)->free_slabs = Region::kAll;
      enter(*region);
      ++empty_;
      first = 0;
    }
    if ((*region)->free_slabs == Region::kAll) --empty_;
    (*region)->free_slabs &= ~Region::mask(first, slabs);
    if ((*region)->free_slabs == 0) leave(with_room_.find(*region));
    return (*region)->begin + first * kSlabBytes;
  }
  // Takes a region for one large block.
  std::byte* take_region(size_t slabs, Region** region) {
    BONSAI_CHECK(slabs <= UINT16_MAX);
    *region = map((slabs * kSlabBytes + kRegionBytes - 1) / kRegionBytes * kRegionBytes);
    if (*region == nullptr) return nullptr;
    held_bytes_ += (*region)->bytes;
    return (*region)->begin;
  }
  void enter(Region* region) { with_room_.insert(std::move(region->place)); }
  Region::Set::iterator leave(Region::Set::iterator at) {
    Region* region = *at;
    const auto next = std::next(at);
    region->place = with_room_.extract(at);
    return next;
  }
  void give_back_locked(size_t kept) {
    for (auto at = with_room_.begin(); at != with_room_.end() && empty_ > kept;) {
      Region* region = *at;
      if (region->free_slabs != Region::kAll) {
        ++at;
        continue;
      }
      at = leave(at);
      --empty_;
      unmap(region);
    }
  }
  static bool is_granted() {
    int64_t left = regions_granted_for_test.load(std::memory_order_relaxed);
    while (left > 0 && !regions_granted_for_test.compare_exchange_weak(left, left - 1)) {
    }
    return left != 0;
  }
  // Null: there is no memory.
  static Region* map(size_t bytes) {
    std::byte* begin = is_granted() ? map_huge(bytes) : nullptr;
    if (begin == nullptr) return nullptr;
    try {
      auto region = std::make_unique<Region>(Region{.begin = begin, .bytes = bytes});
      Region::Set set{region.get()};
      region->place = set.extract(set.begin());
      return region.release();
    } catch (const std::bad_alloc&) {
      ::munmap(begin, bytes);
      return nullptr;
    }
  }
  void unmap(Region* region) {
    held_bytes_ -= region->bytes;
    if (reserve_count_ == reserve_wanted_ || region->bytes != kRegionBytes) return release(region);
    static_cast<void>(::madvise(region->begin, region->bytes, MADV_DONTNEED));
    reserve_[reserve_count_++] = region;
    note_shortness();
  }
  static void release(Region* region) {
    ::munmap(region->begin, region->bytes);
    delete region;
  }

  Region* take_reserve() {
    if (reserve_count_ == 0) return nullptr;
    Region* region = reserve_[--reserve_count_];
    note_shortness();
    return region;
  }
  bool refill_locked() {
    while (reserve_count_ < reserve_wanted_) {
      Region* region = map(kRegionBytes);
      if (region == nullptr) break;
      reserve_[reserve_count_++] = region;
    }
    note_shortness();
    return reserve_count_ == reserve_wanted_;
  }
  void note_shortness() {
    const bool is_short = reserve_count_ < reserve_wanted_;
    if (is_short == std::exchange(short_, is_short)) return;
    is_short ? short_heaps_.fetch_add(1) : short_heaps_.fetch_sub(1);
  }

  mutable std::mutex mutex_;
  Region::Set with_room_;
  size_t empty_ = 0;
  uint64_t held_bytes_ = 0;
  std::array<Region*, kReserveRegionsMax> reserve_{};
  size_t reserve_count_ = 0, reserve_wanted_ = 0;
  bool short_ = false;
};

class Heap::Shard {
 public:
  explicit Shard(Regions* regions) : regions_(*regions) {}
  ~Shard() = default;
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  [[nodiscard]] std::mutex& mutex() { return mutex_; }

  // All methods below require the mutex.
  void* allocate(size_t bytes) {
    const size_t slab_class = class_of(bytes);
    if (slab_class == kLarge) return allocate_large(bytes);
    Slab*& first = roomy_[slab_class];
    if (first == nullptr) {
      const size_t block_bytes = block_bytes_of(slab_class);
      Slab* slab = make_slab(1, slab_class, block_bytes, (kSlabBytes - sizeof(Slab)) / block_bytes);
      if (slab == nullptr) return nullptr;
      link(slab);
    }
    Slab* slab = first;
    void* block = slab->free;
    if (block != nullptr) {
      std::memcpy(&slab->free, block, sizeof slab->free);
    } else {
      block = reinterpret_cast<std::byte*>(slab + 1) + size_t{slab->blocks++} * slab->block_bytes;
    }
    ++slab->blocks_used;
    used_bytes_ += slab->block_bytes;
    if (slab->full()) unlink(slab);
    return block;
  }

  static void free(Slab* slab, void* block) { slab->shard->free_here(slab, block); }

  [[nodiscard]] uint64_t used_bytes() const { return used_bytes_; }

 private:
  static constexpr size_t kSmallClasses = kSmallMax / kSmallStep;
  static constexpr size_t kBlocksMax = (kSlabBytes - sizeof(Slab)) / kSmallMax;  // per slab of blocks above kSmallMax
  // Only this many leading bits of the number of blocks in a slab select the class. Sizes up to a twelfth apart then
  // share a class, which keeps the number of partly used slabs low.
  static constexpr int kBlocksBits = 4;
  static constexpr size_t kLarge = kSmallClasses + kBlocksMax;

  static size_t class_of(size_t bytes) {
    if (bytes <= kSmallMax) return (std::max<size_t>(bytes, 1) - 1) / kSmallStep;
    const size_t fit =
        (kSlabBytes - sizeof(Slab)) / ((bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes);
    const int dropped = std::max(0, static_cast<int>(std::bit_width(fit)) - kBlocksBits);
    const size_t blocks = fit >> dropped << dropped;
    return blocks == 0 ? kLarge : kSmallClasses + kBlocksMax - std::min(blocks, kBlocksMax);
  }
  static size_t block_bytes_of(size_t slab_class) {
    if (slab_class < kSmallClasses) return (slab_class + 1) * kSmallStep;
    const size_t blocks = kBlocksMax - (slab_class - kSmallClasses);
    return (kSlabBytes - sizeof(Slab)) / blocks / kCacheLineBytes * kCacheLineBytes;
  }

  void* allocate_large(size_t bytes) {
    const size_t slabs = (bytes + sizeof(Slab) + kSlabBytes - 1) / kSlabBytes;
    Slab* slab = make_slab(slabs, kLarge, slabs * kSlabBytes - sizeof(Slab), 1);
    if (slab == nullptr) return nullptr;
    slab->blocks = slab->blocks_used = 1;
    used_bytes_ += slab->block_bytes;
    return slab + 1;
  }

  Slab* make_slab(size_t slabs, size_t slab_class, size_t block_bytes, size_t blocks) {
    Region* region = nullptr;
    std::byte* at = regions_.take(slabs, &region);
    if (at == nullptr) return nullptr;
    auto* slab = new (at) Slab{.shard = this,
                               .region = region,
                               .block_bytes = static_cast<uint32_t>(block_bytes),
                               .slab_class = static_cast<uint16_t>(slab_class),
                               .slabs = static_cast<uint16_t>(slabs),
                               .blocks_max = static_cast<uint16_t>(blocks)};
    return slab;
  }

  void free_here(Slab* slab, void* block) {
    used_bytes_ -= slab->block_bytes;
    const bool was_full = slab->full();
    std::memcpy(block, &slab->free, sizeof slab->free);
    slab->free = block;
    --slab->blocks_used;
    if (slab->blocks_used == 0) {
      if (!was_full) unlink(slab);
      return regions_.give(reinterpret_cast<const std::byte*>(slab), slab->slabs, slab->region);
    }
    if (was_full) link(slab);
  }

  // The list of a class is unordered; its first slab is filled first.
  void link(Slab* slab) {
    Slab*& first = roomy_[slab->slab_class];
    slab->before = nullptr;
    slab->behind = first;
    if (first != nullptr) first->before = slab;
    first = slab;
  }
  void unlink(Slab* slab) {
    (slab->before != nullptr ? slab->before->behind : roomy_[slab->slab_class]) = slab->behind;
    if (slab->behind != nullptr) slab->behind->before = slab->before;
  }

  Regions& regions_;
  std::mutex mutex_;
  std::array<Slab*, kLarge> roomy_{};  // by class
  uint64_t used_bytes_ = 0;
};

Heap::Heap() : regions_(std::make_unique<Regions>()) {
  for (auto& shard : shards_) shard = std::make_unique<Shard>(regions_.get());
}

Heap::~Heap() = default;

void* Heap::allocate(size_t bytes) {
  for (size_t i = 0; i < kShards * kTries; ++i) {
    Shard& shard = *shards_[i / kTries];
    const std::unique_lock lock(shard.mutex(), std::try_to_lock);
    if (lock.owns_lock()) return shard.allocate(bytes);
  }
  const std::lock_guard lock(shards_[0]->mutex());
  return shards_[0]->allocate(bytes);
}

Heap::Slab* Heap::slab_of(const void* block) {
  return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(block) / kSlabBytes * kSlabBytes);
}

size_t Heap::block_bytes(const void* block) { return slab_of(block)->block_bytes; }

void Heap::free(void* block) {
  Slab* slab = slab_of(block);
  const std::lock_guard lock(slab->shard->mutex());
  Shard::free(slab, block);
}

void Heap::give_back() { regions_->give_back(0); }
bool Heap::set_reserve(size_t regions) { return regions_->set_reserve(regions); }
bool Heap::refill() { return regions_->refill(); }
bool Heap::spend_reserve() { return regions_->spend_reserve(); }
size_t Heap::reserve_regions() const { return regions_->reserve_count(); }

Heap::Use Heap::use() const {
  Use use;
  for (const auto& shard : shards_) {
    const std::lock_guard lock(shard->mutex());
    use.used_bytes += shard->used_bytes();
  }
  use.held_bytes = regions_->held_bytes();
  return use;
}

}  // namespace bonsai::base
