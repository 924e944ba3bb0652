// SPDX-License-Identifier: Apache-2.0
// The state of one target, from its link's view (membership/member_state.h), and the reason why its updates have
// failed. A target alone is a group of one: it is in every page. A member of a larger group may be left out (group.h).
//
//   in sync     updates are posted, reads go there
//   joining     updates are posted, and awaited until the connection ends; no reads go there
//   silent      a connection has ended: updates and reads wait for a new one
//   lost        updates have failed for good; reads come back with a new connection
//   read only   reads go there, updates are refused
//   out         a page without it is in force: no update waits for it, and nothing is sent or read there
//   connecting  the same, and connections are being made; or the pool is being opened
//   ended       another session owns the pool, or it was given back: all requests are refused
//
// Thread-safety: all methods.
#ifndef BONSAI_SCALE_TARGET_STATE_H_
#define BONSAI_SCALE_TARGET_STATE_H_

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include "bonsai/status.h"
#include "scale/membership/member_state.h"

namespace bonsai::scale {

class TargetState {
 public:
  using State = membership::State;
  using Event = membership::Event;

  // `name`: the target as users name it. It is being connected to.
  explicit TargetState(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  // Who has noted a write before reads the state after (WriteLanes::await_earlier()).
  [[nodiscard]] State state() const { return state_.load(std::memory_order_seq_cst); }

  // Updates may be posted now.
  [[nodiscard]] bool takes_updates() const { return membership::takes_updates(state()); }
  // No update has failed: those that are not answered are waited for.
  [[nodiscard]] bool awaits_updates() const {
    const State now = state();
    return now == State::kInSync || now == State::kSilent || now == State::kJoining;
  }
  // A page without it is in force, and it gets nothing.
  [[nodiscard]] bool is_out() const {
    const State now = state();
    return now == State::kOut || now == State::kConnecting;
  }
  // It is being brought up to date, and no page names it.
  [[nodiscard]] bool is_joining() const { return state() == State::kJoining && !is_in_page(); }
  // Reads may be posted now.
  [[nodiscard]] bool takes_reads() const { return membership::takes_reads(state()); }
  // A new connection is wanted.
  [[nodiscard]] bool is_apart() const {
    const State now = state();
    return now == State::kSilent || now == State::kLost;
  }
  // OK as long as no update has failed. Else Unavailable: what happened first, and what to do.
  [[nodiscard]] Status status() const;

  // Something has happened to the target. `why`: the reason, for status().
  void note(Event event, const Status& why = Status::OK());
  // A page without the member is in force.
  void leave_page();
  // A page that names the member is about to be written. False: it is not joining any more.
  [[nodiscard]] bool enter_page();
  // Whether the newest page names it.
  [[nodiscard]] bool is_in_page() const;
  // An attempt to connect again has failed. The last one is the reason if the target is given up.
  void note_attempt(const Status& why);
  // Why the last one failed; OK: none has since the last connection.
  [[nodiscard]] Status attempt() const;

 private:
  const std::string name_;
  std::atomic<State> state_{State::kConnecting};
  mutable std::mutex mutex_;  // of changes, and of the reason
  bool in_page_ = true;
  Status status_, attempt_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_TARGET_STATE_H_
