// SPDX-License-Identifier: Apache-2.0
// PACTree-like over paging: an ordered index of data nodes in pages of remote memory, which its one compute node
// fetches through a page cache; class V (nothing is durable: pages are written back when it happens to suit).
//
// After the public descriptions and the code of PACTree (cosmoss-jigu/pactree), and of Infiniswap and Fastswap, which
// page to remote memory. m = pages on the way that are not here.
//
// Costs in lists/messages/bytes, for records of 8 + 8 bytes and clean victims (page_cache.h has the rest):
//
//   get, update, insert, remove  m READs of 4,096, one after the other                          m/m/4096m
//     the search layer is right  m is 0 or 1
//     it lags by s splits        a data node more for each
//   insert that splits           the new node's page, if that is not the node's own             + 1 page
//   scan                         the pages of its data nodes, one after the other
//
// Simplified: an explicit page cache with frames that are pinned, no traps; fault_ns stands for what they cost. The
// memory nodes stay: no copy on a disk. The search layer is an ordered map of local memory and not a radix tree in
// pages (variant "search layer local"): its bytes are counted apart. Nodes are not merged and their previous pointers
// not kept up. A node is used by one operation at a time, since its page is: published are version locks. Keys and
// values of 8 bytes. Three nodes are aligned to a page.
// As published: fan-out and bytes of nodes; the search layer is brought up to date asynchronously, from logs, so that a
// look-up may begin left of its node and walks on; one compute node, since paging does not share.
// Linearizable per key. Scans are not atomic: each node is read at a moment of its own.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_PACTREE_H_
#define BONSAI_BENCH_STUDIES_RIVALS_PACTREE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "bench/studies/rivals/client_base.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/pactree_layout.h"
#include "bench/studies/rivals/page_cache.h"

namespace bonsai::bench::rivals::pactree {

// Shared state of the threads of the compute node: the page cache, the search layer, the allocated nodes.
// Thread-safety: any thread of the compute node.
class ComputeNode {
 public:
  // An empty index in memory nodes whose memory was never written.
  // Errors: those of PageCache::make.
  static Status make(rdma::Fabric* fabric, const PageCache::Options& options, std::unique_ptr<ComputeNode>* node);

  [[nodiscard]] PageCache& pages() { return *pages_; }
  [[nodiscard]] size_t search_layer_bytes() const;
  [[nodiscard]] uint64_t data_nodes() const;
  // Data nodes that the search layer does not know yet.
  [[nodiscard]] size_t lag() const;

  [[nodiscard]] static uint64_t page_of(NodeRef ref) { return (ref - 1) / kNodesPerPage; }
  [[nodiscard]] static size_t offset_of(NodeRef ref) { return (ref - 1) % kNodesPerPage * sizeof(DataNode); }

  // Where to begin: a data node whose keys begin at or before the key; 0 while there is none.
  [[nodiscard]] NodeRef search(uint64_t key) const;
  // The first data node of all. False: there is one already.
  bool begin(NodeRef* ref);
  // Names of nodes rise. Errors: NoSpace.
  Status allocate(NodeRef* ref);
  void log_split(uint64_t min_key, NodeRef ref);
  // Brings the search layer up to date. Returns how many nodes it did not know.
  size_t apply_log();

 private:
  ComputeNode() = default;

  std::unique_ptr<PageCache> pages_;
  mutable std::shared_mutex search_mutex_;  // none of them is held over a wait
  std::map<uint64_t, NodeRef> search_;
  mutable std::mutex mutex_;
  uint64_t nodes_ = 0;
  std::deque<std::pair<uint64_t, NodeRef>> log_;
};

struct Counters {
  uint64_t hops = 0;  // to a next node
  uint64_t splits = 0;
};

// Errors, besides those of a Client: Corruption (the chain of data nodes does not end).
class PactreeClient final : public ClientBase<Counters> {
 public:
  struct Options {
    uint64_t operation_ms_max = 10'000;
  };
  // Requires: connection and compute node outlive it, and the connection is one of that compute node.
  PactreeClient(Connection* connection, ComputeNode* node, const Options& options)
      : ClientBase(connection, options.operation_ms_max), node_(node) {}

  Status get(std::string_view key, std::string* value) override;
  Status insert(std::string_view key, std::string_view value) override;
  Status update(std::string_view key, std::string_view value) override;
  Status remove(std::string_view key) override;
  Status scan(std::string_view from, size_t records_max, std::vector<Found>* found) override;

 private:
  // A pair, in a page that is held.
  struct Spot {
    [[nodiscard]] Pair& pair() const { return node->pairs[slot]; }
    PageCache::Page page;
    DataNode* node = nullptr;
    size_t slot = 0;
  };

  [[nodiscard]] static DataNode* node_in(const PageCache::Page& page, NodeRef ref);
  Status hold(NodeRef ref, const Limit& limit, PageCache::Page* page);
  // Holds the page of the key's node. NotFound: the index is empty.
  Status find(uint64_t key, const Limit& limit, PageCache::Page* page, DataNode** node);
  Status find_pair(uint64_t key, const Limit& limit, Spot* spot);
  Status find_or_begin(uint64_t key, const Limit& limit, PageCache::Page* page, DataNode** node);
  Status split(const Limit& limit, PageCache::Page* page, DataNode* node);

  ComputeNode* const node_;
};

// Background work: updates of the search layer, and the write-back of pages. Published: threads that sleep 200 us
// between rounds. Without this work, walks become longer, and faults write their victims back.
class Background {
 public:
  static constexpr uint64_t kPauseUs = 200;

  Background(Connection* connection, ComputeNode* node) : node_(node), batch_(connection) {}

  // Errors: Unavailable.
  Status round();
  template <class Stop>
  Status run(Stop stop) {
    while (!stop()) {
      Status status = round();
      if (!status.ok()) return status;
      base::sleep_us(kPauseUs);
    }
    return Status::OK();
  }

 private:
  ComputeNode* const node_;
  Batch batch_;
};

}  // namespace bonsai::bench::rivals::pactree

#endif  // BONSAI_BENCH_STUDIES_RIVALS_PACTREE_H_
