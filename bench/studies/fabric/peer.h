// SPDX-License-Identifier: Apache-2.0
// The far side of the experiment `fabric`: offers memory, takes messages, answers pings, starts servers of perftest.
#ifndef BONSAI_BENCH_STUDIES_FABRIC_PEER_H_
#define BONSAI_BENCH_STUDIES_FABRIC_PEER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "bench/studies/fabric/end.h"

namespace bonsai::bench {

// Thread-safety: one thread.
class FabricPeer {
 public:
  static constexpr uint64_t kPatienceMs = 1'000;  // how long a far side that does nothing else waits in one step()

  // Listens at `address`. Requires: `end` outlives it. Errors: as Worker::listen.
  static Status make(FabricEnd* end, const std::string& address, std::unique_ptr<FabricPeer>* peer);
  ~FabricPeer();
  FabricPeer(const FabricPeer&) = delete;
  FabricPeer& operator=(const FabricPeer&) = delete;

  // Does what there is to do. Waits up to `patience_ms` while a test goes on, and naps when none does; 0: does neither.
  void step(uint64_t patience_ms);
  // True once a node that was served has gone.
  [[nodiscard]] bool is_deserted() const { return has_served_ && served_ == nullptr && peers_.empty(); }
  [[nodiscard]] bool has_served() const { return has_served_; }

 private:
  explicit FabricPeer(FabricEnd* end) : end_(*end) {}
  void look_after_connections();
  void handle(const rdma::Message& message);
  void greet(const rdma::Message& message);
  void obey(const FabricOrder& order);
  void answer_order(const FabricOrder& answer);
  void echo(const rdma::Message& message);
  bool pong(uint64_t patience_ms);
  void count_message();
  bool serve_perftest(const PerftestOrder& order);

  FabricEnd& end_;
  std::vector<std::unique_ptr<rdma::Peer>> peers_;
  rdma::Peer* served_ = nullptr;  // the node that greeted last
  rdma::RemoteRegion memory_;     // of it
  uint64_t taken_ = 0;            // messages of it
  bool has_served_ = false;
  bool is_busy_ = false;
  uint64_t ping_bytes_ = 0, ping_next_ = 0, ping_end_ = 0;  // numbers of pings
  rdma::WorkList credit_, answer_;
  std::unique_ptr<base::ChildProcess> perftest_;
};

// Whether an order that came over the network may be carried out.
[[nodiscard]] bool is_sound(const PerftestOrder& order);

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_FABRIC_PEER_H_
