// SPDX-License-Identifier: Apache-2.0
// Common parts of both ends of the experiment `fabric`: a provider, memory and one worker; and the messages between
// them.
#ifndef BONSAI_BENCH_STUDIES_FABRIC_END_H_
#define BONSAI_BENCH_STUDIES_FABRIC_END_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "bench/studies/fabric/perftest.h"
#include "bench/studies/fabric/plan.h"
#include "rdma/fabric.h"
#include "rdma/registered_memory.h"
#include "rdma/shm/shm.h"
#include "rdma/sim/sim.h"

namespace bonsai::bench {

// The kind of a message; its first 8 bytes.
enum class OrderKind : uint64_t {
  kData = 1,  // one of a stream: taken and counted
  kEcho,      // is sent back
  kGreet,     // from now on this node is served; `region` is its memory
  kBusy,      // a stream or echoes follow: look for them all the time
  kIdle,      // nothing follows for a while
  kPing,      // `count` WRITEs of `bytes` follow, numbered from `first`; each is answered by one
  kPerftest,  // start the server of `perftest`
  kAnswer,    // from the far side: greeted, or the server listens (`count` 1) or does not (0)
};

struct FabricOrder {
  OrderKind kind = OrderKind::kData;
  rdma::RemoteRegion region = {};
  uint64_t bytes = 0, count = 0, first = 0;
  PerftestOrder perftest = {};
};
static_assert(std::is_trivially_copyable_v<FabricOrder>);

struct FabricChoice {
  const FabricProvider* provider = nullptr;
  std::string folder;                          // FarSide::kProcess: where processes meet
  std::string device;                          // FarSide::kNetwork: empty = found
  bool blocks = false;                         // FarSide::kNetwork: waits block at once instead of polling
  std::shared_ptr<rdma::SimNetwork> sim = {};  // FarSide::kSameThread: on which both ends are
};

class FabricEnd {
 public:
  // Places in the memory of each end.
  static constexpr uint64_t kDataBytes = 4 << 20;                // what is read, written and added to
  static constexpr uint64_t kPingAt = kDataBytes;                // where pings arrive
  static constexpr uint64_t kOutAt = kPingAt + kFabricBytesMax;  // what is written and sent
  static constexpr uint64_t kOrderAt = kOutAt + kFabricBytesMax;
  static constexpr uint64_t kCreditAt = kOrderAt + 4096;  // a word: how many messages the far side has taken
  static constexpr uint64_t kBytes = kCreditAt + 4096;
  static constexpr uint64_t kSlots = 2 * kFabricSendsMax;  // receive buffers

  // Errors: those of the provider.
  static Status open(const FabricChoice& choice, std::unique_ptr<FabricEnd>* end);

  [[nodiscard]] rdma::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] rdma::Worker& worker() { return *worker_; }
  [[nodiscard]] rdma::RemoteRegion remote() const { return memory_->remote(); }
  [[nodiscard]] rdma::Slice slice(uint64_t at, uint64_t bytes) const { return memory_->slice(at, bytes); }
  // Words that the other end may write at any time.
  [[nodiscard]] uint64_t word(uint64_t at) const;
  void set_word(uint64_t at, uint64_t value);

  // Closes a connection, and ends its pending requests.
  void close(std::unique_ptr<rdma::Peer>* peer) {
    peer->reset();
    static_cast<void>(worker_->poll());
  }
  // Sends an order; returns when it has been delivered. Requires after an error: the peer is closed before the next
  // one.
  Status tell(rdma::Peer& peer, const FabricOrder& order, uint64_t limit_ms);
  // The order in a message; false when it is none.
  static bool read_order(const rdma::Message& message, FabricOrder* order);

  // FarSide::kNetwork: the device, and the address of this end without a port.
  [[nodiscard]] const std::string& device() const { return device_; }
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] bool blocks() const { return blocks_; }

 private:
  FabricEnd() = default;

  std::unique_ptr<rdma::ShmNetwork> shm_;
  std::shared_ptr<rdma::SimNetwork> sim_;
  std::string device_, host_;
  bool blocks_ = false;
  std::unique_ptr<rdma::Fabric> fabric_;
  std::unique_ptr<rdma::RegisteredMemory> memory_, ring_;
  std::unique_ptr<rdma::Worker> worker_;
  rdma::WorkList order_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_FABRIC_END_H_
