#include "scale/registered_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "rdma/shm/shm.h"

namespace bonsai::scale {
namespace {

class RegisteredPoolTest : public ::testing::Test {
 protected:
  rdma::ShmNetwork network_;
  std::shared_ptr<RegisteredPool> pool_ = RegisteredPool::make(network_.make_fabric());
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
