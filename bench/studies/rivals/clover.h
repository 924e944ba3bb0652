// SPDX-License-Identifier: Apache-2.0
// Clover-like: a store of versions. Slabs in remote memory that clients chain by compare-and-swap, newest last; a
// metadata server that knows where chains begin and which slabs are free. Class V (nothing is durable).
// Clover-persist-like: the same over persistent memory; class D (durable before it is acknowledged), for as long as the
// metadata server lives.
//
// After the public descriptions of Clover and its published code (WukLab/pDPM). h = READs after the first list.
//
//   operation                    lists/messages/bytes, records of 8 + 8 bytes in slabs of 128
//   get                          {READ slab 128, READ shortcut 8}                              1/2/136
//     d versions have come since  to the shortcut if it is newer, then a READ 128 for each      +h/h/128h
//     not cached                 SEND 192 to the metadata server, answered by a WRITE of 192   +1/1/192
//     the slab was used anew     the same, then again                                          +2/3/328
//   update                       WRITE slab 128; CAS 8 of the newest version's header          2/2/136
//     its CAS is lost            {READ header 8, READ shortcut 8}; CAS of the newest known     +2/3/24
//     ... a second time          then a READ 8 for each header on the way to the newest        +h/h/8h
//     no buffer is left          SEND 192; the answer has 16                                   +1/1/192
//   insert                       WRITE slab 128; SEND 192; the server writes the shortcut      2/2/320
//     of a key that exists       WRITE; SEND; CAS                                              3/3/328
//   in the background            {WRITE shortcut 8 each} for up to 32 updates; SEND 560 for each 16 of them
//   remove                       none, as published
//
// Simplified: one copy of everything; no transaction bits, whose place in links the version's place in its chain has;
// a handle is {node, slab}, not an index of a table; one size of slabs for a store (published: nine, with shares tuned
// to the records); workers of the server answer calls, and retire and recycle on the way (published: eight for calls,
// five more for the rest). As published, keys of one 64-bit hash are one key to the
// server and the cursors: an update of the one hides the other. Hashes of 8-byte keys are all different.
// Differences:
//   - slabs hold the key and a CRC, and each read is verified;
//   - old links: a slab whose versions are used up is parked for four epochs of the server, and a node that knows of
//     two more than when it learned a link uses it no more (clover_metadata.h); a get or update of a node that knows
//     the epoch by no call of the last one asks the server. Published: an exchange of messages that can block all
//     operations;
//   - walks end with operation_ms_max (published: no bound);
//   - a node that leaves a key alone while others update it 2^15 times cannot compare places of its chain any more: it
//     walks along the links, up to 2^16 of them, where a shortcut would do.
// Readers take no lock. A header is under CASes only while its slab may be linked to: the WRITE of a new version finds
// a header that names a successor, which no CAS expects.
// Persistence is all ours: its authors' code has none. One of two ways makes a slab durable before the CAS, and the
// header before the update is acknowledged:
//   flushing read  {WRITE 128, READ 1}; {CAS, READ 1}                                           2/4/138
//   agent          {WRITE 128, SEND 40}; {CAS, SEND 40}, each answered by the node's processor  2/4/216
//     for each header that the update passed on its way: {CAS to the same, READ 1} or SEND 40   +1/2/9, +1/1/40
//     with the agent, except for one at which a CAS was lost: its flush had been requested already
// The first relies on a platform where a READ pushes earlier WRITEs to the persistence domain. Shortcuts and cursors
// are volatile. Reads may return updates that are not durable yet, as in every scheme that flushes after it has
// written. Linearizable per key. A client that dies leaks its buffers.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_CLOVER_H_
#define BONSAI_BENCH_STUDIES_RIVALS_CLOVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/studies/rivals/client_base.h"
#include "bench/studies/rivals/clover_calls.h"
#include "bench/studies/rivals/clover_layout.h"
#include "bench/studies/rivals/clover_node.h"
#include "bench/studies/rivals/connection.h"
#include "bench/studies/rivals/memory_node.h"

namespace bonsai::bench::rivals::clover {

// The way to make slabs and headers durable.
enum class Persist : uint8_t { kNone, kFlushingRead, kAgent };

struct ClientOptions {
  Persist persist = Persist::kNone;
  uint64_t operation_ms_max = 10'000;
  // The longest wait of an update for slabs to become free. Slabs of old versions do once the collectors have reported
  // them.
  uint64_t buffers_ms_max = 1'000;
};

struct Counters {
  uint64_t asked = 0;     // the server, where a key is
  uint64_t outdated = 0;  // links to slabs that are used anew, or too old to be used
  uint64_t torn = 0;      // slabs read again
  uint64_t hops = 0;      // links that gets and updates followed, those of shortcuts among them
  uint64_t jumps = 0;     // ... those of shortcuts
  uint64_t cas_lost = 0;
};

class CloverClient final : public ClientBase<Counters> {
 public:
  // The connection's nodes are the memory nodes and then the metadata server's workers. Requires: connection and
  // compute node outlive it. Errors: Unavailable, NoSpace, InvalidArgument (the store's options).
  static Status make(Connection* connection, ComputeNode* node, const ClientOptions& options,
                     std::unique_ptr<CloverClient>* client);

  Status get(std::string_view key, std::string* value) override;
  Status insert(std::string_view key, std::string_view value) override;
  Status update(std::string_view key, std::string_view value) override;
  // NotSupported: nothing is removed, as published.
  Status remove(std::string_view key) override;

 private:
  // A header that a walk has passed, and what it was.
  struct Passed {
    Address at;
    uint64_t word;
  };

  CloverClient(Connection* connection, ComputeNode* node, const ClientOptions& options)
      : ClientBase(connection, options.operation_ms_max), node_(node), store_(node->store()), options_(options) {}

  Status ask(uint64_t hash, Cursor* cursor);
  Status find(uint64_t hash, Cursor* cursor);
  // The link to follow from a header that was read, maybe with the shortcut.
  Link onward(const Cursor& cursor, Header header, bool shortcut_read, bool header_durable);
  Status check_size(std::string_view key, std::string_view value) const;
  // Waits for collectors and for free slabs, and writes a new version. *buffer is its slab.
  Status write_version(std::string_view key, std::string_view value, const Limit& limit, Buffer* buffer);
  Status take_buffer(Buffer* buffer);
  Status write_slab(const Buffer& buffer, std::string_view key, std::string_view value);
  Status link(uint64_t hash, Cursor cursor, const Buffer& buffer, const Limit& limit);
  Status swap(Link tail, Link own, bool* linked);
  Status follow(uint64_t hash, bool to_the_end, const Limit& limit, Cursor* cursor);
  // Adds to the batch, after its WRITEs or CASes, what makes them durable; and waits for it once the batch has run.
  void add_flush(Address first, uint64_t bytes);
  Status run_flushed();
  Status flush_passed();

  ComputeNode* const node_;
  const Store& store_;
  const ClientOptions options_;
  std::unique_ptr<MetadataCaller> caller_;
  std::unique_ptr<FlushCaller> flusher_;
  std::vector<Buffer> buffers_;
  std::vector<Passed> passed_;
};

}  // namespace bonsai::bench::rivals::clover

#endif  // BONSAI_BENCH_STUDIES_RIVALS_CLOVER_H_
