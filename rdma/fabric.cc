// SPDX-License-Identifier: Apache-2.0
#include "rdma/fabric.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/status_macros.h"

namespace bonsai::rdma {
namespace {

// A proof can be late: its challenge has ended, or an earlier message with it has arrived. Then a new one is asked.
constexpr int kProofsMax = 4;

}  // namespace

Message& Message::operator=(Message&& other) noexcept {
  if (this != &other) {
    release();
    worker_ = std::exchange(other.worker_, nullptr);
    slot_ = other.slot_;
    from_ = other.from_;
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void Message::release() {
  BONSAI_CHECK(worker_ != nullptr || bytes_.empty());  // a view into a ring ends with its buffer
  if (Worker* worker = std::exchange(worker_, nullptr)) worker->release_buffer(slot_);
  bytes_ = {};
}

template <class Ready>
Status Worker::wait_for(const char* name, uint64_t limit_ms, Ready ready) {
  for (base::BoundedWait wait(name, limit_ms); !ready(); pause(&wait)) {
    if (limit_ms == 0 || wait.expired()) return wait.status();
  }
  return Status::OK();
}

Status Worker::accept(uint64_t limit_ms, std::unique_ptr<Peer>* peer) {
  return wait_for("fabric.accept", limit_ms, [&] { return try_accept(peer); });
}

Status Worker::connect(const std::string& address, const Hello& own, uint64_t limit_ms, std::unique_ptr<Peer>* peer,
                       const Prove& prove) {
  Hello hello = own;
  for (int proofs = 0;; ++proofs) {
    Challenge challenge;
    const uint64_t begin_ns = base::now_ns();
    Status status = greet(address, hello, limit_ms, peer, &challenge);
    if (status.ok() || !challenge.was_asked() || !prove || proofs == kProofsMax) return status;
    limit_ms -= std::min(limit_ms, (base::now_ns() - begin_ns) / base::kNsPerMs);
    hello = own;
    prove(challenge, &hello);
  }
}

Status Worker::post(WorkList* list) {
  BONSAI_CHECK(!list->pending());
  if (list->size() == 0) return Status::OK();
  BONSAI_RETURN_IF_ERROR(start(list));
  ++traffic_.round_trips;
  traffic_.doorbells += list->peers();
  for (size_t i = 0; i < list->size(); ++i) traffic_.count((*list)[i].verb, (*list)[i].local.bytes());
  return Status::OK();
}

Status Worker::wait(const WorkList& list, uint64_t limit_ms) {
  // Siblings run at every far access, even if the answer is there already.
  if (list.pending()) base::Scheduler::yield();
  BONSAI_RETURN_IF_ERROR(wait_for("fabric.completion", limit_ms, [&] {
    if (list.pending()) static_cast<void>(poll());
    return !list.pending();
  }));
  BONSAI_INVARIANT(!list.pending());  // every request has its outcome (1)
  return list.status();
}

Status Worker::run(WorkList* list, uint64_t limit_ms) {
  BONSAI_RETURN_IF_ERROR(post(list));
  return wait(*list, limit_ms);
}

Status Worker::await(const char* name, uint64_t limit_ms, const std::function<bool()>& ready) {
  return wait_for(name, limit_ms, [&] {
    static_cast<void>(poll());
    return ready();
  });
}

Status Worker::receive(uint64_t limit_ms, Message* message) {
  BONSAI_RETURN_IF_ERROR(wait_for("fabric.receive", limit_ms, [&] { return try_receive(message); }));
  ++traffic_.received.messages;
  traffic_.received.bytes += message->bytes().size();
  return Status::OK();
}

}  // namespace bonsai::rdma
