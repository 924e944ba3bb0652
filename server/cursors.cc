// SPDX-License-Identifier: Apache-2.0
#include "server/cursors.h"

namespace bonsai::server {

uint64_t Cursors::give(std::string_view key) {
  const std::lock_guard lock(mutex_);
  if (keys_.empty()) keys_.resize(kCursorsMax);
  keys_[next_ % kCursorsMax] = key;
  return next_++;
}

bool Cursors::find(uint64_t cursor, std::string* key) const {
  const std::lock_guard lock(mutex_);
  if (cursor < first_ || cursor >= next_ || next_ - cursor > kCursorsMax) return false;
  *key = keys_[cursor % kCursorsMax];
  return true;
}

}  // namespace bonsai::server
