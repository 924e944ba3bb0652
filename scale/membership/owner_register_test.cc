// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/owner_register.h"

#include <gtest/gtest.h>

namespace bonsai::scale::membership {
namespace {

using Answer = OwnerRegister::Answer;
using Work = OwnerRegister::Work;

constexpr uint64_t kLease = 1'000'000'000;
constexpr SessionId kA = {{1, 2}}, kB = {{3, 4}};

// Carries out the register's work.
void work(OwnerRegister* reg) {
  if (reg->work() == Work::kPersist) reg->persisted();
  if (reg->work() == Work::kEndEarlier) reg->earlier_ended(reg->served_connection());
}

// A register that session kA got at now_ns = 0 over connection 1, with epoch 1.
OwnerRegister owned() {
  OwnerRegister reg(OwnerRecord(), 0);
  EXPECT_EQ(reg.fence({kA, 1, 1}, 0, kLease, false, 0).answer, Answer::kAgain);
  work(&reg);
  EXPECT_EQ(reg.fence({kA, 1, 1}, 0, kLease, false, 0).answer, Answer::kGranted);
  return reg;
}

TEST(OwnerRegister, AnOpeningIsServedAfterRecordAndEndOfEarlierConnections) {
  OwnerRegister reg(OwnerRecord(), 0);
  const Sender a = {kA, 1, 1};
  EXPECT_EQ(reg.fence(a, 0, kLease, false, 0).answer, Answer::kAgain);
  EXPECT_EQ(reg.work(), Work::kPersist);
  EXPECT_EQ(reg.record(), (OwnerRecord{1, kA, kLease}));
  EXPECT_FALSE(reg.serves(a));
  reg.persisted();
  EXPECT_EQ(reg.work(), Work::kEndEarlier);
  EXPECT_FALSE(reg.serves(a));
  reg.earlier_ended(7);
  EXPECT_FALSE(reg.serves(a)) << "that was said of another connection";
  reg.earlier_ended(1);
  EXPECT_TRUE(reg.serves(a));
  EXPECT_EQ(reg.work(), Work::kNone);
}

TEST(OwnerRegister, ALiveOwnerKeepsThePoolAndTheOtherOneHearsHowLong) {
  OwnerRegister reg = owned();
  const OwnerRegister::Reply reply = reg.fence({kB, 2, 2}, 1, kLease, false, kLease / 4);
  EXPECT_EQ(reply.answer, Answer::kLeaseRuns);
  EXPECT_EQ(reply.ns, kLease - kLease / 4);
  EXPECT_EQ(reg.renew({kA, 1, 1}, kLease / 2).answer, Answer::kGranted);
  EXPECT_EQ(reg.lease_until_ns(), kLease + kLease / 2);
  EXPECT_EQ(reg.fence({kB, 2, 2}, 1, kLease, false, kLease).answer, Answer::kLeaseRuns);
}

TEST(OwnerRegister, ASilentOwnerIsReplacedAndHearsIt) {
  OwnerRegister reg = owned();
  const Sender a = {kA, 1, 1}, b = {kB, 2, 2};
  EXPECT_EQ(reg.fence(b, 1, kLease, false, kLease).answer, Answer::kAgain);
  EXPECT_FALSE(reg.serves(a));
  EXPECT_EQ(reg.renew(a, kLease).answer, Answer::kReplaced);
  work(&reg);
  EXPECT_TRUE(reg.serves(b));
  for (const OwnerRegister::Reply reply : {reg.renew(a, kLease), reg.resume(a, kLease), reg.leave(a)}) {
    EXPECT_EQ(reply.answer, Answer::kReplaced);
    EXPECT_EQ(reply.epoch, 2U);
  }
  EXPECT_EQ(reg.fence(a, 0, kLease, true, 9 * kLease).answer, Answer::kReplaced) << "its old fence, again";
}

TEST(OwnerRegister, ARestartedNodeWaitsOutTheLeaseAndTheSameSessionDoesNot) {
  const OwnerRecord stored = owned().record();
  OwnerRegister reg(stored, 100 * kLease);
  EXPECT_FALSE(reg.serves({kA, 1, 1}));
  EXPECT_EQ(reg.renew({kA, 1, 1}, 100 * kLease).answer, Answer::kAgain) << "it resumes first";
  EXPECT_EQ(reg.fence({kB, 2, 1}, 1, kLease, false, 101 * kLease - 1).answer, Answer::kLeaseRuns);
  EXPECT_EQ(reg.resume({kA, 1, 1}, 100 * kLease).answer, Answer::kAgain);
  work(&reg);
  EXPECT_EQ(reg.resume({kA, 1, 1}, 100 * kLease).answer, Answer::kGranted);

  OwnerRegister other(stored, 100 * kLease);
  EXPECT_EQ(other.fence({kB, 2, 1}, 1, kLease, false, 101 * kLease).answer, Answer::kAgain);
  EXPECT_EQ(other.record().session, kB);
}

TEST(OwnerRegister, ALostRecordWaitsOutTheLongestLease) {
  OwnerRegister reg = OwnerRegister::without_record(5);
  EXPECT_EQ(reg.fence({kB, 1, 1}, 0, kLease, false, kLeaseNsMax + 4).answer, Answer::kLeaseRuns);
  EXPECT_EQ(reg.resume({kA, 1, 2}, 6).answer, Answer::kReplaced);
  EXPECT_EQ(reg.fence({kB, 1, 1}, 0, kLease, false, kLeaseNsMax + 5).answer, Answer::kAgain);
}

TEST(OwnerRegister, AnOwnerThatLeftIsFollowedAtOnce) {
  OwnerRegister reg = owned();
  EXPECT_EQ(reg.leave({kA, 1, 1}).answer, Answer::kAgain);
  EXPECT_FALSE(reg.serves({kA, 1, 1}));
  EXPECT_EQ(reg.fence({kB, 2, 2}, 1, kLease, false, 1).answer, Answer::kAgain);
  EXPECT_TRUE(reg.record().session.is_nobody()) << "not before that is durable";
  work(&reg);
  EXPECT_EQ(reg.leave({kA, 1, 1}).answer, Answer::kDone);
  EXPECT_EQ(reg.fence({kB, 2, 2}, 1, kLease, false, 1).answer, Answer::kAgain);
  EXPECT_EQ(reg.record().session, kB);
}

TEST(OwnerRegister, ANewConnectionOfTheOwnerEndsItsEarlierOne) {
  OwnerRegister reg = owned();
  EXPECT_EQ(reg.resume({kA, 1, 5}, 1).answer, Answer::kAgain);
  EXPECT_EQ(reg.work(), Work::kEndEarlier);
  EXPECT_FALSE(reg.serves({kA, 1, 1}));
  work(&reg);
  EXPECT_TRUE(reg.serves({kA, 1, 5}));
  EXPECT_EQ(reg.resume({kA, 1, 1}, 2).answer, Answer::kReplaced) << "late, over the earlier one";
  EXPECT_EQ(reg.resume({kA, 1, 5}, 2).answer, Answer::kGranted);
}

TEST(OwnerRegister, ForceStopsGrantsAndDoesNotShortenALease) {
  OwnerRegister reg = owned();
  const Sender a = {kA, 1, 1}, b = {kB, 2, 2};
  EXPECT_EQ(reg.fence(b, 1, kLease, true, kLease / 2).answer, Answer::kLeaseRuns);
  EXPECT_EQ(reg.renew(a, kLease - 1).answer, Answer::kDenied);
  EXPECT_TRUE(reg.serves(a)) << "its updates go on";
  EXPECT_EQ(reg.lease_until_ns(), kLease);
  EXPECT_EQ(reg.renew(a, 2 * kLease).answer, Answer::kGranted) << "the other one did not come again";
  EXPECT_EQ(reg.fence(b, 1, kLease, true, 2 * kLease + 1).answer, Answer::kLeaseRuns);
  EXPECT_EQ(reg.renew(a, 3 * kLease - 1).answer, Answer::kDenied);
  EXPECT_EQ(reg.fence(b, 1, kLease, true, 3 * kLease).answer, Answer::kAgain);
  EXPECT_EQ(reg.record().session, kB);
}

TEST(OwnerRegister, WhatIsOutOfRangeChangesNothing) {
  OwnerRegister reg = owned();
  const OwnerRecord before = reg.record();
  const auto refused = [&](const Sender& sender, uint64_t seen, uint64_t lease_ns) {
    return reg.fence(sender, seen, lease_ns, true, 100 * kLease).answer == Answer::kInvalid;
  };
  EXPECT_TRUE(refused({SessionId(), 2, 2}, 1, kLease)) << "nobody";
  EXPECT_TRUE(refused({kB, 1, 2}, 1, kLease)) << "an epoch that does not rise";
  EXPECT_TRUE(refused({kB, 0, 2}, 1, kLease));
  EXPECT_TRUE(refused({kB, kEpochStepMax + 2, 2}, 1, kLease)) << "too far";
  EXPECT_TRUE(refused({kB, kEpochMax + 1, 2}, kEpochMax, kLease)) << "an epoch after which there is none";
  EXPECT_TRUE(refused({kB, UINT64_MAX, 2}, 1, kLease));
  EXPECT_TRUE(refused({kB, 2, 2}, 1, 0));
  EXPECT_TRUE(refused({kB, 2, 2}, 1, kLeaseNsMax + 1));
  EXPECT_EQ(reg.record(), before);
  EXPECT_EQ(reg.denied_until_ns(), 0U);
  EXPECT_EQ(reg.resume({SessionId(), 1, 9}, 1).answer, Answer::kReplaced);
  EXPECT_EQ(reg.leave({kB, 1, 9}).answer, Answer::kReplaced);
  EXPECT_TRUE(reg.serves({kA, 1, 1}));
}

TEST(OwnerRegister, OfTwoThatWantItOneIsRefused) {
  OwnerRegister reg(OwnerRecord(), 0);
  EXPECT_EQ(reg.fence({kA, 1, 1}, 0, kLease, false, 0).answer, Answer::kAgain);
  EXPECT_EQ(reg.fence({kB, 1, 2}, 0, kLease, false, 0).answer, Answer::kReplaced);
  EXPECT_EQ(reg.fence({kB, 2, 2}, 1, kLease, false, 0).answer, Answer::kAgain) << "while the record is being written";
  EXPECT_EQ(reg.record().session, kA);
}

}  // namespace
}  // namespace bonsai::scale::membership
