// SPDX-License-Identifier: Apache-2.0
// Remote persistence: WRITEs to another node's persistent memory that are durable when the call returns. One call,
// three strategies; the declared domain and the device decide which:
//
//   flush agent       WRITEs and a SEND in one doorbell; a processor of the node flushes and answers   any domain
//   read after write  WRITEs and a READ in one doorbell: it pushes them out of device and bus          adr-direct, eadr
//   RDMA FLUSH        WRITEs and FLUSHes in one doorbell                                               any domain
//
// Each costs one round trip. With an undeclared domain nothing starts: a completed WRITE does not prove durability, and
// a wrong guess would be noticed only after a power cut.
//
// Not promised
//   - Anything about bytes whose persist() failed: all, some or none of them may survive.
//   - Atomicity: a power cut amid persist() leaves any subset of its 8-byte words.
#ifndef BONSAI_RDMA_REMOTE_PERSIST_H_
#define BONSAI_RDMA_REMOTE_PERSIST_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "rdma/domain.h"
#include "rdma/fabric.h"
#include "rdma/registered_memory.h"

namespace bonsai::rdma {

enum class PersistStrategy : uint8_t { kFlushAgent, kReadAfterWrite, kFlush };

// "flush agent", "read after write", "RDMA FLUSH".
std::string_view strategy_name(PersistStrategy strategy);

// The cheapest strategy that guarantees durability. Errors: InvalidArgument (undeclared domain; says what to declare).
Status choose_strategy(RemoteDomain domain, const Capabilities& capabilities, PersistStrategy* strategy);

// The request of persist() to a flush agent, in wire format: a header and `ranges` ranges.
struct FlushRequest {
  static constexpr size_t kRangesMax = 15;
  struct Range {
    uint64_t address = 0;
    uint64_t bytes = 0;
  };
  uint64_t token = 0;  // the answer; with kRefused if the agent does not serve the ranges, kFailed if a flush failed
  Remote answer;       // where it is written
  uint64_t ranges = 0;
  std::array<Range, kRangesMax> range{};

  static constexpr uint64_t kRefused = uint64_t{1} << 63;
  static constexpr uint64_t kFailed = uint64_t{1} << 61;
  // Tokens are at most this; a message of another kind begins with a larger word (FlushAgent::set_other).
  static constexpr uint64_t kTokenMax = (uint64_t{1} << 61) - 1;
};
static_assert(sizeof(FlushRequest) == 272);

// The result of a flush agent for the ranges of a request.
enum class FlushResult : uint8_t {
  kDone,       // all are durable
  kNotServed,  // the agent does not serve some range
  kFailed,     // the medium could not make them durable
  kLater,      // it is not known yet: FlushAgent::answer_flush() will have the result
};

// A connection that can make its WRITEs durable. Several coroutines of the worker's thread may persist at the same
// time. Requires: destroyed before its worker. Thread-safety: the worker's thread.
class RemotePersist {
 public:
  static constexpr size_t kWritesMax = FlushRequest::kRangesMax;
  static constexpr size_t kInFlightMax = 32;

  struct Write {
    Slice from;
    Remote to;
  };

  // Errors: those of choose_strategy() and register_region(); the connection is closed then.
  static Status make(Fabric* fabric, Worker* worker, std::unique_ptr<Peer> peer, RemoteDomain domain,
                     std::unique_ptr<RemotePersist>* persist);
  ~RemotePersist();

  // Performs the writes in order, and returns when they are durable. One round trip. Requires: 1..kWritesMax writes.
  // Errors: Unavailable (unknown whether durable), InvalidArgument (the peer refused), IoError (its medium failed).
  // After an error nothing more can be persisted here, and the sources stay in use until this object is destroyed:
  // destroy it and connect anew.
  Status persist(std::span<const Write> writes, uint64_t limit_ms);

  // The parts of persist(), for callers with several persists in flight. None of them lets siblings of a coroutine run.
  // Posts the writes and the requests that make them durable; *ticket names them until end(). Errors: Busy
  // (kInFlightMax persists, or the worker's maximum of lists, are in flight; nothing was posted: poll, end() one and
  // try again), Unavailable.
  Status begin(std::span<const Write> writes, size_t* ticket);
  // Whether the writes have ended, according to the worker's polls so far.
  [[nodiscard]] bool ended(size_t ticket);
  // Errors: as persist(). Requires: ended(ticket), or the caller gives up waiting, which returns an error.
  Status end(size_t ticket);

  [[nodiscard]] PersistStrategy strategy() const { return strategy_; }
  // For other requests over the same connection.
  [[nodiscard]] Peer& peer() { return *peer_; }

 private:
  // The registered memory of one persist().
  struct Slot {
    FlushRequest request;
    uint64_t answer;
    uint64_t read;
  };
  RemotePersist(Worker* worker, std::unique_ptr<Peer> peer, PersistStrategy strategy)
      : worker_(worker), peer_(std::move(peer)), strategy_(strategy) {}

  void fill(std::span<const Write> writes, size_t slot, WorkList* list);
  void add_flush(std::span<const Write> writes, size_t slot, WorkList* list);
  [[nodiscard]] uint64_t answer_word(size_t ticket);
  Status answer_status(size_t ticket);
  [[nodiscard]] Slot& slot(size_t index) { return reinterpret_cast<Slot*>(memory_->data())[index]; }
  [[nodiscard]] size_t offset(size_t index, const void* field) {
    return index * sizeof(Slot) +
           static_cast<size_t>(static_cast<const std::byte*>(field) - reinterpret_cast<std::byte*>(&slot(index)));
  }

  Worker* const worker_;
  std::unique_ptr<Peer> peer_;
  const PersistStrategy strategy_;
  bool failed_ = false;
  uint64_t tokens_ = 0;
  std::unique_ptr<RegisteredMemory> memory_;
  std::vector<size_t> free_slots_;
  std::array<WorkList, kInFlightMax> lists_;  // by slot
};

// The flush agent, at the target: serves the connections that were made to one worker. It takes all messages of that
// worker.
// Thread-safety: the worker's thread. Requires: destroyed before the worker.
class FlushAgent {
 public:
  // Who asked for a flush, and where the answer goes.
  struct Asked {
    uint32_t node = 0;
    uint64_t token = 0;
    Remote to;
  };
  // Makes the ranges durable, with addresses as in RemoteRegion: checks that it serves them, flushes and fences. After
  // kLater the request is answered by answer_flush(), once.
  using Flush = std::function<FlushResult(std::span<const FlushRequest::Range> ranges, const Asked& asked)>;
  // Takes a message of another kind.
  using Other = std::function<Status(std::span<const std::byte> message, uint32_t node)>;
  static constexpr size_t kAnswersMax = 16;  // in flight
  static constexpr size_t kAnswerBytesMax = 512;
  static constexpr size_t kWaitingMax = 1'024;          // answers that cannot be sent yet
  static constexpr uint64_t kFlushAnswerMsMax = 5'000;  // how long the answer to a flush request waits to be sent

  // Gives the worker its receive ring, of `requests_max` buffers. Errors: those of register_region().
  static Status make(Fabric* fabric, Worker* worker, size_t requests_max, Flush flush,
                     std::unique_ptr<FlushAgent>* agent);
  // A Flush that serves only ranges in `served`, and makes them durable by `flush`.
  static Flush within(std::span<const std::byte> served, std::function<void(std::span<const std::byte> bytes)> flush);
  ~FlushAgent();

  // Messages of at most sizeof(FlushRequest) bytes whose first word is above FlushRequest::kTokenMax go to `other`.
  void set_other(Other other) { other_ = std::move(other); }

  // Sends waiting answers and serves one request. Errors: Unavailable (no request came within the bound, which is short
  // while answers wait; normal for an idle agent), InvalidArgument (a malformed request, which is dropped), and those
  // of answer() and Other.
  Status serve(uint64_t limit_ms);

  // Writes `bytes` into the memory of `node` at `to`, the last word last. Requires: a multiple of 8 bytes, at most
  // kAnswerBytesMax; more than 8 only if one of the words shows that the answer is complete. If the worker has its
  // maximum of lists in flight, a later serve() sends the answer, unless `limit_ms` pass before. Errors, after which
  // the answer is not sent: Unavailable (the node is gone), Busy (kWaitingMax answers wait already, or it cannot be
  // sent now and limit_ms is 0).
  Status answer(uint32_t node, std::span<const std::byte> bytes, Remote to, uint64_t limit_ms);
  // The answer to a flush request. Requires: a result other than kLater. Errors: as answer().
  Status answer_flush(const Asked& asked, FlushResult result);

  // Closes all connections of the node: nothing of them arrives any more.
  void end(uint32_t node);
  // Whether some connection of the node is usable.
  [[nodiscard]] bool connected(uint32_t node);

  // Detects nodes that lost power, which close no connection. Reads a word of each node's memory over all connections
  // of these nodes; once a read has failed, connected() no longer counts its connection. Call it regularly; it does not
  // wait. One call tests as many connections as a work list has room for, and the next call continues after them.
  // Requires: the nodes grant this node the right to read there.
  void look_for(const std::map<uint32_t, Remote>& words);

 private:
  FlushAgent(Worker* worker, Flush flush) : worker_(worker), flush_(std::move(flush)) {}

  struct Answer {
    uint32_t node = 0;
    Remote to;
    uint64_t until_ns = 0;
    std::vector<std::byte> bytes;
  };

  void accept_peers();
  Peer* peer_of(uint32_t node);
  Status send(uint32_t node, std::span<const std::byte> bytes, Remote to);
  void send_waiting();

  Worker* const worker_;
  const Flush flush_;
  Other other_;
  std::unique_ptr<RegisteredMemory> memory_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::array<WorkList, kAnswersMax> answers_;
  size_t answered_ = 0;
  std::deque<Answer> waiting_;  // answers that could not be sent yet
  WorkList looks_;
  size_t next_look_ = 0;  // the connection that is tested next, modulo their number
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_REMOTE_PERSIST_H_
