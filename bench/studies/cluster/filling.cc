// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/cluster/filling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "bench/studies/cluster/cluster.h"
#include "bench/studies/rivals/race.h"

namespace bonsai::bench {

namespace {

namespace cuckoo = rivals::rcuckoo;
namespace race = rivals::race;

constexpr double kWindowPercent = 5;
constexpr uint64_t kEntriesMin = 64;  // RACE-like: a group has more than twenty
constexpr size_t kFillingChunkBytes = size_t{4} << 10;

// The state of one run that its clients share.
class Fill {
 public:
  Fill(const FillOptions& options, Filling* filling) : options_(options), filling_(*filling), cuckoo_(options.cuckoo) {
    const size_t caches = options.memory == FillOptions::Memory::kOwn      ? 0
                          : options.memory == FillOptions::Memory::kOracle ? 1
                                                                           : options.shape.compute_nodes;
    for (size_t i = 0; i < caches; ++i) caches_.emplace_back(rows());
    for (double percent = 0; percent < 100; percent += kWindowPercent)
      filling_.windows.push_back({percent, 0, 0, {}, {}});
    filling_.beginnings = filling_.windows;
    cuckoo_.table.rows = rows();
    // Groups of three buckets; a sub-table is as large as in the published code.
    race_.groups_per_sub_table = options.entries / race::kSlotsPerGroup;
    for (; race_.groups_per_sub_table > kGroupsMax; race_.groups_per_sub_table /= 2) ++race_.global_depth;
  }

  Status run() {
    const size_t fixed = is_cuckoo() ? cuckoo::fixed_bytes(cuckoo_.table) : race::fixed_bytes(race_, 1);
    std::unique_ptr<Cluster> cluster;
    BONSAI_RETURN_IF_ERROR(Cluster::make(
        {.device = options_.device,
         .seed = options_.seed,
         .bytes = fixed + (is_cuckoo() ? 0 : options_.entries * 2 * rivals::RemoteHeap::kUnitBytes + (size_t{4} << 20)),
         .fixed_bytes = fixed},
        &cluster));
    if (is_cuckoo()) {
      cuckoo::make_table(cuckoo_.table, cluster->nodes().front());
    } else {
      race::make_table(race_, cluster->nodes());
    }
    BONSAI_RETURN_IF_ERROR(cluster->run(options_.shape, [this](const rivals::Seat& seat) {
      if (Status status = act(seat); !status.ok() && failed_.ok()) failed_ = std::move(status);
    }));
    filling_.ended_at_percent = percent();
    filling_.memory_bytes_per_record =
        static_cast<double>(is_cuckoo() ? fixed : cluster->used_bytes()) / static_cast<double>(stored_);
    filling_.cache_bytes = !is_cuckoo()      ? sizeof(race::Directory)
                           : caches_.empty() ? cuckoo_.cache_bytes
                                             : caches_.front().bytes();
    return failed_;
  }

 private:
  static constexpr uint64_t kGroupsMax = 3'000;

  [[nodiscard]] bool is_cuckoo() const { return options_.table == FillOptions::Table::kCuckoo; }
  [[nodiscard]] uint64_t rows() const { return options_.entries / cuckoo::kEntriesPerRow / 2 * 2; }
  [[nodiscard]] double percent() const {
    return 100 * static_cast<double>(stored_) / static_cast<double>(options_.entries);
  }
  [[nodiscard]] bool goes_on() const {
    return failed_.ok() && percent() < options_.full_percent && filling_.failed < options_.failures_max &&
           (options_.stop == nullptr || !*options_.stop);
  }

  Status act(const rivals::Seat& seat) {
    std::unique_ptr<cuckoo::CuckooClient> cuckoo_client;
    std::unique_ptr<race::RaceClient> race_client;
    if (is_cuckoo()) {
      cuckoo::ClientOptions client_options = cuckoo_;
      if (!caches_.empty()) client_options.cache = &caches_[seat.compute_node % caches_.size()];
      BONSAI_RETURN_IF_ERROR(cuckoo::CuckooClient::make(seat.connection, client_options, &cuckoo_client));
    } else {
      BONSAI_RETURN_IF_ERROR(race::RaceClient::make(
          seat.connection, {.table = race_, .heap = {.chunk_bytes = kFillingChunkBytes}}, &race_client));
    }
    rivals::Client* const client = is_cuckoo() ? static_cast<rivals::Client*>(cuckoo_client.get()) : race_client.get();
    std::vector<uint32_t> own;
    BONSAI_RETURN_IF_ERROR(fill(client, cuckoo_client.get(), seat, &own));
    BONSAI_RETURN_IF_ERROR(read_at_end(client, seat, own));
    if (cuckoo_client != nullptr) {
      filling_.lock_messages += cuckoo_client->lock_counters().messages;
      filling_.lock_messages_in_vain += cuckoo_client->lock_counters().busy;
      filling_.suspicions += cuckoo_client->lock_counters().suspicions;
      filling_.releases_lost += cuckoo_client->lock_counters().releases_lost;
      filling_.paths_outdated += cuckoo_client->counters().paths_outdated;
      filling_.entries_moved += cuckoo_client->counters().entries_moved;
    }
    return Status::OK();
  }

  static std::string bytes(uint32_t number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }

  static uint64_t paths_in_vain(const cuckoo::CuckooClient* client) {
    return client != nullptr ? client->counters().paths_outdated : 0;
  }

  // cuckoo_client: `client` if that is RCuckoo-like, else null.
  Status fill(rivals::Client* client, const cuckoo::CuckooClient* cuckoo_client, const rivals::Seat& seat,
              std::vector<uint32_t>* own) {
    base::Random dice(base::splitmix64(options_.seed << 32 ^ seat.client));
    while (goes_on()) {
      const auto at = static_cast<size_t>(percent() / kWindowPercent);
      FillWindow &window = filling_.windows[at], &beginning = filling_.beginnings[at];
      if (window.first_ns == 0) window.first_ns = base::now_ns();
      const rdma::Traffic before = seat.connection->worker().traffic();
      const uint64_t in_vain = paths_in_vain(cuckoo_client), began_ns = base::now_ns();
      const bool inserts = own->empty() || dice.unit() < options_.insert_share;
      if (inserts) {
        const auto number = static_cast<uint32_t>(++begun_);
        const Status status = client->insert(bytes(number), bytes(number));
        if (!status.ok() && status.code() != Status::Code::kNoSpace) return status;
        if (!status.ok()) {
          ++filling_.failed;
          continue;
        }
        ++stored_;
        own->push_back(number);
      } else {
        BONSAI_RETURN_IF_ERROR(read(client, (*own)[dice.below(own->size())]));
      }
      window.last_ns = base::now_ns();
      const auto note = [&](FillWindow* where) {
        (inserts ? where->inserts : where->reads)
            .note(seat.connection->worker().traffic() - before, paths_in_vain(cuckoo_client) - in_vain,
                  window.last_ns - began_ns);
      };
      note(&window);
      const uint64_t answers = beginning.inserts.traffic.messages() + beginning.reads.traffic.messages();
      if (answers < options_.answers_max) note(&beginning);
    }
    if (options_.stop != nullptr && *options_.stop) return Status::Unavailable("interrupted");
    return Status::OK();
  }

  Status read_at_end(rivals::Client* client, const rivals::Seat& seat, const std::vector<uint32_t>& own) {
    base::Random dice(base::splitmix64(options_.seed << 33 ^ seat.client));
    FillWindow& window = filling_.reads_at_end;
    while (!own.empty() && window.reads.operations < options_.reads_at_end) {
      if (window.first_ns == 0) window.first_ns = base::now_ns();
      const rdma::Traffic before = seat.connection->worker().traffic();
      const uint64_t began_ns = base::now_ns();
      BONSAI_RETURN_IF_ERROR(read(client, own[dice.below(own.size())]));
      window.last_ns = base::now_ns();
      window.reads.note(seat.connection->worker().traffic() - before, 0, window.last_ns - began_ns);
    }
    return Status::OK();
  }

  static Status read(rivals::Client* client, uint32_t number) {
    std::string value;
    BONSAI_RETURN_IF_ERROR(client->get(bytes(number), &value));
    return value == bytes(number) ? Status::OK() : Status::Corruption("a read found a value of another record");
  }

  const FillOptions& options_;
  Filling& filling_;
  cuckoo::ClientOptions cuckoo_;
  race::TableOptions race_;
  std::vector<cuckoo::RowCache> caches_;
  uint64_t begun_ = 0, stored_ = 0;
  Status failed_;
};

}  // namespace

void FillCosts::note(const rdma::Traffic& cost, uint64_t in_vain, uint64_t ns) {
  BONSAI_CHECK(cost.round_trips >= in_vain);
  ++operations;
  latency.record(ns);
  traffic += cost;
  paths_in_vain += in_vain;
  const uint64_t lists = cost.round_trips - in_vain;
  if (by_lists.size() <= lists) by_lists.resize(lists + 1);
  ++by_lists[lists];
}

void FillCosts::merge(const FillCosts& other) {
  operations += other.operations;
  traffic += other.traffic;
  paths_in_vain += other.paths_in_vain;
  latency.merge(other.latency);
  if (by_lists.size() < other.by_lists.size()) by_lists.resize(other.by_lists.size());
  for (size_t i = 0; i < other.by_lists.size(); ++i) by_lists[i] += other.by_lists[i];
}

uint64_t FillCosts::lists_percentile(double percent) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(percent * static_cast<double>(operations) / 100));
  uint64_t seen = 0, lists = 0;
  for (; lists < by_lists.size(); ++lists) {
    seen += by_lists[lists];
    if (seen >= std::max<uint64_t>(wanted, 1)) break;
  }
  return lists;
}

FillCosts FillWindow::all() const {
  FillCosts sum = inserts;
  sum.merge(reads);
  return sum;
}

double FillWindow::mops() const {
  const uint64_t operations = inserts.operations + reads.operations;
  return last_ns > first_ns ? static_cast<double>(operations) * 1e3 / static_cast<double>(last_ns - first_ns) : 0;
}

FillWindow Filling::until(double percent) const {
  FillWindow sum;
  for (const FillWindow& window : windows) {
    if (window.percent >= percent || window.first_ns == 0) continue;
    if (sum.first_ns == 0) sum.first_ns = window.first_ns;
    sum.last_ns = window.last_ns;
    sum.inserts.merge(window.inserts);
    sum.reads.merge(window.reads);
  }
  return sum;
}

Status fill(const FillOptions& options, Filling* filling) {
  *filling = {};
  if (options.entries < kEntriesMin) {
    return Status::InvalidArgument("a table of " + std::to_string(options.entries) + " entries; there must be " +
                                   std::to_string(kEntriesMin) + " (--records)");
  }
  return Fill(options, filling).run();
}

}  // namespace bonsai::bench
