// SPDX-License-Identifier: Apache-2.0
// A compute node's thread and its way to the memory nodes.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_CONNECTION_H_
#define BONSAI_BENCH_STUDIES_RIVALS_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rdma/fabric.h"

namespace bonsai::bench::rivals {

// A byte of a memory node's memory.
struct Address {
  uint16_t node = 0;
  uint64_t offset = 0;

  [[nodiscard]] Address operator+(uint64_t bytes) const { return {node, offset + bytes}; }
  bool operator==(const Address&) const = default;
};

// The name of a memory node for compute nodes. Set-up information, passed on outside the fabric.
struct MemoryNodeName {
  std::string address;
  rdma::RemoteRegion memory;
};

// The worker of one thread, connected to all memory nodes and shared by the thread's coroutines.
// Once a wait has expired the connection is closed for good: a list in flight may still use its memory otherwise.
// Thread-safety: one thread.
class Connection {
 public:
  static constexpr uint64_t kWaitMs = 10'000;  // for one answer

  // `number` names the thread on the fabric; no other thread of any node has it. Memory node i is nodes[i].
  // Errors: those of Worker::connect().
  static Status make(rdma::Fabric* fabric, uint32_t number, const std::vector<MemoryNodeName>& nodes,
                     std::unique_ptr<Connection>* connection);

  [[nodiscard]] rdma::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] rdma::Worker& worker() const { return *worker_; }
  [[nodiscard]] uint32_t number() const { return number_; }
  [[nodiscard]] size_t memory_nodes() const { return nodes_.size(); }
  // Sets the wait of its clients after lost compare-and-swaps (backoff.h); 0, the initial value: none. Requires: no
  // client yet.
  void set_backoff(uint64_t ns) { backoff_ns_ = ns; }
  [[nodiscard]] uint64_t backoff_ns() const { return backoff_ns_; }
  // Another number each time.
  [[nodiscard]] uint32_t next_client() { return clients_++; }

 private:
  friend class Batch;
  Connection(rdma::Fabric* fabric, uint32_t number, std::vector<MemoryNodeName> nodes)
      : fabric_(fabric), number_(number), nodes_(std::move(nodes)) {}

  rdma::Fabric* const fabric_;
  const uint32_t number_;
  const std::vector<MemoryNodeName> nodes_;
  std::unique_ptr<rdma::Worker> worker_;
  std::vector<std::unique_ptr<rdma::Peer>> peers_;  // by memory node; none once closed
  uint64_t backoff_ns_ = 0;
  uint32_t clients_ = 0;
};

// Requests that travel together, and what becomes of them. Reused; empty after run() and finish().
// Requires: slices stay registered until then. Thread-safety: the connection's thread.
class Batch {
 public:
  explicit Batch(Connection* connection) : connection_(connection) {}

  void read(Address from, rdma::Slice to);
  void write(rdma::Slice from, Address to);
  // *old receives the word's former value.
  void cas(Address word, uint64_t expected, uint64_t desired, rdma::Slice old);
  // cas() for the bits of masks (rdma/work.h). Requires: Capabilities::masked_cas.
  void masked_cas(Address word, rdma::WorkList::Masked expected, rdma::WorkList::Masked desired, rdma::Slice old);
  void send(uint16_t node, rdma::Slice message);
  // The next request waits for the READs and atomics before it (rdma/work.h).
  void fence() { list_.fence(); }

  [[nodiscard]] size_t size() const { return list_.size(); }

  // Posts, and waits for all answers: one round trip. Errors: Unavailable.
  Status run();
  // Posts only. Errors: Unavailable.
  Status post();
  // Waits for the posted requests, if any. Errors: Unavailable.
  Status finish();

 private:
  [[nodiscard]] rdma::Peer* peer(uint16_t node) const;

  Connection* const connection_;
  rdma::WorkList list_;
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_CONNECTION_H_
