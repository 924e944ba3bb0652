// SPDX-License-Identifier: Apache-2.0
// Which session each connected node's number stands for. A number names a node in messages and answers, and others may
// know it; the session is known to that node and to this server alone. So nobody takes another's place by its number.
//
// Thread-safety: all methods.
#ifndef BONSAI_SCALE_SESSIONS_H_
#define BONSAI_SCALE_SESSIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "bonsai/status.h"
#include "rdma/fabric.h"

namespace bonsai::scale {

class Sessions {
 public:
  // A node wants to connect. Errors: Busy (another one with that number is connected, or was a moment ago).
  Status admit(const rdma::Hello& other);
  // Forgets nodes that have left. To be called now and then.
  void keep(const std::function<bool(uint32_t node)>& is_connected);

 private:
  struct Session {
    uint64_t bits;
    uint64_t admitted_ns;  // last
  };
  std::mutex mutex_;
  std::map<uint32_t, Session> sessions_;  // by node
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_SESSIONS_H_
