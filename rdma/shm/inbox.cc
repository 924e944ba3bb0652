// SPDX-License-Identifier: Apache-2.0
#include "rdma/shm/inbox.h"

#include <cerrno>

#include "base/check.h"
#include "base/nvm/racy_copy.h"
#include "base/probe.h"
#include "base/status_macros.h"
#include "base/thread.h"

namespace bonsai::rdma {
namespace {

constexpr uint64_t kSendersMsMax = 5'000;
constexpr uint64_t kReceiverMsMax = 60;  // as long as devices retry

base::Probe sender_died{"shm.sender_died_amid_a_message"};

}  // namespace

size_t ShmInbox::layout(size_t slots, size_t slot_bytes) {
  return kHeadBytes + slots * (sizeof(Arrival) + sizeof(uint64_t) + slot_bytes);
}

Status ShmInbox::make(size_t slots, size_t slot_bytes, std::unique_ptr<ShmInbox>* inbox) {
  static_assert(sizeof(Head) <= kHeadBytes);
  BONSAI_CHECK(slots > 0 && slot_bytes > 0);
  std::unique_ptr<ShmInbox> made(new ShmInbox);
  BONSAI_RETURN_IF_ERROR(SharedMemory::make(layout(slots, slot_bytes), &made->memory_));
  made->slots_ = slots;
  made->slot_bytes_ = slot_bytes;
  Head& head = made->head();
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  BONSAI_CHECK(pthread_mutex_init(&head.senders, &attributes) == 0);
  pthread_mutexattr_destroy(&attributes);
  head.slots = slots;
  head.slot_bytes = slot_bytes;
  for (uint64_t slot = 0; slot < slots; ++slot) made->free_slots()[slot] = slot;
  *inbox = std::move(made);
  return Status::OK();
}

Status ShmInbox::adopt(base::OsFile file, size_t bytes, std::unique_ptr<ShmInbox>* inbox) {
  std::unique_ptr<ShmInbox> made(new ShmInbox);
  BONSAI_RETURN_IF_ERROR(SharedMemory::adopt(std::move(file), bytes, true, &made->memory_));
  const Head& head = made->head();
  made->slots_ = head.slots;
  made->slot_bytes_ = head.slot_bytes;
  const bool fits = bytes > kHeadBytes && made->slots_ > 0 && made->slots_ < bytes && made->slot_bytes_ < bytes &&
                    layout(made->slots_, made->slot_bytes_) == bytes;
  if (!fits) return Status::InvalidArgument("a peer sent an inbox that is none; run the same version on both nodes");
  *inbox = std::move(made);
  return Status::OK();
}

Outcome ShmInbox::deliver(uint32_t from, std::span<const std::byte> message) {
  if (message.size() > slot_bytes_) return Outcome::kMessageTooLong;
  const Head& head = this->head();
  for (base::BoundedWait wait("shm.receiver", kReceiverMsMax);; wait.pause()) {
    const Outcome outcome = try_deliver(from, message);
    const bool closed = head.closed.load(std::memory_order_acquire) != 0;
    if (outcome != Outcome::kReceiverNotReady || closed || wait.expired()) return outcome;
  }
}

Outcome ShmInbox::try_deliver(uint32_t from, std::span<const std::byte> message) {
  Head& head = this->head();
  int locked = EBUSY;
  for (base::BoundedWait wait("shm.senders", kSendersMsMax);; wait.pause()) {
    locked = pthread_mutex_trylock(&head.senders);
    if (locked != EBUSY || wait.expired()) break;
  }
  if (locked == EOWNERDEAD) {  // a slot that it had not published is free again: nothing to repair
    sender_died.hit();
    pthread_mutex_consistent(&head.senders);
  } else if (locked != 0) {
    return Outcome::kReceiverNotReady;
  }
  Outcome outcome = Outcome::kReceiverNotReady;
  const uint64_t delivered = head.delivered.load(std::memory_order_relaxed);
  if (delivered - head.released.load(std::memory_order_acquire) < slots_ &&
      head.closed.load(std::memory_order_acquire) == 0) {
    const uint64_t slot = free_slots()[delivered % slots_];
    if (slot < slots_) {
      base::racy_store(data(slot), message.data(), message.size());
      arrivals()[delivered % slots_] = {slot, message.size(), from};
      head.delivered.store(delivered + 1, std::memory_order_release);
      outcome = Outcome::kDone;
    }
  }
  pthread_mutex_unlock(&head.senders);
  return outcome;
}

bool ShmInbox::take(std::span<std::byte> ring, Arrival* arrival) {
  if (head().delivered.load(std::memory_order_acquire) == taken_) return false;
  BONSAI_CHECK(slots_ * slot_bytes_ <= ring.size());
  *arrival = arrivals()[taken_ % slots_];
  ++taken_;
  // A peer may have written any value here.
  arrival->slot %= slots_;
  arrival->bytes = arrival->bytes <= slot_bytes_ ? arrival->bytes : slot_bytes_;
  base::racy_load(ring.data() + arrival->slot * slot_bytes_, data(arrival->slot), arrival->bytes);
  return true;
}

void ShmInbox::release(uint64_t slot) {
  BONSAI_CHECK(slot < slots_);
  const uint64_t released = head().released.load(std::memory_order_relaxed);
  free_slots()[released % slots_] = slot;
  head().released.store(released + 1, std::memory_order_release);
}

}  // namespace bonsai::rdma
