// SPDX-License-Identifier: Apache-2.0
// Fixture of the index tests: a whole index tier over a small volume in ordinary memory, with operations that relieve
// back-pressure themselves, and checks of the tier's memory.
#ifndef BONSAI_INDEX_TESTING_H_
#define BONSAI_INDEX_TESTING_H_

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/nvm/mapping.h"
#include "base/nvm/product.h"
#include "base/nvm/shadow.h"
#include "base/random.h"
#include "base/testing/far.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "index/index.h"
#include "persist/analysis.h"
#include "persist/recovery.h"
#include "scale/testing/file_on_medium.h"
#include "scale/testing/served_medium.h"

namespace bonsai::index::testing {

using base::Key;
using Model = std::map<std::string, std::string>;

// The seed of a randomised test; printed, so that BONSAI_SEED replays it.
inline uint64_t test_seed() {
  static const uint64_t seed = base::seed_from_env_or(base::fresh_seed());
  std::printf("BONSAI_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

inline std::string key_of(uint64_t i) {
  char text[24];
  std::snprintf(text, sizeof text, "key%08llu", static_cast<unsigned long long>(i));
  return text;
}

// Runs body(0..n-1), each on a thread of its own.
template <class Body>
void in_threads(size_t n, Body body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < n; ++i) threads.emplace_back([body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

struct Sizes {
  size_t pool_bytes = size_t{4} << 20;
  uint64_t log_bytes = 0;  // 0: a tenth
  bool buffered = false;
  std::function<void()> turn = {};  // if any: on a shadow medium, and called before each operation of the seam
  size_t snapshots_max = SIZE_MAX;
  uint32_t tokens_max = uint32_t{1} << 31;
};

class Tier {
 public:
  // `image`: of a pool with these sizes, which is recovered; empty: a new pool.
  explicit Tier(Sizes sizes = {}, std::span<const std::byte> image = {}) : sizes_(sizes) {
    BONSAI_CHECK(map().ok());
    if (!image.empty()) std::memcpy(mapping_->data(), image.data(), image.size());
    make_volume();
    if (image.empty()) format();
    open();
  }
  ~Tier() { close(); }
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;

  // Ends the tier as a crash does (nothing is written any more) and recovers.
  void crash() {
    close();
    open();
  }
  // The bytes that a power cut at this moment would leave, also while operations run. Requires: Sizes::turn.
  [[nodiscard]] std::vector<std::byte> durable() { return shadow_->durable(); }

  Index& index() { return *index_; }
  persist::Log& log() { return *log_; }
  persist::Space& space() { return *space_; }
  base::EpochDomain& epochs() { return *epochs_; }
  [[nodiscard]] const persist::Pool& pool() const { return pool_; }

  // ---- updates. False: back-pressure did not end within kWaitMs.
  bool put(std::string_view key, std::string_view value) { return update(key, value, false, false); }
  bool del(std::string_view key) { return update(key, {}, true, false); }
  // Stores `value` as a large value and puts a reference to it.
  bool put_large(std::string_view key, std::string_view value) {
    persist::LargeRef ref;
    if (!large_->write(value, &ref).ok()) return false;
    return update(key, persist::bytes_of(ref), false, true);
  }

  // An empty optional deletes.
  using Update = std::pair<std::string, std::optional<std::string>>;
  static Batch* make_batch(const std::map<std::string, std::optional<std::string>>& updates) {
    std::string storage;
    for (const auto& [key, value] : updates) storage += key + value.value_or("");
    auto* batch = new Batch(updates.size(), storage);
    size_t at = 0, i = 0;
    for (const auto& [key, value] : updates) {
      Batch::Item& item = batch->items[i++];
      item.key = std::string_view(batch->storage).substr(at, key.size());
      at += key.size();
      item.value = std::string_view(batch->storage).substr(at, value ? value->size() : 0);
      at += item.value.size();
      item.flags = value ? 0 : Node::kTombstone;
    }
    return batch;
  }
  bool write(const std::map<std::string, std::optional<std::string>>& updates) {
    Batch* batch = make_batch(updates);
    const bool done = persist_in([&] { return index_->write(batch); });
    batch->unref();
    return done;
  }

  // ---- reads
  std::optional<std::string> get(std::string_view key, uint64_t version = kLatest) {
    const auto guard = epochs_->enter();
    Index::Lookup lookup{.key = Key::of(key)};
    index_->get(version, &lookup);
    BONSAI_CHECK(lookup.found == Index::Found::kValue || lookup.found == Index::Found::kAbsent);
    if (lookup.found == Index::Found::kAbsent) return std::nullopt;
    return text_of(lookup.value.bytes, lookup.value.large);
  }

  // A window of its own.
  void read_window(const Key& from, uint64_t version, bool whole, uint64_t records_max, Index::Window* window) {
    ScanAhead alone;
    alone.set_runs_ahead(0);
    index_->read_window(from, version, whole, records_max, window, &alone);
  }
  // Everything as of a version, window by window.
  Model scan(uint64_t version, const std::string& from = {}) {
    Model model;
    Index::Window window;
    for (base::Fence at(from); !at.is_infinite(); at = window.hi) {
      const auto guard = epochs_->enter();
      read_window(at.key(), version, false, UINT64_MAX, &window);
      take(window, &model);
    }
    return model;
  }
  Model scan_backwards(uint64_t version) {
    Model model;
    Index::Window window;
    for (base::Fence at = base::Fence::infinite(); at.is_infinite() || !at.bytes().empty(); at = window.lo) {
      const auto guard = epochs_->enter();
      index_->read_window_below(at, version, &window);
      take(window, &model);
    }
    return model;
  }
  Model scan_now() {
    const Versions::Registration own = index_->register_scan();
    BONSAI_CHECK(static_cast<bool>(own));
    return scan(own.version());
  }

  // ---- background
  Index::OffloadResult offload(Index::Which which = Index::Which::kAll, size_t ranges = 64) {
    const Index::OffloadResult result = index_->offload(ranges, which);
    epochs_->collect();
    return result;
  }
  // Everything into dnodes, residues gone if no scan is registered.
  Status drain() {
    for (int tries = 0; index_->dirty(); ++tries) {
      const Index::OffloadResult result = offload();
      if (!result.status.ok()) return result.status;
      if (tries == 10'000) return Status::Unavailable("drain does not end");
    }
    for (int passes = 0; passes < 8; ++passes) static_cast<void>(index_->tidy(SIZE_MAX));
    BONSAI_CHECK(epochs_->drain(10'000));
    return Status::OK();
  }
  // Compacts the ranges with several runs and no updates, as an idle store does.
  void put_in_order() {
    static_cast<void>(index_->ask_for_compactions(SIZE_MAX));
    while (offload(Index::Which::kCompactions).ranges > 0) {
    }
  }

  // Bytes in use according to the pool's bytes, counted anew. Requires: nothing runs.
  uint64_t bytes_in_use() {
    persist::Space space;
    pool_.add_targets(&space);
    persist::Analysis analysis;
    BONSAI_CHECK(persist::analyse(*volume_, pool_, &analysis).ok() && analysis.damages.empty());
    const auto claim = [&](scale::Addr at, uint64_t bytes) { BONSAI_CHECK(space.reserve(at, bytes)); };
    const auto claim_large = [&](const persist::LargeRef& ref) {
      claim(scale::Addr::of_bits(ref.addr), ref.value_bytes);
    };
    for (const auto& extent : analysis.header_extents) claim(extent.at, pool_.superblocks[0].extent_bytes);
    for (size_t i = 0; i < analysis.dnodes.size(); ++i) {
      const persist::Dnode& dnode = *analysis.dnodes[i];
      BONSAI_CHECK(analysis.dnode_whole[i]);
      for (const persist::RunDesc& run : dnode.runs()) claim(scale::Addr::of_bits(run.addr), run.bytes);
      if (!dnode.long_fences().is_nil()) claim(dnode.long_fences(), dnode.long_fence_bytes());
      BONSAI_CHECK(persist::for_each_large(*volume_, dnode, claim_large));
    }
    for (const persist::Tile& tile : analysis.tiles) {
      for (const persist::LiveRecord& record : tile.records) {
        if (record.update.large) claim_large(persist::large_ref(record.update.value));
      }
    }
    return space.used_bytes();
  }

  size_t ranges() {
    size_t n = 0;
    index_->tree().for_each([&](Bnode*) { ++n; });
    return n;
  }
  size_t residues() {
    size_t n = 0;
    index_->tree().for_each([&](Bnode* bnode) { n += bnode->base().residue() != nullptr ? 1 : 0; });
    return n;
  }

 private:
  Status map() {
    if (!sizes_.turn) return base::Mapping::make_in_memory("memory", sizes_.pool_bytes, &mapping_);
    base::MappingOptions options;
    options.create_bytes = sizes_.pool_bytes;
    options.domain = PersistenceDomain::kAdr;
    folder_ = std::make_unique<bonsai::testing::TempFolder>();
    return base::Mapping::open(folder_->file("pool"), options, &mapping_);
  }
  void make_volume() {
    base::HookedMedium* hooked = nullptr;
    if (sizes_.turn) {
      BONSAI_CHECK(base::ShadowMedium::make(*mapping_, {.eviction_seed = 1}, &shadow_).ok());
      turned_ = std::make_unique<scale::FileOnMedium>(*shadow_, sizes_.pool_bytes, sizes_.turn);
      hooked = turned_.get();
    } else {
      medium_ = std::make_unique<base::ProductMedium>(mapping_->data(), sizes_.pool_bytes, PersistenceDomain::kAdr);
    }
    if (bonsai::testing::other_side_asked()) {
      if (hooked == nullptr) near_ = std::make_unique<Near>(medium_.get());
      asked_ = std::make_unique<scale::AskedMedium>(hooked == nullptr ? *near_ : *hooked);
      hooked = asked_->medium();
    }
    if (hooked != nullptr) {
      hooked_volume_ = std::make_unique<HookedVolume>(std::vector<base::HookedMedium*>{hooked});
      volume_ = hooked_volume_.get();
    } else {
      mapped_volume_ = std::make_unique<MappedVolume>(std::vector<base::ProductMedium*>{medium_.get()});
      volume_ = mapped_volume_.get();
    }
  }
  void format() {
    Options options;
    options.log_bytes = sizes_.log_bytes;
    const uint64_t pool_id[2] = {7, 9};
    BONSAI_CHECK(persist::format_pool(*volume_, options, pool_id).ok());
  }
  void open() {
    space_ = std::make_unique<persist::Space>();
    BONSAI_CHECK(persist::read_pool(*volume_, {"memory"}, &pool_).ok());
    pool_.add_targets(space_.get());
    dnodes_ = std::make_unique<persist::DnodeStore>(*volume_, *space_, pool_.geometry());
    large_ = std::make_unique<persist::LargeStore>(*volume_, *space_);
    const persist::Log::Config config = pool_.log_config(sizes_.buffered);
    log_ = hooked_volume_ != nullptr ? persist::make_log(*hooked_volume_, config)
                                     : persist::make_log(*mapped_volume_, config);
    epochs_ = std::make_unique<base::EpochDomain>();
    volume_->set_epochs(epochs_.get());
    Index::Config index;
    index.limits = pool_.limits();
    index.snapshots_max = sizes_.snapshots_max;
    index.tokens_max = sizes_.tokens_max;
    index_ = std::make_unique<Index>(index, *log_, *dnodes_, *large_, *epochs_);
    persist::Analysis analysis;
    BONSAI_CHECK(persist::analyse(*volume_, pool_, &analysis).ok() && analysis.damages.empty());
    std::vector<persist::RecoveredRange> ranges;
    BONSAI_CHECK(persist::claim_space(&analysis, pool_, dnodes_.get()).ok());
    BONSAI_CHECK(persist::recover(&analysis, pool_, dnodes_.get(), log_.get(), &ranges).ok());
    index_->start(std::move(ranges), analysis.gen_max + 1);
    const auto state = sizes_.buffered ? persist::RunState::kOpenBuffered : persist::RunState::kOpenDurable;
    BONSAI_CHECK(persist::write_run_state(*volume_, pool_, state).ok());
  }
  void close() {
    index_.reset();
    epochs_.reset();
    volume_->set_epochs(nullptr);
    log_.reset();
    large_.reset();
    dnodes_.reset();
    space_.reset();
  }

  bool update(std::string_view key, std::string_view value, bool tombstone, bool large) {
    Index::Put put;
    put.key = Key::of(key);
    put.value = value;
    put.tombstone = tombstone;
    put.large = large;
    if (tombstone) put.use = persist::Log::Use::kReserve;
    return persist_in([&] { return index_->put(&put); });
  }

  // Calls attempt() until it is done, offloading between attempts.
  template <class Attempt>
  bool persist_in(Attempt attempt) {
    for (base::BoundedWait wait("back-pressure of a test", kWaitMs); !wait.expired();) {
      {
        const auto guard = epochs_->enter();
        if (attempt() == Index::Outcome::kDone) return true;
      }
      if (offload(Index::Which::kAll, 8).ranges == 0) wait.pause();
    }
    return false;
  }

  std::string text_of(std::string_view bytes, bool large) const {
    std::string text(bytes);
    if (large) BONSAI_CHECK(large_->read(persist::large_ref(bytes), &text) == persist::Trouble::kNone);
    return text;
  }
  void take(const Index::Window& window, Model* model) const {
    BONSAI_CHECK(window.trouble == persist::Trouble::kNone);
    for (const auto& [rows, large] : window.pieces) {
      for (size_t i = 0; i < rows.count; ++i) {
        const bool fresh = model->emplace(rows.key(i), text_of(rows.value(i), large)).second;
        BONSAI_CHECK(fresh);
      }
    }
  }

  static constexpr uint64_t kWaitMs = 30'000;

  using MappedVolume = scale::VolumeOf<base::ProductMedium>;
  using HookedVolume = scale::VolumeOf<base::HookedMedium>;

  // The product's medium as the other node's medium.
  class Near final : public base::HookedMedium {
   public:
    explicit Near(base::ProductMedium* medium) : HookedMedium(medium->view(), medium->bytes()), medium_(*medium) {}
    void store8(std::byte* dst, uint64_t value) override { medium_.store8(dst, value); }
    void copy(std::byte* dst, const void* src, size_t n) override { medium_.copy(dst, src, n); }
    void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site& site) override {
      medium_.nt_copy(dst, src, n, site);
    }
    void flush(const std::byte* dst, size_t n, const base::Site& site) override { medium_.flush(dst, n, site); }
    bool fence(const base::Site& site) override { return medium_.fence(site); }

   private:
    base::ProductMedium& medium_;
  };

  const Sizes sizes_;
  std::unique_ptr<bonsai::testing::TempFolder> folder_;  // of a shadow's file
  std::unique_ptr<base::Mapping> mapping_;
  std::unique_ptr<base::ProductMedium> medium_;  // one of the two
  std::unique_ptr<base::ShadowMedium> shadow_;
  std::unique_ptr<scale::FileOnMedium> turned_;
  std::unique_ptr<Near> near_;
  std::unique_ptr<scale::AskedMedium> asked_;
  std::unique_ptr<MappedVolume> mapped_volume_;
  std::unique_ptr<HookedVolume> hooked_volume_;
  scale::Volume* volume_ = nullptr;  // the one that there is
  persist::Pool pool_;
  std::unique_ptr<persist::Space> space_;
  std::unique_ptr<persist::DnodeStore> dnodes_;
  std::unique_ptr<persist::LargeStore> large_;
  std::unique_ptr<persist::Log> log_;
  std::unique_ptr<base::EpochDomain> epochs_;
  std::unique_ptr<Index> index_;
};

// The keys of a get_many(), its answers, and how often each was given.
struct Questions final : Index::Asker {
  bool key(size_t i, base::Key* key) override {
    *key = base::Key::of(keys[i]);
    return !keys[i].empty();
  }
  void answer(size_t i, const Index::Lookup& lookup) override { answers.emplace(i, lookup); }

  std::vector<std::string> keys;
  std::multimap<size_t, Index::Lookup> answers;
};

}  // namespace bonsai::index::testing

#endif  // BONSAI_INDEX_TESTING_H_
