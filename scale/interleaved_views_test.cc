// SPDX-License-Identifier: Apache-2.0
#include "scale/interleaved_views.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace bonsai::scale {
namespace {

constexpr size_t kViewTargets = 3;
constexpr uint64_t kViewBytes = uint64_t{256} << 10;

// OwnViews of three targets; each byte names its target and its page.
class OwnViews {
 public:
  explicit OwnViews(int sharing) {
    for (size_t i = 0; i < kViewTargets; ++i) {
      void* const at = ::mmap(nullptr, kViewBytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
      BONSAI_CHECK(at != MAP_FAILED);
      views_.push_back(static_cast<std::byte*>(at));
      for (uint64_t page = 0; page < kViewBytes / base::kPageBytes; ++page) {
        std::memset(at_of(i, page * base::kPageBytes), value_of(i, page), base::kPageBytes);
      }
    }
  }
  ~OwnViews() {
    for (std::byte* view : views_) ::munmap(view, kViewBytes);
  }
  OwnViews(const OwnViews&) = delete;
  OwnViews& operator=(const OwnViews&) = delete;

  static int value_of(size_t target, uint64_t page) { return static_cast<int>(target * 80 + page); }
  [[nodiscard]] std::byte* at_of(size_t target, uint64_t offset) const { return views_[target] + offset; }
  [[nodiscard]] const std::vector<std::byte*>& views() const { return views_; }

 private:
  std::vector<std::byte*> views_;
};

const Layout kInterleaved(LayoutChoice::kSoftware, std::vector<size_t>{0, 1, 2}, 8192, 3 * base::kPageBytes);

TEST(InterleavedViews, ShowEachAddressItsPlace) {
  const OwnViews memory(MAP_SHARED);
  std::unique_ptr<InterleavedViews> views;
  ASSERT_EQ("OK", InterleavedViews::make(kInterleaved, memory.views(), kViewBytes, &views).ToString());
  for (size_t target = 0; target < kViewTargets; ++target) {
    for (uint64_t offset = 0; offset < kViewBytes; offset += 512) {
      const Addr place = kInterleaved.place_of({target, offset});
      ASSERT_EQ(static_cast<int>(views->view(target)[offset]),
                OwnViews::value_of(place.target(), place.offset() / base::kPageBytes))
          << target << ", " << offset;
    }
  }
}

TEST(InterleavedViews, AreTheSameBytes) {
  const OwnViews memory(MAP_SHARED);
  std::unique_ptr<InterleavedViews> views;
  ASSERT_EQ("OK", InterleavedViews::make(kInterleaved, memory.views(), kViewBytes, &views).ToString());
  const Addr addr(1, 110'000);
  const Addr place = kInterleaved.place_of(addr);
  ASSERT_NE(place, addr);
  views->view(1)[addr.offset()] = std::byte{0xee};
  EXPECT_EQ(*memory.at_of(place.target(), place.offset()), std::byte{0xee});
  *memory.at_of(place.target(), place.offset()) = std::byte{0xdd};
  EXPECT_EQ(views->view(1)[addr.offset()], std::byte{0xdd});
  views.reset();
  EXPECT_EQ(*memory.at_of(place.target(), place.offset()), std::byte{0xdd}) << "the targets' own views stay";
}

TEST(InterleavedViews, NeedPagesThatCanBeShared) {
  const OwnViews memory(MAP_PRIVATE);
  std::unique_ptr<InterleavedViews> views;
  const Status status = InterleavedViews::make(kInterleaved, memory.views(), kViewBytes, &views);
  EXPECT_TRUE(status.IsNotSupported()) << status.ToString();
  EXPECT_NE(status.message().find("layout none"), std::string::npos) << status.ToString();
  EXPECT_EQ(views, nullptr);
}

// A unit that is too small for the kernel's table is refused before anything is mapped, with one that is not.
TEST(InterleavedViews, UnitsThatAreTooSmallAreRefused) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  EXPECT_TRUE(InterleavedViews::check(4096, 4, 32'000 / 4 * 4096).ok());
  const Status status = InterleavedViews::check(4096, 4, kGiB);
  ASSERT_TRUE(status.IsInvalidArgument()) << status.ToString();
  EXPECT_NE(status.message().find("units of 262144 bytes or more"), std::string::npos) << status.ToString();
  EXPECT_TRUE(InterleavedViews::check(262'144, 4, kGiB).ok());
  EXPECT_TRUE(InterleavedViews::check(2048, 2, base::kPageBytes).IsInvalidArgument()) << "less than a page";
  const Status vast = InterleavedViews::check(kStripeUnitMax, 64, kPoolBytesMax);
  ASSERT_TRUE(vast.IsInvalidArgument());
  EXPECT_NE(vast.message().find("layout none"), std::string::npos) << vast.ToString();
}

}  // namespace
}  // namespace bonsai::scale
