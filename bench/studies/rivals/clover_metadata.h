// SPDX-License-Identifier: Apache-2.0
// The metadata server of the Clover-like engine: where each key's chain begins, which slabs are free, and what is
// retired. It has no copy, as published: nothing brings its table back.
//
// Several workers answer calls, each a thread of its own, over one table. A key is in it before its shortcut is
// written: until then the shortcut is null, or an older link than any that its readers come from, which they do not
// follow. Slabs are used once, in order, and then again, the longest free first. In a chain, the versions before the
// newest one that is reported without a gap are retired; a retired slab is free again `retire_ns` later, with the next
// version. A slab whose versions are used up is parked until no node can have a link to any of them: kEpochsParked
// epochs. Epochs pass only while slabs are parked; otherwise links may be kept for ever, as published. Every answer
// names the server's epoch. A node that knows it of a call of less than one epoch ago lags by one at most, and uses
// links that it learned less than kEpochsCached before what it knows (clover_node.h); the last request by one is
// carried out an epoch later at the latest. Clocks need not agree, they need only run at the same rate.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_CLOVER_METADATA_H_
#define BONSAI_BENCH_STUDIES_RIVALS_CLOVER_METADATA_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bench/studies/rivals/call_server.h"
#include "bench/studies/rivals/clover_calls.h"
#include "bench/studies/rivals/clover_layout.h"
#include "bench/studies/rivals/connection.h"

namespace bonsai::bench::rivals::clover {

inline constexpr uint64_t kEpochNs = 2 * base::kNsPerSecond;  // published: 2 s and a little
inline constexpr uint64_t kEpochsCached = 2;                  // a node that knows of so many more uses a link no more
inline constexpr uint64_t kEpochsParked = 4;                  // ... it may lag by one, and its request take another
inline constexpr uint32_t kFirstVersion = 1;                  // memory that was never written has none
inline constexpr uint32_t kVersionsEnd = 254;

// Thread-safety: one thread for each worker; the counters while no worker serves.
class MetadataServer {
 public:
  struct Options {
    StoreOptions store = {};
    uint64_t retire_ns = 4'000;  // published: twice an estimate of the round trip, 2 us
    uint64_t epoch_ns = kEpochNs;
    uint32_t versions_end = kVersionsEnd;  // a slab has those from kFirstVersion up to here, without it; at most that
    uint32_t number = UINT32_MAX;          // names the first worker on the fabric, the next has one less; nobody else's
  };
  struct Counters {
    uint64_t calls = 0;
    uint64_t keys = 0;
    uint64_t slabs_used = 0;  // at least once
    uint64_t retired = 0, recycled = 0, parked = 0;
    uint64_t reports_early = 0;  // that came before those of older versions
  };

  // The server of empty memory nodes. Errors: InvalidArgument (store), and those of the fabric.
  // A worker listens at each address.
  static Status make(rdma::Fabric* fabric, std::vector<std::string> addresses, const Options& options,
                     const std::vector<MemoryNodeName>& memory_nodes, std::unique_ptr<MetadataServer>* server);

  // Replaces the names of memory nodes that are back after a power cut. Requires: no worker serves.
  void rejoin(const std::vector<MemoryNodeName>& memory_nodes);

  // The worker's name for connections, where workers come after the memory nodes.
  [[nodiscard]] MemoryNodeName name(size_t worker) const { return {addresses_[worker], {}}; }
  [[nodiscard]] size_t workers() const { return addresses_.size(); }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  // The worker answers one call. Errors: Unavailable (none came within the bound; the usual case of an idle server),
  // InvalidArgument (a malformed call, which was dropped).
  Status serve(size_t worker, uint64_t limit_ms);
  // The time that the busiest worker spent on calls. Requires: no worker serves, or one thread does all.
  [[nodiscard]] uint64_t busy_ns() const;

 private:
  struct Chain {
    Link head;
    uint64_t shortcut = 0;
  };
  struct Waiting {
    Buffer buffer;
    uint64_t until;  // time in ns, or epoch
  };
  struct Worker {
    std::unique_ptr<CallServer> calls;
    std::unique_ptr<Connection> connection;
    std::unique_ptr<rdma::RegisteredMemory> scratch;
    uint64_t busy_ns = 0;
  };

  MetadataServer(rdma::Fabric* fabric, std::vector<std::string> addresses, const Options& options,
                 std::vector<MemoryNodeName> memory_nodes)
      : fabric_(fabric),
        addresses_(std::move(addresses)),
        options_(options),
        store_(options.store),
        memory_nodes_(std::move(memory_nodes)) {}

  // Connects to the memory nodes, when they serve.
  Status connect(size_t worker);
  Status answer_call(Worker* worker, const std::byte* bytes, const CallServer::Call& received);
  // Whether the call was one.
  bool carry_out(Worker* worker, const Call& call, Answer* answer);
  Status write_shortcut(Worker* worker, uint64_t shortcut, Link link) const;

  // ---- with the mutex held

  [[nodiscard]] uint64_t epoch();
  void find(const Call& call, Answer* answer) const;
  // Whether the key is new, and its shortcut is to be written.
  bool insert(const Call& call, Answer* answer);
  void give_buffers(Answer* answer);
  void take_report(const Report& report);
  void retire(Link link);
  void recycle();

  rdma::Fabric* const fabric_;
  const std::vector<std::string> addresses_;
  const Options options_;
  const Store store_;
  std::vector<MemoryNodeName> memory_nodes_;
  std::vector<Worker> workers_;
  std::mutex mutex_;                                              // of all below; never held over a wait
  std::unordered_map<uint64_t, Chain> chains_;                    // by hash of the key
  std::map<std::pair<uint64_t, uint64_t>, Link> reported_early_;  // by hash and older link
  std::deque<Buffer> free_;
  std::deque<Waiting> retired_, parked_;
  uint64_t epoch_ = 0, epoch_began_ns_ = 0;
  Counters counters_;
};

}  // namespace bonsai::bench::rivals::clover

#endif  // BONSAI_BENCH_STUDIES_RIVALS_CLOVER_METADATA_H_
