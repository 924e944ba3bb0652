// SPDX-License-Identifier: Apache-2.0
#include "scale/target_state.h"

namespace bonsai::scale {

Status TargetState::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void TargetState::fail_write(const Status& why) { worsen(Stage::kReadOnly, "did not confirm a write", why); }
void TargetState::lose(const Status& why) { worsen(Stage::kLost, "has lost a connection", why); }

void TargetState::worsen(Stage stage, std::string_view what, const Status& why) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) {
    status_ = Status::Unavailable(name_ + " " + std::string(what) + " (" + std::string(why.message()) +
                                  "); what was acknowledged is kept there: see that its node runs, close the store and "
                                  "open it again");
  }
  if (stage > stage_.load(std::memory_order_relaxed)) stage_.store(stage, std::memory_order_release);
}

}  // namespace bonsai::scale
