// SPDX-License-Identifier: Apache-2.0
// The thread that serves a process's sockets: connects, requests for memory, and deaths of peers. Internal to
// rdma/shm/. It sleeps while there are no events, and is on no data path.
#ifndef BONSAI_RDMA_SHM_SERVICE_H_
#define BONSAI_RDMA_SHM_SERVICE_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/nvm/os_file.h"
#include "base/thread.h"

namespace bonsai::rdma {

class ShmService {
 public:
  // Called when the descriptor is readable; false: stop watching it. It may watch other descriptors.
  using Ready = std::function<bool()>;

  // Errors: NoSpace, IoError (no further thread or descriptor).
  static Status make(std::shared_ptr<ShmService>* service);
  ~ShmService();

  void watch(int fd, Ready ready);
  // When it has returned, `ready` is not running and will not be called again.
  void unwatch(int fd);

 private:
  ShmService() = default;
  void run();
  bool serve();  // returns false when it is to stop
  void wake();

  std::recursive_mutex mutex_;  // held while a Ready runs
  std::map<int, Ready> watched_;
  bool stop_ = false;
  base::OsFile wake_;
  base::Thread thread_;  // last: it uses the others
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SHM_SERVICE_H_
