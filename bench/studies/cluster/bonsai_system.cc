// SPDX-License-Identifier: Apache-2.0
// Bonsai itself on the modelled network: the product's store on the compute node, its pool on the product's pool
// servers.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "bench/engines/pool_place.h"
#include "bench/studies/cluster/system_makers.h"
#include "bonsai/db.h"
#include "bonsai/groups.h"
#include "rdma/fabric.h"
#include "scale/fabrics.h"
#include "scale/pool_server.h"
#include "scale/remote_link.h"

namespace bonsai::bench {

namespace {

constexpr uint64_t kOpenMsMax = 60'000;
constexpr uint64_t kLookUs = 500'000, kLooksMax = 50;  // how long a store that was opened puts itself in order

// The store's fabric. It counts the work lists of each worker. Each thread of the model has a worker for its reads; the
// other workers write and serve the background (include/bonsai/options.h).
class CountedFabric final : public rdma::Fabric {
 public:
  CountedFabric(std::unique_ptr<rdma::Fabric> fabric, size_t threads)
      : fabric_(std::move(fabric)), lists_(threads + 1), threads_(threads) {}
  [[nodiscard]] static size_t workers_for(size_t threads) {
    return std::min(threads + 2, scale::LinkOptions::kWorkersMax);
  }
  [[nodiscard]] const rdma::Capabilities& capabilities() const override { return fabric_->capabilities(); }
  Status register_region(std::span<std::byte> memory, rdma::Rights rights,
                         std::unique_ptr<rdma::Region>* region) override {
    return fabric_->register_region(memory, rights, region);
  }
  Status make_worker(std::unique_ptr<rdma::Worker>* worker) override {
    std::unique_ptr<rdma::Worker> made;
    BONSAI_RETURN_IF_ERROR(fabric_->make_worker(&made));
    *worker = std::make_unique<CountedWorker>(this, std::move(made));
    workers_.push_back({worker->get(), {}});
    return Status::OK();
  }
  [[nodiscard]] uint32_t caller() const override {
    const auto found = thread_of_.find(base::Scheduler::number());
    return static_cast<uint32_t>(found != thread_of_.end() ? found->second : threads_);
  }

  // Counts the calling coroutine's lists for this thread.
  void join(size_t thread) { thread_of_[base::Scheduler::number()] = thread; }
  // Lists posted, by worker.
  [[nodiscard]] std::vector<uint64_t> lists() const {
    std::vector<uint64_t> lists;
    for (const auto& worker : workers_) lists.push_back(worker.traffic().round_trips);
    return lists;
  }
  // Lists that the thread's coroutines have posted since the last call.
  uint64_t take_lists(size_t thread) { return std::exchange(lists_[thread], 0); }
  [[nodiscard]] rdma::Traffic traffic() const {
    rdma::Traffic traffic;
    for (const auto& worker : workers_) traffic += worker.traffic();
    return traffic;
  }

 private:
  // Counts the lists that each thread posts.
  class CountedWorker final : public rdma::Worker {
   public:
    CountedWorker(CountedFabric* fabric, std::unique_ptr<rdma::Worker> worker)
        : fabric_(*fabric), worker_(std::move(worker)) {}
    ~CountedWorker() override { fabric_.note_end(this); }
    Status listen(const std::string& address, const rdma::Hello& own, rdma::Admit admit) override {
      return worker_->listen(address, own, std::move(admit));
    }
    Status greet(const std::string& address, const rdma::Hello& own, uint64_t limit_ms,
                 std::unique_ptr<rdma::Peer>* peer, rdma::Challenge* challenge) override {
      return worker_->greet(address, own, limit_ms, peer, challenge);
    }
    size_t poll() override { return worker_->poll(); }
    Status set_receive_ring(rdma::Slice memory, size_t message_bytes_max) override {
      return worker_->set_receive_ring(memory, message_bytes_max);
    }

   private:
    Status start(rdma::WorkList* list) override {
      const Status status = worker_->post(list);
      if (status.ok()) ++fabric_.lists_[fabric_.caller()];
      return status;
    }
    // A store takes neither connections nor messages.
    bool try_accept(std::unique_ptr<rdma::Peer>*) override { return false; }
    bool try_receive(rdma::Message*) override { return false; }
    void release_buffer(size_t) override {}

    CountedFabric& fabric_;
    const std::unique_ptr<rdma::Worker> worker_;
  };

  // Some workers are made for a few requests alone.
  struct Counted {
    const rdma::Worker* worker;  // null: it has ended
    rdma::Traffic ended;
    [[nodiscard]] const rdma::Traffic& traffic() const { return worker != nullptr ? worker->traffic() : ended; }
  };
  void note_end(const rdma::Worker* worker) {
    for (Counted& each : workers_) {
      if (each.worker == worker) each = {nullptr, worker->traffic()};
    }
  }

  const std::unique_ptr<rdma::Fabric> fabric_;
  std::vector<uint64_t> lists_;  // by thread; the last counts for everything that is no thread's
  const size_t threads_;
  std::vector<Counted> workers_;        // in the order of a link's workers
  std::map<size_t, size_t> thread_of_;  // by number of the coroutine
};

// Groups the requests of one thread's coroutines. A request waits while `groups_max` groups are in flight; the requests
// that wait go to the store together, as the next group.
class Desk {
 public:
  struct Ask {
    std::string_view key, value;
    std::string* found = nullptr;
    Status status = {};
    bool done = false, leads = false;
    base::Scheduler::Token token = {};
  };
  Desk(DB* db, bool reads, size_t groups_max) : db_(*db), reads_(reads), groups_max_(groups_max) {}
  void set_groups_max(size_t groups_max) { groups_max_ = groups_max; }

  void carry_out(Ask* ask) {
    waiting_.push_back(ask);
    if (groups_ >= groups_max_) {
      while (!ask->done && !ask->leads) {
        ask->token = base::Scheduler::token();
        base::Scheduler::park();
      }
      if (ask->done) return;
    } else {
      ++groups_;
    }
    serve();
    BONSAI_CHECK(ask->done);
    if (waiting_.empty()) {
      --groups_;
      return;
    }
    waiting_.front()->leads = true;
    wake(*waiting_.front());
  }

 private:
  static constexpr size_t kGroupMax = 32;

  static void wake(const Ask& ask) { base::Scheduler::current()->wake(ask.token); }

  // Serves the requests that have waited longest; the caller's is the first of them.
  void serve() {
    const auto end = waiting_.begin() + static_cast<ptrdiff_t>(std::min(waiting_.size(), kGroupMax));
    const std::vector<Ask*> group(waiting_.begin(), end);
    waiting_.erase(waiting_.begin(), end);
    std::array<std::string_view, kGroupMax> keys, values;
    std::array<std::string, kGroupMax> found;
    std::array<Status, kGroupMax> statuses;
    const size_t n = group.size();
    for (size_t i = 0; i < n; ++i) {
      keys[i] = group[i]->key;
      values[i] = group[i]->value;
    }
    if (reads_) {
      db_.MultiGet({}, {keys.data(), n}, {found.data(), n}, {statuses.data(), n});
    } else {
      db_.MultiPut({keys.data(), n}, {values.data(), n}, {statuses.data(), n});
    }
    for (size_t i = 0; i < n; ++i) {
      if (reads_) *group[i]->found = std::move(found[i]);
      group[i]->status = std::move(statuses[i]);
      group[i]->done = true;
      wake(*group[i]);
    }
  }

  DB& db_;
  const bool reads_;
  size_t groups_max_;
  std::vector<Ask*> waiting_;
  size_t groups_ = 0;  // in flight, or about to be
};

// The desks that the coroutines of one thread share. With few clients each get goes to the store alone, since the
// thread waits for the network. With more clients gets go together, one group at a time: the thread's processor is the
// bottleneck, and a list costs it a fourth of an operation. For updates two groups at a time were best with few and
// with many clients.
class Seats {
 public:
  Seats(DB* db, CountedFabric* fabric, size_t thread)
      : thread_(thread), fabric_(*fabric), gets_(db, true, 1), puts_(db, false, 2) {}
  void add_client() {
    ++clients_;
    gets_.set_groups_max(clients_ <= kApartMax ? clients_ : 1);
  }
  [[nodiscard]] size_t thread() const { return thread_; }
  [[nodiscard]] Desk& gets() { return gets_; }
  [[nodiscard]] Desk& puts() { return puts_; }
  // Lists that the thread has posted since the last call.
  uint64_t take_lists() { return fabric_.take_lists(thread_); }

 private:
  static constexpr size_t kApartMax = 4;

  const size_t thread_;
  CountedFabric& fabric_;
  Desk gets_, puts_;
  size_t clients_ = 0;
};

class BonsaiClient final : public rivals::Client {
 public:
  BonsaiClient(DB* db, Seats* seats) : db_(*db), seats_(*seats) {}

  Status get(std::string_view key, std::string* value) override {
    Desk::Ask ask{.key = key, .value = {}, .found = value};
    seats_.gets().carry_out(&ask);
    return ask.status;
  }
  Status insert(std::string_view key, std::string_view value) override {
    Desk::Ask ask{.key = key, .value = value};
    seats_.puts().carry_out(&ask);
    return ask.status;
  }
  Status update(std::string_view key, std::string_view value) override { return insert(key, value); }
  Status remove(std::string_view key) override { return db_.Delete(key); }
  Status scan(std::string_view from, size_t records_max, std::vector<Found>* found) override {
    found->clear();
    ScanOptions options;
    options.limit = records_max;
    return db_.Scan(options, from, [found](std::string_view key, std::string_view value) {
      found->push_back({std::string(key), std::string(value)});
      return true;
    });
  }

 private:
  DB& db_;
  Seats& seats_;
};

// The store is open only while clients act, because its threads are coroutines of one run.
class BonsaiSystem final : public System {
 public:
  explicit BonsaiSystem(const StoreSize& size) : size_(size) {
    constexpr uint64_t kBytesPerRecord = 160, kBytesAtLeast = 16 * base::kMiB;
    const size_t parts = is_group() ? 1 : size.memory_nodes;
    const size_t node_bytes = kBytesAtLeast + size.records_max * (kBytesPerRecord + size.key_bytes_max) / parts;
    target_bytes_ = node_bytes / size.pools_per_node / base::kMiB * base::kMiB;
  }
  ~BonsaiSystem() override {
    scale::register_fabric(scheme_, [](auto*) { return Status::NotSupported("the simulated network has ended"); });
  }
  // The rivals' memory nodes exist, too, and hold nothing.
  [[nodiscard]] size_t fixed_bytes() const override { return 64; }
  [[nodiscard]] size_t bytes() const override { return 4'096; }

  Status make_empty(Cluster* cluster) override {
    if (size_.compute_nodes > 1) {
      return Status::NotSupported("a pool of Bonsai has one owner, so its store one compute node");
    }
    BONSAI_RETURN_IF_ERROR(place_.make("", "/tmp", target_bytes_ * size_.memory_nodes * size_.pools_per_node));
    for (size_t i = 0; i < size_.memory_nodes; ++i) BONSAI_RETURN_IF_ERROR(make_server(i, cluster));
    scale::register_fabric(scheme_, [this, cluster](std::shared_ptr<rdma::Fabric>* fabric) {
      fabric_ = std::make_shared<CountedFabric>(cluster->make_fabric(), size_.threads);
      *fabric = fabric_;
      return Status::OK();
    });
    return Status::OK();
  }
  Status make_client(const rivals::Seat& seat, std::unique_ptr<rivals::Client>* client) override {
    const rivals::Limit limit("opening the pool", kOpenMsMax);
    while (!in_order_ && opened_.ok()) {
      if (limit.expired()) return limit.status();
      base::sleep_us(client_look_us_);
    }
    BONSAI_RETURN_IF_ERROR(opened_);
    auto& seats = seats_[seat.connection];
    if (seats == nullptr) seats = std::make_unique<Seats>(db_.get(), fabric_.get(), seats_.size() - 1);
    seats->add_client();
    fabric_->join(seats->thread());
    *client = std::make_unique<BonsaiClient>(db_.get(), seats.get());
    return Status::OK();
  }
  void set_threads(size_t threads) override { size_.threads = threads; }
  void set_measured(bool measured) override { is_measured_ = measured; }
  [[nodiscard]] size_t background_threads() const override { return 1; }
  Status background(const rivals::Seat&, const std::function<bool()>& stop) override {
    opened_ = open();
    if (!opened_.ok()) return opened_;
    const bool joins = is_measured_ && size_.nodes_are == NodesAre::kMembersJoining;
    if (joins) opened_ = set_last_silent(true);
    put_in_order();
    if (joins && opened_.ok()) {
      base::sleep_us(std::exchange(client_look_us_, 10));  // so that all clients begin at once
      opened_ = set_last_silent(false);
    }
    in_order_ = true;
    while (opened_.ok() && !stop()) base::sleep_us(10);
    const bool joined = joins && last().state != MemberState::kJoining;
    const Status closed = close();
    if (!opened_.ok() || !joined) return opened_.ok() ? closed : opened_;
    return Status::InvalidArgument("the member was up to date before the clients were done: ask for fewer operations");
  }
  [[nodiscard]] uint64_t switch_ns() const override { return 1; }
  [[nodiscard]] rdma::Traffic traffic() const override {
    return fabric_ == nullptr ? rdma::Traffic() : fabric_->traffic();
  }
  [[nodiscard]] std::vector<uint64_t> shared_lists() const override {
    return fabric_ == nullptr ? std::vector<uint64_t>() : fabric_->lists();
  }
  [[nodiscard]] uint64_t copied_bytes() const override { return is_group() && in_order_ ? last().copied_bytes : 0; }
  uint64_t take_lists(const rivals::Connection* connection) override { return seats_.at(connection)->take_lists(); }
  [[nodiscard]] size_t used_bytes(const Cluster&) const override { return stats_.data_bytes_used + stats_.log_bytes; }
  [[nodiscard]] size_t cache_bytes(const rivals::Shape&) const override { return stats_.dram_bytes; }

 private:
  // A name for each simulation, since simulations may run at the same time on threads of their own.
  static std::string new_scheme() {
    static std::atomic<uint64_t> made = 0;
    std::string scheme = "sim";
    for (uint64_t left = ++made; left > 0; left /= 26) scheme += static_cast<char>('a' + left % 26);
    return scheme;
  }
  static std::string address_of(size_t node) { return "bonsaid" + std::to_string(node); }

  Status make_server(size_t number, Cluster* cluster) {
    rdma::Fabric* const fabric = fabrics_.emplace_back(cluster->make_fabric()).get();
    scale::PoolServer::Config config;
    config.folder = place_.path();
    config.address = address_of(number);
    config.node = static_cast<uint32_t>(number);
    config.domain = rdma::RemoteDomain::kAdrDirect;
    std::unique_ptr<scale::PoolServer>& server = servers_.emplace_back();
    BONSAI_RETURN_IF_ERROR(scale::PoolServer::make(fabric, config, &server));
    cluster->serve_beside([this, number, serving = server.get()](uint64_t limit_ms) {
      if (number != silent_) return serving->serve(limit_ms);
      base::sleep_ms(1);
      return Status::OK();
    });
    return Status::OK();
  }
  [[nodiscard]] bool is_group() const { return size_.nodes_are != NodesAre::kTargets; }
  // The last node falls silent, or answers again. Returns when its member is out, or not any more.
  Status set_last_silent(bool silent) {
    silent_ = silent ? servers_.size() - 1 : SIZE_MAX;
    const rivals::Limit limit("a member that leaves or joins", kOpenMsMax);
    while ((last().state == MemberState::kOut) != silent) {
      if (limit.expired()) return limit.status();
      base::sleep_us(10);
    }
    return Status::OK();
  }
  [[nodiscard]] GroupMember last() const { return GetGroups(*db_).front().members.back(); }
  Status open() {
    std::string path;
    for (size_t i = 0; i < servers_.size(); ++i) {
      for (size_t j = 0; j < size_.pools_per_node; ++j) {
        path += (path.empty() ? ""
                 : is_group() ? "|"
                              : ",") +
                (scheme_ + "://" + address_of(i)) + "/pool" + std::to_string(i) + "-" + std::to_string(j);
      }
    }
    if (size_.nodes_are == NodesAre::kMembersJoining) path += "?replicas_min=1";
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = target_bytes_;
    options.key_format = size_.key_bytes_max == 8 ? KeyFormat::kFixed8 : KeyFormat::kBytes;
    if (size_.stripe_unit_bytes != 0) {
      options.layout = LayoutChoice::kSoftware;
      options.stripe_unit_bytes = size_.stripe_unit_bytes;
    }
    options.recovery_threads = 1;
    options.scrub_bytes_per_s = 0;  // a pass that falls into a short run would be charged to its operations
    options.fabric_workers = static_cast<uint32_t>(CountedFabric::workers_for(size_.threads));
    return DB::Open(options, path, &db_);
  }
  // Waits for background work, such as the loading of dnodes' metadata: a run is shorter than the intervals at which
  // the background threads check for work.
  void put_in_order() {
    rdma::Traffic before;
    for (uint64_t look = 0; look < kLooksMax && (look < 2 || traffic() != before); ++look) {
      before = traffic();
      base::sleep_us(kLookUs);
    }
  }
  Status close() {
    in_order_ = false;
    client_look_us_ = kLookUs / 100;
    stats_ = db_->GetStats();
    Status status = db_->Close();
    fabric_.reset();
    seats_.clear();
    db_.reset();
    return status;
  }

  StoreSize size_;
  const std::string scheme_ = new_scheme();
  uint64_t target_bytes_ = 0;
  PoolPlace place_;
  std::vector<std::unique_ptr<rdma::Fabric>> fabrics_;  // of the servers
  std::vector<std::unique_ptr<scale::PoolServer>> servers_;
  std::shared_ptr<CountedFabric> fabric_;  // of the store that is open
  std::unique_ptr<DB> db_;
  std::map<const rivals::Connection*, std::unique_ptr<Seats>> seats_;
  Status opened_;
  bool is_measured_ = false;
  uint64_t client_look_us_ = kLookUs / 100;
  bool in_order_ = false;     // clients may begin
  size_t silent_ = SIZE_MAX;  // the number of a server that does not answer
  Stats stats_;               // before it was closed
};

}  // namespace

std::unique_ptr<System> make_bonsai(const StoreSize& size) { return std::make_unique<BonsaiSystem>(size); }

}  // namespace bonsai::bench
