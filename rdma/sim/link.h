// SPDX-License-Identifier: Apache-2.0
// One end of a simulated connection: carries its node's requests to the other end. Internal to rdma/sim/.
#ifndef BONSAI_RDMA_SIM_LINK_H_
#define BONSAI_RDMA_SIM_LINK_H_

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/coro/scheduler.h"
#include "rdma/sim/memory.h"

namespace bonsai::rdma {

// The part of a worker that events access.
struct SimWorkerState {
  void complete(WorkList* list) {
    ready.push_back(list);
    wake();
  }
  void wake() {
    for (const base::Scheduler::Token& token : std::exchange(sleepers, {})) base::Scheduler::current()->wake(token);
  }

  size_t node;
  std::shared_ptr<SimRegions> regions;
  SimInbox inbox;
  std::vector<WorkList*> ready;                  // doorbells that are complete and not yet polled, by list
  std::vector<WorkList*> late;                   // complete, too, but their completion is delayed
  std::vector<base::Scheduler::Token> sleepers;  // coroutines that wait for completions (SimCore::await_event)
  double processor = 0;                          // when its thread is free again (SimDevice)
};

// One list's requests to one peer.
struct SimBatch {
  WorkList* list;
  size_t left;
};

struct SimRequest {
  WorkRequest asked;             // as posted
  WorkRequest* origin;           // gets the outcome; not touched once finished
  std::vector<std::byte> bytes;  // the sent bytes, or the answer
  std::shared_ptr<SimBatch> batch;
  uint64_t arrives_ns = 0;  // earliest time at the target (SimDevice)
  bool held_back = false;   // until an answer has come: too many are in flight
  uint32_t tries = 0;
  bool begun = false;     // it was sent: from here on it is unknown whether it was carried out
  bool answered = false;  // the answer has come
  bool finished = false;
  Outcome result = Outcome::kDone;
};

// The life of a request: posted, pumped (sent, in order), executed at the target (in parts, perhaps), answered,
// finished in order. Retries and their exhaustion happen on both ways.
class SimEnd : public std::enable_shared_from_this<SimEnd> {
 public:
  struct Side {
    std::shared_ptr<SimWorkerState> worker;
    uint32_t number;  // Hello::node
  };
  SimEnd(SimCore& core, std::shared_ptr<SimWorkerState> worker, uint32_t number, uint64_t connection);
  // A connection. The core keeps both ends.
  static std::pair<std::shared_ptr<SimEnd>, std::shared_ptr<SimEnd>> make_two(SimCore& core, const Side& a,
                                                                              const Side& b);

  // `arrives_ns`: the earliest time at the target; 0: after a flight.
  void post(WorkRequest* request, const std::shared_ptr<SimBatch>& batch, uint64_t arrives_ns);
  // Carries out and finishes the request now. False: nothing was done, and it has to be posted.
  [[nodiscard]] bool carry_out_now(WorkRequest* request);
  // Closes the connection from this end; pending requests are finished.
  void close();
  // Breaks the connection: sent requests end as kUnreachable, the rest as kFlushed.
  void break_off();
  [[nodiscard]] bool usable() const { return !broken_ && !gone_; }
  [[nodiscard]] size_t node() const { return worker_->node; }

 private:
  using RequestPtr = std::shared_ptr<SimRequest>;

  [[nodiscard]] bool open() const { return !closed_ && !broken_; }
  void pump_after(uint64_t delay_ns);
  void pump();
  [[nodiscard]] bool is_local(const WorkRequest& request) const;
  void try_again(const RequestPtr& request);
  void execute(const RequestPtr& request);
  // Executes the request after the target's device has spent its time on it.
  void execute_timed(const RequestPtr& request, std::byte* target);
  [[nodiscard]] bool too_many_in_flight() const;
  void refuse(const RequestPtr& request, Outcome outcome);
  void move_bytes(const RequestPtr& request, std::byte* target);
  void take_part(const RequestPtr& request, const std::shared_ptr<SimAccess>& access);
  void run_atomic(const RequestPtr& request, std::byte* target);
  void deliver_message(const RequestPtr& request);
  void executed(const RequestPtr& request);
  void answer(const RequestPtr& request);
  void reread(const RequestPtr& request);
  void complete_in_order();
  void finish(const RequestPtr& request, Outcome outcome);
  void finish_all();
  void haunt(const RequestPtr& request);
  void notify_other();

  SimCore& core_;
  const std::shared_ptr<SimWorkerState> worker_;
  const uint32_t number_;  // Hello::node of this end
  const uint64_t connection_;
  SimEnd* other_ = nullptr;
  std::deque<RequestPtr> queue_;  // not finished, in order
  size_t next_ = 0;               // index in queue_: the first request that the target has not started
  size_t ordered_ = 0;            // READs, atomics and FLUSHes that are being executed
  bool writing_ = false;          // a WRITE is being executed
  bool pumping_ = false;          // an event for pump() is in flight
  bool stopped_ = false;          // a refusal is on its way back: the target takes nothing more
  bool broken_ = false, closed_ = false;
  bool gone_ = false;  // the other end said that it ended
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SIM_LINK_H_
