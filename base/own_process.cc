// SPDX-License-Identifier: Apache-2.0
#include "base/own_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "base/units.h"

namespace bonsai::base {
OwnProcess::OwnProcess() : pid_(::getpid()) {
  void* const page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, kPageBytes, MADV_WIPEONFORK) != 0) {
    ::munmap(page, kPageBytes);
    return;
  }
  mark_ = new (page) std::atomic<uint64_t>(1);
}

OwnProcess::~OwnProcess() {
  if (mark_ != nullptr) ::munmap(mark_, kPageBytes);
}

bool OwnProcess::is_same_process() const { return ::getpid() == pid_; }

}  // namespace bonsai::base
