// A dnode as DRAM knows it: its range, generation, runs, and, if uploaded, fingerprints and key samples of each run.
//
// Invariants
//  - immutable but for `meta`, which goes once from null to complete;
//  - a newer run's entry of a key hides an older run's;
//  - every entry returned was verified by its check; a damaged one is answered with kDamaged, never skipped.
// Thread-safety: all const methods, and upload(), from any thread. Readers must be inside an epoch guard, under which
// the owner retires dnodes.
#ifndef BONSAI_PERSIST_DNODE_H_
#define BONSAI_PERSIST_DNODE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/key.h"
#include "persist/run.h"
#include "scale/volume.h"

namespace bonsai::persist {

// Search help for one run: a sample of every 16th key and one fingerprint byte per entry, so that a get reads one
// entry.
struct RunMeta {
  static constexpr uint32_t kGroup = 16;
  std::vector<uint64_t> samples;      // heads of entries 0, 16, 32, ... behind the dnode's common prefix
  std::vector<uint8_t> fingerprints;  // padded to a whole group
  std::vector<uint32_t> offsets;      // variable runs only

  [[nodiscard]] uint64_t dram_bytes() const {
    return samples.capacity() * 8 + fingerprints.capacity() + offsets.capacity() * 4 + sizeof *this;
  }
};

inline uint8_t fingerprint(uint64_t hash) { return static_cast<uint8_t>(hash >> 56); }

class Dnode {
 public:
  Dnode(base::Fence lo, base::Fence hi, uint64_t gen) : lo_(std::move(lo)), hi_(std::move(hi)), gen_(gen) {
    prefix_bytes_ = common_prefix_bytes();
  }
  ~Dnode();
  Dnode(const Dnode&) = delete;
  Dnode& operator=(const Dnode&) = delete;

  [[nodiscard]] const base::Fence& lo() const { return lo_; }
  [[nodiscard]] const base::Fence& hi() const { return hi_; }
  [[nodiscard]] uint64_t gen() const { return gen_; }
  [[nodiscard]] const std::vector<RunDesc>& runs() const { return runs_; }
  [[nodiscard]] uint64_t entries() const { return entries_; }  // hidden ones and tombstones included
  [[nodiscard]] uint64_t run_bytes() const { return run_bytes_; }
  [[nodiscard]] bool has_large() const { return has_large_; }
  [[nodiscard]] bool uploaded() const { return meta_.load(std::memory_order_acquire) != nullptr; }
  [[nodiscard]] uint64_t dram_bytes() const;

  // The newest entry of `key`, a tombstone too. Requires: key lies in the range.
  [[nodiscard]] Find find(const scale::Volume& volume, const base::Key& key, Entry* entry) const;

  // Builds the metadata from the runs; those that `predecessor` (may be null) has too are taken over from it.
  // False (and nothing happens) if an entry is damaged.
  bool upload(const scale::Volume& volume, const Dnode* predecessor = nullptr);

  // Set-up by the owner, before the dnode is shared.
  void add_run(const RunDesc& run);
  void set_has_large() { has_large_ = true; }
  scale::Addr header;       // where its header lies
  scale::Addr long_fences;  // nil if the fences fit into the header
  uint64_t long_fence_bytes = 0;

 private:
  struct Meta {
    std::vector<std::shared_ptr<const RunMeta>> runs;
  };
  [[nodiscard]] size_t common_prefix_bytes() const;
  [[nodiscard]] std::shared_ptr<const RunMeta> run_meta(const scale::Volume& volume, const RunDesc& desc) const;
  [[nodiscard]] uint64_t sample_head(std::string_view key) const {
    return base::key_head(key.substr(std::min(prefix_bytes_, key.size())));
  }
  [[nodiscard]] Find find_by_meta(const RunView& run, const RunMeta& meta, const base::Key& key, uint64_t head,
                                  uint8_t print, Entry* entry) const;

  base::Fence lo_, hi_;
  uint64_t gen_;
  std::vector<RunDesc> runs_;  // oldest first
  uint64_t entries_ = 0;
  uint64_t run_bytes_ = 0;
  size_t prefix_bytes_ = 0;
  bool has_large_ = false;
  std::atomic<Meta*> meta_{nullptr};
};

// Walks the live entries of a dnode in key order, newest run first among equals; tombstones are visited too.
class DnodeCursor {
 public:
  // Requires: the dnode outlives the cursor (epoch guard).
  DnodeCursor(const scale::Volume& volume, const Dnode& dnode);

  // To the first entry at or after `key`; an empty key means the first.
  void seek(const base::Key& key);
  [[nodiscard]] bool valid() const { return valid_; }
  [[nodiscard]] bool damaged() const { return damaged_; }
  [[nodiscard]] const Entry& entry() const { return entry_; }
  void next();

 private:
  struct Position {
    RunView run;
    uint32_t index = 0;
    Entry entry{};
    bool valid = false;
  };
  void load(Position& position);
  void choose();

  std::vector<Position> positions_;  // newest run first
  Entry entry_{};
  bool valid_ = false;
  bool damaged_ = false;
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_DNODE_H_
