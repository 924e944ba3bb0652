// SPDX-License-Identifier: Apache-2.0
// The acts of a pool's life, and so the states that a crash may leave.
#ifndef BONSAI_PERSIST_TESTING_LIFE_MODEL_H_
#define BONSAI_PERSIST_TESTING_LIFE_MODEL_H_

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "persist/testing/explorer.h"

namespace bonsai::persist::testing {

class LifeModel : public Explorer {
 protected:
  using Explorer::Explorer;

  struct Stored {
    std::string value;
    std::optional<LargeRef> large;
    bool operator==(const Stored& other) const { return value == other.value; }
  };

  // states[floor] and the states after it are those that a crash may leave

  [[nodiscard]] Content now() const {
    Content content;
    for (const auto& [key, stored] : stored_) content[key] = stored.value;
    return content;
  }
  [[nodiscard]] bool allowed(const Content& content) const {
    return std::find(states_.begin() + static_cast<ptrdiff_t>(floor_), states_.end(), content) != states_.end();
  }
  void settle() { floor_ = states_.size() - 1; }
  void settle_closed() {
    if (!fence_failed_) settle();
  }

  void apply(const std::string& key, const Stored* stored) {
    if (const auto it = stored_.find(key); it != stored_.end()) {
      if (it->second.large) dead_.push_back(*it->second.large);
      stored_.erase(it);
    }
    if (stored != nullptr) stored_[key] = *stored;
  }

  // Whether it says that a fence has failed, here or on another node.
  [[nodiscard]] static bool is_failure(const Status& status) { return status.IsIoError() || status.IsUnavailable(); }
  // False: a fence has failed. Operations that need one must not succeed any more.
  bool kept(const Status& status) {
    if (status.ok() && fence_failed_) violation("something succeeds after a fence that failed");
    fence_failed_ = fence_failed_ || is_failure(status);
    return status.ok();
  }

  std::map<std::string, Stored> stored_;
  std::vector<LargeRef> dead_;
  std::vector<Content> states_{Content{}};
  size_t floor_ = 0;
  bool fence_failed_ = false;  // since it was opened
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_LIFE_MODEL_H_
