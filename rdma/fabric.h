// SPDX-License-Identifier: Apache-2.0
// The fabric: one-sided access to other nodes' memory, and messages. One interface; providers implement it.
//
//   Fabric   a node's access: registers memory, makes workers           any thread
//   Worker   one thread's queues: connects, posts work, takes messages   one thread at a time
//   Peer     a worker's connection to a worker of another node           its worker's thread
//   Region   registered memory (region.h)                                any thread
//   WorkList requests that are posted together (work.h)                  its worker's thread
//
// Guarantees
//   - A request's outcome is known exactly or reported as unknown (Outcome::kUnreachable); no status is dropped.
//   - A failed request breaks its connection: requests posted to that peer after it end as kFlushed, and so do later
//     posts, until a new connection is made. Other peers are not affected.
//   - Every wait has a bound in milliseconds (0: looks once) and ends as Unavailable, naming the wait. Inside a
//     coroutine of a base::Scheduler its siblings run meanwhile; outside, the thread spins briefly, then blocks.
//   - Traffic is counted always and exactly (traffic.h).
// Not promised
//   - That a completed WRITE is durable, or even in the peer's memory as its processor sees it from the medium's side:
//     remote persistence is a call of its own above this interface.
//   - Atomicity between fabric atomics and the peer's own processor, unless Capabilities::atomics_with_cpu. A lock word
//     is accessed only by fabric atomics, never by a WRITE.
//
// Errors: a Status reports that the call itself was rejected or its bound expired; an Outcome, how a request ended.
#ifndef BONSAI_RDMA_FABRIC_H_
#define BONSAI_RDMA_FABRIC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/thread.h"
#include "bonsai/status.h"
#include "rdma/region.h"
#include "rdma/traffic.h"
#include "rdma/work.h"

namespace bonsai::rdma {

inline constexpr uint32_t kProtocolVersion = 6;

// The data that both ends of a connection exchange before the first request.
struct Hello {
  uint32_t version = kProtocolVersion;
  uint32_t node = 0;                        // names the node in the cluster
  uint64_t session = 0;                     // random, constant while the node lives; no third node learns it; 0 = none
  std::array<std::byte, 32> credentials{};  // credentials.h
};

// A Hello that has arrived at a listener, and what the provider knows about its sender.
struct Arrival : Hello {
  std::string listener;  // the address to which it was sent; the sender's provider spells it alike
  std::string from;      // for operators: "10.0.0.2", "process 4711 of user 1000"
};

// A listener's question to a node that connects. The answer is good for one connection to this listener.
struct Challenge {
  std::array<std::byte, 16> nonce{};  // zeros: nothing was asked
  std::string listener;               // as Arrival::listener

  [[nodiscard]] bool was_asked() const { return nonce != std::array<std::byte, 16>{}; }
};

// Decides whether `other` may connect; the other end's connect() returns its error. *answer is the Hello that the other
// end receives: it starts as `own` of listen(), and Admit may add credentials made for `other`. If it refuses, the
// first 16 bytes of the credentials are the nonce of a Challenge, or zeros. Called from any thread of the listening
// worker's fabric; must not call the fabric.
using Admit = std::function<Status(const Arrival& other, Hello* answer)>;

// Completes a Hello so that it answers the challenge.
using Prove = std::function<void(const Challenge& challenge, Hello* hello)>;

// Capabilities of a provider and its device. Constant for a fabric's life.
struct Capabilities {
  std::string text;                        // e.g. "shm, in process"; stamped on results
  bool emulated = true;                    // no network is crossed
  bool atomics_with_cpu = false;           // fabric atomics are atomic with the peer's processor, too
  bool remote_flush = false;               // WorkList::flush() may be used
  bool masked_cas = false;                 // WorkList::masked_cas() may be used
  bool closing_ends_access = true;         // the other end of a closed connection changes nothing here any more
  size_t inline_bytes_max = 0;             // WRITEs and SENDs up to this size read their local memory while posting
  size_t message_bytes_max = 0;            // per SEND
  size_t lists_pending_max = 0;            // per worker; post() beyond it is Busy
  size_t messages_waiting_max = SIZE_MAX;  // per worker: bound on the buffers of a receive ring
};

// A connection. The destructor closes it: pending requests to this peer are completed first (as kFlushed if they were
// not carried out; the worker's next poll() reports them), and the other end's requests end as kUnreachable.
// Requires: destroyed before its worker.
class Peer {
 public:
  virtual ~Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // The Hello of the other end.
  [[nodiscard]] const Hello& hello() const { return hello_; }
  // False once a request has failed or the other end is gone; then connect anew.
  [[nodiscard]] virtual bool usable() const = 0;

 protected:
  explicit Peer(const Hello& hello) : hello_(hello) {}

 private:
  Hello hello_;
};

class Worker;

// A received message. The destructor returns its buffer to the worker's receive ring.
// Requires: destroyed before its worker, on its thread.
class Message {
 public:
  Message() = default;
  ~Message() { release(); }
  Message(Message&& other) noexcept { *this = std::move(other); }
  Message& operator=(Message&& other) noexcept;

  [[nodiscard]] uint32_t from() const { return from_; }  // the sender's Hello::node
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  // For providers: a message in buffer `slot` of the worker's ring.
  Message(Worker* worker, size_t slot, uint32_t from, std::span<const std::byte> bytes)
      : worker_(worker), slot_(slot), from_(from), bytes_(bytes) {}

 private:
  void release();

  Worker* worker_ = nullptr;
  size_t slot_ = 0;
  uint32_t from_ = 0;
  std::span<const std::byte> bytes_;
};

class Worker {
 public:
  virtual ~Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // ---- connections

  // Accepts connections to this worker at `address`, in the provider's notation. Admitted nodes receive `own`, as
  // `admit` left it. Without `admit` every node is admitted. Once per worker. Errors: Busy (the address is taken),
  // InvalidArgument.
  virtual Status listen(const std::string& address, const Hello& own, Admit admit) = 0;
  // Takes the next connection that was made to this worker. Errors: Unavailable (none within the bound).
  Status accept(uint64_t limit_ms, std::unique_ptr<Peer>* peer);
  // Connects to the worker that listens at `address`. With `prove` it answers a challenge, which takes a second
  // message. Errors: Unavailable (no answer within the bound), NotSupported (protocol version), and the error of the
  // other end's Admit. *peer is unchanged on error.
  Status connect(const std::string& address, const Hello& own, uint64_t limit_ms, std::unique_ptr<Peer>* peer,
                 const Prove& prove = {});
  // One greeting of connect(). If the listener asks a challenge, *challenge is set, and the call fails.
  virtual Status greet(const std::string& address, const Hello& own, uint64_t limit_ms, std::unique_ptr<Peer>* peer,
                       Challenge* challenge) = 0;

  // ---- work

  // Submits the list; it is pending until a poll() has found all of it complete. An empty list is complete at once.
  // Requires: not pending; all peers are of this worker. Errors: only Busy (Capabilities::lists_pending_max). Then
  // nothing was posted: poll until a list has ended, and post this one again.
  Status post(WorkList* list);
  // Processes completions. Returns the number of lists that became complete. Never blocks.
  virtual size_t poll() = 0;
  // Polls until the list is complete, and returns its status. Errors: also Unavailable when the bound expired. The list
  // is then still pending and its memory still in use: wait again, or close its peers.
  Status wait(const WorkList& list, uint64_t limit_ms);
  // post() and wait(). Errors: those of both.
  Status run(WorkList* list, uint64_t limit_ms);

  // Polls until ready(). For changes that another node writes into this node's memory, which no completion reports.
  // Errors: Unavailable when the bound expired, naming the wait.
  Status await(const char* name, uint64_t limit_ms, const std::function<bool()>& ready);

  // ---- messages

  // Gives the worker `memory` as a ring of receive buffers of `message_bytes_max` each. Once per worker, before the
  // first message arrives; the memory's region outlives the worker. Errors: InvalidArgument (no buffer fits, or called
  // twice).
  virtual Status set_receive_ring(Slice memory, size_t message_bytes_max) = 0;
  // Takes the oldest message of any peer. Errors: Unavailable (none within the bound).
  Status receive(uint64_t limit_ms, Message* message);

  // Counted since the worker was made.
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 protected:
  friend class Message;
  Worker() = default;

  // Starts a list that is not empty; it calls list->set_pending() first.
  virtual Status start(WorkList* list) = 0;
  virtual bool try_accept(std::unique_ptr<Peer>* peer) = 0;
  virtual bool try_receive(Message* message) = 0;
  virtual void release_buffer(size_t slot) = 0;
  // Pauses while nothing has completed; a provider that can block on its device does so here.
  virtual void pause(base::BoundedWait* wait) { wait->pause(); }

 private:
  template <class Ready>
  Status wait_for(const char* name, uint64_t limit_ms, Ready ready);

  Traffic traffic_;
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;

  // Registers `memory`, which must stay mapped while *region lives. Atomics need memory that begins at a multiple of 8.
  // Errors: InvalidArgument (empty), NotSupported (the device cannot register this kind of memory; the message says
  // which kinds it can), NoSpace (limit of locked memory).
  virtual Status register_region(std::span<std::byte> memory, Rights rights, std::unique_ptr<Region>* region) = 0;

  // As register_region(), for a shared mapping of the beginning of an open file. Other processes that map the region
  // get the same open file description, so that a lock on it (flock) lasts until the last of them has unmapped it.
  virtual Status register_file(std::span<std::byte> memory, Rights rights, [[maybe_unused]] int file,
                               std::unique_ptr<Region>* region) {
    return register_region(memory, rights, region);
  }

  // Requires: workers are destroyed before their fabric. Errors: NoSpace (device limits).
  virtual Status make_worker(std::unique_ptr<Worker>* worker) = 0;

  // A small number of the calling thread, or of the calling coroutine where coroutines simulate threads. A caller that
  // shares a set of workers takes the worker of this number modulo their count. So each thread keeps to one worker, and
  // threads seldom contend.
  [[nodiscard]] virtual uint32_t caller() const { return base::thread_ordinal(); }

 protected:
  Fabric() = default;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_FABRIC_H_
