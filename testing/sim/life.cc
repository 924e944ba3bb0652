// SPDX-License-Identifier: Apache-2.0
#include "testing/sim/life.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/probe.h"
#include "base/units.h"
#include "scale/remote_link.h"
#include "scale/target_name.h"
#include "testing/client.h"
#include "testing/crash_check.h"
#include "testing/scratch.h"
#include "testing/sim/final_check.h"
#include "testing/sim/store_node.h"

namespace bonsai::testing::sim {
namespace {

using base::Random;
using base::Scheduler;
using base::Thread;

base::Probe local_only{"world.local_targets_only"};
base::Probe remote_only{"world.remote_targets_only"};
base::Probe mixed{"world.local_and_remote_targets"};
base::Probe buffered{"world.mode_buffered"};
base::Probe power_cut_open{"world.power_cut_amid_work"};
base::Probe power_cut_at_fence{"world.power_cut_before_a_local_fence"};
base::Probe power_cut_opening{"world.power_cut_amid_opening"};
base::Probe opened_beside_zombie{"world.opened_while_the_old_store_still_ran"};
base::Probe opening_refused{"world.opening_refused"};
base::Probe cut_there{"world.cut_towards_memory_node"};
base::Probe cut_back{"world.cut_from_memory_node"};
base::Probe cut_both{"world.cut_both_ways"};
base::Probe healed_amid{"world.healed_amid_work"};
base::Probe overflow{"world.connections_broke"};
base::Probe unknown_outcome{"world.update_of_unknown_outcome"};
base::Probe unread{"world.read_unavailable"};
base::Probe unread_opening{"world.read_unavailable_after_opening"};
base::Probe read_on{"world.read_after_failure"};
base::Probe failed_close{"world.close_of_a_failed_store"};
base::Probe clean_close{"world.clean_close"};
base::Probe with_roles{"world.log_and_dnodes_on_different_targets"};
base::Probe striped{"world.striped"};
base::Probe rival_refused{"world.rival_of_a_living_owner_refused"};
base::Probe both_lose{"world.compute_and_memory_node_lose_power"};

constexpr uint64_t kTargetBytes = 128 << 10;
constexpr uint64_t kSwitchesMax = 20'000'000;
constexpr int kOpeningsMax = 60;
constexpr int kOpeningsTroubledMax = 2;
constexpr uint64_t kReopenMs = 20;
constexpr int kReadsAfterFailure = 12;

// The decisions that a seed makes before a life begins.
struct Plan {
  explicit Plan(Random& dice) {
    const uint64_t kind = dice.below(8);
    local = kind < 2 ? 1 + dice.below(2) : kind < 5 ? 0 : 1;
    remote = kind < 2 ? 0 : 1 + dice.below(2);
    memory_nodes = 1 + dice.below(2);
    clients = static_cast<uint32_t>(1 + dice.below(3));
    operations = static_cast<int>(8 + dice.below(dice.chance(1, 4) ? 120 : 40));
    sittings = static_cast<int>(1 + dice.below(3));
    // Half of the troubles are over sooner than that, or all.
    limit_ms = dice.chance(1, 2) ? 5 + dice.below(20) : 300;
    domain = dice.chance(1, 4) ? PersistenceDomain::kEadr : PersistenceDomain::kAdr;
    stay_per_256 = std::array<uint32_t, 3>{0, 160, 235}[dice.below(3)];
    options.create_if_missing = true;
    options.pool_bytes = kTargetBytes;
    options.log_bytes = kTargetBytes / 4;
    options.background_threads = static_cast<uint32_t>(dice.below(3));
    options.recovery_threads = static_cast<uint32_t>(1 + dice.below(2));
    options.stall_ms_max = 60;
    options.durability = dice.chance(1, 4) ? Durability::kBuffered : Durability::kDurable;
    options.buffered_window_ms = 1 + dice.below(4);
    network.seed = dice.next();
    network.late_chance = static_cast<uint32_t>(dice.below(dice.chance(1, 2) ? 8 : 128));
    network.torn_chance = static_cast<uint32_t>(dice.below(1024));
    network.lost_chance = static_cast<uint32_t>(dice.below(dice.chance(1, 2) ? 4 : 64));
    network.error_chance = dice.chance(1, 8) ? 1 : 0;
    network.ghost_chance = 512;
    network.remote_flush = dice.chance(1, 3);
  }

  size_t local, remote, memory_nodes;
  uint32_t clients;
  int operations;
  int sittings;
  uint64_t limit_ms;
  PersistenceDomain domain;
  uint32_t stay_per_256;
  Options options;
  rdma::SimOptions network;
};

class Life {
 public:
  explicit Life(uint64_t seed) : seed_(seed), dice_(seed), plan_(dice_), network_(plan_.network) {
    for (size_t i = 0; i < plan_.local; ++i) nvms_.push_back(std::make_unique<NodeNvm>(kTargetBytes, plan_.domain));
    const std::string folder = std::filesystem::path(scratch_.file("pool")).parent_path();
    for (uint32_t i = 0; i < (plan_.remote == 0 ? 0 : plan_.memory_nodes); ++i) {
      const bool fence_blocks = (plan_.network.seed + i) % 2 == 0;
      nodes_.push_back(
          std::make_unique<MemoryNode>(&network_, "node." + std::to_string(i), folder, 1'000 + i, fence_blocks));
    }
    size_t local = 0, remote = 0;
    while (local < plan_.local || remote < plan_.remote) {
      const bool next_local = remote == plan_.remote || (local < plan_.local && dice_.chance(1, 2));
      targets_.push_back(next_local ? Target{nvms_[local].get(), nullptr}
                                    : Target{nullptr, nodes_[remote % nodes_.size()].get()});
      ++(next_local ? local : remote);
    }
    for (const Target& target : targets_) {
      note_down(target.local != nullptr ? "local target" : "target on " + target.remote->address());
    }
    if (Random layout(~seed); plan_.remote > 1 && layout.chance(1, 2)) {
      stripe(layout);
    } else if (targets_.size() > 1 && dice_.chance(1, 2)) {
      draw_roles();
    }
    note_down(is_buffered() ? "buffered" : "durable");
    (plan_.remote == 0 ? local_only : plan_.local == 0 ? remote_only : mixed).hit();
    if (is_buffered()) buffered.hit();
    clients_.clients = plan_.clients;
    clients_.keys = 9 * (plan_.clients + 1);
    clients_.value_bytes_max = 1'150;
    clients_.batch_count_max = 6;
    clients_.span_max = 16;
    clients_.tide = 25;
    clients_.may_be_full = clients_.may_be_unavailable = true;
    clients_.mix.scan = clients_.mix.snapshot = clients_.mix.iterator = clients_.mix.multi_get = 1;
    clients_.mix.drain = 1;
    clients_.mix.sync = is_buffered() ? 3 : 0;
    for (uint64_t key = 0; key < clients_.keys; ++key) initial_.push_back({key, kAbsent});
  }

  Outcome run() {
    Scheduler::Options options;
    options.pick = Scheduler::Pick::kSeeded;
    options.seed = dice_.next();
    options.stay_per_256 = plan_.stay_per_256;
    options.stack_bytes = size_t{256} << 10;
    options.switches_max = kSwitchesMax;
    Scheduler scheduler(options);
    scheduler.spawn([this] { pass(); }, "life");
    if (const Status status = scheduler.run(); !status.ok()) {
      std::fprintf(stderr, "BONSAI_SEED=%llu: a life does not end: %s\n", static_cast<unsigned long long>(seed_),
                   status.ToString().c_str());
      std::abort();
    }
    return {violation_, base::splitmix64(trace_ ^ network_.trace()) ^ scheduler.switches(), deeds_};
  }

 private:
  [[nodiscard]] bool is_buffered() const { return plan_.options.durability == Durability::kBuffered; }
  [[nodiscard]] bool failed() const { return !violation_.empty(); }
  void violation(const std::string& what) {
    if (violation_.empty()) violation_ = story_ + ": " + what;
  }
  // Dnodes over the remote targets, and the log on the local one if there is one.
  void stripe(Random& dice) {
    plan_.options.layout = LayoutChoice::kSoftware;
    plan_.options.stripe_unit_bytes = base::kPageBytes << dice.below(3);
    for (const Target& target : targets_) {
      roles_.push_back(target.local != nullptr ? scale::TargetRole::kLog : scale::TargetRole::kUnsaid);
    }
    striped.hit();
    note_down("striped in units of " + std::to_string(plan_.options.stripe_unit_bytes));
  }
  // One target for the log alone, another one for dnodes alone, or both; the remaining targets are for both.
  void draw_roles() {
    roles_.assign(targets_.size(), scale::TargetRole::kUnsaid);
    const size_t log = dice_.below(targets_.size());
    const uint64_t which = dice_.below(3);
    if (which != 0) roles_[log] = scale::TargetRole::kLog;
    if (which != 1) roles_[(log + 1) % targets_.size()] = scale::TargetRole::kDnodes;
    with_roles.hit();
    for (size_t i = 0; i < roles_.size(); ++i) {
      if (roles_[i] == scale::TargetRole::kUnsaid) continue;
      note_down("target " + std::to_string(i) + " for " + std::string(scale::role_text(roles_[i])));
    }
  }
  // The events so far, in a few words.
  void note_down(const std::string& what) { story_ += (story_.empty() ? "" : ", ") + what; }
  void note(uint64_t what) { trace_ = base::splitmix64(trace_ ^ base::splitmix64(what ^ base::now_ns())); }

  // ---- the whole

  void pass() {
    const uint64_t begin_ns = base::now_ns();
    for (auto& node : nodes_) node->start();
    open_first();
    for (int i = 0; i < plan_.sittings && !failed(); ++i) {
      sit();
      if (!failed()) open_again();
    }
    if (!failed()) end();
    if (store_ != nullptr) static_cast<void>(store_->close());
    zombie_.join();
    for (auto& node : nodes_) node->stop();
    deeds_.virtual_ms = (base::now_ns() - begin_ns) / base::kNsPerMs;
  }

  void open_first() {
    make_store();
    // Packets are lost, and with them perhaps a whole creation.
    Status status;
    for (int i = 0; i < kOpeningsMax; ++i) {
      status = store_->open(plan_.options, true, roles_);
      if (status.ok() || plan_.remote != 0) break;
    }
    if (status.ok()) return;
    if (!status.IsUnavailable()) violation("creation: " + status.ToString());
    plan_.sittings = 0;
    store_ = nullptr;
    stillborn_ = true;
  }

  void make_store() {
    stores_.push_back(std::make_unique<StoreNode>(&network_, targets_, plan_.limit_ms));
    store_ = stores_.back().get();
    is_disturbed_ = plan_.network.error_chance != 0;
  }

  // ---- a sitting

  void sit() {
    recorder_ = Recorder::in_memory({.lanes = plan_.clients, .operations_max = 1 << 10, .cells_max = 1 << 13});
    working_.clear();
    over_ = false;
    ++clients_.generation;
    StoreNode* const store = store_;
    Thread trouble("trouble", [this] { make_trouble(); });
    {
      std::vector<Thread> threads;
      for (uint32_t i = 0; i < plan_.clients; ++i) {
        working_.push_back(std::make_unique<Client>(store->db(), clients_, i, dice_.next(), recorder_.get()));
        threads.emplace_back("client", [this, store, client = working_.back().get()] { work(store, client); });
      }
    }
    over_ = true;
    trouble.join();
    for (auto& nvm : nvms_) nvm->before_fence(0, nullptr);
    deeds_.offloads += store->db()->GetStats().offloads;
    for (const auto& client : working_) {
      if (client->only_reads()) unknown_outcome.hit();
      deeds_.unknown += client->only_reads() ? 1 : 0;
      if (store->has_power() && !client->error().empty()) violation("a client: " + client->error());
    }
    if (!store->has_power()) return leave(store);
    remember();
    end_sitting(store);
  }

  void work(StoreNode* store, Client* client) {
    int reads = 0;
    for (int n = 0; n < plan_.operations && store->has_power() && client->step(); ++n) {
      ++deeds_.operations;
      note((client->only_reads() ? 1 : 0) + 2 * client->unread());
      if (client->only_reads() && ++reads == 1) read_on.hit();
      if (client->unread() != 0 && !is_disturbed_ && store->has_power()) {
        violation("a read was unavailable, and no trouble explains it");
      }
      if (reads > kReadsAfterFailure || client->unread() > kReadsAfterFailure) break;
    }
    if (client->unread() == 0 || !store->has_power()) return;
    unread.hit();
    deeds_.unread += client->unread();
  }

  // The process ends.
  void end_sitting(StoreNode* store) {
    const Status status = store->close();
    note_down("closed: " + status.ToString());
    (status.ok() ? clean_close : failed_close).hit();
    ++deeds_.closes;
    case_durability_ = status.ok() ? Durability::kDurable : plan_.options.durability;
  }

  // The next opening is judged by the clients' history until now.
  void remember() {
    history_ = recorder_->history();
    synced_at_ = 0;
    for (const auto& client : working_) synced_at_ = std::max(synced_at_, client->synced_at());
    case_durability_ = plan_.options.durability;
  }

  // A store whose node has lost power ends on its own, perhaps while its successor runs.
  void leave(StoreNode* store) {
    zombie_.join();
    zombie_ = Thread("zombie", [store] { static_cast<void>(store->close()); });
    if (dice_.chance(1, 2)) {
      zombie_.join();
    } else {
      opened_beside_zombie.hit();
    }
  }

  // ---- trouble

  // Mostly soon, and now and then later than anything else takes.
  void wait_a_little() { base::sleep_us(dice_.below(uint64_t{1} << dice_.below(13))); }

  void make_trouble() {
    for (uint64_t n = dice_.below(4); n > 0 && !over_ && store_->has_power(); --n) {
      wait_a_little();
      if (!over_ && store_->has_power()) make_one_trouble(store_);
    }
  }

  void make_one_trouble(StoreNode* store) {
    MemoryNode* const node = nodes_.empty() ? nullptr : nodes_[dice_.below(nodes_.size())].get();
    const uint64_t which = dice_.below(node == nullptr ? 3 : 12);
    if (which < 2) {
      if (nvms_.empty() || dice_.chance(1, 3)) return cut_power(store, node);
      return nvms_[dice_.below(nvms_.size())]->before_fence(1 + dice_.below(64), [this, store, node] {
        if (over_ || !store->has_power()) return;
        power_cut_at_fence.hit();
        cut_power(store, node);
      });
    }
    if (which == 2) {
      if (nvms_.empty() || !dice_.chance(1, 3)) return;
      note_down("a fence will fail");
      NodeNvm& nvm = *nvms_[dice_.below(nvms_.size())];
      if (dice_.chance(1, 2)) return nvm.fail_fence_at("dnode.header.fence");  // few fences are a commit's
      return nvm.fail_fence(1 + dice_.below(40));
    }
    if (which < 5) {
      if (!node->has_power()) return;
      note_down("power cut of " + node->address());
      is_disturbed_ = true;
      ++deeds_.memory_power_cuts;
      node->power_cut();
      if (dice_.chance(1, 2)) {
        wait_a_little();
        node->stop();
        node->start();
      }
      return;
    }
    if (which == 5) return node->be_slow_until(base::now_ns() + (base::kNsPerUs << dice_.below(16)));
    if (which == 6) {
      note_down("connections broke");
      is_disturbed_ = true;
      overflow.hit();
      return network_.overflow(store->fabric());
    }
    if (which < 9) return send_rival(*store);
    cut(*store, *node);
  }

  // Another process wants a pool whose owner lives, and does not get it.
  void send_rival(const StoreNode& store) {
    size_t index = dice_.below(targets_.size());
    while (targets_[index].remote == nullptr) index = (index + 1) % targets_.size();
    std::unique_ptr<scale::RemoteLink> link;
    size_t number = 0;
    Status status = scale::RemoteLink::make(network_.make_fabric(), {.limit_ms = plan_.limit_ms}, &link);
    if (status.ok()) {
      status = link->open(name_of(*targets_[index].remote, index), scale::PoolOp::kOpen, 0, 0, &number);
    }
    if (status.IsBusy()) rival_refused.hit();
    if (status.ok() && store.has_power() && !over_ && !is_disturbed_) violation("a rival got a pool that has an owner");
  }

  void cut_power(StoreNode* store, MemoryNode* node) {
    remember();
    note_down("power cut");
    power_cut_open.hit();
    ++deeds_.power_cuts;
    if (node != nullptr && node->has_power() && dice_.chance(1, 8)) {
      both_lose.hit();
      node->power_cut();
    }
    store->power_cut(dice_);
  }

  void cut(const StoreNode& store, const MemoryNode& node) {
    ++deeds_.cuts;
    note_down("cut");
    is_disturbed_ = true;
    const uint64_t ways = dice_.below(3);
    (ways == 0 ? cut_there : ways == 1 ? cut_back : cut_both).hit();
    if (ways != 1) network_.cut(store.fabric(), node.fabric());
    if (ways != 0) network_.cut(node.fabric(), store.fabric());
    if (dice_.chance(1, 2)) return;
    wait_a_little();
    note_down("healed");
    healed_amid.hit();
    network_.heal();
  }

  void end_trouble() {
    network_.heal();
    for (auto& node : nodes_) {
      if (node->has_power()) continue;
      node->stop();
      node->start();
    }
  }

  // ---- opening again, and judging

  void open_again() {
    Status status;
    for (int i = 0; i < kOpeningsMax && !failed(); ++i) {
      if (i >= kOpeningsTroubledMax || dice_.chance(1, 2)) end_trouble();
      make_store();
      status = open_troubled(i < kOpeningsTroubledMax && dice_.chance(1, 4));
      note_down("opened: " + status.ToString());
      if (status.ok() && store_->has_power()) {
        ++deeds_.openings;
        if (judge()) return;
      }
      ++deeds_.refused_openings;
      opening_refused.hit();
      if (status.IsCorruption() && store_->has_power()) return violation("opening: " + status.ToString());
      leave(store_);
      base::sleep_ms(kReopenMs);
    }
    violation("the store does not open: " + status.ToString());
  }

  Status open_troubled(bool troubled) {
    bool opening = true;
    Thread trouble;
    if (troubled) {
      trouble = Thread("trouble", [this, store = store_, &opening] {
        wait_a_little();
        if (!opening) return;
        note_down("power cut amid opening");
        power_cut_opening.hit();
        ++deeds_.opening_power_cuts;
        store->power_cut(dice_);
      });
    }
    Options options = plan_.options;
    std::vector<scale::TargetRole> roles = roles_;
    if (dice_.chance(1, 2)) {  // what the pool has been created with
      options.layout = LayoutChoice::kNone;
      options.stripe_unit_bytes = 0;
      roles.clear();
    }
    const Status status = store_->open(options, false, roles);
    opening = false;
    trouble.join();
    return status;
  }

  // False: the store cannot be read, and trouble explains it.
  bool judge() {
    std::vector<Cell> cells = initial_;
    for (Cell& cell : cells) cell.value = kAbsent;
    bool known = true;
    const Status status = store_->db()->Scan(ScanOptions(), {}, [&](std::string_view key, std::string_view value) {
      const auto number = codec_.number_of(key);
      known = known && number && *number < cells.size();
      if (known) cells[*number].value = decode_value(value);
      return known;
    });
    if (status.IsUnavailable() && is_disturbed_) {
      note_down("scan: " + status.ToString());
      unread_opening.hit();
      return false;
    }
    if (!status.ok()) violation("scan after opening: " + status.ToString());
    if (!known) violation("a key that nobody wrote");
    if (failed()) return true;
    const CrashCase what{case_durability_, initial_, cells, synced_at_};
    const Verdict verdict = check_crash(history_, what, [this](uint64_t key) { return clients_.one_writer(key); });
    if (!verdict.ok) violation(verdict.text);
    for (const Cell& cell : cells) note(cell.value);
    initial_ = cells;
    return true;
  }

  // ---- the end

  void end() {
    if (stillborn_) return;
    const Status drained = store_->db()->Drain();
    const Status closed = store_->close();
    note_down("drained: " + drained.ToString() + ", closed: " + closed.ToString());
    if (!drained.ok() || !closed.ok()) return;  // packets are lost for so long now and then
    for (auto& node : nodes_) {
      if (node->has_power()) node->power_cut();
    }
    const auto image = [this](size_t i) {
      return targets_[i].local != nullptr ? targets_[i].local->durable() : targets_[i].remote->pool(pool_name(i));
    };
    if (const std::string wrong = check_images(scratch_, targets_.size(), image); !wrong.empty()) violation(wrong);
  }

  const uint64_t seed_;
  Random dice_;
  Plan plan_;
  const KeyCodec codec_{KeyFormat::kBytes};
  ScratchFolder scratch_;
  rdma::SimNetwork network_;
  std::vector<std::unique_ptr<NodeNvm>> nvms_;
  std::vector<std::unique_ptr<MemoryNode>> nodes_;
  std::vector<Target> targets_;
  std::vector<scale::TargetRole> roles_;            // empty: each is for all
  std::vector<std::unique_ptr<StoreNode>> stores_;  // of this life, the last is open
  StoreNode* store_ = nullptr;
  Thread zombie_;
  bool over_ = false, stillborn_ = false;
  bool is_disturbed_ = false;  // connections of the store may have broken

  ClientOptions clients_;
  std::unique_ptr<Recorder> recorder_;
  std::vector<std::unique_ptr<Client>> working_;

  std::vector<Cell> initial_;  // when the sitting began
  History history_;            // until its end, or until power was cut
  uint64_t synced_at_ = 0;
  Durability case_durability_ = Durability::kDurable;

  uint64_t trace_ = 0;
  std::string story_, violation_;
  Deeds deeds_;
};

}  // namespace

void Deeds::add(const Deeds& other) {
  operations += other.operations;
  offloads += other.offloads;
  openings += other.openings;
  refused_openings += other.refused_openings;
  closes += other.closes;
  unknown += other.unknown;
  unread += other.unread;
  power_cuts += other.power_cuts;
  memory_power_cuts += other.memory_power_cuts;
  cuts += other.cuts;
  opening_power_cuts += other.opening_power_cuts;
  virtual_ms += other.virtual_ms;
}

Outcome live(uint64_t seed) { return Life(seed).run(); }

}  // namespace bonsai::testing::sim
