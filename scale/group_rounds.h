// SPDX-License-Identifier: Apache-2.0
// The groups that a thread works on, one after the other, while others add and remove them.
//
// Thread-safety: any thread; next(), is_over() and await() are the working thread's.
#ifndef BONSAI_SCALE_GROUP_ROUNDS_H_
#define BONSAI_SCALE_GROUP_ROUNDS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/thread.h"

namespace bonsai::scale {

class Group;

class GroupRounds {
 public:
  // It outlives end(), or remove().
  void add(Group* group) {
    const std::lock_guard lock(mutex_);
    groups_.push_back(group);
  }
  // Returns when the group is not worked on, and will not be.
  void remove(Group* group) {
    for (base::BoundedWait wait("link.leaves_group", base::kUnboundedMs);; wait.pause()) {
      {
        const std::lock_guard lock(mutex_);
        std::erase(groups_, group);
        leaves_current_ = current_ == group;
        if (!leaves_current_) return;
      }
      woken_.signal();
      static_cast<void>(wait.expired());
    }
  }
  // Nothing is to be worked on any more.
  void end() {
    over_.store(true);
    woken_.signal();
  }
  void wake() { woken_.signal(); }

  // The group of that number becomes the current one; null: there is none, and none is the current one.
  Group* next(size_t number) {
    const std::lock_guard lock(mutex_);
    leaves_current_ = false;
    return current_ = number < groups_.size() ? groups_[number] : nullptr;
  }
  [[nodiscard]] bool has_ended() const { return over_.load(); }
  // The current group is not to be worked on any more.
  [[nodiscard]] bool is_over() {
    if (over_.load()) return true;
    const std::lock_guard lock(mutex_);
    return leaves_current_;
  }
  // Returns at wake(), end() or remove() of the current group, or after so long.
  void await(uint64_t ms) { static_cast<void>(woken_.wait_for(ms)); }

 private:
  std::mutex mutex_;
  std::vector<Group*> groups_;   // under mutex_
  Group* current_ = nullptr;     // under mutex_: which is worked on
  bool leaves_current_ = false;  // under mutex_: remove() waits for it
  std::atomic<bool> over_{false};
  base::Event woken_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_GROUP_ROUNDS_H_
