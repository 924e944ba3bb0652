// SPDX-License-Identifier: Apache-2.0
// Every fault against every verb: the outcome at the initiator and the effect at the target. The expected values are
// the table in docs/fabric.md. This test runs each cell and compares, so the table cannot become outdated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "base/testing/figures.h"
#include "rdma/fabric.h"
#include "rdma/shared_memory.h"
#include "rdma/shm/shm.h"
#include "rdma/sim/sim.h"

namespace bonsai::rdma {
namespace {

constexpr uint64_t kLimitMs = 2'000;
constexpr size_t kWords = 64;
constexpr uint64_t kNew = 0x4e4e4e4e4e4e4e4e;
// In the table's order; FLUSH is the sim's only.
constexpr Verb kVerbsOfTable[] = {Verb::kRead, Verb::kWrite, Verb::kCas, Verb::kFaa, Verb::kSend, Verb::kMaskedCas};

// One node with memory of its own.
struct TestNode {
  explicit TestNode(std::unique_ptr<Fabric> made, uint32_t number) : fabric(std::move(made)) {
    hello.node = number;
    EXPECT_TRUE(SharedMemory::make(kWords * 8, &memory).ok() && SharedMemory::make(256, &ring).ok());
    EXPECT_TRUE(fabric->register_region(memory->bytes(), Rights::all(), &region).ok());
    EXPECT_TRUE(fabric->register_region(ring->bytes(), Rights::none(), &ring_region).ok());
    EXPECT_TRUE(fabric->make_worker(&worker).ok());
  }
  [[nodiscard]] uint64_t word(size_t index) const { return base::word_at(memory->bytes().data() + 8 * index).load(); }

  Hello hello;
  std::unique_ptr<SharedMemory> memory, ring;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Region> region, ring_region;
  std::unique_ptr<Worker> worker;
};

// One cell: a request, its fault, and the result at both ends.
class Cell {
 public:
  Cell(SimNetwork* network, std::unique_ptr<Fabric> near, std::unique_ptr<Fabric> far, Verb verb)
      : sim(network), here(std::move(near), 1), there(std::move(far), 2), verb_(verb) {
    remote = there.region->remote();
    for (size_t word = 0; word < 32; ++word) base::word_at(here.memory->bytes().data() + 8 * word).store(kNew);
    EXPECT_TRUE(there.worker
                    ->listen("target", there.hello,
                             [](const Hello& hello, Hello*) {
                               return hello.credentials[0] == std::byte{0}
                                          ? Status::OK()
                                          : Status::InvalidArgument("wrong credentials");
                             })
                    .ok());
  }
  ~Cell() { peer.reset(); }

  void offer_buffers() { EXPECT_TRUE(there.worker->set_receive_ring(there.ring_region->slice(0, 256), 256).ok()); }
  Status connect() {
    const Status status = here.worker->connect("target", here.hello, kLimitMs, &peer);
    if (!status.ok()) initiator = "not connected: " + std::string(Status::CodeName(status.code()));
    return status;
  }
  void post() {
    const Slice word = here.region->slice(8 * 40, 8);
    if (verb_ == Verb::kRead) list.read(*peer, remote.at(offset), here.region->slice(8 * 32, 8 * 8));
    if (verb_ == Verb::kWrite) list.write(*peer, here.region->slice(0, 8 * 8), remote.at(offset));
    if (verb_ == Verb::kCas) list.cas(*peer, remote.at(offset), 0, kNew, word);
    if (verb_ == Verb::kMaskedCas) list.masked_cas(*peer, remote.at(offset), {0, 1}, {kNew, ~uint64_t{0}}, word);
    if (verb_ == Verb::kFaa) list.faa(*peer, remote.at(offset), kNew, word);
    if (verb_ == Verb::kSend) list.send(*peer, here.region->slice(0, 64));
    EXPECT_TRUE(here.worker->post(&list).ok());
  }
  void wait() {
    static_cast<void>(here.worker->wait(list, kLimitMs));
    ASSERT_FALSE(list.pending());
    initiator += outcome_name(list.outcome(0));
  }
  void run() {
    post();
    wait();
  }
  // Runs the network for a while without polling completions.
  void let_pass(uint64_t ns) {
    const uint64_t until = sim->now_ns() + ns;
    for (int i = 0; i < 1000 && sim->now_ns() < until; ++i) static_cast<void>(there.worker->poll());
  }
  // Whether the request had its effect.
  [[nodiscard]] std::string effect() {
    if (verb_ == Verb::kRead) return "unchanged";
    if (verb_ == Verb::kSend) {
      Message message;
      return there.worker->receive(0, &message).ok() ? "done" : "nothing";
    }
    return there.word(0) == kNew ? "done" : "nothing";
  }

  SimNetwork* sim;
  TestNode here, there;
  std::unique_ptr<Peer> peer;
  WorkList list;
  RemoteRegion remote;
  uint64_t offset = 0;
  std::string initiator, target;

 private:
  const Verb verb_;
};

struct Row {
  const char* fault;
  bool sim_only;  // shm cannot have this fault
  std::function<void(Cell&)> run;
};

void run_connected(Cell& cell) {
  cell.offer_buffers();
  ASSERT_TRUE(cell.connect().ok());
  cell.run();
}

void run_without_buffers(Cell& cell) {
  ASSERT_TRUE(cell.connect().ok());
  cell.run();
}

void run_refused(Cell& cell) {
  EXPECT_FALSE(cell.connect().ok());
  std::unique_ptr<Peer> nobody;
  EXPECT_TRUE(cell.there.worker->accept(0, &nobody).IsUnavailable());
}

void cut_and_run(Cell& cell, bool forth, bool back) {
  cell.offer_buffers();
  ASSERT_TRUE(cell.connect().ok());
  if (forth) cell.sim->cut(*cell.here.fabric, *cell.there.fabric);
  if (back) cell.sim->cut(*cell.there.fabric, *cell.here.fabric);
  cell.run();
  EXPECT_FALSE(cell.peer->usable());
}

// Applies the fault after the target carried out the request and before the answer arrives.
void run_without_answer(Cell& cell, const std::function<void()>& fault) {
  cell.offer_buffers();
  ASSERT_TRUE(cell.connect().ok());
  cell.sim->cut(*cell.there.fabric, *cell.here.fabric);
  cell.post();
  cell.let_pass(30'000);
  fault();
  cell.wait();
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"none", false, run_connected},
      {"target killed", true,
       [](Cell& cell) {
         cell.offer_buffers();
         ASSERT_TRUE(cell.connect().ok());
         cell.sim->kill(*cell.there.fabric);
         cell.run();
         cell.target = "dead";
       }},
      {"initiator killed after sending", true,
       [](Cell& cell) {
         run_without_answer(cell, [&] { cell.sim->kill(*cell.here.fabric); });
         cell.initiator = "dead";
       }},
      {"partition, both ways", true, [](Cell& cell) { cut_and_run(cell, true, true); }},
      {"partition, target hears nothing", true, [](Cell& cell) { cut_and_run(cell, true, false); }},
      {"partition, initiator hears nothing", true, [](Cell& cell) { cut_and_run(cell, false, true); }},
      {"no receive buffer (RNR)", false, run_without_buffers},
      {"stale key", false,
       [](Cell& cell) {
         std::unique_ptr<SharedMemory> memory;
         std::unique_ptr<Region> region;
         ASSERT_TRUE(SharedMemory::make(kWords * 8, &memory).ok());
         ASSERT_TRUE(cell.there.fabric->register_region(memory->bytes(), Rights::all(), &region).ok());
         cell.remote = region->remote();
         region.reset();
         run_connected(cell);
       }},
      {"outside the region", false,
       [](Cell& cell) {
         cell.offset = kWords * 8;
         run_connected(cell);
       }},
      {"completion queue overflow", true,
       [](Cell& cell) { run_without_answer(cell, [&] { cell.sim->overflow(*cell.here.fabric); }); }},
      {"late completion", true,
       [](Cell& cell) {
         cell.offer_buffers();
         ASSERT_TRUE(cell.connect().ok());
         cell.post();
         EXPECT_TRUE(cell.here.worker->wait(cell.list, 0).IsUnavailable());
         EXPECT_TRUE(cell.list.pending());
         cell.initiator = "pending, then ";
         cell.wait();
       }},
      {"duplicate connect", false,
       [](Cell& cell) {
         ASSERT_TRUE(cell.connect().ok());
         const std::unique_ptr<Peer> first = std::move(cell.peer);
         run_connected(cell);
         EXPECT_TRUE(first->usable()) << "the older connection is not disturbed";
       }},
      {"wrong version", false,
       [](Cell& cell) {
         ++cell.here.hello.version;
         run_refused(cell);
       }},
      {"wrong credentials", false,
       [](Cell& cell) {
         cell.here.hello.credentials[0] = std::byte{1};
         run_refused(cell);
       }},
  };
  return all;
}

std::string text_of(const Row& row, const std::function<std::unique_ptr<Cell>(Verb)>& make) {
  std::string line = std::string("| ") + row.fault + " |";
  for (const Verb verb : kVerbsOfTable) {
    const std::unique_ptr<Cell> cell = make(verb);
    row.run(*cell);
    if (cell->sim != nullptr) cell->sim->heal();
    if (cell->target.empty()) cell->target = cell->effect();
    line += " " + cell->initiator + " / " + cell->target + " |";
  }
  testing::add_figure("fault_matrix_cells", std::size(kVerbsOfTable));
  return line;
}

std::string table_row(const std::string& fault) {
  std::ifstream page(std::string(BONSAI_SOURCE_DIR) + "/docs/fabric.md");
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| " + fault + " |", 0) == 0) return line;
  }
  return "(no such row)";
}

TEST(FaultMatrix, OnSim) {
  for (const Row& row : rows()) {
    SimNetwork network({.late_chance = 0, .torn_chance = 0, .lost_chance = 0, .ghost_chance = 0});
    const auto make = [&](Verb verb) {
      return std::make_unique<Cell>(&network, network.make_fabric(), network.make_fabric(), verb);
    };
    EXPECT_EQ(text_of(row, make), table_row(row.fault));
  }
}

TEST(FaultMatrix, OnShmWhereTheFaultCanBeMade) {
  for (const Row& row : rows()) {
    if (row.sim_only) continue;
    ShmNetwork network;
    const auto make = [&](Verb verb) {
      return std::make_unique<Cell>(nullptr, network.make_fabric(), network.make_fabric(), verb);
    };
    EXPECT_EQ(text_of(row, make), table_row(row.fault));
  }
}

TEST(FaultMatrix, ATornReadIsDoneAndMixesOldAndNewWords) {
  size_t torn = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimNetwork network({.seed = seed, .late_chance = 0, .torn_chance = 1024, .lost_chance = 0});
    Cell writer(&network, network.make_fabric(), network.make_fabric(), Verb::kWrite);
    TestNode reader(network.make_fabric(), 3);
    std::unique_ptr<Peer> peer;
    ASSERT_TRUE(writer.connect().ok());
    ASSERT_TRUE(reader.worker->connect("target", reader.hello, kLimitMs, &peer).ok());
    writer.post();
    WorkList list;
    list.read(*peer, writer.remote.at(0), reader.region->slice(0, 64));
    ASSERT_TRUE(reader.worker->run(&list, kLimitMs).ok()) << "the request itself is done";
    writer.wait();
    size_t changed = 0;
    for (size_t word = 0; word < 8; ++word) {
      EXPECT_TRUE(reader.word(word) == 0 || reader.word(word) == kNew) << "a word comes whole";
      changed += reader.word(word) == kNew ? 1 : 0;
    }
    torn += changed != 0 && changed != 8 ? 1 : 0;
    EXPECT_EQ(writer.effect(), "done");
    peer.reset();
  }
  EXPECT_GT(torn, 5u) << "readers must verify what they got";
}

}  // namespace
}  // namespace bonsai::rdma
