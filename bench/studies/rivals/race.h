// SPDX-License-Identifier: Apache-2.0
// RACE-like: a lock-free extendible hash table of 8-byte slots that point to blocks; class V (nothing is durable).
//
// After the public descriptions of RACE hashing and of two clean builds of it (the hash table of the SMART artefact;
// FUSEE). Its authors published no code.
//
//   operation                    lists/messages/bytes, records of 8 + 8 bytes
//   get                          {READ 128, READ 128}; READ block 64                           2/3/320
//   insert of a new key          {WRITE block, READ, READ}; CAS slot; {READ, READ}             3/6/584
//     its CAS is lost            the re-read gives the next free slot: CAS; {READ, READ}       +2/3/264
//     another one of its key     READ its block; CAS all but the lowest slot to 0              +2/2/72 (published
//                                without the READ: 1/1/8)
//   update                       {WRITE block, READ, READ}; READ block; CAS slot               3/5/392
//     its CAS is lost            the look-up again                                             +3/4/328
//   remove                       {READ, READ}; READ block; CAS to 0                            3/4/328
//   a fingerprint that deceives  + READ of its block, in the list of the other blocks          +0/1/64
//   stale directory              READ directory, then again                                    +1/1/2064
//
// Simplified: the number of sub-tables is fixed when the table is made, as in both artefacts, where resizing is off. So
// it is no extendible hashing, and a full pair of buckets is NoSpace. CRC-32C for their CRC; hashes of our own.
// Differences:
//   - a key counts as absent when two looks in a row found the same slots: the two READs of one look are of different
//     moments, and a duplicate may have moved the key from the one bucket to the other (+1/2/256 of a miss);
//   - old blocks are freed, and reused after a while (remote_heap.h); the artefact leaks them.
// Linearizable per key, but for a removal beside an insert of its key, as published: an insert that saw the removed
// slot withdraws its own soon, and a reader may have returned it in between. A client that dies leaks a block, or
// leaves a second slot of its key, which readers pass over.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_RACE_H_
#define BONSAI_BENCH_STUDIES_RIVALS_RACE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/studies/rivals/client_base.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/memory_node.h"
#include "bench/studies/rivals/race_layout.h"
#include "bench/studies/rivals/remote_heap.h"

namespace bonsai::bench::rivals::race {

// Options that are equal for all clients of a table.
struct TableOptions {
  uint32_t global_depth = 0;            // 2^depth sub-tables, at most kSubTablesMax
  uint64_t groups_per_sub_table = 100;  // of kSlotsPerGroup slots
};

// The bytes that the table takes at the start of each of `nodes` memory nodes.
[[nodiscard]] size_t fixed_bytes(const TableOptions& options, size_t nodes);
// Makes an empty table in them; sub-table i is on node i modulo their number. Requires: no client yet.
void make_table(const TableOptions& options, const std::vector<MemoryNode*>& nodes);

struct ClientOptions {
  TableOptions table = {};
  // Where a new key goes: the less loaded of its two combined buckets, as published; or the artefact's first free slot
  // of main bucket 1, main bucket 2, overflow 1, overflow 2.
  enum class Position : uint8_t { kLessLoaded, kFirstFree } position = Position::kLessLoaded;
  RemoteHeap::Options heap = {};
  uint64_t operation_ms_max = 10'000;
};

struct Counters {
  uint64_t cas_lost = 0;
  uint64_t fingerprints_deceived = 0;  // blocks read that had another key
  uint64_t duplicates_resolved = 0;
  uint64_t directory_reads = 0;  // beyond the first
  uint64_t looks_repeated = 0;   // torn or outdated blocks, and second looks after a miss
};

class RaceClient final : public ClientBase<Counters> {
 public:
  // Reads the directory. Requires: the connection outlives it. Errors: Unavailable, NoSpace.
  static Status make(Connection* connection, const ClientOptions& options, std::unique_ptr<RaceClient>* client);

  Status get(std::string_view key, std::string* value) override;
  Status insert(std::string_view key, std::string_view value) override;
  Status update(std::string_view key, std::string_view value) override;
  Status remove(std::string_view key) override;

 private:
  static constexpr size_t kCandidatesMax = 4 * kSlotsPerBucket;

  // A slot with the key's fingerprint.
  struct Candidate {
    uint64_t offset;  // of the slot, in the sub-table
    uint64_t word;
    bool operator==(const Candidate&) const = default;
  };
  // One operation's view of its key.
  struct View {
    explicit View(std::string_view key_of_operation) : key(key_of_operation), place(key_of_operation) {}
    std::string_view key;
    Place place;
    uint64_t read_ns = 0;               // before the buckets were read
    std::array<Combined, 2> images{};   // what they held
    std::array<Combined, 2> earlier{};  // ... in the look before, if it was a miss
    bool missed = false;
    uint64_t own_word = 0;               // what this operation put into a free slot
    std::vector<Candidate> found = {};   // slots of the key, the lowest first
    std::vector<Candidate> others = {};  // known to be of other keys
    std::string_view value = {};         // of the lowest; in the scratch memory
  };
  enum class Look : uint8_t { kFound, kAbsent, kAgain };

  RaceClient(Connection* connection, const ClientOptions& options)
      : ClientBase(connection, options.operation_ms_max), options_(options) {}

  [[nodiscard]] Address sub_table(const View& view) const;
  Status read_directory();
  void add_bucket_reads(View* view);
  Status read_buckets(View* view);
  // Whether the buckets are those of the key; else the directory is read again.
  Status check_headers(const View& view, bool* current);
  [[nodiscard]] std::vector<Candidate> candidates(const View& view) const;
  Status read_candidates(View* view, bool* whole);
  // Judges the images.
  Status judge(View* view, Look* look);
  Status look_up(View* view, const Limit& limit, Look* look);
  [[nodiscard]] bool choose_slot(const View& view, uint64_t* offset) const;
  Status swap(const View& view, const Candidate& slot, uint64_t desired, bool* swapped);
  Status clear(const View& view, const std::vector<Candidate>& slots, bool* all_cleared);
  Status insert_block(View* view, uint64_t block_word, const Limit& limit);
  Status resolve_duplicates(View* view, const Limit& limit);
  Status write_block(std::string_view key, std::string_view value, uint64_t* block_word);
  // Ends an operation whose block may have been taken over or not.
  Status with_block_returned(Status status, uint64_t block_word);
  void free_block(uint64_t word) { heap_->free(address_in(word), Slot::units(word)); }

  const ClientOptions options_;
  std::unique_ptr<RemoteHeap> heap_;
  Directory directory_{};
};

}  // namespace bonsai::bench::rivals::race

#endif  // BONSAI_BENCH_STUDIES_RIVALS_RACE_H_
