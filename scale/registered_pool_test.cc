// SPDX-License-Identifier: Apache-2.0
#include "scale/registered_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "rdma/shm/shm.h"

namespace bonsai::scale {
namespace {

class RegisteredPoolTest : public ::testing::Test {
 protected:
  rdma::ShmNetwork network_;
  RegisteredPoolTest() { EXPECT_TRUE(RegisteredPool::make(network_.make_fabric(), &pool_).ok()); }
  std::shared_ptr<RegisteredPool> pool_;
};

TEST_F(RegisteredPoolTest, PiecesAreApartRegisteredAndUsedAgain) {
  constexpr size_t kPieces = 300;  // more than one slab
  std::set<std::byte*> first, second;
  for (std::set<std::byte*>* all : {&first, &second}) {
    std::vector<std::shared_ptr<std::byte>> held;
    for (size_t i = 0; i < kPieces; ++i) {
      held.push_back(pool_->take(4096));
      EXPECT_TRUE(all->insert(held.back().get()).second) << "taken twice";
      EXPECT_EQ(pool_->slice(held.back().get(), 4096).bytes(), 4096U);
      held.back().get()[4095] = std::byte{1};
    }
  }
  EXPECT_EQ(first, second);
}

TEST_F(RegisteredPoolTest, WhatIsIdleIsGivenBackUpToABound) {
  for (const size_t piece_bytes : {size_t{4096}, size_t{256} << 10, size_t{4} << 20}) {
    for (int round = 0; round < 2; ++round) {
      std::vector<std::shared_ptr<std::byte>> held;
      for (size_t i = 0; i < 3 * RegisteredPool::kIdleBytesMax / piece_bytes; ++i)
        held.push_back(pool_->take(piece_bytes));
      EXPECT_GE(pool_->registered_bytes(), 3 * RegisteredPool::kIdleBytesMax);
      const std::shared_ptr<std::byte> kept = held[held.size() / 2];
      while (!held.empty()) {  // half of each slab first
        std::vector<std::shared_ptr<std::byte>> left;
        for (size_t i = 1; i < held.size(); i += 2) left.push_back(std::move(held[i]));
        held = std::move(left);
      }
      EXPECT_LE(pool_->registered_bytes(), 2 * RegisteredPool::kIdleBytesMax);
      EXPECT_EQ(pool_->slice(kept.get(), piece_bytes).bytes(), piece_bytes) << "it is still held";
    }
    EXPECT_LE(pool_->registered_bytes(), RegisteredPool::kIdleBytesMax);
  }
}

TEST_F(RegisteredPoolTest, APieceMayBeLargeAndOutlivesThePool) {
  constexpr size_t kPieceBytes = size_t{3} << 20;
  std::shared_ptr<std::byte> piece = pool_->take(kPieceBytes);
  EXPECT_EQ(pool_->slice(piece.get() + 100, kPieceBytes - 100).bytes(), kPieceBytes - 100);
  std::byte own{};
  EXPECT_EQ(pool_->slice(&own, 1).bytes(), 0U) << "it was not taken here";
  pool_.reset();
  piece.get()[kPieceBytes - 1] = std::byte{1};
}

}  // namespace
}  // namespace bonsai::scale
