// SPDX-License-Identifier: Apache-2.0
#include "scale/residence.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace bonsai::scale {
namespace {

// A log of reads. Nothing is resident, and a read has ended at the second query.
class LoggedReads final : public base::FarReads {
 public:
  LoggedReads(char name, std::string* log) : name_(name), log_(*log) {}
  Memory memory(size_t) override { return nullptr; }
  uint64_t begin(std::span<const Piece> pieces, std::shared_ptr<const void>) override {
    log_ += name_;
    for (const Piece& piece : pieces)
      log_ += ' ' + std::to_string(piece.offset) + "+" + std::to_string(piece.bytes) + ' ';
    return polls_ = 0;
  }
  bool ended(uint64_t, Status*) override {
    if (polls_++ == 0) return false;
    log_ += std::string("end ") + name_ + ' ';
    return true;
  }
  void forget(uint64_t) override {}
  uint64_t limit_ms() const override { return 1'000; }
  Status open_resident(uint64_t offset, uint64_t n, std::vector<Piece>* pieces) override {
    pieces->push_back({offset, nullptr, n});
    return Status::OK();
  }
  void close_resident(std::span<const Piece>) override { log_ += "close "; }
  Status open_blank(uint64_t, uint64_t) override { return Status::OK(); }
  void close_blank(uint64_t, uint64_t) override {}
  uint64_t resident_bytes() const override { return 0; }

 private:
  const char name_;
  std::string& log_;
  uint64_t polls_ = 0;
};

// All known ranges are in flight before the first wait, neighbours as one read, up to 1 MiB on each medium.
TEST(Residence, RangesOfSeveralMediaAreReadTogether) {
  std::string log;
  LoggedReads a('a', &log), b('b', &log);
  const std::array<FarRange, 4> ranges = {{{&a, 0, 4096}, {&a, 4096, 100}, {&b, 8192, 8}, {&b, 10'000, 1 << 20}}};
  ASSERT_TRUE(make_resident(ranges).ok());
  EXPECT_EQ(log,
            "a 0+4196 b 8192+8  10000+1048568 end a end b "
            "b 1058568+8 end b close close ");
}

}  // namespace
}  // namespace bonsai::scale
