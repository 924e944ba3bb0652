// SPDX-License-Identifier: Apache-2.0
// One thread's queues on a device: a completion queue for all of its connections, a shared receive queue, and the
// bookkeeping of posted requests.
#ifndef BONSAI_RDMA_VERBS_WORKER_H_
#define BONSAI_RDMA_VERBS_WORKER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rdma/fabric.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/link.h"

namespace bonsai::rdma::verbs {

class VerbsWorker;

// Requires: used by its worker's thread only.
class VerbsPeer final : public Peer {
 public:
  VerbsPeer(VerbsWorker& worker, std::unique_ptr<Link> link);
  ~VerbsPeer() override;
  [[nodiscard]] bool usable() const override { return !broken_ && !link_->gone(); }

 private:
  friend class VerbsWorker;

  VerbsWorker& worker_;
  std::unique_ptr<Link> link_;
  bool broken_ = false;      // nothing more is submitted to the device; closed once all submitted requests have ended,
  bool must_close_ = false;  // or at once
  bool has_failed_ = false;  // a request has ended other than as kDone
  bool is_closed_ = false;   // the queue pair is gone
  // The outcome of requests that the device returned unanswered: unknown, until the other end refuses a request,
  // because nothing is carried out after a refusal.
  Outcome unanswered_ = Outcome::kUnreachable;
  size_t doorbells_ = 0;  // submitted to the device
};

// The connections that were made to a listening worker. Its events arrive on the fabric's event thread.
class Listener final : public EventSink {
 public:
  // Errors: as Worker::listen.
  static Status make(Events& events, const Link::Queues& queues, const std::string& address, const Hello& own,
                     Admit admit, std::unique_ptr<Listener>* listener);
  ~Listener() { id_.reset(); }

  // Takes the oldest complete connection that was not taken yet.
  std::unique_ptr<Link> take();
  // Finds the node of a queue pair that received a message before its connection was taken; false if there is none. A
  // received message completes the set-up, whose own last message may arrive later.
  bool find(uint32_t pair_number, uint32_t* node);
  void on_event(const rdma_cm_event& event) override;

 private:
  static constexpr size_t kArrivedMax = 256;

  Listener(const Link::Queues& queues, const Hello& own, Admit admit)
      : queues_(queues), own_(own), admit_(std::move(admit)) {}
  // Decides on a request; *other is its greeting, *answer the reply.
  Status admit(const rdma_cm_event& event, Greeting* other, Hello* answer);

  const Link::Queues queues_;
  const Hello own_;
  const Admit admit_;
  ConnectionId id_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<Link>> arrived_;
};

class VerbsWorker final : public Worker {
 public:
  // Errors: as Fabric::make_worker.
  static Status make(const Device& device, Events& events, std::unique_ptr<Worker>* worker);
  ~VerbsWorker() override;

  Status listen(const std::string& address, const Hello& own, Admit admit) override;
  Status greet(const std::string& address, const Hello& own, uint64_t limit_ms, std::unique_ptr<Peer>* peer,
               Challenge* challenge) override;
  size_t poll() override;
  Status set_receive_ring(Slice memory, size_t message_bytes_max) override;

 protected:
  Status start(WorkList* list) override;
  bool try_accept(std::unique_ptr<Peer>* peer) override;
  bool try_receive(Message* message) override;
  void release_buffer(size_t slot) override;
  void pause(base::BoundedWait* wait) override;

 private:
  friend class VerbsPeer;

  // The requests of one list to one peer.
  struct Doorbell {
    WorkList* list = nullptr;  // null: free
    VerbsPeer* peer = nullptr;
    size_t next = 0;  // requests before this one have their outcome
    size_t last = 0;  // the signalled one
    size_t rest = 0;  // requests from here on are not submitted yet: after a fence that the device does not keep
    bool failed = false;
  };
  struct Arrival {
    size_t slot, bytes;
    uint32_t from;
  };

  VerbsWorker(const Device& device, Events& events) : device_(device), events_(events) {}
  Status make_queues();
  [[nodiscard]] Link::Queues queues();
  std::unique_ptr<Peer> make_peer(std::unique_ptr<Link> link);

  void ring(WorkList* list, VerbsPeer* peer);
  bool submit(size_t slot);
  bool may_submit(WorkRequest* request, VerbsPeer* peer) const;
  size_t drain();
  void complete(const ibv_wc& completion);
  void complete_receive(const ibv_wc& completion);
  void settle(Doorbell* doorbell, size_t index, Outcome outcome);
  void end_doorbell(WorkList* list);
  void close(VerbsPeer* peer);
  void look_after_peers();
  void block();
  int offer_buffer(size_t slot);

  const Device& device_;
  Events& events_;
  CompletionChannel channel_;
  base::OsFile bell_;  // signalled by the event thread when a connection begins or ends
  CompletionQueue completions_;
  ReceiveQueue receives_;
  unsigned completion_events_ = 0;  // not acknowledged yet
  bool is_armed_ = false;
  std::atomic<bool> links_changed_{false};
  bool has_broken_peers_ = false;  // that are still open

  std::vector<Doorbell> doorbells_;
  std::vector<size_t> free_doorbells_;
  std::vector<WorkList*> not_submitted_;  // each has a doorbell that ends with the next poll
  size_t lists_pending_ = 0;
  size_t lists_ended_ = 0;                // since poll() began
  std::map<uint32_t, VerbsPeer*> peers_;  // by queue pair

  Slice ring_;
  size_t message_bytes_max_ = 0;
  std::deque<Arrival> arrived_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace bonsai::rdma::verbs

#endif  // BONSAI_RDMA_VERBS_WORKER_H_
