// SPDX-License-Identifier: Apache-2.0
// How an owner treats one member of a target: what each event makes of it, and what is to be done.
//
//              kConfirmed                   kBroken, kLate
//   kConnecting ----------> kInSync -----------------------> kSilent --------> kLost --------> kReadOnly
//      |    ^                ^ ^                              |  |   kGivenUp    kConfirmed
//      |    |                | +------------------------------+  |              <---------
//      |    | kJoin          |   kConfirmed: send again          |                kBroken, kLate
//      |    |                |                                   |
//      |   kOut <------------|-----------------------------------+
//      |    ^                |   kInForce: a page without it
//      |    | kBroken, kLate |   (kJoining: and kGivenUp)
//      |    |                | kInForce: a page with it
//      +-> kJoining ---------+
//   kConfirmed, not in the page                            any state ---> kEnded by kReplaced, kLeft
//
// Invariants
//   - Unanswered updates are sent again before anything else, after the member has confirmed that nothing of the
//     earlier connection will arrive.
//   - "No" is final: after kGivenUp the member takes no updates until the pool is opened again.
//   - A member is waited for until a page without it is in force.
//   - After kEnded nothing happens any more. kReplaced by a member that no page names ends nothing: it is out.
//
// The pages (in_sync.h), not this file, decide whose answer an update waits for.
//
// Pure. Thread-safety: values.
#ifndef BONSAI_SCALE_MEMBERSHIP_MEMBER_STATE_H_
#define BONSAI_SCALE_MEMBERSHIP_MEMBER_STATE_H_

#include <cstdint>
#include <string_view>

namespace bonsai::scale::membership {

enum class State : uint8_t {
  kConnecting,  // the pool is being opened
  kJoining,     // it gets updates and is being brought up to date
  kInSync,      // it takes updates and reads
  kSilent,      // connection lost or no answer; updates wait
  kLost,        // given up: updates have failed; a connection brings reads back
  kReadOnly,    // it answers reads again
  kOut,         // a page without it is in force
  kEnded,       // this owner was replaced or has left
};
inline constexpr int kStates = 8;

enum class Event : uint8_t {
  kConfirmed,  // it confirmed fence or resume: earlier connections have ended, this one is served
  kBroken,     // the connection has ended
  kLate,       // no answer for two seconds, in which a restart fits
  kGivenUp,    // no answer within Options::fabric_wait_ms_max
  kInForce,    // the page that takes the member out, or in, is in force
  kJoin,       // an operator, or a pause that has passed: it may come back
  kReplaced,   // it has a newer owner
  kLeft,       // this owner has given the pool back
};
inline constexpr int kEvents = 8;

// Actions to take, one bit each.
enum Action : uint32_t {
  kNothing = 0,
  kConnect = 1u << 0,       // close the connection, if there is one; connect and resume, again and again
  kSendAgain = 1u << 1,     // the lane's unanswered updates, in posting order
  kTakeOut = 1u << 2,       // begin a page without it, if enough members are left (in_sync.h); else nothing
  kCopy = 1u << 3,          // bring it up to date, then begin a page with it
  kFailUpdates = 1u << 4,   // waiting and later updates of the target get their "no"
  kEndEverything = 1u << 5  // end the lease; updates and reads of the store fail: open it again
};

struct Transition {
  State to;
  uint32_t actions;
};

// `in_page`: the newest page names the member as in-sync. Every pair of state and event is defined; an event that does
// not belong to a state, since it is late, changes nothing.
[[nodiscard]] Transition next(State state, Event event, bool in_page);

// Whether new updates are posted to it.
[[nodiscard]] constexpr bool takes_updates(State state) { return state == State::kInSync || state == State::kJoining; }
// Whether reads go to it.
[[nodiscard]] constexpr bool takes_reads(State state) { return state == State::kInSync || state == State::kReadOnly; }

[[nodiscard]] std::string_view name_of(State state);

}  // namespace bonsai::scale::membership

#endif  // BONSAI_SCALE_MEMBERSHIP_MEMBER_STATE_H_
