// SPDX-License-Identifier: Apache-2.0
// The thread that carries out the flush requests of one pool, for a medium whose fences may take long
// (base::Media::fence_blocks): a disk that stalls delays the owner of that pool and nobody else.
//
//   FlushThread    one pool's; all requests that wait when it is free get one fence together
//   FlushResults   what the threads of a server have done, for the server's own thread, which answers
//
// Thread-safety: FlushThread: one owner; FlushResults: all methods.
#ifndef BONSAI_SCALE_FLUSH_THREAD_H_
#define BONSAI_SCALE_FLUSH_THREAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/thread.h"
#include "bonsai/status.h"
#include "rdma/remote_persist.h"
#include "scale/pool_bytes.h"

namespace bonsai::scale {

class FlushResults {
 public:
  struct Done {
    rdma::FlushAgent::Asked asked;
    rdma::FlushResult result = rdma::FlushResult::kFailed;
    std::string note;  // for the operator, if not empty
  };

  // Whether requests have begun whose results nobody has taken.
  [[nodiscard]] bool pending() const { return pending_.load(std::memory_order_relaxed) != 0; }
  void begin() { pending_.fetch_add(1, std::memory_order_relaxed); }
  // Requests that have begun get no result.
  void drop(size_t count) { pending_.fetch_sub(count, std::memory_order_relaxed); }
  void add(std::vector<Done> done);
  [[nodiscard]] std::vector<Done> take();

 private:
  std::atomic<size_t> pending_{0};
  std::mutex mutex_;
  std::vector<Done> done_;
};

class FlushThread {
 public:
  using Range = PoolBytes::Range;

  // Has the thread, which does not begin yet. Errors: NoSpace, with the remedy.
  static Status reserve(std::shared_ptr<FlushResults> results, std::unique_ptr<FlushThread>* made);
  // Drops the requests that have not begun, and returns when those that have begun have ended: as late as the medium's
  // fence. await_idle() before avoids that wait.
  ~FlushThread();
  FlushThread(const FlushThread&) = delete;
  FlushThread& operator=(const FlushThread&) = delete;

  // `waiting_max`: of requests that have not begun.
  void begin(size_t waiting_max);
  // Flushes the ranges of a request; FlushResults gets the result. False: too many wait. Requires: begin(); *bytes
  // holds the ranges and stays as it is while this thread is not idle.
  [[nodiscard]] bool add(PoolBytes* bytes, std::span<const Range> ranges, const rdma::FlushAgent::Asked& asked);
  // Whether all requests have ended.
  [[nodiscard]] bool idle() const;
  // Errors: Busy (the medium is not done within the bound; the message names `path` and the remedy).
  [[nodiscard]] Status await_idle(const std::string& path) const;
  // Whether the present fence has taken longer than a fence should. True once for each such fence.
  [[nodiscard]] bool finds_slow();

 private:
  struct Request {
    PoolBytes* bytes;
    std::vector<Range> ranges;
    rdma::FlushAgent::Asked asked;
  };

  explicit FlushThread(std::shared_ptr<FlushResults> results) : results_(std::move(results)) {}

  void run();
  void carry_out(std::span<const Request> requests);

  const std::shared_ptr<FlushResults> results_;
  size_t waiting_max_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Request> waiting_;
  bool stops_ = false;
  uint64_t begun_ns_ = 0;  // when the requests that are being carried out began; 0: there are none
  bool found_slow_ = false;
  base::Event woken_;
  base::Thread thread_;  // the last member, so that it ends first
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_FLUSH_THREAD_H_
