// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/testing/member_walk.h"

#include "scale/membership/member_state.h"

namespace bonsai::scale::membership::testing {
namespace {

constexpr int kEventsMax = 5;

// The meaning of the events so far for the updates of this member.
struct History {
  bool refused = false;    // updates have failed for good
  bool ended = false;      // another owner has the pool, or this one has left
  bool unsent = false;     // the connection was lost with updates in flight, which were not sent again since
  bool connected = false;  // confirmed, and not broken since
};

class Walking {
 public:
  MemberWalk run() {
    step(State::kConnecting, History(), 0);
    return walk_;
  }

 private:
  void step(State state, const History& history, int depth) {
    walk_.states |= 1u << static_cast<int>(state);
    ++walk_.sequences;
    if (depth == kEventsMax || !walk_.wrong.empty()) return;
    for (int i = 0; i < kEvents; ++i) {
      for (const bool in_page : {false, true}) {
        const auto event = static_cast<Event>(i);
        const Transition to = next(state, event, in_page);
        const History after = judge(state, event, in_page, to, history);
        step(to.to, after, depth + 1);
      }
    }
  }

  History judge(State from, Event event, bool in_page, const Transition& to, History history) {
    if (event == Event::kConfirmed) history.connected = true;
    if (event == Event::kBroken || event == Event::kLate) history.connected = false;
    if ((to.actions & kFailUpdates) != 0) history.refused = true;
    const bool outside = !in_page && (from == State::kOut || from == State::kConnecting || from == State::kJoining);
    if ((event == Event::kReplaced && !outside) || event == Event::kLeft) history.ended = true;
    expect(!(outside && event == Event::kReplaced && to.to == State::kEnded),
           "a member that no page names ends the store");
    if (takes_updates(from) && to.to == State::kSilent) history.unsent = true;
    if ((to.actions & kSendAgain) != 0) {
      expect(event == Event::kConfirmed, "updates are sent again before the member has confirmed");
      history.unsent = false;
    }
    expect(!(history.ended && to.to != State::kEnded), "an owner that was replaced goes on");
    expect(!(history.refused && takes_updates(to.to)), "updates are taken after they were refused");
    const bool out = to.to == State::kOut || to.to == State::kEnded;
    expect(!(history.unsent && takes_updates(to.to)), "new updates go before unanswered ones");
    if (out) history.unsent = false;  // its copy is brought up to date when it comes back
    const bool waited_for = from == State::kInSync || from == State::kSilent;
    const bool may_leave = event == Event::kInForce && !in_page;
    expect(!(waited_for && to.to == State::kOut && !may_leave),
           "a member is out before the page without it is in force");
    const bool counts = to.to == State::kInSync && from == State::kJoining;
    expect(!(counts && !(event == Event::kInForce && in_page)), "a joining member counts before the page with it");
    expect(from == to.to || event != Event::kLate || (to.actions & kSendAgain) == 0, "a late member is sent updates");
    return history;
  }

  void expect(bool holds, const char* what) {
    if (!holds && walk_.wrong.empty()) walk_.wrong = what;
  }

  MemberWalk walk_;
};

}  // namespace

MemberWalk walk_members() { return Walking().run(); }

}  // namespace bonsai::scale::membership::testing
