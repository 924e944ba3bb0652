// SPDX-License-Identifier: Apache-2.0
#include "rdma/shm/service.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"

namespace bonsai::rdma {

namespace {
thread_local const ShmService* service_of_this_thread = nullptr;

constexpr uint64_t kPauseMs = 1;  // after a failure that may last
}  // namespace

// The last holder may be a Ready on the service's own thread, which cannot join itself. Then the thread stops, and the
// rest of the service stays until the process ends.
Status ShmService::make(std::shared_ptr<ShmService>* service) {
  std::shared_ptr<ShmService> made(new ShmService, [](ShmService* ended) {
    if (service_of_this_thread != ended) return delete ended;
    const std::lock_guard lock(ended->mutex_);
    ended->stop_ = true;
  });
  made->wake_ = base::make_event();
  if (!made->wake_.is_open()) return base::os_error("make an event for", "the fabric shm", errno);
  BONSAI_RETURN_IF_ERROR(base::Thread::start(
      "shm.service", [raw = made.get()] { raw->run(); }, &made->thread_));
  *service = std::move(made);
  return Status::OK();
}

ShmService::~ShmService() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) wake();
  thread_.join();
}

void ShmService::watch(int fd, Ready ready) {
  BONSAI_CHECK(fd >= 0 && ready);
  const std::lock_guard lock(mutex_);
  watched_[fd] = std::move(ready);
  wake();
}

void ShmService::unwatch(int fd) {
  const std::lock_guard lock(mutex_);
  watched_.erase(fd);
}

void ShmService::wake() {
  const uint64_t one = 1;
  static_cast<void>(!::write(wake_.fd(), &one, sizeof one));
}

void ShmService::run() {
  service_of_this_thread = this;
  for (bool going = true; going;) {
    try {
      going = serve();
    } catch (const std::bad_alloc&) {  // who waits for what got lost looks again, or gives up after a limit
      base::sleep_ms(kPauseMs);
    }
  }
}

bool ShmService::serve() {
  std::vector<pollfd> ready;
  for (;;) {
    ready.assign(1, {wake_.fd(), POLLIN, 0});
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return false;
      for (const auto& [fd, call] : watched_) ready.push_back({fd, POLLIN, 0});
    }
    if (::poll(ready.data(), ready.size(), -1) < 0) base::sleep_ms(kPauseMs);
    uint64_t count = 0;
    static_cast<void>(!::read(wake_.fd(), &count, sizeof count));
    for (size_t i = 1; i < ready.size(); ++i) {
      if (ready[i].revents == 0) continue;
      const std::lock_guard lock(mutex_);
      const auto found = watched_.find(ready[i].fd);
      if (found == watched_.end()) continue;
      const Ready call = found->second;
      if (!call()) watched_.erase(ready[i].fd);
    }
  }
}

}  // namespace bonsai::rdma
