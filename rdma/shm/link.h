// SPDX-License-Identifier: Apache-2.0
// One end of a connection of the shm provider. Internal to rdma/shm/.
#ifndef BONSAI_RDMA_SHM_LINK_H_
#define BONSAI_RDMA_SHM_LINK_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "rdma/shm/inbox.h"
#include "rdma/shm/regions.h"
#include "rdma/shm/service.h"
#include "rdma/shm/wire.h"

namespace bonsai::rdma {

// The state of a worker that its peers access.
class ShmWorkerState {
 public:
  explicit ShmWorkerState(std::shared_ptr<ShmRegions> regions) : regions_(std::move(regions)) {}
  [[nodiscard]] ShmRegions& regions() { return *regions_; }
  [[nodiscard]] std::shared_ptr<ShmInbox> inbox() {
    const std::lock_guard lock(mutex_);
    return inbox_;
  }
  void set_inbox(std::shared_ptr<ShmInbox> inbox) {
    const std::lock_guard lock(mutex_);
    inbox_ = std::move(inbox);
  }

 private:
  const std::shared_ptr<ShmRegions> regions_;
  std::mutex mutex_;
  std::shared_ptr<ShmInbox> inbox_;
};

// Shared by the two ends; [side] is written by that end.
struct ShmPage {
  std::array<ShmTurn, 2> turn;
  std::array<std::atomic<uint32_t>, 2> closed;
};

// Thread-safety: its worker's thread, but hear(), which is the service's.
class ShmEnd : public std::enable_shared_from_this<ShmEnd> {
 public:
  // For a connection within this process: `far` is the other end's worker.
  ShmEnd(uint32_t number, size_t side, std::shared_ptr<SharedMemory> page, std::shared_ptr<ShmWorkerState> own,
         std::shared_ptr<ShmWorkerState> far);
  // For a connection between processes.
  ShmEnd(uint32_t number, size_t side, std::shared_ptr<SharedMemory> page, std::shared_ptr<ShmWorkerState> own,
         ShmSocket socket, std::unique_ptr<SharedMemory> far_table, std::shared_ptr<ShmService> service);
  ~ShmEnd();
  // Call once, after the object is in a shared_ptr.
  void open();

  [[nodiscard]] bool usable() const { return !broken_ && !gone(); }
  // Carries out one request. A failure breaks the connection. `own`: the local memory is of this node.
  Outcome perform(const WorkRequest& request, bool own);
  void close();
  // Answers the greeting of the other process.
  void say(const ShmWire& message, std::initializer_list<int> files) {
    static_cast<void>(socket_.send(message, files));
  }

 private:
  [[nodiscard]] ShmPage& page() const { return *reinterpret_cast<ShmPage*>(page_->bytes().data()); }
  [[nodiscard]] bool gone() const {
    return gone_.load(std::memory_order_acquire) || page().closed[1 - side_].load(std::memory_order_seq_cst) != 0;
  }
  // The other end.
  [[nodiscard]] ShmAccessor accessor() const {
    return {&page().turn[1 - side_], &gone_, /*is_process=*/service_ != nullptr};
  }
  Outcome carry_out(const WorkRequest& request);
  Outcome access(const ShmView& view, const WorkRequest& request);
  Outcome send(const WorkRequest& request);
  // These return kDone, or why the request cannot be carried out.
  Outcome find_view(uint64_t key, ShmView** view);
  Outcome get_view(uint64_t key, ShmView* view);
  void drop_view(uint64_t key);
  Outcome get_inbox();
  // Sends a request to the other process and waits for its answer. kUnreachable if there is none; `refused` if that
  // process has not what is asked for.
  Outcome ask(const ShmWire& question, Outcome refused, ShmWire* answer, std::vector<base::OsFile>* files);
  bool hear();
  void answer(const ShmWire& question);

  const uint32_t number_;  // Hello::node of this end
  const size_t side_;
  const std::shared_ptr<SharedMemory> page_;
  const std::shared_ptr<ShmWorkerState> own_;
  const std::shared_ptr<ShmWorkerState> far_;  // null between processes
  const ShmSocket socket_;
  const std::unique_ptr<SharedMemory> far_table_;
  const std::shared_ptr<ShmService> service_;

  bool attached_ = false, broken_ = false, closed_ = false;
  std::atomic<bool> gone_{false};
  std::unordered_map<uint64_t, ShmView> views_;
  ShmView* last_view_ = nullptr;
  std::shared_ptr<ShmInbox> far_inbox_;

  std::mutex mutex_;  // guards the answer
  std::condition_variable answer_came_;
  std::optional<ShmWire> answered_;
  std::vector<base::OsFile> answered_files_;
  bool files_lost_ = false;  // those of the answer
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SHM_LINK_H_
