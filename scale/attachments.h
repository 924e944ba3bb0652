// SPDX-License-Identifier: Apache-2.0
// The attachments to a server of pools. An attachment is one store's way to one pool: all connections that its lanes
// have made together. They have one number (Hello::node), which a later attachment does not use again.
//
// A number names an attachment in messages and answers, and other clients may learn it. So it is bound to the link's
// random bits (Hello::session), which only that link and this server have: no other client takes its place by the
// number.
//
// Thread-safety: all methods.
#ifndef BONSAI_SCALE_ATTACHMENTS_H_
#define BONSAI_SCALE_ATTACHMENTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "bonsai/status.h"
#include "rdma/fabric.h"

namespace bonsai::scale {

struct Attachment {
  uint64_t link = 0;   // random bits of the link; it has one attachment for each of its targets
  uint64_t order = 0;  // the server counts its attachments from 1 on, so that it knows the later of two; 0: unknown
};

class Attachments {
 public:
  // A connection is to be made. Errors: Busy (another link's attachment has that number, or had it a moment ago).
  Status admit(const rdma::Hello& other);
  // That of a connected number.
  [[nodiscard]] Attachment find(uint32_t node) const;
  [[nodiscard]] size_t count() const;
  // Forgets those that have left. To be called now and then. It holds no lock while it asks: who asks may close
  // connections, and wait for a thread that is in admit(). Requires: one call at a time.
  void keep(const std::function<bool(uint32_t node)>& is_connected);

 private:
  struct Known {
    Attachment attachment;
    uint64_t admitted_ns;  // last

    // It is not on its way to be connected any more.
    [[nodiscard]] bool is_settled(uint64_t now_ns) const;
  };
  mutable std::mutex mutex_;
  uint64_t count_ = 0;
  std::map<uint32_t, Known> known_;  // by number
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_ATTACHMENTS_H_
