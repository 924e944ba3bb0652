// SPDX-License-Identifier: Apache-2.0
#include "rdma/work.h"

#include <string>

#include "base/check.h"

namespace bonsai::rdma {

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return "done";
    case Outcome::kFlushed:
      return "flushed";
    case Outcome::kLocalAccess:
      return "local access";
    case Outcome::kRemoteAccess:
      return "remote access";
    case Outcome::kMisaligned:
      return "misaligned";
    case Outcome::kMessageTooLong:
      return "message too long";
    case Outcome::kReceiverNotReady:
      return "receiver not ready";
    case Outcome::kNoResources:
      return "no resources";
    case Outcome::kUnreachable:
      return "unreachable";
  }
  return "unknown";
}

Status status_of(Outcome outcome, Verb verb) {
  const std::string name = verb_name(verb);
  switch (outcome) {
    case Outcome::kDone:
      return Status::OK();
    case Outcome::kFlushed:
      return Status::Unavailable(name + " was not carried out: its connection had failed before; connect again");
    case Outcome::kLocalAccess:
      return Status::InvalidArgument(name + " of memory that this fabric has not registered; register it");
    case Outcome::kRemoteAccess:
      return Status::InvalidArgument(name +
                                     " refused by the peer: its region is gone, smaller, or does not allow it; "
                                     "ask the peer for its regions and connect again");
    case Outcome::kMisaligned:
      return Status::InvalidArgument(name + " on an address that is not a multiple of 8; align the word");
    case Outcome::kMessageTooLong:
      return Status::InvalidArgument(name + " of more bytes than the peer's receive buffers hold; send less at once");
    case Outcome::kReceiverNotReady:
      return Status::Unavailable(name + " found no receive buffer at the peer; connect again and send more slowly");
    case Outcome::kNoResources:
      return Status::NoSpace(name +
                             " could not be sent: this process gets no further descriptor or address space; raise "
                             "the limit of open files (ulimit -n) or of memory (ulimit -v), and connect again");
    case Outcome::kUnreachable:
      return Status::Unavailable(name + " got no answer, it may or may not have been carried out; connect again");
  }
  return Status::Unavailable(name + " ended in an unknown way");
}

void WorkList::clear() {
  BONSAI_CHECK(!pending());
  size_ = 0;
  fence_next_ = false;
}

Status WorkList::status() const {
  BONSAI_CHECK(!pending());
  const WorkRequest* failed = nullptr;
  for (size_t i = 0; i < size_; ++i) {
    const WorkRequest& request = requests_[i];
    if (request.outcome == Outcome::kDone) continue;
    if (failed == nullptr || failed->outcome == Outcome::kFlushed) failed = &request;
    if (failed->outcome != Outcome::kFlushed) break;
  }
  return failed == nullptr ? Status::OK() : status_of(failed->outcome, failed->verb);
}

size_t WorkList::peers() const {
  size_t peers = 0;
  for (size_t i = 0; i < size_; ++i) {
    bool known = false;
    for (size_t j = 0; j < i && !known; ++j) known = requests_[j].peer == requests_[i].peer;
    peers += known ? 0 : 1;
  }
  BONSAI_DCHECK((peers == 0) == (size_ == 0));
  return peers;
}

}  // namespace bonsai::rdma
