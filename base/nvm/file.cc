// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/nvm/racy_copy.h"
#include "base/units.h"

namespace bonsai::base {
void FileMedium::store8(std::byte* dst, uint64_t value) {
  word_at(dst).store(value, std::memory_order_release);
  count_stored(8);
}

void FileMedium::copy(std::byte* dst, const void* src, size_t n) {
  racy_store(dst, src, n);
  count_stored(n);
}

void FileMedium::nt_copy(std::byte* dst, const void* src, size_t n, const Site&) {
  racy_store(dst, src, n);
  count_nt(dst, n);
  extend(dst, n);
}

void FileMedium::flush(const std::byte* dst, size_t n, const Site&) {
  count_flush(dst, n);
  extend(dst, n);
}

bool FileMedium::fence(const Site&) {
  count_fence();
  if (const Span mine = std::exchange(flushed_.mine().span, {}); !mine.empty()) {
    std::unique_lock lock(mutex_);
    wanted_.add(mine);
    const uint64_t round = rounds_begun_ + 1;
    round_ended_.wait(lock, [&] { return rounds_ended_ >= round || rounds_ended_ == rounds_begun_; });
    if (rounds_ended_ < round) write_back(&lock);
  }
  return error_.load(std::memory_order_relaxed) == 0;
}

// Requires: no round runs.
void FileMedium::write_back(std::unique_lock<std::mutex>* lock) {
  const Span span = std::exchange(wanted_, {});
  ++rounds_begun_;
  lock->unlock();
  const size_t begin = span.begin / kPageBytes * kPageBytes;
  const int error = sync_(view() + begin, span.end - begin, MS_SYNC) == 0 ? 0 : errno;
  lock->lock();
  if (error_.load(std::memory_order_relaxed) == 0) error_.store(error, std::memory_order_relaxed);
  ++rounds_ended_;
  round_ended_.notify_all();
}

Status FileMedium::health() const {
  const int error = error_.load(std::memory_order_relaxed);
  if (error == 0) return Status::OK();
  return Status::IoError(
      std::string(os_error("write back", path_, error).message()) +
      "; the store now rejects updates, acknowledged data stay readable: close it, repair the disk or "
      "copy the file to another, and open it again");
}

void FileMedium::extend(const std::byte* dst, size_t n) {
  if (n == 0) return;
  const auto begin = static_cast<size_t>(dst - view());
  flushed_.mine().span.add({begin, begin + n});
}

void FileMedium::Span::add(const Span& other) {
  begin = empty() ? other.begin : std::min(begin, other.begin);
  end = std::max(end, other.end);
}

}  // namespace bonsai::base
