// SPDX-License-Identifier: Apache-2.0
// The parts of a remote link that need no network: the lane of a write, the places of copies, the state of a target,
// and the contents of a mirror.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rdma/shm/shm.h"
#include "scale/connection.h"
#include "scale/copy_places.h"
#include "scale/credits.h"
#include "scale/mirror.h"
#include "scale/spread.h"
#include "scale/target_state.h"

namespace bonsai::scale {
namespace {

using Event = TargetState::Event;

TEST(TargetStateTest, WaitsForAConnectionAndKeepsTheFirstReason) {
  TargetState state("shm://node/p");
  EXPECT_FALSE(state.takes_updates() || state.takes_reads()) << "it is being connected to";
  state.note(Event::kConfirmed);
  EXPECT_TRUE(state.takes_updates() && state.takes_reads() && state.awaits_updates());
  state.note(Event::kBroken, Status::Unavailable("gone"));
  EXPECT_FALSE(state.takes_updates() || state.takes_reads());
  EXPECT_TRUE(state.awaits_updates() && state.is_apart());
  EXPECT_EQ("OK", state.status().ToString()) << "nothing has failed";
  state.note(Event::kConfirmed);
  EXPECT_TRUE(state.takes_updates() && !state.is_apart());
  state.note(Event::kGivenUp, Status::IoError("the medium broke"));
  EXPECT_FALSE(state.takes_updates() || state.awaits_updates());
  EXPECT_TRUE(state.status().IsUnavailable());
  const Status first = state.status();
  EXPECT_NE(first.message().find("shm://node/p did not confirm a write (the medium broke)"), std::string::npos);
  EXPECT_TRUE(state.takes_reads()) << "its connections are whole";
  state.note(Event::kBroken, Status::Unavailable("gone"));
  EXPECT_TRUE(state.is_apart() && !state.takes_reads());
  state.note(Event::kConfirmed);
  EXPECT_TRUE(state.takes_reads()) << "a connection brings reads back";
  EXPECT_FALSE(state.takes_updates() || state.awaits_updates()) << "and no updates";
  state.note(Event::kReplaced, Status::Unavailable("once more"));
  EXPECT_FALSE(state.takes_reads() || state.is_apart());
  EXPECT_EQ(state.status().ToString(), first.ToString());
}

TEST(TargetStateTest, TheLastAttemptIsTheReason) {
  TargetState state("shm://node/p");
  state.note(Event::kConfirmed);
  state.note(Event::kBroken, Status::Unavailable("gone"));
  state.note_attempt(Status::Unavailable("the first one"));
  state.note(Event::kConfirmed);
  state.note(Event::kBroken, Status::Unavailable("gone"));
  state.note_attempt(Status::Unavailable("nobody listens"));
  state.note(Event::kGivenUp, Status::Unavailable("no answer"));
  EXPECT_NE(state.status().message().find("did not confirm a write (nobody listens)"), std::string::npos)
      << state.status().ToString();
}

TEST(TargetStateTest, ATargetThatIsAnotherOwnersEnds) {
  for (const Event end : {Event::kReplaced, Event::kLeft}) {
    TargetState state("shm://node/p");
    state.note(Event::kConfirmed);
    state.note(Event::kBroken, Status::Unavailable("gone"));
    state.note(end, Status::Unavailable("because"));
    state.note(Event::kConfirmed);
    EXPECT_FALSE(state.takes_updates() || state.takes_reads() || state.awaits_updates() || state.is_apart());
    EXPECT_TRUE(state.status().IsUnavailable());
    EXPECT_NE(state.status().message().find(end == Event::kLeft ? "was given back" : "another owner"),
              std::string::npos);
  }
}

// An attempt to connect again may end after the page without the member is in force, and find an older copy of the
// pool.
TEST(TargetStateTest, AMemberThatNoPageNamesIsOutWhoeverItsOwnerIs) {
  for (const bool connects : {false, true}) {
    TargetState state("shm://node/p");
    state.note(Event::kConfirmed);
    state.note(Event::kLate, Status::Unavailable("late"));
    state.leave_page();
    if (connects) state.note(Event::kJoin);
    state.note(Event::kReplaced, Status::Unavailable("another owner's"));
    EXPECT_TRUE(state.is_out());
    EXPECT_EQ("OK", state.status().ToString());
    state.note(Event::kJoin);
    state.note(Event::kConfirmed);
    EXPECT_TRUE(state.is_joining());
  }
}

TEST(SpreadTest, TheAddressDecidesWhichLaneCarriesAByte) {
  Spread spread;
  spread.add(1'000, 400, 100);
  spread.add(2'000, 250, 100);
  const auto lane_of = [&](uint64_t offset, size_t lanes, uint64_t bytes) {
    uint64_t n = bytes;
    const size_t lane = spread.lane_of(offset, lanes, &n);
    return std::pair(lane, n);
  };
  using Carried = std::pair<size_t, uint64_t>;
  EXPECT_EQ(lane_of(0, 3, 10'000), (Carried{0, 1'000}));
  EXPECT_EQ(lane_of(1'000, 3, 10'000), (Carried{1, 100}));
  EXPECT_EQ(lane_of(1'150, 3, 10'000), (Carried{2, 50}));
  EXPECT_EQ(lane_of(1'250, 3, 10), (Carried{1, 10}));
  EXPECT_EQ(lane_of(1'400, 3, 10'000), (Carried{0, 600})) << "between the ranges";
  EXPECT_EQ(lane_of(2'100, 3, 10'000), (Carried{2, 100})) << "units with one number of several ranges: the same lane";
  EXPECT_EQ(lane_of(2'220, 3, 10'000), (Carried{1, 30})) << "the last unit is short";
  EXPECT_EQ(lane_of(2'250, 3, 10'000), (Carried{0, 10'000}));
  EXPECT_EQ(lane_of(1'150, 1, 10'000), (Carried{0, 10'000})) << "there is but one";
  EXPECT_EQ(lane_of(1'350, 2, 10), (Carried{1, 10}));
  EXPECT_DEATH(spread.add(2'200, 100, 100), "");
}

TEST(CopyPlacesTest, APlaceIsThatOfTheLastCopy) {
  CopyPlaces places;
  const auto first = places.claim(100, 100), beside = places.claim(200, 50);
  EXPECT_FALSE(places.given_up(*first) || places.given_up(*beside));
  const auto later = places.claim(150, 10);
  EXPECT_TRUE(places.given_up(*first));
  EXPECT_FALSE(places.given_up(*beside) || places.given_up(*later));
  places.forget(*later);
  const auto next = places.claim(150, 60);
  EXPECT_FALSE(places.given_up(*later)) << "it was posted";
  EXPECT_TRUE(places.given_up(*beside)) << "10 of its bytes are taken";
  places.give_up(0, 151);
  EXPECT_TRUE(places.given_up(*next));
  places.forget(*next);
  const auto last = places.claim(150, 60);
  EXPECT_FALSE(places.given_up(*last));
  places.forget(*last);
  EXPECT_DEATH(places.forget(*last), "places_") << "it was posted before";
}

TEST(CreditsTest, AreSharedSoThatEveryOwnerHasSome) {
  Credits all(100);
  EXPECT_EQ(all.take_share(10), 10u);
  EXPECT_EQ(all.take_share(1'000), 22u) << "a quarter";
  for (int i = 0; all.free() > 0; ++i) {
    ASSERT_LT(i, 100);
    EXPECT_GT(all.take_share(1'000), 0u);
  }
  EXPECT_EQ(all.take_share(10), 0u);
  EXPECT_FALSE(all.try_take(1));
  all.give_back(3);
  EXPECT_FALSE(all.try_take(4));
  EXPECT_TRUE(all.try_take(3));
  all.give_back(100);
  EXPECT_DEATH(all.give_back(1), "all_") << "more than there are";
}

TEST(WriteRangeTest, IsCutWithItsCopy) {
  const std::shared_ptr<std::byte> copy(new std::byte[100], std::default_delete<std::byte[]>());
  WriteRange range{1'000, 100, false, copy};
  const WriteRange first = range.take_first(30);
  EXPECT_EQ(first.offset, 1'000u);
  EXPECT_EQ(first.bytes, 30u);
  EXPECT_EQ(first.copy.get(), copy.get());
  EXPECT_EQ(range.offset, 1'030u);
  EXPECT_EQ(range.bytes, 70u);
  EXPECT_EQ(range.copy.get(), copy.get() + 30);
}

TEST(MirrorTest, HoldsWhatWasReadAndNoMore) {
  rdma::ShmNetwork network;
  std::shared_ptr<Mirror> mirror;
  constexpr uint64_t kBytes = 100'000;
  ASSERT_EQ("OK", Mirror::make(network.make_fabric(), "shm://node/p", kBytes, &mirror).ToString());
  EXPECT_EQ(mirror->addresses().size(), kBytes);
  EXPECT_EQ(mirror->resident_bytes(), 0u);
  EXPECT_EQ(mirror->slice(0, 8).bytes(), 0u);
  std::vector<base::FarReads::Piece> pieces;
  ASSERT_EQ("OK", mirror->open(5'000, 5'000, &pieces).ToString());
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].offset, 4'096u) << "whole pages";
  EXPECT_EQ(pieces[0].bytes, 8'192u);
  EXPECT_FALSE(mirror->resident(5'000, 1)) << "it was not read yet";
  EXPECT_EQ(mirror->slice(5'000, 10'000).bytes(), 4'096u + 8'192u - 5'000u);
  std::vector<base::FarReads::Piece> again;
  ASSERT_EQ("OK", mirror->open(5'000, 1, &again).ToString());
  ASSERT_EQ(again.size(), 1u) << "what failed to be read is read again";
  mirror->close(pieces);
  EXPECT_TRUE(mirror->resident(4'096, 8'192));
  EXPECT_FALSE(mirror->resident(4'096, 8'193));
  again.clear();
  ASSERT_EQ("OK", mirror->open(0, kBytes, &again).ToString());
  ASSERT_EQ(again.size(), 2u) << "before and after it";
  EXPECT_EQ(again[1].offset + again[1].bytes, kBytes);
  EXPECT_EQ(mirror->resident_bytes(), kBytes);
  EXPECT_TRUE(mirror->contains(mirror->addresses().data() + kBytes - 1));
  EXPECT_FALSE(mirror->contains(mirror->addresses().data() + kBytes));
}

TEST(MirrorTest, BlankRangesAreThereAtOnceAndGoAgain) {
  rdma::ShmNetwork network;
  std::shared_ptr<Mirror> mirror;
  constexpr uint64_t kBytes = 131'072, kRange = 16'384;
  ASSERT_EQ("OK", Mirror::make(network.make_fabric(), "shm://node/p", kBytes, &mirror).ToString());
  std::vector<base::FarReads::Piece> pieces;
  ASSERT_EQ("OK", mirror->open(0, 8, &pieces).ToString());
  mirror->close(pieces);
  std::byte* const first = mirror->addresses().data() + kRange;
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ("OK", mirror->open_blank(kRange, kRange).ToString());
    EXPECT_TRUE(mirror->resident(kRange, kRange));
    EXPECT_EQ(mirror->slice(kRange, kRange).bytes(), kRange);
    EXPECT_EQ(mirror->resident_bytes(), 4'096u + kRange);
    EXPECT_EQ(*first, std::byte{0}) << "memory of its own";
    *first = std::byte{1};
    ASSERT_EQ("OK", mirror->open_blank(kRange, kRange).ToString());
    EXPECT_EQ(*first, std::byte{1}) << "what is resident stays";
    mirror->close_blank(kRange, kRange);
    EXPECT_EQ(mirror->slice(kRange, 8).bytes(), 0u);
    EXPECT_EQ(mirror->resident_bytes(), 4'096u);
  }
  EXPECT_DEATH(*first = std::byte{1}, "");
  mirror->close_blank(kRange, kRange);
  mirror->close_blank(0, kRange);
  EXPECT_TRUE(mirror->resident(0, 4'096)) << "not that range, and it was read";
  pieces.clear();
  ASSERT_EQ("OK", mirror->open(2 * kRange, 8, &pieces).ToString());
  ASSERT_EQ("OK", mirror->open_blank(2 * kRange, kRange).ToString()) << "a read of a part of it has failed";
  EXPECT_TRUE(mirror->resident(2 * kRange, 8));
}

}  // namespace
}  // namespace bonsai::scale
