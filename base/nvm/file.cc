#include "base/nvm/file.h"

#include <algorithm>
#include <cerrno>

#include "base/nvm/racy_copy.h"

namespace bonsai::base {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

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

void FileMedium::fence(const Site&) {
  count_fence();
  Span& span = spans_.mine();
  if (span.begin == span.end) return;
  const size_t begin = span.begin / kPageBytes * kPageBytes;
  if (sync_(view() + begin, span.end - begin, MS_SYNC) != 0) {
    int none = 0;
    error_.compare_exchange_strong(none, errno, std::memory_order_relaxed);
  }
  span.begin = span.end = 0;
}

Status FileMedium::health() const {
  const int error = error_.load(std::memory_order_relaxed);
  if (error == 0) return Status::OK();
  return Status::IoError(std::string(os_error("write back", path_, error).message()) +
                         "; updates since then may be lost: close the store, mend the disk and open it again");
}

void FileMedium::extend(const std::byte* dst, size_t n) {
  if (n == 0) return;
  Span& span = spans_.mine();
  const auto begin = static_cast<size_t>(dst - view());
  const bool empty = span.begin == span.end;
  span.begin = empty ? begin : std::min(span.begin, begin);
  span.end = empty ? begin + n : std::max(span.end, begin + n);
}

}  // namespace bonsai::base
