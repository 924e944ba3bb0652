// SPDX-License-Identifier: Apache-2.0
#include "scale/connection.h"

#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace bonsai::scale {

WriteRange WriteRange::take_first(uint64_t n) {
  WriteRange first = *this;
  first.bytes = n;
  offset += n;
  bytes -= n;
  if (copy != nullptr) copy = {copy, copy.get() + n};
  return first;
}

void Connection::open(std::unique_ptr<rdma::RemotePersist> persist, const rdma::RemoteRegion& region) {
  BONSAI_INVARIANT(!is_open());
  persist_ = std::move(persist);
  region_ = region;
  ++openings_;
}

void Connection::close(bool keep) {
  persist_.reset();
  sent_ = keep ? answered_.load(std::memory_order_relaxed) : posted_;
  for (Posting& posting : unanswered_) {
    posting.bounced.clear();
    if (!keep) posting.ranges.clear();
  }
}

Status Connection::begin(Writes writes, size_t* ticket) {
  if (sends_messages() && !credits_.try_take(1)) return Status::Busy("the node's credits are used up");
  const Status begun = persist_->begin(writes, ticket);
  if (!begun.ok() && sends_messages()) credits_.give_back(1);
  return begun;
}

Status Connection::post(Writes writes, Posting** posting) {
  BONSAI_INVARIANT(sent_ == posted_);
  size_t ticket = 0;
  BONSAI_RETURN_IF_ERROR(begin(writes, &ticket));
  sent_ = ++posted_;
  Posting& made = at(posted_);
  BONSAI_INVARIANT(made.ranges.empty() && made.bounced.empty());  // begin() is Busy when as many are in flight
  made.ticket = ticket;
  *posting = &made;
  return Status::OK();
}

Status Connection::send_again(Writes writes) {
  BONSAI_RETURN_IF_ERROR(begin(writes, &to_send_again()->ticket));
  ++sent_;
  return Status::OK();
}

Status Connection::retire() {
  uint64_t answered = answered_.load(std::memory_order_relaxed);
  for (; answered < sent_; answered_.store(++answered, std::memory_order_release)) {
    Posting& oldest = at(answered + 1);
    if (!persist_->ended(oldest.ticket)) break;
    BONSAI_RETURN_IF_ERROR(persist_->end(oldest.ticket));
    oldest.ranges.clear();
    oldest.bounced.clear();
    if (sends_messages()) credits_.give_back(1);
  }
  return Status::OK();
}

void Connection::look(const rdma::Slice& to, std::shared_ptr<std::byte> keeps, rdma::Worker* worker) {
  if (look_.pending()) return;
  look_.clear();
  looked_to_ = std::move(keeps);
  look_.read(peer(), region_.at(0), to);
  static_cast<void>(worker->post(&look_));  // Busy: another time
}

bool Connection::refused_again() {
  const uint64_t oldest = answered_.load(std::memory_order_relaxed) + 1;
  return std::exchange(refused_, oldest) == oldest;
}

void LinkTarget::note_broken(size_t lane, const Status& why) {
  if (lane >= connections.size() || !connections[lane]->is_open() || connections[lane]->usable()) return;
  state.note(TargetState::Event::kBroken, why);
}

}  // namespace bonsai::scale
