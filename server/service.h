// SPDX-License-Identifier: Apache-2.0
// Connections: listens, reads requests, has them executed, and sends the replies, by one event loop per thread.
//
// Whatever is readable in one turn of a loop is executed together, so that the connections of a thread share the
// fences and overlap the cache misses of their operations. The busier the server, the larger the groups.
#ifndef BONSAI_SERVER_SERVICE_H_
#define BONSAI_SERVER_SERVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "bonsai/status.h"
#include "server/state.h"

namespace bonsai::server {

// Guarantees
//  - A client that sends nothing, or takes nothing, delays no other one.
//  - A client's replies take at most Executor::kUnsentMax bytes and one group of operations, or one reply of a range:
//    while it does not take them, nothing more of it is read. It may hold one request of Config::request_bytes_max.
//  - Beyond Config::connections_max a connection gets an error and is closed.
//  - Without memory for its replies a client is disconnected, and others are served.
class Service {
 public:
  // Listens on all addresses of the configuration, and serves. Requires: *state outlives it.
  // Errors: Busy (an address is in use), IoError (it cannot be had), NoSpace (no memory, no further thread), each with
  // the remedy. Then nothing listens.
  static Status start(State* state, std::unique_ptr<Service>* service);
  // As stop().
  virtual ~Service() = default;
  // Accepts nothing more, executes what has been read, sends the replies, for at most some seconds to clients that do
  // not take them, and closes all. Idempotent.
  virtual void stop() = 0;
  // The addresses, with the ports that the system chose.
  [[nodiscard]] virtual std::vector<std::string> addresses() const = 0;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_SERVICE_H_
