// SPDX-License-Identifier: Apache-2.0
// Sherman-like: a B-link tree of pages of 1 KB in remote memory, written in place under locks; class V (nothing is
// durable). Sherman-persist-like: the same over persistent memory; class D (durable before it is acknowledged).
//
// After the public descriptions of Sherman and its published code (thustorage/Sherman). h = levels of the tree.
//
// Costs in lists/messages/bytes, for records of 8 + 8 bytes and the published form of pages (sherman_layout.h):
//
//   get, leaf from the cache    READ leaf 1,024                                                1/1/1024
//     not cached                a READ for each level                                          h/h/1024h
//     the leaf has split        + READ of its sibling                                          +1/1/1024
//     stale cache               + READ of the wrong leaf, then not cached                      +1/1/1024
//   update, insert, remove      CAS lock; READ leaf; {WRITE record 18, unlock}                 3/4/1058
//     handed on by a sibling    READ leaf; {WRITE, unlock}, or WRITE alone if handed on        2/3/1050, 2/2/1042
//     lock taken                CAS again, no backoff                                          +1/1/8
//     stale cache               CAS; READ; unlock, not waited for; h - 1 READs from the root   +3/3/1040 + h - 1
//     nothing to change         CAS; READ; unlock, not waited for                              3/3/1040
//   split of a leaf             CAS; READ; WRITE sibling; {WRITE leaf, unlock}, not waited for;
//                               parent: CAS; READ; {WRITE, unlock}                             7/9/5152
//     leaf from the cache       + the READs from the root down to level 2                      +h - 2
//     of the root               WRITE new root; CAS root word, in place of the parent's        6/7/4120
//   scan of L leaves            READs, up to 32 in flight, each a list                         L/L/1024L
//
// Simplified: keys of 8 bytes, or of up to 24; values of 8 bytes, not all zero: zeros mean no value, as published.
// Pages are not merged and not freed, as published. A new root is not broadcast: a client that goes beyond an old root
// reads the root word (+1/1/8). Lock words are in memory of the host, not of the network device. Differences:
//   - the verified form of pages, on which every read is checked: a record has 2 bytes more, a leaf 48 of them and not
//     54. The published form answers "not found" for a torn record, and may answer worse on our fabrics;
//   - locks are released by a CAS that expects the compute node's tag, never by a WRITE;
//   - an operation that splits a leaf ends when all its WRITEs have, though it does not wait before the parent's;
//   - a level-1 page that an insert has changed goes to the cache, too;
//   - scans read leaves that are not in the cache, follow siblings and read torn leaves again; published ones skip it
//   all;
//   - a lock that is not obtained within operation_ms_max is Unavailable; published: it is tried 10^6 times, and then
//     the program ends. A client that dies with a lock leaves it taken for good, as published.
// Persistence is all ours: its authors' code has none. It takes the durable form of leaves (sherman_layout.h), whose
// records of 8 + 8 bytes have 24 bytes, and one of three ways to make a leaf's WRITE durable:
//   flushing read  CAS; READ; {WRITE 24, READ 8 of it}; unlock                                 4/5/1072
//   combined       CAS; READ; {WRITE 24, READ 8 of it, unlock}                                 3/5/1072
//   agent          CAS; READ; {WRITE 24, SEND 40}, answered by the node's processor; unlock    4/5/1104
// The first two rely on a platform where a READ pushes earlier WRITEs to the persistence domain. A lock is handed on
// when the flush has been answered. A split makes the sibling durable; then, still under the lock, the leaf's new head,
// beside the old one; then the leaf without the records that have moved, and with the new one if it is its own; then
// the parent is written: +1 list, or +2.
// Inner pages, locks and the root are not made durable: recover_tree() finds the leaves by their siblings, and makes
// the rest anew. Reads may return updates that are not durable yet, as in every scheme that flushes after it has
// written. Linearizable per key. Scans are not atomic, as published: each record was there at some moment of the scan.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_H_
#define BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/studies/rivals/client_base.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/memory_node.h"
#include "bench/studies/rivals/remote_heap.h"
#include "bench/studies/rivals/sherman_layout.h"
#include "bench/studies/rivals/sherman_node.h"

namespace bonsai::bench::rivals::sherman {

// The bytes that the tree takes at the start of each memory node.
[[nodiscard]] size_t fixed_bytes(const TreeOptions& options);
// Makes an empty tree in them. Requires: no client yet.
void make_tree(const TreeOptions& options, const std::vector<MemoryNode*>& nodes);

// Recovers a tree of durable leaves after a power cut: keeps the records that survived in the memory nodes' memory, and
// makes locks, inner pages and a root. fixed_bytes[i] is the tree's size on memory node i from now on. A power cut
// during it does no harm. Requires: no node is made of the memory yet. Errors: Corruption (no such tree), NoSpace.
using Memories = std::vector<std::span<std::byte>>;
Status recover_tree(const TreeOptions& options, const Memories& memories,
                    const std::function<void(size_t node, size_t offset, size_t bytes)>& flush,
                    std::vector<size_t>* fixed_bytes);

// The way to make a leaf's WRITE durable.
enum class Persist : uint8_t { kNone, kFlushingRead, kCombined, kAgent };

struct ClientOptions {
  Persist persist = Persist::kNone;  // others: requires leaves of the durable form
  RemoteHeap::Options heap = {};     // published: chunks of 32 MB
  uint64_t operation_ms_max = 10'000;
  // For a scan. Requires: the thread's scans together need no more lists than Capabilities::lists_pending_max.
  size_t reads_in_flight_max = 32;
};

struct Counters {
  uint64_t locks_taken = 0;  // by CAS
  uint64_t locks_busy = 0;   // CASes in vain
  uint64_t handovers = 0;    // locks that came from a thread of the same compute node
  uint64_t cache_hits = 0, cache_stale = 0;
  uint64_t hops = 0;        // to a sibling
  uint64_t pages_torn = 0;  // and read again
  uint64_t splits = 0;
};

class ShermanClient final : public ClientBase<Counters> {
 public:
  // Requires: connection and compute node outlive it, and know the same memory nodes. Errors: Unavailable,
  // NoSpace, InvalidArgument (persistence without durable leaves).
  static Status make(Connection* connection, ComputeNode* node, const ClientOptions& options,
                     std::unique_ptr<ShermanClient>* client);
  ~ShermanClient() override;

  Status get(std::string_view key, std::string* value) override;
  Status insert(std::string_view key, std::string_view value) override;
  Status update(std::string_view key, std::string_view value) override;
  Status remove(std::string_view key) override;
  Status scan(std::string_view from, size_t records_max, std::vector<Found>* found) override;

 private:
  static constexpr size_t kLevelsMax = 16;

  // The inner pages that a descent came through, by level; offset 0 = unknown.
  using Path = std::array<Address, kLevelsMax>;
  struct Place {
    Key key;
    Address page = {};
    bool from_cache = false;
    Path path{};
  };
  // A lock that is held. Destroyed without release() after an error only: then the next local thread takes its turn,
  // and finds the global lock taken.
  struct Held {
    Held() = default;
    ~Held() { release(false); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    // Whether the global lock is to be passed on to a local thread, and not unlocked.
    [[nodiscard]] bool passes_on() const { return locks != nullptr && locks->passes_on(index); }
    void release(bool passed_on) {
      if (LocalLocks* const local = std::exchange(locks, nullptr)) local->release(index, passed_on);
    }
    Address word;
    LocalLocks* locks = nullptr;
    size_t index = 0;
  };
  // A page as it was read.
  struct Seen {
    Head head;
    std::vector<Record> records;
  };
  enum class Change : uint8_t { kInsert, kUpdate, kRemove };

  ShermanClient(Connection* connection, ComputeNode* node, const ClientOptions& options)
      : ClientBase(connection, options.operation_ms_max),
        options_(options),
        layout_(node->options().tree.layout),
        node_(node),
        posted_(connection) {}

  [[nodiscard]] Status check_key(std::string_view key) const;
  Status read_root();
  Status locate(const Limit& limit, Place* place);
  Status descend(uint32_t level, const Limit& limit, Place* place);
  Status read_image(Address page);
  Status read_page(Address page, const Limit& limit, Seen* seen);
  Status move_on(const Head& head, const Limit& limit, uint32_t level, Place* place);
  Status lock(Address page, const Limit& limit, Held* held);
  Status unlock_and_move_on(const Head& head, const Limit& limit, uint32_t level, Held* held, Place* place);
  void add_unlock(Batch* batch, const Held& held, size_t word_at);
  void check_unlocked(size_t word_at) const;
  Status finish_posted();
  Status unlock_posted(Held* held);
  Status add_flushed(rdma::Slice from, Address to);
  Status write_and_unlock(rdma::Slice from, Address to, bool leaf, Held* held);
  Status change(std::string_view key, uint64_t value, Change change);
  Status change_leaf(const Record& record, Change change, const Limit& limit, Held* held, Place* place, Seen* leaf);
  Status split(const Limit& limit, Held* held, Place* place, Seen* page);
  Status write_left_durably(Address place, Held* held, const Head& before, const Seen& left);
  Status write_halves(Address fresh, Address place, Held* held, const Head& before, const Seen& left,
                      const Seen& right);
  Status add_child(const Record& child, uint32_t level, const Limit& limit, Place* place);
  Status grow_root(const Record& child, uint32_t level, bool* grown);
  Status read_leaves(const std::vector<Address>& leaves);
  Status scan_leaf(size_t image, Address leaf, const Limit& limit, Place* place, size_t records_max,
                   std::vector<Found>* found, bool* goes_on);

  const ClientOptions options_;
  const Layout layout_;
  ComputeNode* const node_;
  Batch posted_;  // what is not waited for at once
  bool posted_unlocks_ = false;
  std::unique_ptr<RemoteHeap> heap_;
  std::unique_ptr<FlushCaller> flusher_;
  std::vector<std::unique_ptr<Batch>> scan_batches_;
};

}  // namespace bonsai::bench::rivals::sherman

#endif  // BONSAI_BENCH_STUDIES_RIVALS_SHERMAN_H_
