// SPDX-License-Identifier: Apache-2.0
// Bytes that have been received and not been used up. An empty one that was trimmed takes no memory, so that an idle
// connection costs little.
#ifndef BONSAI_SERVER_BYTES_H_
#define BONSAI_SERVER_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/check.h"

namespace bonsai::server {

// Thread-safety: one owner.
class Bytes {
 public:
  [[nodiscard]] std::string_view view() const { return {data_.get() + begin_, end_ - begin_}; }
  [[nodiscard]] size_t size() const { return end_ - begin_; }
  [[nodiscard]] size_t capacity() const { return capacity_; }

  // Room for `bytes` bytes after the end; ends the validity of views. May throw std::bad_alloc.
  char* prepare(size_t bytes) {
    if (bytes > capacity_ - end_) make_room(bytes);
    return data_.get() + end_;
  }
  // Takes over what was written into the room. Requires: prepare() gave as much.
  void commit(size_t bytes) {
    BONSAI_CHECK(bytes <= capacity_ - end_);
    end_ += bytes;
  }
  // Drops bytes at the beginning. Views of them stay valid until prepare() or trim(). Requires: bytes <= size().
  void consume(size_t bytes) {
    BONSAI_CHECK(bytes <= size());
    begin_ += bytes;
  }
  // Gives memory back that the bytes do not need. Ends the validity of views.
  void trim() {
    if (size() != 0) return;
    begin_ = end_ = capacity_ = 0;
    data_.reset();
  }

 private:
  void make_room(size_t bytes) {
    const size_t kept = size();
    const size_t wanted = std::max(kept + bytes, kept + kept / 2);
    auto larger = std::make_unique_for_overwrite<char[]>(wanted);
    if (kept != 0) std::memcpy(larger.get(), data_.get() + begin_, kept);
    data_ = std::move(larger);
    capacity_ = wanted;
    begin_ = 0;
    end_ = kept;
  }

  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_BYTES_H_
