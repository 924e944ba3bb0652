// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/member_state.h"

namespace bonsai::scale::membership {
namespace {

Transition after_confirmed(State state, bool in_page) {
  switch (state) {
    case State::kConnecting:
      return in_page ? Transition{State::kInSync, kNothing} : Transition{State::kJoining, kCopy};
    case State::kSilent:
      return {State::kInSync, kSendAgain};
    case State::kLost:
      return {State::kReadOnly, kNothing};
    default:
      return {state, kNothing};
  }
}

// A page that names a joining member may be durable somewhere already, so that it counts as in sync.
Transition after_broken(State state, bool in_page) {
  switch (state) {
    case State::kInSync:
      return {State::kSilent, kConnect};
    case State::kJoining:
      if (in_page) return {State::kSilent, kConnect};
      return {State::kOut, kNothing};  // only its re-synchronisation begins anew
    case State::kReadOnly:
      return {State::kLost, kConnect};
    case State::kConnecting:
    case State::kSilent:
    case State::kLost:
      return {state, kConnect};
    default:
      return {state, kNothing};
  }
}

Transition after_late(State state, bool in_page) {
  switch (state) {
    case State::kInSync:
      return {State::kSilent, kConnect | kTakeOut};
    case State::kSilent:
      return {State::kSilent, kTakeOut};
    case State::kJoining:
      if (in_page) return {State::kSilent, kConnect | kTakeOut};
      return {State::kOut, kNothing};
    case State::kReadOnly:
      return {State::kLost, kConnect};
    default:
      return {state, kNothing};
  }
}

Transition after_given_up(State state, bool in_page) {
  if (state == State::kJoining && !in_page) return {State::kOut, kNothing};
  const bool waits = state == State::kInSync || state == State::kSilent || state == State::kJoining;
  return waits ? Transition{State::kLost, kFailUpdates | kConnect} : Transition{state, kNothing};
}

Transition after_in_force(State state, bool in_page) {
  const bool waits = state == State::kInSync || state == State::kSilent;
  if (waits && !in_page) return {State::kOut, kNothing};
  if (state == State::kJoining && in_page) return {State::kInSync, kNothing};
  return {state, kNothing};
}

// Whoever replaced the owner on a member that no page names has not got the group: it may be an older copy of the pool.
Transition after_replaced(State state, bool in_page) {
  const bool is_outside = state == State::kOut || state == State::kConnecting || state == State::kJoining;
  if (is_outside && !in_page) return {State::kOut, kNothing};
  return {State::kEnded, kEndEverything};
}

}  // namespace

Transition next(State state, Event event, bool in_page) {
  if (state == State::kEnded) return {state, kNothing};
  switch (event) {
    case Event::kConfirmed:
      return after_confirmed(state, in_page);
    case Event::kBroken:
      return after_broken(state, in_page);
    case Event::kLate:
      return after_late(state, in_page);
    case Event::kGivenUp:
      return after_given_up(state, in_page);
    case Event::kInForce:
      return after_in_force(state, in_page);
    case Event::kJoin:
      return state == State::kOut ? Transition{State::kConnecting, kConnect} : Transition{state, kNothing};
    case Event::kReplaced:
      return after_replaced(state, in_page);
    case Event::kLeft:
      return {State::kEnded, kEndEverything};
  }
  return {state, kNothing};
}

std::string_view name_of(State state) {
  switch (state) {
    case State::kConnecting:
      return "connecting";
    case State::kJoining:
      return "joining";
    case State::kInSync:
      return "in sync";
    case State::kSilent:
      return "silent";
    case State::kLost:
      return "lost";
    case State::kReadOnly:
      return "read only";
    case State::kOut:
      return "out";
    case State::kEnded:
      return "ended";
  }
  return "unknown";
}

}  // namespace bonsai::scale::membership
