// SPDX-License-Identifier: Apache-2.0
// The sim provider: nodes of one thread on a simulated network, deterministic, in virtual time. What a real fabric may
// do and seldom does happens often: late and lost packets, WRITEs and READs torn at 8 bytes, answers that never come
// though the request was carried out, requests that are carried out after their sender gave up, connections that break,
// partitions, dead nodes. It is the reference for faults. Its times are no device's, but where
// SimOptions::device models one.
//
// Time: with a base::Scheduler in virtual time the network follows its clock; else it jumps to its next event whenever
// somebody waits. Both are reproducible: a run is a function of SimOptions::seed and of what the nodes do; trace() is a
// hash of all that happened.
//
// Persistent memory: what the fabric writes to a SimNvm is visible at once and survives a crash only when the strategy
// of the persistence domain has run (domain.h): a processor's flush (SimNvm::flush) for adr, a READ, atomic or SEND
// after it on the same connection for adr-direct and eadr, a FLUSH for all. SimNvm::crash() keeps a legal remainder of
// the rest: of each 64-byte line some prefix of its stores.
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

// What a device costs in virtual time, in nanoseconds: queues of each node and of each worker, served in turn. Without
// a name no device is modelled, and times say nothing of speed. Not modelled: the time of memory nodes' processors,
// what a client's own device makes of many connections, what is written to NVM.
struct SimDevice {
  std::string name;                      // in Capabilities::text
  double wire_ns = 0;                    // a round trip of a small packet
  double list_cpu_ns = 0;                // of the posting thread for each list,
  double list_cpu_jitter = 0;            // ... times 1 +- at most this
  double read_ns = 0, read_byte_ns = 0;  // of the target's engine for each READ, and for each byte of it
  double write_ns = 0;                   // ... for each WRITE and SEND
  double atomic_ns = 0;                  // of its atomic unit for each atomic,
  double same_address_ns = 0;            // ... and between two on one word
  double bytes_per_ns = 0;               // of its link, each way: what READs send, WRITEs and SENDs bring
  double header_bytes = 0;               // ... with each of them
  size_t ordered_per_peer_max = 16;      // READs and atomics of one connection in flight
  // The NVM that the engine takes what READs want from: so many devices of a node. 0: as fast as the link.
  size_t nvm_devices = 0;
  // Units of so many bytes of a region take turns among them. 0: each region is on one, and regions take turns.
  uint64_t nvm_unit_bytes = 0;
  double nvm_block_ns = 0;   // of one device for each media block of 256 bytes,
  double nvm_access_ns = 0;  // ... and until the first of a unit is there, in which it serves others

  [[nodiscard]] bool modelled() const { return !name.empty(); }
  // The devices as RCuckoo's and SMART's authors measured them.
  static SimDevice cx5();
  static SimDevice cx6();
  // The same with six modules of NVM.
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
  uint32_t error_chance = 0;    // a request breaks its connection, as a device's own faults do
  uint32_t ghost_chance = 256;  // a request whose sender gave up is carried out afterwards
  uint64_t retry_ns = 50'000;   // until a lost packet, or a SEND without receive buffer, is sent again
  uint32_t retries_max = 7;     // then the request has failed
  size_t lists_pending_max = 64;
  bool remote_flush = true;  // Capabilities::remote_flush
  SimDevice device = {};     // with one, flights take its time

  // A network without faults whose times are those of a device.
  static SimOptions with_device(const SimDevice& device, uint64_t seed);
};

class SimCore;

// Persistent memory of a node. It outlives the fabric that registers it, as a DIMM outlives a power cut.
// Requires: outlived by its network.
class SimNvm {
 public:
  ~SimNvm();
  SimNvm(const SimNvm&) = delete;
  SimNvm& operator=(const SimNvm&) = delete;

  // What processors and the fabric see.
  [[nodiscard]] std::span<std::byte> view();
  // The node's processor flushes the lines of [offset, offset + bytes) and fences.
  void flush(size_t offset, size_t bytes);
  // A power cut: the view becomes what survived. Requires: its node was killed.
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

  // A new node. Fabrics are destroyed before the network. `list_cpu_ns` of its threads; none: the device's.
  std::unique_ptr<Fabric> make_fabric(std::optional<double> list_cpu_ns = {});
  // Requires: a known domain.
  std::unique_ptr<SimNvm> make_nvm(size_t bytes, RemoteDomain domain);

  // From now on what is posted is carried out at once and takes no time, where nothing is in its way: for filling a
  // store that is to be measured. What cannot be carried out takes the usual way. Persistent memory always does.
  void set_instant(bool instant);
  // Of all nodes from now on, but for the list_cpu_ns of those that have their own. Requires: it and the one until now
  // are modelled; nothing is in flight.
  void set_device(const SimDevice& device);

  // ---- faults. Fabrics are of this network.

  // Nothing of `from` reaches `to` any more.
  void cut(const Fabric& from, const Fabric& to);
  void heal();
  // Power is cut: the node does, hears and answers nothing any more; what is half written stays so. Its own waits end.
  void kill(const Fabric& node);
  // The node's completion queues overflow: all its connections break.
  void overflow(const Fabric& node);

  // ---- what happened

  [[nodiscard]] uint64_t trace() const;
  [[nodiscard]] uint64_t now_ns() const;
  // Runs what is still in flight. Requires: not in a coroutine.
  void settle();

 private:
  std::shared_ptr<SimCore> core_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SIM_SIM_H_
