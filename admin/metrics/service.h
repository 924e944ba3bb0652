// SPDX-License-Identifier: Apache-2.0
// Serves the metrics of a program to Prometheus: GET /metrics over HTTP, in its text format.
#ifndef BONSAI_ADMIN_METRICS_SERVICE_H_
#define BONSAI_ADMIN_METRICS_SERVICE_H_

#include <prometheus/collectable.h>

#include <memory>
#include <string>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::metrics {

using Sources = std::vector<std::shared_ptr<prometheus::Collectable>>;

// Guarantees
//  - It is read-only: it takes GET and HEAD of /metrics, and answers everything else with an error.
//  - A client costs a bounded amount: a request has kRequestBytesMax bytes at most and, with its reply, kRequestMsMax;
//    kConnectionsMax are served at a time, and others wait in the system's queue.
//  - What it does delays no operation of the program; its thread is its own.
// Thread-safety: one owner.
class Service {
 public:
  static constexpr size_t kRequestBytesMax = size_t{8} << 10;
  static constexpr size_t kConnectionsMax = 16;
  static constexpr uint64_t kRequestMsMax = 2'000;

  // Listens, and serves what `sources` collect until this object is destroyed. `address`: PORT or 127.0.0.1:PORT for
  // this machine; HOST:PORT or [IPV6]:PORT with the numeric address of an interface for others, who need no password.
  // Port 0: the system chooses. Requires: the sources may be asked by another thread. Errors: InvalidArgument (the
  // address has another form), Busy (another program listens there), IoError (it cannot be had), NoSpace (no memory, no
  // further thread), each with the remedy.
  static Status start(const std::string& address, Sources sources, std::unique_ptr<Service>* service);
  // Stops listening and ends all connections.
  virtual ~Service() = default;
  // Where it serves, with the port: "http://127.0.0.1:9121/metrics".
  [[nodiscard]] virtual std::string url() const = 0;
};

}  // namespace bonsai::metrics

#endif  // BONSAI_ADMIN_METRICS_SERVICE_H_
