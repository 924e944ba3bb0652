// SPDX-License-Identifier: Apache-2.0
// The serving side of remote targets: a folder of pools with one owner each. It sets up, admits and flushes;
// only the owners' READs and WRITEs move bytes.
//
// Invariants
//   - A pool has at most one owner at a time: the session in its register (pool_owner.h). docs/nodes.md has the
//     protocol. An owner is served over one attachment (attachments.h); the next one, its own or another owner's, is
//     served only when the record is durable and the earlier one has ended.
//   - An owner keeps its pool as long as it renews its lease, and until another session asks for it. The server looks
//     ten times a second for owners that have lost power or network. When an owner's last connection is gone its pool
//     is closed: its region is unregistered first, so that nothing of it reaches the pool any more. It may resume.
//   - Over a fabric whose closed connections do not end all access (shm) a connected owner is replaced only when the
//     next one forces it: its process may be stopped, and it could change the pool when it goes on.
//   - The file's lock is shared with the processes of this machine that have the pool mapped: no later server, and no
//     store, gets the pool while one of them has, whatever becomes of this server.
//   - When a flush request succeeds, its ranges are durable in the persistence domain of the pool's medium; otherwise
//     the response reports the failure.
//   - A request about a pool delays no other: it runs on a thread of its own, however long it takes to create, resize
//     and register the pool. Flush requests are served meanwhile. Each pool has one request at a time.
//   - A flush delays no other pool: where a medium may block, as a disk does, the pool's own thread flushes
//     (flush_thread.h). That thread is there before the pool is opened.
//   - A flush request always finds a receive buffer: each owner has credits for its own, and waits when it has none.
//     An eighth of the buffers is for requests about pools.
//   - What happens to one pool, or to one owner, is its own affair: a file that somebody cut short fails its owner's
//     flushes, and a node that has no descriptors left refuses the next owner. take_notes() names both.
//   - Requests are untrusted bytes: whatever they hold, only the named pool of the configured folder is accessed.
//
// Thread-safety: one thread at a time, the worker's.
#ifndef BONSAI_SCALE_POOL_SERVER_H_
#define BONSAI_SCALE_POOL_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/nvm/mapping.h"
#include "base/nvm/media.h"
#include "base/thread.h"
#include "bonsai/status.h"
#include "rdma/credentials.h"
#include "rdma/fabric.h"
#include "rdma/registered_memory.h"
#include "rdma/remote_persist.h"
#include "scale/attachments.h"
#include "scale/credits.h"
#include "scale/flush_thread.h"
#include "scale/pool_bytes.h"
#include "scale/pool_owner.h"
#include "scale/pool_wire.h"
#include "scale/refusals.h"

namespace bonsai::scale {

class PoolServer {
 public:
  struct Config {
    std::string folder;   // of the pools' files; exists
    std::string address;  // where to listen, in the fabric's notation
    uint32_t node = 0;    // of this server, for its Hello
    // Not 0: the node that tests the fabric at the start. Until admit_owners() it is admitted, without the secret, and
    // all others are asked to come again.
    uint32_t tester = 0;
    // The secret that owners must prove to have, at first (admit_by()); null: everybody who reaches the address is
    // admitted.
    const rdma::Secret* secret = nullptr;
    // The steps that make WRITEs of the fabric survive a power cut of this node (rdma/domain.h). A pool on a medium
    // that needs more (a file, written back by msync) is served as kAdr all the same.
    rdma::RemoteDomain domain = rdma::RemoteDomain::kAdr;
    PersistenceDomain cache_domain = PersistenceDomain::kAuto;  // as Options::persistence_domain
    base::MediaOptions media;
    // Makes the medium of a pool instead of base::make_media, if it is set: a simulated node brings its own NVM.
    std::function<Status(const base::Mapping& mapping, base::Media* media)> make_media;
    uint64_t answer_ms_max = 5'000;  // how long an answer may wait until it leaves
    size_t requests_max = 4'096;     // messages that wait while one is served; at most what the fabric takes
    // The owners of the folder's pools, shared by all servers of this process that serve it. Null: there is no other
    // server.
    std::shared_ptr<PoolOwners> owners;
  };

  // Listens. Requires: the fabric outlives the server. Errors: InvalidArgument (undeclared domain, address), Busy (the
  // address is taken), IoError (no such folder), those of Fabric::make_worker.
  static Status make(rdma::Fabric* fabric, const Config& config, std::unique_ptr<PoolServer>* server);
  ~PoolServer();

  // From now on those are admitted who have this secret; null: everybody. Who is connected stays. Any thread.
  void admit_by(const rdma::Secret* secret);
  // The test of the fabric is over: owners are admitted, and the tester is not any more.
  void admit_owners() { *testing_ = false; }

  // Takes one request, or answers one that has been carried out, if there is one within the bound. Closes pools whose
  // owners have gone, and informs clients that wait for a request in progress. Requires: called in intervals that are
  // far shorter than the clients' bound for a silent node. Errors: Unavailable (there is no request: the usual case of
  // an idle server), InvalidArgument (a malformed request, which was dropped).
  Status serve(uint64_t limit_ms);
  // Whether requests are being carried out; serve() answers them.
  [[nodiscard]] bool at_work() const { return !jobs_.empty() || flushed_->pending(); }

  // What an operator sees of this server. Counters grow since the start.
  struct Report {
    struct Owned {
      std::string owner;      // as users read it
      uint64_t lease_ns = 0;  // left, until another one may have the pool
    };
    std::map<std::string, Owned> pools;  // that have owners here, by name
    uint64_t attachments = 0;            // ways of stores to pools
    uint64_t pool_requests = 0, flush_requests = 0, flushed_bytes = 0, failed_flushes = 0;
    rdma::Traffic traffic;
  };
  [[nodiscard]] Report report() const;

  // Notes for the operator since the last call: a line each. Any thread.
  [[nodiscard]] std::vector<std::string> take_notes();

 private:
  // A pool that has an owner. Members in the order in which they need each other.
  struct Pool {
    PoolBytes bytes;
    std::unique_ptr<FlushThread> flushes;     // null: its medium does not block, and the server's thread flushes
    uint64_t bytes_before = 0;                // that it had when its owner got it; the owner makes it no smaller
    std::shared_ptr<const uint64_t> credits;  // the owner's, which are free again with the last holder

    // As FlushThread::await_idle().
    [[nodiscard]] Status await_flushes() const {
      return flushes == nullptr ? Status::OK() : flushes->await_idle(bytes.mapping->path());
    }

    std::shared_ptr<PoolOwner> owner;
    membership::Sender sender;  // the session that is served, and over which attachment
    uint32_t node = 0;          // the attachment's number
    uint64_t link = 0;          // and its link
    bool unnamed = false;       // it was made by kCreateUnnamed and is not complete
    bool first_record = false;  // its record was made for this owner
    bool unused = false;        // its owner has made nothing durable; known where the server flushes
    rdma::Remote word;          // of the owner's memory, where it had its answer
  };

  // A request about a pool. Until it is over it is its thread's.
  struct Job {
    PoolRequest request;
    std::string name;
    uint32_t node = 0;
    Attachment attachment;
    membership::Sender sender;                // as it asks: for a fence under the epoch that it asks for
    uint64_t seen = 0;                        // a fence: the newest epoch that the sender has seen
    std::shared_ptr<const uint64_t> credits;  // for a pool that is opened
    std::unique_ptr<FlushThread> flushes;     // the same
    std::unique_ptr<Pool> pool;        // that the request changes; in the end that the node owns, null if it owns none
    std::shared_ptr<PoolOwner> paged;  // kPage: of the pool, which stays where it is
    bool unnamed = false;              // kPage: as Pool
    PoolAnswer answer;
    Status status;
    std::atomic<bool> over{false};
    uint64_t beats = 0;   // not the thread's: sent to the node
    base::Thread thread;  // the last member, so that it ends first
  };

  // Shared with the listener's threads.
  class Notes {
   public:
    void add(std::string text);
    std::vector<std::string> take();

   private:
    static constexpr size_t kNotesMax = 64;
    std::mutex mutex_;
    std::vector<std::string> notes_;
  };

  // Who may connect. Shared with the listener's threads.
  class Gate {
   public:
    void set(rdma::Admit admit);
    Status admit(const rdma::Arrival& other, rdma::Hello* answer) const;

   private:
    mutable std::mutex mutex_;
    std::shared_ptr<const rdma::Admit> admit_;  // null: everybody
  };

  PoolServer(rdma::Fabric* fabric, const Config& config)
      : fabric_(fabric),
        config_(config),
        owners_(config.owners != nullptr ? config.owners : std::make_shared<PoolOwners>(config.folder)) {}

  Status start();
  [[nodiscard]] rdma::Admit gate() const;
  Status take(std::span<const std::byte> message, uint32_t node);
  Status begin(Job* job, bool* begins);
  static Status renew(const Pool* pool, Job* job);
  static Status admit_without_owner(const Job& job);
  static Status admit_page(const Pool* pool, Job* job);
  Status admit(const Pool& pool, Job* job) const;
  Status grant_credits(const std::string& name, std::shared_ptr<const uint64_t>* credits);
  Status answer(Job* job, const Status& status);
  bool end_jobs();
  void send_beats();
  void carry_out(Job* job) const;
  Status change(Job* job) const;
  Status open(Job* job) const;
  Status own(Job* job) const;
  static PoolOwner::Register::Reply ask_register(PoolOwner* owner, Job* job);
  static Status judge(const PoolOwner& owner, const PoolOwner::Register::Reply& reply, Job* job);
  Status resize(Job* job) const;
  Status release(Job* job) const;
  Status complete(Job* job) const;
  Status list(Job* job) const;
  Status status_of(Job* job) const;
  static Status set_page(Job* job);
  static Status find(const PoolRequest& request, const std::string& path, const std::string& name);
  Status map_unlocked(const std::string& path, const base::MappingOptions& options, Job* job) const;
  Status map(const std::string& path, const base::MappingOptions& options, Pool* pool) const;
  Status serve_bytes(Pool* pool) const;
  void describe(const Pool& pool, PoolAnswer* answer) const;
  [[nodiscard]] rdma::FlushResult flush(std::span<const rdma::FlushRequest::Range> ranges,
                                        const rdma::FlushAgent::Asked& asked);
  bool end_flushes();
  void look_for_slow_flushes();
  [[nodiscard]] Pool* pool_of(const rdma::FlushRequest::Range& range);
  void look_for_owners();
  void close_abandoned();

  rdma::Fabric* const fabric_;
  const Config config_;
  const std::shared_ptr<PoolOwners> owners_;
  const std::shared_ptr<Attachments> attachments_ = std::make_shared<Attachments>();
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  const std::shared_ptr<Notes> notes_ = std::make_shared<Notes>();
  const std::shared_ptr<Refusals> refusals_ = std::make_shared<Refusals>();
  const std::shared_ptr<FlushResults> flushed_ = std::make_shared<FlushResults>();
  const std::shared_ptr<std::atomic<bool>> testing_ = std::make_shared<std::atomic<bool>>();
  std::unique_ptr<rdma::Worker> worker_;
  std::unique_ptr<rdma::FlushAgent> agent_;
  std::shared_ptr<Credits> credits_;  // that no owner has
  std::map<std::string, std::unique_ptr<Pool>> pools_;
  std::map<std::string, std::unique_ptr<Job>> jobs_;  // by name of the pool
  Report counted_;                                    // its counters
  uint64_t looked_ns_ = 0;                            // when owners were last looked at
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_POOL_SERVER_H_
