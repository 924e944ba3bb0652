// SPDX-License-Identifier: Apache-2.0
// Numbers for operations in flight, small and dense, as arrays of one entry per operation need them.
#ifndef BONSAI_BENCH_STUDIES_MAPS_SLOTS_H_
#define BONSAI_BENCH_STUDIES_MAPS_SLOTS_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/thread.h"

namespace bonsai::bench::maps {

// Thread-safety: everything from any thread and any coroutine, but the destructor.
// Memory order: who takes a slot sees what its last owner did; all is sequentially consistent.
class Slots {
  struct alignas(64) Taken {
    std::atomic<bool> taken{false};
  };

 public:
  class [[nodiscard]] Slot {
   public:
    Slot(Slot&& other) noexcept : taken_(std::exchange(other.taken_, nullptr)), number_(other.number_) {}
    Slot& operator=(Slot&&) = delete;
    ~Slot() {
      if (taken_ != nullptr) taken_->taken.store(false);
    }
    [[nodiscard]] uint32_t number() const { return number_; }

   private:
    friend class Slots;
    Slot(Taken* taken, uint32_t number) : taken_(taken), number_(number) {}
    Taken* taken_;
    uint32_t number_;
  };

  explicit Slots(uint32_t count) : taken_(count) {}

  // A free slot. If all are taken, waits for one: then more operations run at once than the map was made for.
  Slot take() {
    const uint32_t wanted = base::thread_ordinal() % size();
    for (base::BoundedWait wait("maps.slot", base::kUnboundedMs);; wait.pause()) {
      for (uint32_t i = 0; i < size(); ++i) {
        const uint32_t number = (wanted + i) % size();
        if (taken_[number].taken.load(std::memory_order_relaxed) || taken_[number].taken.exchange(true)) continue;
        uint32_t used = used_.load();
        while (used <= number && !used_.compare_exchange_weak(used, number + 1)) {
        }
        return {&taken_[number], number};
      }
    }
  }

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(taken_.size()); }
  // All slots that were ever taken are below it. It rises before the slot's owner acts.
  [[nodiscard]] uint32_t used() const { return used_.load(); }

 private:
  std::vector<Taken> taken_;
  alignas(64) std::atomic<uint32_t> used_{0};
};

}  // namespace bonsai::bench::maps

#endif  // BONSAI_BENCH_STUDIES_MAPS_SLOTS_H_
