// SPDX-License-Identifier: Apache-2.0
// Memory nodes and compute nodes of a test: on sim, or in real time on the provider that BONSAI_FABRIC names ("shm"
// when it is not set, "verbs" in programs that are linked with it).
#ifndef BONSAI_BENCH_STUDIES_RIVALS_TESTING_RIG_H_
#define BONSAI_BENCH_STUDIES_RIVALS_TESTING_RIG_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bench/studies/rivals/client.h"
#include "bench/studies/rivals/memory_node.h"
#include "bench/studies/rivals/seat.h"
#include "rdma/sim/sim.h"
#include "rdma/testing/world.h"
#include "testing/history.h"
#include "testing/recorder.h"

namespace bonsai::bench::rivals {

inline std::string text(const Status& status) { return status.ToString(); }

// A limit of time, in ms, that no count of a test in real time may hang on: the machine may be slow.
inline constexpr uint64_t kUnhurriedMs = 3'600'000;

// The name of a test case whose parameter is Rig::Options::sim: "sim", or the provider.
std::string name_of_fabric(const ::testing::TestParamInfo<bool>& sim);

class Rig {
 public:
  struct Options {
    bool sim = true;  // else in real time
    // In real time: the clock of each thread counts its switches of coroutines, this many ns each, so that pauses do
    // not depend on the machine's load. 0: the machine's clock. Requires: no calls to servers.
    uint64_t ns_per_switch = 0;
    uint64_t seed = 1;
    size_t memory_nodes = 1;
    size_t bytes = size_t{1} << 20;  // of each memory node
    size_t fixed_bytes = 0;
    bool flushes = false;         // the nodes answer calls to flush, though their memory is volatile
    rdma::SimDevice device = {};  // sim: models it; then there are no faults, and coroutines run in turn
  };
  explicit Rig(const Options& options);
  ~Rig();

  [[nodiscard]] std::vector<MemoryNode*> nodes() const;
  // A fabric for one more server, and an unused address.
  std::unique_ptr<rdma::Fabric> make_fabric();
  std::string make_address();
  // Calls `serve` like those of the memory nodes; connections know the server as one more of them.
  void add_server(const MemoryNodeName& name, std::function<Status(uint64_t limit_ms)> serve);

  // Runs `body` for every client of the shape at the same time, while the memory nodes serve, and returns when all are
  // done. On sim: one thread, one seeded schedule of all coroutines. In real time: threads.
  void run(const Shape& shape, const std::function<void(const Seat&)>& body);
  // run() with one client.
  void run_one(const std::function<void(Connection*)>& body);
  // The compute node dies now. Requires: sim, amid run().
  void kill(size_t compute_node) { sim_.kill(*compute_fabrics_[compute_node]); }

 private:
  void run_simulated(const Shape& shape, const std::function<void(const Seat&)>& body);
  void run_threads(const Shape& shape, const std::function<void(const Seat&)>& body);
  [[nodiscard]] std::unique_ptr<Connection> connect(size_t compute_node, size_t thread) const;

  const Options options_;
  rdma::SimNetwork sim_;
  std::unique_ptr<rdma::World> world_;  // in real time
  std::vector<std::unique_ptr<rdma::Fabric>> memory_fabrics_, compute_fabrics_;
  std::vector<std::unique_ptr<rdma::SharedMemory>> memories_;  // of nodes that flush
  std::vector<std::unique_ptr<MemoryNode>> nodes_;
  std::vector<MemoryNodeName> names_;
  std::vector<std::function<Status(uint64_t limit_ms)>> servers_;  // by name
  uint32_t runs_ = 0, addresses_ = 0;
};

// Random clients of few keys, and what they saw.
class Judge {
 public:
  // Chances in 100; the rest are gets.
  struct Mix {
    uint64_t keys = 3;
    uint64_t inserts = 25, updates = 25, removes = 15;
    size_t value_bytes_max = 8;
    uint64_t operations = 40;  // of each client
    bool owned = false;        // key i is inserted and removed by client i - 1 only. Requires: as many keys as clients
  };
  Judge(const Mix& mix, size_t clients);

  // Stores all keys, before anybody acts.
  void load(Client* client);

  // Requires: one caller per seat at a time.
  void act(Client* client, size_t seat, uint64_t seed);
  // Whether the history is linearizable, key by key, and no operation failed. Requires: no client runs.
  [[nodiscard]] bonsai::testing::Verdict verdict() const;

  static std::string key_of(uint64_t number);
  // Values of 8 bytes up to `bytes_max`, as their number wants; number_of() is kGarbled for bytes of no value.
  static std::string value_of(uint64_t number, size_t bytes_max);
  static uint64_t number_of(const std::string& value, size_t bytes_max);

 private:
  void write(Client* client, bonsai::testing::Recorder::Lane* lane, uint64_t key, uint64_t number, uint64_t dice);

  void note_failure(const Status& status);

  const Mix mix_;
  std::vector<bonsai::testing::Cell> loaded_;
  std::unique_ptr<bonsai::testing::Recorder> recorder_;
  std::mutex mutex_;
  std::string failure_;  // the first
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_TESTING_RIG_H_
