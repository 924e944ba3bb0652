// SPDX-License-Identifier: Apache-2.0
#include "scale/connection.h"

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

Status Connection::post(std::span<const rdma::RemotePersist::Write> writes, Posting** posting) {
  size_t ticket = 0;
  if (sends_messages() && !credits_.try_take(1)) return Status::Busy("the node's credits are used up");
  const Status begun = persist_->begin(writes, &ticket);
  if (!begun.ok() && sends_messages()) credits_.give_back(1);
  BONSAI_RETURN_IF_ERROR(begun);
  Posting& made = at(++posted_);
  BONSAI_INVARIANT(made.ranges.empty() && made.bounced.empty());  // begin() is Busy when as many are in flight
  made.ticket = ticket;
  *posting = &made;
  return Status::OK();
}

Status Connection::retire() {
  uint64_t answered = answered_.load(std::memory_order_relaxed);
  for (; answered < posted_; answered_.store(++answered, std::memory_order_release)) {
    Posting& oldest = at(answered + 1);
    if (!persist_->ended(oldest.ticket)) break;
    BONSAI_RETURN_IF_ERROR(persist_->end(oldest.ticket));
    oldest.ranges.clear();
    oldest.bounced.clear();
    if (sends_messages()) credits_.give_back(1);
  }
  return Status::OK();
}

bool LinkTarget::note_lost(size_t lane, const Status& why) {
  if (connections.empty() || connections[lane]->peer().usable()) return false;
  state.lose(why);
  return true;
}

}  // namespace bonsai::scale
