// SPDX-License-Identifier: Apache-2.0
// A node's registered memory, as its peers access it. Internal to rdma/shm/.
//
// A table that peers map read-only has one word per region: its key, or 0 if the region is gone. A peer marks itself as
// accessing (ShmTurn), loads the word, and only then accesses the region. The owner clears the word and waits until
// every peer that was accessing that region has finished. All four accesses are sequentially consistent: at least one
// side sees the other.
//
// A process can be stopped in the middle of an access. The owner waits for it up to kStoppedMsMax. After that its bytes
// may still reach the region's file through its own mapping. The user of the file must provide for that: a pool's file
// stays locked as long as the process has it mapped (Fabric::register_file).
#ifndef BONSAI_RDMA_SHM_REGIONS_H_
#define BONSAI_RDMA_SHM_REGIONS_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/thread.h"
#include "rdma/shared_memory.h"
#include "rdma/shm/backing.h"
#include "rdma/work.h"

namespace bonsai::rdma {

// `count` is odd while the peer accesses the region `key`. One writer.
struct ShmTurn {
  void enter(uint64_t to) {
    key.store(to, std::memory_order_release);
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  }
  void leave() { count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  std::atomic<uint64_t> count{0};
  std::atomic<uint64_t> key{0};
};

// A connection that may access a node's regions.
struct ShmAccessor {
  const ShmTurn* turn;
  const std::atomic<bool>* gone;  // its process has ended
  bool is_process;                // another process, which can be stopped independently

  static constexpr uint64_t kAnyRegion = 0;
  // Waits until an access to the region that is in flight now is over, or its process has ended. False: that process is
  // stopped in the middle of the access. `wait` is the bound for other processes; the bound for threads of this process
  // is longer.
  [[nodiscard]] bool wait_out(uint64_t region, base::BoundedWait* wait) const;
};

// A region as one connection accesses it.
struct ShmView {
  [[nodiscard]] bool valid() const { return word->load(std::memory_order_seq_cst) == region.key; }
  // Returns the request's target bytes, if it may access them.
  Outcome find(const WorkRequest& request, std::byte** target) const;

  RemoteRegion region;
  Rights rights;
  const std::atomic<uint64_t>* word = nullptr;
  std::byte* memory = nullptr;
  std::span<std::byte> mapping;  // to be unmapped, if the region belongs to another process
};

class ShmRegions {
 public:
  static constexpr size_t kRegionsMax = 8192;
  static constexpr size_t kTableBytes = kRegionsMax * sizeof(uint64_t);
  static constexpr uint64_t kStoppedMsMax = 1'000;

  // `between_processes`: regions with rights must be backed by a file.
  static Status make(bool between_processes, std::shared_ptr<ShmRegions>* regions);

  // `file`: the open file whose beginning `memory` maps, shared; negative: add() finds it.
  // Errors: InvalidArgument, NotSupported (find_backing), NoSpace (kRegionsMax), IoError.
  Status add(std::span<std::byte> memory, Rights rights, int file, uint64_t* key);
  // Returns when no peer accesses the region any more, except processes that are stopped in the middle of an access.
  void remove(uint64_t key);

  // Registers an accessor until detach(). Requires: the objects that it points to live as long.
  void attach(const void* owner, ShmAccessor accessor);
  void detach(const void* owner);

  // The view of a node in this process; false when there is no such region.
  bool view(uint64_t key, ShmView* view);
  // Sends the data from which another process makes a view: calls send(view, its place in the table, backing) under the
  // lock.
  template <class Send>
  bool describe(uint64_t key, Send send) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return false;
    send(found->second.view, found->second.place, found->second.backing);
    return true;
  }
  [[nodiscard]] const SharedMemory& table() const { return *table_; }

 private:
  struct Entry {
    ShmView view;
    size_t place = 0;
    ShmBacking backing;
  };
  [[nodiscard]] std::atomic<uint64_t>& word(size_t place) const {
    return reinterpret_cast<std::atomic<uint64_t>*>(table_->bytes().data())[place];
  }

  std::mutex mutex_;
  bool between_processes_ = false;
  std::unique_ptr<SharedMemory> table_;
  std::map<uint64_t, Entry> entries_;
  std::vector<size_t> free_places_;
  std::map<const void*, ShmAccessor> accessors_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SHM_REGIONS_H_
