// SPDX-License-Identifier: Apache-2.0
// Distinguishes the process that created an object from children that it forked.
#ifndef BONSAI_BASE_OWN_PROCESS_H_
#define BONSAI_BASE_OWN_PROCESS_H_

#include <atomic>
#include <cstdint>

namespace bonsai::base {

// Thread-safety: mine() from any thread. Cost: one load; on kernels before 4.14 a system call.
class OwnProcess {
 public:
  OwnProcess();
  ~OwnProcess();
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;

  [[nodiscard]] bool mine() const {
    return mark_ != nullptr ? mark_->load(std::memory_order_relaxed) != 0 : is_same_process();
  }

 private:
  [[nodiscard]] bool is_same_process() const;

  std::atomic<uint64_t>* mark_ = nullptr;  // on a page that the kernel wipes in children
  const int pid_;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_OWN_PROCESS_H_
