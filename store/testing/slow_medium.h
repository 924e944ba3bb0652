// SPDX-License-Identifier: Apache-2.0
#ifndef BONSAI_STORE_TESTING_SLOW_MEDIUM_H_
#define BONSAI_STORE_TESTING_SLOW_MEDIUM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/nvm/medium.h"
#include "base/nvm/racy_copy.h"

namespace bonsai::store {

// Memory whose reads take `latency_ns`, however many there are at once; counts what it is asked for.
class SlowMedium final : public base::HookedMedium {
 public:
  static constexpr size_t kBytes = size_t{16} << 20;
  SlowMedium() : HookedMedium(nullptr, 0), room_(kBytes / sizeof(Line)) {
    set_view(reinterpret_cast<std::byte*>(room_.data()), kBytes);
  }
  void store8(std::byte* dst, uint64_t value) override { base::word_at(dst).store(value, std::memory_order_release); }
  void copy(std::byte* dst, const void* src, size_t n) override { base::racy_store(dst, src, n); }
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site&) override { base::racy_store(dst, src, n); }
  void flush(const std::byte*, size_t, const base::Site&) override {}
  bool fence(const base::Site&) override { return true; }
  [[nodiscard]] bool reads_wait() const override { return true; }
  [[nodiscard]] uint64_t read_deadline(uint64_t blocks, uint64_t, uint64_t last_ns) override {
    ++calls;
    blocks_read += blocks;
    return last_ns + latency_ns.load();
  }

  std::atomic<uint64_t> calls{0}, blocks_read{0}, latency_ns{0};

 private:
  struct alignas(4096) Line {
    std::byte bytes[4096];
  };
  std::vector<Line> room_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_TESTING_SLOW_MEDIUM_H_
