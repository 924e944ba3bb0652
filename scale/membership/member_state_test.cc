// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/member_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "scale/membership/testing/member_walk.h"

namespace bonsai::scale::membership {
namespace {

TEST(MemberState, EverySequenceOfEventsKeepsTheInvariants) {
  const testing::MemberWalk walk = testing::walk_members();
  EXPECT_EQ(walk.wrong, "");
  EXPECT_GT(walk.sequences, 100'000U);
  EXPECT_EQ(walk.states, (1u << kStates) - 1) << "a state is never reached";
}

TEST(MemberState, ARestartedNodeIsSilentForAWhileAndGoesOn) {
  const Transition broken = next(State::kInSync, Event::kBroken, true);
  EXPECT_EQ(broken.to, State::kSilent);
  EXPECT_EQ(broken.actions, kConnect);
  const Transition again = next(broken.to, Event::kConfirmed, true);
  EXPECT_EQ(again.to, State::kInSync);
  EXPECT_EQ(again.actions, kSendAgain);
}

TEST(MemberState, BeyondTheBoundUpdatesFailAndReadsComeBack) {
  const Transition lost = next(State::kSilent, Event::kGivenUp, true);
  EXPECT_EQ(lost.to, State::kLost);
  EXPECT_EQ(lost.actions, kFailUpdates | kConnect);
  EXPECT_EQ(next(State::kLost, Event::kConfirmed, true).to, State::kReadOnly);
  EXPECT_TRUE(takes_reads(State::kReadOnly));
  EXPECT_FALSE(takes_updates(State::kReadOnly));
}

TEST(MemberState, AMemberThatWasTakenOutJoinsAnew) {
  EXPECT_EQ(next(State::kSilent, Event::kLate, true).actions, kTakeOut);
  EXPECT_EQ(next(State::kSilent, Event::kInForce, false).to, State::kOut);
  EXPECT_EQ(next(State::kOut, Event::kJoin, false).to, State::kConnecting);
  EXPECT_EQ(next(State::kConnecting, Event::kConfirmed, false).to, State::kJoining);
  EXPECT_EQ(next(State::kJoining, Event::kBroken, false).to, State::kOut);
  EXPECT_EQ(next(State::kJoining, Event::kBroken, true).to, State::kSilent) << "a page names it already";
  EXPECT_EQ(next(State::kJoining, Event::kInForce, true).to, State::kInSync);
}

TEST(MemberState, EveryStateHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i < kStates; ++i) names.insert(name_of(static_cast<State>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kStates));
}

}  // namespace
}  // namespace bonsai::scale::membership
