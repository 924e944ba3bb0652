// SPDX-License-Identifier: Apache-2.0
#include "testing/sim/owner_life.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "base/coro/machine.h"
#include "base/coro/scheduler.h"
#include "testing/client.h"
#include "testing/scratch.h"
#include "testing/sim/final_check.h"
#include "testing/sim/owner_history.h"
#include "testing/sim/store_node.h"

namespace bonsai::testing::sim {
namespace {

using base::Machine;
using base::Random;
using base::Scheduler;
using base::Thread;

constexpr size_t kNodes = 2;  // that want the pool
constexpr uint32_t kClients = 2;
constexpr uint32_t kLanes = kClients + 1;        // of a node: its clients', and that of the process itself
constexpr uint32_t kLastLane = kNodes * kLanes;  // of the last owner
constexpr uint64_t kTargetBytes = 128 << 10;
constexpr uint64_t kSwitchesMax = 40'000'000;
constexpr int64_t kFastPpmMax = 10'000;
constexpr uint64_t kLeaseMs = 750;  // scale/pool_requests.cc
// Three leases, or that of a lost record; the end of the waits that trouble has begun, and recovery.
constexpr uint64_t kServiceMsMax = 3 * kLeaseMs + 2'500;
constexpr uint64_t kOpeningsMax = 200;
constexpr uint64_t kTenuresMax = 200;  // of a life whose owners replace each other without end
constexpr int kReadsAfterFailure = 6;

rdma::SimOptions draw_network(Random& dice) {
  rdma::SimOptions network;
  network.seed = dice.next();
  network.late_chance = static_cast<uint32_t>(dice.below(dice.chance(1, 2) ? 8 : 64));
  network.torn_chance = static_cast<uint32_t>(dice.below(1'024));
  network.lost_chance = static_cast<uint32_t>(dice.below(dice.chance(1, 2) ? 4 : 32));
  network.ghost_chance = 512;
  network.remote_flush = dice.chance(1, 3);
  return network;
}

class OwnerLife {
 public:
  OwnerLife(uint64_t seed, Scheduler* scheduler)
      : seed_(seed), dice_(seed), scheduler_(*scheduler), network_(draw_network(dice_)) {
    const std::string folder = std::filesystem::path(scratch_.file("pool")).parent_path();
    for (uint32_t i = 0; i < 1 + dice_.below(2); ++i) {
      node_machines_.push_back(make_machine());
      nodes_.push_back(std::make_unique<MemoryNode>(&network_, "node." + std::to_string(i), folder, 1'000 + i,
                                                    /*fence_blocks=*/false, node_machines_.back().get()));
      targets_.push_back({nullptr, nodes_.back().get()});
    }
    for (Computer& each : computers_) each.machine = make_machine();
    checks_lease_ = dice_.chance(1, 4);
    limit_ms_ = dice_.chance(1, 2) ? 500 + dice_.below(1'000) : 3'000;
    options_.create_if_missing = true;
    options_.pool_bytes = kTargetBytes;
    options_.log_bytes = kTargetBytes / 4;
    options_.background_threads = static_cast<uint32_t>(dice_.below(2));
    options_.recovery_threads = 1;
    options_.stall_ms_max = 60;
    options_.fabric_wait_ms_max = static_cast<uint32_t>(limit_ms_);
    clients_.clients = kLastLane + 1;
    clients_.keys = 4 * (clients_.clients + 1);
    clients_.value_bytes_max = 600;
    clients_.batch_count_max = 4;
    clients_.span_max = 16;
    clients_.tide = 25;
    clients_.may_be_full = clients_.may_be_unavailable = true;
    clients_.mix.scan = clients_.mix.snapshot = clients_.mix.iterator = clients_.mix.multi_get = 2;
    clients_.mix.drain = 1;
    recorder_ = Recorder::in_memory({.lanes = clients_.clients, .operations_max = 1 << 12, .cells_max = 1 << 15});
  }

  void run() {
    const uint64_t begin_ns = Scheduler::world_ns();
    for (auto& node : nodes_) node->start();
    if (create()) {
      for (size_t i = 0; i < kNodes; ++i) {
        computers_[i].process = Thread("computer", [this, i] {
          computers_[i].machine->enter();
          compute(i);
        });
      }
      for (uint64_t n = 2 + dice_.below(6); n > 0 && !failed(); --n) {
        base::sleep_us(dice_.below(uint64_t{1} << (10 + dice_.below(11))));
        make_trouble();
      }
      end_trouble();
      await_service();
      over_ = true;
      for (Computer& each : computers_) each.process.join();
      if (!failed()) judge();
    }
    for (auto& node : nodes_) node->stop();
    outcome_.deeds.virtual_ms = (Scheduler::world_ns() - begin_ns) / base::kNsPerMs;
    outcome_.deeds.tenures = tenures_.size();
  }

  [[nodiscard]] OwnerOutcome outcome() const {
    OwnerOutcome outcome = outcome_;
    outcome.trace = base::splitmix64(trace_ ^ network_.trace()) ^ scheduler_.switches();
    return outcome;
  }

 private:
  // A compute node. Its process runs as long as the life; each of its stores stands for one process of the product.
  struct Computer {
    std::unique_ptr<Machine> machine;
    Thread process;
    StoreNode* store = nullptr;  // the one that is open or being opened
    size_t tenure = SIZE_MAX;    // of that store; none: it is being opened
    bool leaves = false;         // it has been asked to give the pool back
  };

  std::unique_ptr<Machine> make_machine() {
    const auto fast = static_cast<int64_t>(dice_.below(2 * kFastPpmMax + 1)) - kFastPpmMax;
    return std::make_unique<Machine>(&scheduler_, fast);
  }
  [[nodiscard]] bool failed() const { return !outcome_.violation.empty(); }
  void violation(const std::string& what) {
    if (outcome_.violation.empty()) outcome_.violation = story_ + ": " + what;
  }
  void note_down(const std::string& what) {
    const uint64_t now_ms = Scheduler::world_ns() / base::kNsPerMs;
    story_ += (story_.empty() ? "" : ", ") + std::to_string(now_ms) + " " + what;
    trace_ = base::splitmix64(trace_ ^ base::splitmix64(Scheduler::world_ns()));
  }
  StoreNode* make_store() {
    stores_.push_back(std::make_unique<StoreNode>(&network_, targets_, limit_ms_, checks_lease_));
    return stores_.back().get();
  }

  bool create() {
    StoreNode* const store = make_store();
    Status status;
    for (uint64_t i = 0; i < kOpeningsMax; ++i) {
      status = store->open(options_, true);
      if (status.ok()) break;
      base::sleep_ms(20);
    }
    const Status closed = store->close();
    if (status.ok()) return true;
    if (!status.IsUnavailable()) violation("creation: " + status.ToString() + ", " + closed.ToString());
    return false;
  }

  // ---- a compute node

  void compute(size_t number) {
    Computer& mine = computers_[number];
    while (!over_ && !failed() && tenures_.size() < kTenuresMax) {
      StoreNode* const store = make_store();
      mine.store = store;
      mine.leaves = false;
      const Status status = store->open(options_, false);
      if (status.ok() && store->has_power()) {
        hold(number, store);
      } else if (status.IsCorruption() && store->has_power()) {
        violation("opening: " + status.ToString());
      }
      mine.tenure = SIZE_MAX;
      mine.store = nullptr;
      note_down(name_of_computer(number) + " closes: " + store->close().ToString());
      // An owner that has been asked to leave lets the other one have the pool.
      base::sleep_ms((mine.leaves ? 300 : 5) + dice_.below(50));
    }
  }

  static std::string name_of_computer(size_t number) { return number == 0 ? "A" : "B"; }

  void hold(size_t number, StoreNode* store) {
    Computer& mine = computers_[number];
    const auto lane_first = static_cast<uint32_t>(number * kLanes);
    note_down(name_of_computer(number) + " opened");
    mine.tenure = tenures_.size();
    tenures_.push_back({lane_first, kLanes, recorder_->tick(), kOpen});
    ClientOptions options = clients_;
    options.generation = tenures_.size();
    if (!scan(store, lane_first + kClients)) return;
    std::vector<Thread> threads;
    std::vector<std::unique_ptr<Client>> clients;
    for (uint32_t i = 0; i < kClients; ++i) {
      const uint32_t lane = lane_first + i;
      clients.push_back(std::make_unique<Client>(store->db(), options, lane, dice_.next(), recorder_.get()));
      threads.emplace_back("client", [this, &mine, store, client = clients.back().get()] {
        work(mine, store, client);
        mine.leaves = true;
      });
    }
    // After trouble somebody must be served; each owner tries.
    for (uint64_t n = 1; holds(mine, *store); ++n) {
      base::sleep_ms(10);
      if (calm_ns_ != 0 && served_ns_ == 0 && !put(store, options, lane_first + kClients, n)) mine.leaves = true;
    }
    threads.clear();
    for (const auto& client : clients) {
      if (store->has_power() && !client->error().empty()) violation("a client: " + client->error());
    }
  }

  [[nodiscard]] bool holds(const Computer& computer, const StoreNode& store) const {
    return !over_ && !failed() && !computer.leaves && store.has_power();
  }

  void work(const Computer& mine, const StoreNode* store, Client* client) {
    int reads = 0;
    while (holds(mine, *store) && client->step()) {
      reads += client->only_reads() ? 1 : 0;
      if (reads > kReadsAfterFailure || client->unread() > kReadsAfterFailure) break;
      base::sleep_us(dice_.below(uint64_t{1} << (4 + dice_.below(12))));
    }
  }

  bool put(StoreNode* store, const ClientOptions& options, uint32_t lane_number, uint64_t n) {
    Recorder::Lane lane = recorder_->lane(lane_number);
    const Cell cell{lane_number, ((options.generation << 8 | lane_number) << 40) + n};
    const uint64_t operation = lane.begin_update(OpKind::kPut, cell);
    const Status status = store->db()->Put(codec_.key_of(cell.key), encode_value(cell.value, kValueBytesMin));
    if (status.IsNoSpace()) lane.withdraw_update(operation);
    if (status.ok()) lane.end_update(operation);
    if (!status.ok() && !status.IsNoSpace()) return false;
    if (calm_ns_ != 0 && served_ns_ == 0 && store->has_power()) served_ns_ = Scheduler::world_ns();
    return true;
  }

  // The owner's first read: of all keys. False: it is unavailable.
  bool scan(StoreNode* store, uint32_t lane_number) {
    std::vector<Cell> cells(clients_.keys);
    for (uint64_t key = 0; key < cells.size(); ++key) cells[key] = {key, kAbsent};
    bool known = true;
    Recorder::Lane lane = recorder_->lane(lane_number);
    const uint64_t invoke = lane.begin_read();
    const Status status = store->db()->Scan(ScanOptions(), {}, [&](std::string_view key, std::string_view value) {
      const auto number = codec_.number_of(key);
      known = known && number && *number < cells.size();
      if (known) cells[*number].value = decode_value(value);
      return known;
    });
    if (!known) violation("a key that nobody wrote");
    if (status.ok()) {
      lane.end_read(OpKind::kScan, invoke, cells);
    } else if (!status.IsUnavailable() && store->has_power()) {
      violation("scan after opening: " + status.ToString());
    }
    return status.ok();
  }

  // ---- trouble

  // How long it lasts: mostly less than a lease, and now and then longer than any wait.
  uint64_t some_ms() { return dice_.below(uint64_t{1} << (4 + dice_.below(9))); }

  // The compute node that has the pool, as far as one can see; or any.
  size_t some_computer() {
    size_t newest = dice_.below(kNodes);
    if (dice_.chance(1, 4)) return newest;
    for (size_t i = 0; i < kNodes; ++i) {
      const size_t tenure = computers_[i].tenure, best = computers_[newest].tenure;
      if (tenure != SIZE_MAX && (best == SIZE_MAX || tenure > best)) newest = i;
    }
    return newest;
  }

  void make_trouble() {
    const size_t number = some_computer();
    Computer& computer = computers_[number];
    MemoryNode& node = *nodes_[dice_.below(nodes_.size())];
    const std::string who = name_of_computer(number);
    switch (dice_.below(14)) {
      case 0:
      case 1:
        return stop_owner(&computer, who);
      case 2:
      case 3:
      case 4:
        return stop_owner_and_restart_node(&computer, who, &node);
      case 5:
      case 6:
        return end_owner(&computer, who);
      case 7:
        computer.leaves = true;
        return note_down(who + " is asked to leave");
      case 8:
        return stop_node(node);
      case 9:
      case 10:
        end_node(&node);
        base::sleep_ms(some_ms());
        return start_node(&node);
      case 11:
      case 12:
        return cut(computer, who, node);
      default:
        note_down("connections of " + who + " broke");
        if (computer.store != nullptr) network_.overflow(computer.store->fabric());
    }
  }

  void halt(Computer* computer, const std::string& who) {
    if (checks_lease_ && dice_.chance(1, 2)) {
      ++outcome_.deeds.pauses;
      note_down(who + " is paused");
      return computer->machine->pause();
    }
    const bool suspends = dice_.chance(1, 3);
    ++(suspends ? outcome_.deeds.suspends : outcome_.deeds.stops);
    note_down(who + (suspends ? " is suspended" : " is stopped"));
    suspends ? computer->machine->suspend() : computer->machine->stop();
  }

  void go_on(Computer* computer, const std::string& who) {
    if (computer->machine->is_stopped()) note_down(who + " goes on");
    computer->machine->go_on();
  }

  void stop_owner(Computer* computer, const std::string& who) {
    halt(computer, who);
    if (dice_.chance(1, 8)) return;  // until another trouble ends it, or all trouble
    base::sleep_ms(some_ms());
    if (dice_.chance(1, 4)) end_owner(computer, who);
    go_on(computer, who);
  }

  // So another owner takes the pool while the first one is stopped.
  void stop_owner_and_restart_node(Computer* computer, const std::string& who, MemoryNode* node) {
    halt(computer, who);
    if (dice_.chance(1, 2)) {
      end_node(node);
      if (dice_.chance(1, 2)) base::sleep_ms(some_ms());
      start_node(node);
    } else {
      cut(*computer, who, *node);
    }
    base::sleep_ms(dice_.below(2'500));
    if (dice_.chance(1, 3)) {  // and the node forgets all that it has not written down
      end_node(node);
      start_node(node);
    }
    go_on(computer, who);
    base::sleep_ms(dice_.below(20));
  }

  void end_owner(Computer* computer, const std::string& who) {
    StoreNode* const store = computer->store;
    if (store == nullptr || !store->has_power()) return;
    if (computer->tenure != SIZE_MAX) tenures_[computer->tenure].end = recorder_->tick();
    if (dice_.chance(1, 2)) {
      note_down(who + " is killed");
      ++outcome_.deeds.kills;
      store->kill_process();
    } else {
      note_down(who + " loses power");
      ++outcome_.deeds.power_cuts;
      store->lose_power();
    }
    go_on(computer, who);
  }

  [[nodiscard]] Machine& machine_of(const MemoryNode& node) {
    const auto at = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& each) { return each.get() == &node; });
    return *node_machines_[static_cast<size_t>(at - nodes_.begin())];
  }

  void stop_node(const MemoryNode& node) {
    note_down(node.address() + " is stopped");
    ++outcome_.deeds.node_stops;
    dice_.chance(1, 4) ? machine_of(node).suspend() : machine_of(node).stop();
    base::sleep_ms(some_ms());
    note_down(node.address() + " goes on");
    machine_of(node).go_on();
  }

  void end_node(MemoryNode* node) {
    if (!node->has_power()) return;
    if (dice_.chance(1, 3)) {
      note_down(node->address() + " loses power");
      ++outcome_.deeds.node_power_cuts;
      node->power_cut();
    } else {
      note_down(node->address() + " is killed");
      ++outcome_.deeds.node_kills;
      node->kill_process();
    }
    machine_of(*node).go_on();
  }

  void start_node(MemoryNode* node) {
    if (node->has_power()) return;
    node->stop();
    if (dice_.chance(1, 8)) {
      note_down("the owner's record on " + node->address() + " is lost");
      ++outcome_.deeds.records_lost;
      for (size_t i = 0; i < targets_.size(); ++i) {
        if (targets_[i].remote == node) node->lose_record(pool_name(i));
      }
    }
    note_down(node->address() + " starts");
    node->start();
  }

  void cut(const Computer& computer, const std::string& who, const MemoryNode& node) {
    if (computer.store == nullptr) return;
    ++outcome_.deeds.cuts;
    note_down(who + " is cut from " + node.address());
    const uint64_t ways = dice_.below(3);
    if (ways != 1) network_.cut(computer.store->fabric(), node.fabric());
    if (ways != 0) network_.cut(node.fabric(), computer.store->fabric());
    base::sleep_ms(some_ms());
    note_down("networks heal");
    network_.heal();
  }

  void end_trouble() {
    network_.heal();
    for (auto& machine : node_machines_) machine->go_on();
    for (auto& node : nodes_) start_node(node.get());
    for (size_t i = 0; i < kNodes; ++i) go_on(&computers_[i], name_of_computer(i));
    note_down("trouble ends");
    calm_ns_ = Scheduler::world_ns();
  }

  void await_service() {
    for (uint64_t ms = 0; served_ns_ == 0 && !failed() && ms < 4 * kServiceMsMax; ++ms) base::sleep_ms(1);
    if (failed()) return;
    if (served_ns_ == 0) return violation("no service");
    const uint64_t ms = (served_ns_ - calm_ns_) / base::kNsPerMs;
    outcome_.deeds.service_ms_max = ms;
    note_down("served");
    if (ms > kServiceMsMax + limit_ms_) violation("service came back after " + std::to_string(ms) + " ms only");
  }

  // ---- the end

  void judge() {
    StoreNode* const store = make_store();
    Status status;
    for (uint64_t i = 0; i < kOpeningsMax && !failed(); ++i) {
      status = store->open(options_, false);
      if (status.ok() || status.IsCorruption()) break;
      base::sleep_ms(20);
    }
    if (!status.ok()) return violation("the last opening: " + status.ToString());
    tenures_.push_back({kLastLane, 1, recorder_->tick(), kOpen});
    if (!scan(store, kLastLane)) violation("the last owner cannot read");
    const Status closed = store->close();
    const History history = recorder_->history();
    const OwnersVerdict verdict = judge_owners(history, tenures_);
    if (!verdict.violation.empty()) violation(verdict.violation);
    outcome_.old_answers = verdict.old_answers;
    if (verdict.old_answers != 0) outcome_.old_answer = story_ + ": " + verdict.old_answer;
    outcome_.deeds.answers = verdict.answers;
    outcome_.deeds.outlived = verdict.outlived;
    for (const Operation& each : history.operations) trace_ = base::splitmix64(trace_ ^ each.invoke ^ each.ret << 1);
    for (const Cell& cell : history.cells) trace_ = base::splitmix64(trace_ ^ cell.value);
    if (closed.ok() && !failed()) check();
  }

  // All power is cut, and the pool is examined.
  void check() {
    for (auto& node : nodes_) node->power_cut();
    const auto image = [this](size_t i) { return targets_[i].remote->pool(pool_name(i)); };
    if (const std::string wrong = check_images(scratch_, targets_.size(), image); !wrong.empty()) violation(wrong);
  }

  const uint64_t seed_;
  Random dice_;
  Scheduler& scheduler_;
  const KeyCodec codec_{KeyFormat::kBytes};
  ScratchFolder scratch_;
  rdma::SimNetwork network_;
  std::vector<std::unique_ptr<Machine>> node_machines_;  // by memory node
  std::vector<std::unique_ptr<MemoryNode>> nodes_;
  std::vector<Target> targets_;
  bool checks_lease_ = false;
  uint64_t limit_ms_ = 0;  // the owners' fabric_wait_ms_max
  Options options_;
  ClientOptions clients_;
  std::unique_ptr<Recorder> recorder_;
  std::vector<std::unique_ptr<StoreNode>> stores_;  // of the whole life
  std::array<Computer, kNodes> computers_;
  std::vector<Tenure> tenures_;
  bool over_ = false;
  uint64_t calm_ns_ = 0, served_ns_ = 0;  // trouble had ended; an update was answered since
  uint64_t trace_ = 0;
  std::string story_;
  OwnerOutcome outcome_;
};

}  // namespace

void OwnerDeeds::add(const OwnerDeeds& other) {
  answers += other.answers;
  tenures += other.tenures;
  outlived += other.outlived;
  stops += other.stops;
  suspends += other.suspends;
  pauses += other.pauses;
  kills += other.kills;
  power_cuts += other.power_cuts;
  node_stops += other.node_stops;
  node_kills += other.node_kills;
  node_power_cuts += other.node_power_cuts;
  records_lost += other.records_lost;
  cuts += other.cuts;
  service_ms_max = std::max(service_ms_max, other.service_ms_max);
  virtual_ms += other.virtual_ms;
}

OwnerOutcome live_with_owners(uint64_t seed) {
  Scheduler::Options options;
  options.pick = Scheduler::Pick::kSeeded;
  options.seed = base::splitmix64(seed);
  options.stay_per_256 = std::array<uint32_t, 3>{0, 160, 235}[seed % 3];
  options.stack_bytes = size_t{256} << 10;
  options.switches_max = kSwitchesMax;
  Scheduler scheduler(options);
  OwnerLife life(seed, &scheduler);
  scheduler.spawn([&life] { life.run(); }, "life");
  if (const Status status = scheduler.run(); !status.ok()) {
    std::fprintf(stderr, "BONSAI_SEED=%llu: a life does not end: %s\n", static_cast<unsigned long long>(seed),
                 status.ToString().c_str());
    std::abort();
  }
  return life.outcome();
}

}  // namespace bonsai::testing::sim
