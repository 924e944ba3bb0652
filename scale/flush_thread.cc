// SPDX-License-Identifier: Apache-2.0
#include "scale/flush_thread.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kIdleMsMax = 1'000;
constexpr uint64_t kSlowNs = base::kNsPerSecond;

}  // namespace

void FlushResults::add(std::vector<Done> done) {
  const std::lock_guard lock(mutex_);
  done_.insert(done_.end(), std::make_move_iterator(done.begin()), std::make_move_iterator(done.end()));
}

std::vector<FlushResults::Done> FlushResults::take() {
  if (!pending()) return {};
  std::vector<Done> taken;
  {
    const std::lock_guard lock(mutex_);
    taken = std::exchange(done_, {});
  }
  drop(taken.size());
  return taken;
}

Status FlushThread::reserve(std::shared_ptr<FlushResults> results, std::unique_ptr<FlushThread>* made) {
  std::unique_ptr<FlushThread> thread(new FlushThread(std::move(results)));
  BONSAI_RETURN_IF_ERROR(base::Thread::reserve("pool flush", &thread->thread_));
  *made = std::move(thread);
  return Status::OK();
}

FlushThread::~FlushThread() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    results_->drop(std::exchange(waiting_, {}).size());
  }
  woken_.signal();
  thread_.join();
}

void FlushThread::begin(size_t waiting_max) {
  waiting_max_ = waiting_max;
  thread_.begin([this] { run(); });
}

bool FlushThread::add(PoolBytes* bytes, std::span<const Range> ranges, const rdma::FlushAgent::Asked& asked) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= waiting_max_) return false;
    waiting_.push_back({bytes, {ranges.begin(), ranges.end()}, asked});
    results_->begin();
  }
  woken_.signal();
  return true;
}

bool FlushThread::idle() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() && begun_ns_ == 0;
}

Status FlushThread::await_idle(const std::string& path) const {
  for (base::BoundedWait wait("pool.flush", kIdleMsMax); !idle(); wait.pause()) {
    if (wait.expired()) {
      return Status::Busy("a flush of " + path + " has not ended within " + std::to_string(kIdleMsMax / 1'000) +
                          " s; look at the disk that the file is on, and try again");
    }
  }
  return Status::OK();
}

bool FlushThread::finds_slow() {
  const std::lock_guard lock(mutex_);
  const bool slow = begun_ns_ != 0 && base::now_ns() - begun_ns_ > kSlowNs;
  return slow && !std::exchange(found_slow_, true);
}

void FlushThread::run() {
  for (;;) {
    std::vector<Request> requests;
    {
      const std::lock_guard lock(mutex_);
      if (stops_) return;
      requests = std::exchange(waiting_, {});
      if (!requests.empty()) begun_ns_ = std::max<uint64_t>(base::now_ns(), 1);
    }
    if (requests.empty()) {
      static_cast<void>(woken_.wait_for(base::kUnboundedMs));
      continue;
    }
    try {
      carry_out(requests);
    } catch (const std::bad_alloc&) {  // these get no answer, and their owner gives up after a limit
      results_->drop(requests.size());
    }
    const std::lock_guard lock(mutex_);
    begun_ns_ = 0;
    found_slow_ = false;
  }
}

// Requests of one pool's bytes: these change only while the thread is idle.
void FlushThread::carry_out(std::span<const Request> requests) {
  std::vector<Range> ranges;
  for (const Request& request : requests) std::ranges::copy(request.ranges, std::back_inserter(ranges));
  std::string note;
  const rdma::FlushResult result = requests.front().bytes->flush(ranges, &note);
  std::vector<FlushResults::Done> done;
  for (const Request& request : requests) done.push_back({request.asked, result, std::exchange(note, {})});
  results_->add(std::move(done));
}

}  // namespace bonsai::scale
