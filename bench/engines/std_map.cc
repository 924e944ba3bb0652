// SPDX-License-Identifier: Apache-2.0
// std::map under one lock: the example of an engine. To add a store, write one such file. If the store needs a library,
// add a line "Needs: ..." as in rocksdb.cc and the package's name in scripts/setup.sh. Registration, workloads,
// verification, latencies and the report need no further code. This file implements everything that the harness
// requires.
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <tuple>

#include "bench/engines/counting_allocator.h"
#include "bench/engines/engine.h"

namespace bonsai::bench {
namespace {

class StdMapEngine final : public Engine {
 public:
  // The capabilities of the store. A capability that is left out is never used, and reports show a dash for it: this
  // store is volatile (no `durability`) and reads one by one (no `many`).
  [[nodiscard]] Capabilities capabilities() const override { return {.threads = true, .scan = true}; }

  // A fresh, empty store. `options.shape` says how keys and values look, `options.records_max` how many there will be.
  // A store that keeps files puts them into a PoolPlace (lmdb.cc).
  Status open(const EngineOptions&) override { return Status::OK(); }

  // Everything that open() and the run made is gone afterwards.
  Status close() override {
    map_.clear();
    return Status::OK();
  }

  // Also the update of a record that is there. An update by other means overrides update(), too.
  Status insert(std::string_view key, std::string_view value) override {
    const std::unique_lock lock(mutex_);
    const auto at = map_.find(key);
    if (at == map_.end()) {
      map_.emplace(std::piecewise_construct, std::forward_as_tuple(key, counted_),
                   std::forward_as_tuple(value, counted_));
    } else {
      at->second = value;
    }
    return Status::OK();
  }

  // NotFound is an answer; any other error is a failure, is counted and makes the exit code 1.
  Status read(std::string_view key, std::string* value) override {
    const std::shared_lock lock(mutex_);
    const auto at = map_.find(key);
    if (at == map_.end()) return Status::NotFound();
    value->assign(at->second);
    return Status::OK();
  }

  Status remove(std::string_view key) override {
    const std::unique_lock lock(mutex_);
    const auto at = map_.find(key);
    if (at != map_.end()) map_.erase(at);
    return Status::OK();
  }

  // Ascending, from the first key at or after `from`; only because of `scan` above.
  Status scan(std::string_view from, uint32_t limit, const ScanVisit& visit) override {
    const std::shared_lock lock(mutex_);
    auto at = map_.lower_bound(from);
    for (uint32_t i = 0; i < limit && at != map_.end(); ++i, ++at) {
      if (!visit(at->first, at->second)) break;
    }
    return Status::OK();
  }

  // The counted allocations of the map. From any thread, also while operations run.
  [[nodiscard]] MemoryUse memory() const override { return {.dram_bytes = account_.bytes()}; }

  // nvm() and medium() stay as they are: nothing is reported, so results say null and the report a dash.

 private:
  using Pair = std::pair<const CountedString, CountedString>;

  MemoryAccount account_;
  const CountingAllocator<char> counted_{&account_};
  std::shared_mutex mutex_;
  std::map<CountedString, CountedString, std::less<>, CountingAllocator<Pair>> map_{CountingAllocator<Pair>(&account_)};
};

}  // namespace

const Registered<EngineEntry> kStdMapEngines("std_map", []() -> std::vector<EngineEntry> {
  return {{"std_map", "std::map under one lock: ordered, volatile, any number of threads; the example",
           [] { return std::make_unique<StdMapEngine>(); }, EngineGroup::kOrdered}};
});

}  // namespace bonsai::bench
