// SPDX-License-Identifier: Apache-2.0
#include "scale/target_state.h"

namespace bonsai::scale {
namespace {

// The text for an event after which updates fail.
std::string_view text_of(TargetState::Event event) {
  switch (event) {
    case TargetState::Event::kReplaced:
      return "belongs to another owner now";
    case TargetState::Event::kLeft:
      return "was given back";
    default:
      return "did not confirm a write";
  }
}

}  // namespace

Status TargetState::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void TargetState::note(Event event, const Status& why) {
  const std::lock_guard lock(mutex_);
  const State before = state();
  const membership::Transition transition = membership::next(before, event, in_page_);
  const bool fails = (transition.actions & (membership::kFailUpdates | membership::kEndEverything)) != 0;
  if (event == Event::kConfirmed) attempt_ = Status::OK();
  if (fails && status_.ok()) {
    const Status& reason = event == Event::kGivenUp && !attempt_.ok() ? attempt_ : why;
    status_ = Status::Unavailable(name_ + " " + std::string(text_of(event)) + " (" + std::string(reason.message()) +
                                  "); what was acknowledged is kept there: see that its node runs, close the store and "
                                  "open it again");
  }
  State after = transition.to;
  // An answer that is late, or "no": as far as is known the confirmed connections are whole, and reads go on.
  const bool whole = event == Event::kGivenUp && before == State::kInSync;
  if (whole) after = membership::next(after, Event::kConfirmed, in_page_).to;
  state_.store(after, std::memory_order_seq_cst);
}

void TargetState::leave_page() {
  {
    const std::lock_guard lock(mutex_);
    in_page_ = false;
  }
  note(Event::kInForce);
}

bool TargetState::enter_page() {
  const std::lock_guard lock(mutex_);
  if (state() != State::kJoining) return false;
  in_page_ = true;
  return true;
}

bool TargetState::is_in_page() const {
  const std::lock_guard lock(mutex_);
  return in_page_;
}

Status TargetState::attempt() const {
  const std::lock_guard lock(mutex_);
  return attempt_;
}

void TargetState::note_attempt(const Status& why) {
  const std::lock_guard lock(mutex_);
  attempt_ = why;
}

}  // namespace bonsai::scale
