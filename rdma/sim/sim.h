// SPDX-License-Identifier: Apache-2.0
// The sim provider: nodes of one thread on a simulated network, deterministic, in virtual time. Rare behaviour of real
// fabrics happens often here: late and lost packets, WRITEs and READs torn at 8 bytes, answers that never come though
// the request was carried out, requests that are carried out after their sender gave up, connections that break,
// partitions, dead nodes. It is the reference for faults. Its times are not those of a device, unless
// SimOptions::device models one.
//
// Time: with a base::Scheduler in virtual time the network follows its clock; else it jumps to its next event whenever
// a caller waits. Both are reproducible: a run is a function of SimOptions::seed and of the nodes' code; trace() is a
// hash of all events.
//
// Persistent memory: a write of the fabric to a SimNvm is visible at once. It survives a crash only once the strategy
// of the persistence domain has run (domain.h): a processor's flush (SimNvm::flush) for adr, a READ, atomic or SEND
// after it on the same connection for adr-direct and eadr, a FLUSH for all. SimNvm::crash() keeps a legal part of the
// other stores: in each 64-byte line some prefix of them.
//
// Thread-safety: none; all nodes of a network live on one thread.
#ifndef BONSAI_RDMA_SIM_SIM_H_
#define BONSAI_RDMA_SIM_SIM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "rdma/domain.h"
#include "rdma/fabric.h"

namespace bonsai::rdma {

// Models a device's costs in virtual time, in nanoseconds, as queues of each node and of each worker that serve
// requests in turn. Without a name no device is modelled, and times say nothing about speed. Not modelled: the time of
// memory nodes' processors, the effect of many connections on a client's own device, writes to NVM.
struct SimDevice {
  std::string name;                      // in Capabilities::text
  double wire_ns = 0;                    // a round trip of a small packet
  double list_cpu_ns = 0;                // time of the posting thread per list,
  double list_cpu_jitter = 0;            // ... times 1 +- at most this
  double read_ns = 0, read_byte_ns = 0;  // time of the target's engine per READ, and per byte of it
  double write_ns = 0;                   // ... for each WRITE and SEND
  double atomic_ns = 0;                  // time of its atomic unit per atomic,
  double same_address_ns = 0;            // ... and between two on one word
  double bytes_per_ns = 0;               // bandwidth of its link, each way: bytes of READs out, of WRITEs and SENDs in
  double header_bytes = 0;               // ... added to each of these
  size_t ordered_per_peer_max = 16;      // READs and atomics of one connection in flight
  // The number of NVM devices of a node, from which the engine reads the bytes of READs. 0: as fast as the link.
  size_t nvm_devices = 0;
  // A region's units of this many bytes are distributed over the devices in turn. 0: each region is on one device, and
  // regions are distributed in turn.
  uint64_t nvm_unit_bytes = 0;
  double nvm_block_ns = 0;   // time of one device per media block of 256 bytes,
  double nvm_access_ns = 0;  // ... and latency of a unit's first block, during which the device serves others

  [[nodiscard]] bool modelled() const { return !name.empty(); }
  // The devices as measured by the authors of RCuckoo and SMART.
  static SimDevice cx5();
  static SimDevice cx6();
  // This device with six modules of NVM.
  [[nodiscard]] SimDevice with_optane(uint64_t unit_bytes) const;
};

// Chances are per 1024.
struct SimOptions {
  uint64_t seed = 1;
  uint64_t flight_ns_min = 500;  // of one packet
  uint64_t flight_ns_max = 2'000;
  uint32_t late_chance = 64;  // a packet or completion takes up to late_ns_max
  uint64_t late_ns_max = 100'000;
  uint32_t torn_chance = 512;   // a WRITE or READ takes effect in several parts
  uint32_t lost_chance = 32;    // a packet is lost; it is sent again
  uint32_t error_chance = 0;    // a request breaks its connection, as a fault of the device does
  uint32_t ghost_chance = 256;  // a request whose sender gave up is carried out afterwards
  uint64_t retry_ns = 50'000;   // until a lost packet, or a SEND without receive buffer, is sent again
  uint32_t retries_max = 7;     // then the request has failed
  size_t lists_pending_max = 64;
  bool remote_flush = true;  // Capabilities::remote_flush
  SimDevice device = {};     // if modelled, it determines flight times

  // A network without faults whose times are those of a device.
  static SimOptions with_device(const SimDevice& device, uint64_t seed);
};

class SimCore;

// Persistent memory of a node. It outlives the fabric that registers it, as a DIMM outlives a power cut.
// Requires: its network outlives it.
class SimNvm {
 public:
  ~SimNvm();
  SimNvm(const SimNvm&) = delete;
  SimNvm& operator=(const SimNvm&) = delete;

  // The bytes as processors and the fabric read them.
  [[nodiscard]] std::span<std::byte> view();
  // The node's processor flushes the lines of [offset, offset + bytes) and fences.
  void flush(size_t offset, size_t bytes);
  // A power cut: the view becomes the bytes that survived. Requires: its node was killed.
  void crash();

  struct State;

 private:
  friend class SimNetwork;
  SimNvm(std::shared_ptr<SimCore> core, size_t bytes, RemoteDomain domain);

  std::shared_ptr<SimCore> core_;
  std::unique_ptr<State> state_;
};

class SimNetwork {
 public:
  explicit SimNetwork(const SimOptions& options = {});
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // A new node. Fabrics are destroyed before the network. `list_cpu_ns`: the value for its threads; without one, the
  // device's.
  std::unique_ptr<Fabric> make_fabric(std::optional<double> list_cpu_ns = {});
  // Requires: a known domain.
  std::unique_ptr<SimNvm> make_nvm(size_t bytes, RemoteDomain domain);

  // From now on posted requests are carried out at once and take no time, to fill a store before a measurement.
  // Requests that cannot be carried out at once, and all to persistent memory, take the usual way.
  void set_instant(bool instant);
  // Replaces the device of all nodes; nodes with their own list_cpu_ns keep it. Requires: the old and the new device
  // are modelled; no request is in flight.
  void set_device(const SimDevice& device);

  // ---- faults. Fabrics are of this network.

  // Packets of `from` no longer reach `to`.
  void cut(const Fabric& from, const Fabric& to);
  void heal();
  // Cuts the node's power: it executes, receives and answers nothing any more, and half-written bytes stay so. Its own
  // waits end.
  void kill(const Fabric& node);
  // The node's process ends, as by SIGKILL, and its machine goes on: as kill(), but the other ends of its connections
  // hear of it, and what it wrote to its NVM stays.
  void end_process(const Fabric& node);
  // The node's completion queues overflow: all its connections break.
  void overflow(const Fabric& node);

  // ---- what happened

  [[nodiscard]] uint64_t trace() const;
  [[nodiscard]] uint64_t now_ns() const;
  // Runs all events that are in flight. Requires: not in a coroutine.
  void settle();

 private:
  std::shared_ptr<SimCore> core_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SIM_SIM_H_
