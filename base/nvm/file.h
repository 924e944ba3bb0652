// SPDX-License-Identifier: Apache-2.0
// The medium of a plain file: flushes collect, the fence writes back by msync. Durable and slow.
//
// One fence is one msync over the span of the thread's flushes: the kernel writes only the dirty pages in it, and
// several calls would each commit the file system's journal. For the same reason threads that fence while an msync runs
// share the next one.
//
// An msync can fail, and afterwards the kernel may count the lost pages as clean, so that a later success means
// nothing. The first error is therefore permanent: every later fence fails, too. The kernel also reports an error to
// one caller only, the first one. So only one msync runs at a time. Otherwise a fence whose pages were lost could
// return OK before the thread that received the error has recorded it.
#ifndef BONSAI_BASE_NVM_FILE_H_
#define BONSAI_BASE_NVM_FILE_H_

#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/nvm/mapping.h"
#include "base/nvm/medium.h"
#include "base/nvm/per_thread.h"
#include "bonsai/status.h"

namespace bonsai::base {

// Requires: the mapping outlives the medium. Thread-safety: as HookedMedium.
class FileMedium final : public HookedMedium {
 public:
  using Sync = int (*)(void* address, size_t bytes, int flags);  // as ::msync; tests replace it by one that fails

  explicit FileMedium(const Mapping& mapping, Sync sync = ::msync)
      : HookedMedium(mapping.data(), mapping.bytes()), path_(mapping.path()), sync_(sync) {}

  void store8(std::byte* dst, uint64_t value) override;
  void copy(std::byte* dst, const void* src, size_t n) override;
  void nt_copy(std::byte* dst, const void* src, size_t n, const Site& site) override;
  void flush(const std::byte* dst, size_t n, const Site& site) override;
  bool fence(const Site& site) override;
  [[nodiscard]] Status health() const override;

 private:
  struct Span {
    size_t begin = 0, end = 0;

    [[nodiscard]] bool empty() const { return begin == end; }
    void add(const Span& other);
  };
  // The bytes that one thread has flushed since its fence.
  struct Flushed {
    explicit Flushed(uint32_t) {}
    Span span;
  };

  void extend(const std::byte* dst, size_t n);
  void write_back(std::unique_lock<std::mutex>* lock);

  const std::string path_;
  const Sync sync_;
  std::atomic<int> error_{0};  // errno of the first failed msync
  PerThread<Flushed> flushed_;

  std::mutex mutex_;
  std::condition_variable round_ended_;
  // Under the mutex. A round is one msync.
  Span wanted_;  // by the fences that wait for the next round
  uint64_t rounds_begun_ = 0;
  uint64_t rounds_ended_ = 0;
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_FILE_H_
