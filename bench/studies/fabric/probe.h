// SPDX-License-Identifier: Apache-2.0
// The near side of the experiment `fabric`: measures cells against a FabricPeer.
#ifndef BONSAI_BENCH_STUDIES_FABRIC_PROBE_H_
#define BONSAI_BENCH_STUDIES_FABRIC_PROBE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/studies/fabric/end.h"
#include "bench/studies/fabric/plan.h"

namespace bonsai::bench {

// Thread-safety: one thread.
class FabricProbe {
 public:
  struct Context {
    std::function<void()> pump;        // sim: lets the far side, which lives on this thread, do its part
    std::function<uint64_t()> now_ns;  // steady time, or virtual time
  };

  // Connects to the peer at `address` and greets it. Requires: `end` outlives the probe. Errors: as Worker::connect.
  static Status connect(FabricEnd* end, const std::string& address, Context context, uint64_t limit_ms,
                        std::unique_ptr<FabricProbe>* probe);

  ~FabricProbe();
  FabricProbe(const FabricProbe&) = delete;
  FabricProbe& operator=(const FabricProbe&) = delete;

  // Measures one cell for about `duration_ns`. Errors: of requests; then the connection is closed.
  Status measure(const FabricCell& cell, uint64_t duration_ns, FabricSample* sample);
  // Asks the far side to start a server of perftest. Returns when it listens. Errors: NotSupported (it cannot).
  Status start_perftest(const PerftestOrder& order);
  // The memory of the far side that every node may read, write and add to.
  [[nodiscard]] const rdma::RemoteRegion& far_memory() const { return far_; }

 private:
  struct Flight;

  FabricProbe(FabricEnd* end, Context context) : end_(*end), context_(std::move(context)) {}
  Status until(const char* name, const std::function<bool()>& ready);
  Status wait(const rdma::WorkList& list);
  Status count_sends(uint64_t messages);
  Status tell(const FabricOrder& order);
  Status take_answer(FabricOrder* answer);
  Status measure_open(const FabricCell& cell, uint64_t duration_ns, std::vector<Flight>* flights, FabricSample* sample);
  Status stream(const FabricCell& cell, uint64_t duration_ns, uint64_t timed_every, std::vector<Flight>* flights,
                FabricSample* sample);
  Status launch(const FabricCell& cell, size_t place, rdma::WorkList* list);
  Status ping_pong(const FabricCell& cell, uint64_t duration_ns, rdma::WorkList* list, FabricSample* sample);
  Status ping(const FabricCell& cell, rdma::WorkList* list);
  Status echo(const FabricCell& cell, rdma::WorkList* list);

  FabricEnd& end_;
  const Context context_;
  std::unique_ptr<rdma::Peer> peer_;
  rdma::RemoteRegion far_;
  uint64_t sent_ = 0;   // messages; the far side has taken word(kCreditAt) of them or more, and has their buffers back
  uint64_t round_ = 0;  // of pings
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_FABRIC_PROBE_H_
