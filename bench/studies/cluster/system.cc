// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/cluster/system.h"

#include <algorithm>

#include "bench/studies/cluster/system_makers.h"
#include "bench/studies/rivals/race.h"
#include "bench/studies/rivals/rcuckoo.h"
#include "bench/studies/rivals/sherman.h"

namespace bonsai::bench {

namespace {

constexpr const char* kCloverRemark =
    "of an operation's metadata, the server's eight threads take a processor for no longer than posting lists does";
constexpr size_t kChunkBytes = size_t{16} << 10;  // that a client asks for at once; published: far more

// Room for the chunks of hundreds of clients, in every run.
size_t chunks_bytes(const StoreSize& size) {
  constexpr size_t kUsualRuns = 7, kClientsMax = 288;
  return (size_t{64} << 20) + (std::max(size.runs_max, kUsualRuns) - kUsualRuns) * kClientsMax * kChunkBytes;
}

// After a load 80 % of the slots are in use, 70 % of the slots of large records.
class RaceSystem final : public System {
 public:
  explicit RaceSystem(const StoreSize& size) : size_(size) {
    constexpr uint64_t kGroupsMax = 3'000;  // larger sub-tables get full at a lower load
    constexpr uint32_t kDepthMax = 8;
    static_assert(size_t{1} << kDepthMax == rivals::race::kSubTablesMax);
    constexpr uint64_t kRecordsMax = 12'000'000;  // that fit into so many
    const double load = size.records_max <= kRecordsMax ? .8 : .7;
    const auto groups =
        static_cast<uint64_t>(static_cast<double>(size.records_max) / load / rivals::race::kSlotsPerGroup) + 1;
    while (groups >> table_.global_depth > kGroupsMax && table_.global_depth < kDepthMax) ++table_.global_depth;
    table_.groups_per_sub_table = (groups >> table_.global_depth) + 1;
  }
  [[nodiscard]] size_t fixed_bytes() const override { return rivals::race::fixed_bytes(table_, size_.memory_nodes); }
  [[nodiscard]] size_t bytes() const override {
    return fixed_bytes() + chunks_bytes(size_) + size_.records_max * 3 * rivals::RemoteHeap::kUnitBytes;
  }
  Status make_empty(Cluster* cluster) override {
    rivals::race::make_table(table_, cluster->nodes());
    return Status::OK();
  }
  Status make_client(const rivals::Seat& seat, std::unique_ptr<rivals::Client>* client) override {
    std::unique_ptr<rivals::race::RaceClient> made;
    Status status =
        rivals::race::RaceClient::make(seat.connection, {.table = table_, .heap = {.chunk_bytes = kChunkBytes}}, &made);
    *client = std::move(made);
    return status;
  }
  [[nodiscard]] size_t cache_bytes(const rivals::Shape& shape) const override {
    return shape.threads * shape.coroutines * sizeof(rivals::race::Directory);
  }

 private:
  const StoreSize size_;
  rivals::race::TableOptions table_;
};

template <rivals::sherman::Persist kPersist, bool kLocalLocks = true>
class ShermanSystem final : public System {
 public:
  static constexpr uint64_t kLockPollNs = 200;

  explicit ShermanSystem(const StoreSize& size) : size_(size) {
    tree_.layout.key_bytes = size.key_bytes_max;
    if (kPersist != rivals::sherman::Persist::kNone) tree_.layout.form = rivals::sherman::Layout::Form::kDurable;
    rivals::sherman::ComputeNode::Options node{
        .tree = tree_, .memory_nodes = size.memory_nodes, .local_locks = kLocalLocks, .lock_poll_ns = kLockPollNs};
    if (size.cache_bytes) node.cache_bytes_max = *size.cache_bytes;
    for (; node.number < size.compute_nodes; ++node.number) {
      nodes_.push_back(std::make_unique<rivals::sherman::ComputeNode>(node));
    }
  }
  [[nodiscard]] size_t fixed_bytes() const override { return rivals::sherman::fixed_bytes(tree_); }
  [[nodiscard]] size_t bytes() const override {
    // Leaves are at least half full; the rest are inner pages.
    const size_t pages = size_.records_max * 3 / tree_.layout.records_max(0) + 64;
    return fixed_bytes() + chunks_bytes(size_) + pages * rivals::sherman::kPageBytes;
  }
  Status make_empty(Cluster* cluster) override {
    rivals::sherman::make_tree(tree_, cluster->nodes());
    return Status::OK();
  }
  Status make_client(const rivals::Seat& seat, std::unique_ptr<rivals::Client>* client) override {
    std::unique_ptr<rivals::sherman::ShermanClient> made;
    Status status = rivals::sherman::ShermanClient::make(
        seat.connection, nodes_[seat.compute_node].get(),
        {.persist = kPersist, .heap = {.chunk_bytes = kChunkBytes}, .reads_in_flight_max = 8}, &made);
    *client = std::move(made);
    return status;
  }
  [[nodiscard]] size_t cache_bytes(const rivals::Shape&) const override { return nodes_.front()->cache().bytes(); }

 private:
  const StoreSize size_;
  rivals::sherman::TreeOptions tree_;
  std::vector<std::unique_ptr<rivals::sherman::ComputeNode>> nodes_;
};

// After a load 80 % of the entries are in use, so that inserts find paths of four moves.
class CuckooSystem final : public System {
 public:
  explicit CuckooSystem(const StoreSize& size) {
    constexpr double kLoad = .8;
    table_.rows =
        static_cast<uint64_t>(static_cast<double>(size.records_max) / kLoad / rivals::rcuckoo::kEntriesPerRow) / 2 * 2 +
        2;
  }
  [[nodiscard]] size_t fixed_bytes() const override { return rivals::rcuckoo::fixed_bytes(table_); }
  [[nodiscard]] size_t bytes() const override { return fixed_bytes() + 64; }
  Status make_empty(Cluster* cluster) override {
    rivals::rcuckoo::make_table(table_, cluster->nodes().front());
    return Status::OK();
  }
  Status make_client(const rivals::Seat& seat, std::unique_ptr<rivals::Client>* client) override {
    std::unique_ptr<rivals::rcuckoo::CuckooClient> made;
    Status status = rivals::rcuckoo::CuckooClient::make(seat.connection, {.table = table_}, &made);
    *client = std::move(made);
    return status;
  }
  [[nodiscard]] size_t cache_bytes(const rivals::Shape& shape) const override {
    return shape.threads * shape.coroutines * rivals::rcuckoo::ClientOptions().cache_bytes;
  }

 private:
  rivals::rcuckoo::TableOptions table_;
};

template <class Made>
std::unique_ptr<System> make(const StoreSize& size) {
  return std::make_unique<Made>(size);
}

using rivals::sherman::Persist;

}  // namespace

std::unique_ptr<System> make_sherman_without_local_locks(const StoreSize& size) {
  return std::make_unique<ShermanSystem<Persist::kNone, false>>(size);
}

Status System::background(const rivals::Seat&, const std::function<bool()>&) { return Status::OK(); }

const std::vector<SystemEntry>& systems() {
  static const std::vector<SystemEntry> kSystems = {
      {.name = "RACE-like", .list_cpu_ns = 870, .make = make<RaceSystem>},
      {.name = "RCuckoo-like", .narrow = true, .strings = false, .list_cpu_ns = 900, .make = make<CuckooSystem>},
      {.name = "Sherman-like",
       .scans = true,
       .cache_sized = true,
       .list_cpu_ns = 1'450,
       .make = make<ShermanSystem<Persist::kNone>>},
      // The way that takes fewest round trips: the READ that makes a WRITE durable goes with it in one list.
      {.name = "Sherman-persist-like",
       .durability = DurabilityClass::kDurable,
       .scans = true,
       .cache_sized = true,
       .list_cpu_ns = 1'450,
       .make = make<ShermanSystem<Persist::kCombined>>},
      {.name = "Clover-like", .cache_sized = true, .list_cpu_ns = 1'500, .remark = kCloverRemark, .make = make_clover},
      {.name = "Clover-persist-like",
       .durability = DurabilityClass::kDurable,
       .cache_sized = true,
       .list_cpu_ns = 1'500,
       .remark = kCloverRemark,
       .make = make_clover_persist},
      {.name = "PACTree-paging-like",
       .scans = true,
       .strings = false,
       .faults = true,
       .list_cpu_ns = 900,
       .operation_cpu_ns = 900,
       .remark = "nothing is published at light load, so nothing is fitted: an operation takes a processor for as "
                 "long as a list does, and a fault costs what the fabric does, as at user level",
       .make = make_pactree},
      {.name = "Bonsai",
       .durability = DurabilityClass::kDurable,
       .scans = true,
       .list_cpu_ns = 250,
       .operation_cpu_ns = 900,
       .remark =
           "nothing is published at light load, so nothing is fitted: an operation takes a processor for as "
           "long as a list of others does, and posting a list for 0.25 us more; what is written to the "
           "data area goes over one worker for all threads; what the background does takes hardly any processor's time",
       .make = make_bonsai}};
  return kSystems;
}

const SystemEntry* find_system(std::string_view name) {
  const auto found =
      std::find_if(systems().begin(), systems().end(), [name](const SystemEntry& entry) { return entry.name == name; });
  return found == systems().end() ? nullptr : &*found;
}

}  // namespace bonsai::bench
