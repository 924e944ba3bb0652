// SPDX-License-Identifier: Apache-2.0
// Shared state of the threads of one compute node of the Sherman-like engine: the root, the cache of level-1 pages, and
// the local locks that a thread takes before a memory node's lock.
//
// Thread-safety: all of it from any thread of the compute node.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_NODE_H_
#define BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_NODE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "base/random.h"
#include "bench/studies/rivals/sherman_layout.h"

namespace bonsai::bench::rivals::sherman {

// Options that are equal for all clients of a tree.
struct TreeOptions {
  Layout layout = {};
  uint64_t locks_per_node = 32'768;  // pages whose hashes meet share a lock
};

// Level-1 pages by their lowest keys. Over `bytes_max` the less used of two random ones goes.
class IndexCache {
 public:
  explicit IndexCache(size_t bytes_max) : pages_max_(bytes_max / kPageBytes) {}

  // Whether a page of the key is known, and then the leaf that it names.
  [[nodiscard]] bool find(const Key& key, Address* leaf) const;
  // The leaf of the key and those after it, at most `leaves_max` of one page. None if no page of the key is known.
  [[nodiscard]] std::vector<Address> leaves_from(const Key& key, size_t leaves_max) const;
  // Adds a level-1 page, in place of those that it overlaps.
  void put(const Head& head, const std::vector<Record>& records);
  // Forgets the page of the key.
  void drop(const Key& key);

  [[nodiscard]] size_t bytes() const;

 private:
  struct Known {
    Head head;
    std::vector<Record> records;
    size_t index;  // in all_
    mutable std::atomic<uint64_t> used{0};
  };
  using Pages = std::map<Key, std::unique_ptr<Known>>;

  // Requires: the mutex.
  [[nodiscard]] const Known* page_of(const Key& key) const;
  void forget(Pages::iterator page);

  const size_t pages_max_;
  mutable std::shared_mutex mutex_;  // never held over a wait for the fabric
  Pages pages_;
  std::vector<Known*> all_;
  base::Random random_{1};
};

// The child of an inner page that has the key.
[[nodiscard]] Address child_of(const Head& head, const std::vector<Record>& records, const Key& key);

// A ticket lock for each global lock. Its holder may pass the global lock on to the next in the queue, `handovers_max`
// times in a row. Waits last as long as the holders before: their operations are bounded.
class LocalLocks {
 public:
  // poll_ns: a waiting thread looks so often; 0: after naps that grow, as it suits real threads.
  LocalLocks(size_t locks, uint32_t handovers_max, uint64_t poll_ns)
      : handovers_max_(handovers_max), poll_ns_(poll_ns), locks_(locks) {}

  // Waits for its turn. Returns whether the global lock came with it.
  bool acquire(size_t lock);
  // Whether the holder, who has the global lock, must pass it on. Requires: called once.
  [[nodiscard]] bool passes_on(size_t lock);
  // The number of waiting threads.
  [[nodiscard]] uint32_t queued(size_t lock) const;
  // `passed_on`: the next in the queue has the global lock, as passes_on() said.
  void release(size_t lock, bool passed_on);

 private:
  struct Lock {
    std::atomic<uint32_t> next{0}, serving{0};
    uint32_t handovers = 0;  // in a row; the holder's
    bool passed_on = false;
  };
  const uint32_t handovers_max_;
  const uint64_t poll_ns_;
  std::vector<Lock> locks_;
};

class ComputeNode {
 public:
  struct Options {
    TreeOptions tree = {};
    size_t memory_nodes = 1;
    uint32_t number = 0;  // no other compute node of the tree has it
    // Without, as a check of what they are good for.
    bool local_locks = true;
    uint32_t handovers_max = 8;
    uint64_t lock_poll_ns = 0;  // of LocalLocks; for virtual time, in which waiting costs nobody anything
    size_t cache_bytes_max = size_t{1000} << 20;
    // The cache is used from this level of the root on; published: 3.
    uint32_t cached_from_root_level = 1;
  };
  explicit ComputeNode(const Options& options)
      : options_(options),
        cache_(options.cache_bytes_max),
        locks_(options.local_locks ? options.memory_nodes * options.tree.locks_per_node : 0, options.handovers_max,
               options.lock_poll_ns) {}

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] IndexCache& cache() { return cache_; }
  // None without local locks.
  [[nodiscard]] LocalLocks* locks() { return options_.local_locks ? &locks_ : nullptr; }
  // In lock words: not 0. It names the node, since a lock that is handed on changes threads.
  [[nodiscard]] uint64_t tag() const { return uint64_t{options_.number} + 1; }

  // The root word as last seen, 0 at first. An older root still leads to every key.
  [[nodiscard]] uint64_t root() const { return root_.load(std::memory_order_relaxed); }
  void note_root(uint64_t word);
  [[nodiscard]] bool caches() const { return Root::level(root()) >= options_.cached_from_root_level; }

 private:
  const Options options_;
  IndexCache cache_;
  LocalLocks locks_;
  std::atomic<uint64_t> root_{0};
};

}  // namespace bonsai::bench::rivals::sherman

#endif  // BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_NODE_H_
