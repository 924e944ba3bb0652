// SPDX-License-Identifier: Apache-2.0
// A worker's incoming messages, in memory that their senders share. Internal to rdma/shm/.
//
// Messages are stored here first. The receiver copies each message to the worker's own ring, so that a sender cannot
// change it while it is read. Senders exclude each other by a robust mutex, which survives their death; the receiver
// needs none. One store both takes a free slot and publishes the message.
#ifndef BONSAI_RDMA_SHM_INBOX_H_
#define BONSAI_RDMA_SHM_INBOX_H_

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/check.h"
#include "rdma/shared_memory.h"
#include "rdma/work.h"

namespace bonsai::rdma {

class ShmInbox {
 public:
  struct Arrival {
    uint64_t slot;
    uint64_t bytes;
    uint32_t from;
  };

  // The receiver's side.
  static Status make(size_t slots, size_t slot_bytes, std::unique_ptr<ShmInbox>* inbox);
  // A sender's side in another process. Errors: InvalidArgument (what the peer sent is not an inbox).
  static Status adopt(base::OsFile file, size_t bytes, std::unique_ptr<ShmInbox>* inbox);
  [[nodiscard]] const SharedMemory& memory() const { return *memory_; }

  // Any sender. kReceiverNotReady when no slot becomes free within the bound.
  Outcome deliver(uint32_t from, std::span<const std::byte> message);

  // The receiver: copies the oldest message to `ring` at its slot; false when there is none.
  bool take(std::span<std::byte> ring, Arrival* arrival);
  void release(uint64_t slot);
  // Stops delivery.
  void close() { head().closed.store(1, std::memory_order_release); }
  [[nodiscard]] pthread_mutex_t* senders_for_test() const { return &head().senders; }

 private:
  struct Head {
    pthread_mutex_t senders;
    std::atomic<uint64_t> delivered;  // messages delivered so far, each of which took a free slot
    std::atomic<uint64_t> released;   // slots returned so far
    std::atomic<uint32_t> closed;
    uint64_t slots, slot_bytes;
  };

  ShmInbox() = default;
  Outcome try_deliver(uint32_t from, std::span<const std::byte> message);
  static size_t layout(size_t slots, size_t slot_bytes);
  [[nodiscard]] Head& head() const { return *reinterpret_cast<Head*>(memory_->bytes().data()); }
  [[nodiscard]] Arrival* arrivals() const { return reinterpret_cast<Arrival*>(memory_->bytes().data() + kHeadBytes); }
  [[nodiscard]] uint64_t* free_slots() const { return reinterpret_cast<uint64_t*>(arrivals() + slots_); }
  [[nodiscard]] std::byte* data(uint64_t slot) const {
    BONSAI_CHECK(slot < slots_);
    return reinterpret_cast<std::byte*>(free_slots() + slots_) + slot * slot_bytes_;
  }

  static constexpr size_t kHeadBytes = 256;

  std::unique_ptr<SharedMemory> memory_;
  uint64_t slots_ = 0, slot_bytes_ = 0;  // the original values: a peer may change those in the header
  uint64_t taken_ = 0;                   // the receiver's
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SHM_INBOX_H_
