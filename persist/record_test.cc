// SPDX-License-Identifier: Apache-2.0
#include "persist/record.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "bonsai/options.h"
#include "persist/testing.h"

namespace bonsai::persist {
namespace {

using testing::seeded_random;

constexpr uint32_t kSeed = 12345;

Update make_update(std::string_view key, std::string_view value, bool tombstone = false) {
  Update update;
  update.key = key;
  update.value = value;
  update.gen = 77;
  update.token = 5;
  update.tombstone = tombstone;
  return update;
}

std::vector<std::byte> encoded(const Update& update, uint32_t seed = kSeed) {
  std::vector<std::byte> bytes(update.record_bytes(), std::byte{0xee});
  EXPECT_EQ(encode_update(update, seed, bytes.data()), bytes.size());
  return bytes;
}

std::vector<std::byte> encoded(const std::vector<Update>& batch) {
  std::vector<std::byte> bytes(batch_record_bytes(batch), std::byte{0xee});
  EXPECT_EQ(encode_batch(batch, kSeed, bytes.data()), bytes.size());
  return bytes;
}

void expect_equal(const Update& a, const Update& b) {
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.gen, b.gen);
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.tombstone, b.tombstone);
  EXPECT_EQ(a.large, b.large);
}

void expect_every_flip_rejected(std::vector<std::byte> bytes) {
  RecordView view;
  ASSERT_TRUE(view.parse(bytes.data(), bytes.size(), kSeed));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), kSeed)) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
}

TEST(Record, AnUpdateComesBack) {
  const std::string long_key(kKeyBytesMax, 'k');
  const std::string long_value(5000, 'v');
  for (const Update& update : {make_update("k", ""), make_update("key", "value"), make_update("12345678", "12345678"),
                               make_update(long_key, long_value), make_update("gone", "", true)}) {
    const auto bytes = encoded(update);
    EXPECT_EQ(bytes.size() % 8, 0U);
    RecordView view;
    ASSERT_TRUE(view.parse(bytes.data(), bytes.size() + 100, kSeed));
    EXPECT_EQ(view.bytes, bytes.size());
    ASSERT_EQ(view.updates.size(), 1U);
    expect_equal(view.updates[0], update);
  }
}

// A reader of a part of a record learns that there may be more of it, and never asks for more than the record has.
TEST(Record, ASmallRoomSaysHowMuchIsMissing) {
  const std::string key(300, 'k'), value(2000, 'v');
  std::vector<Update> batch;
  for (int i = 0; i < 20; ++i) batch.push_back(make_update(key, value));
  std::vector<std::byte> epoch(kEpochRecordBytes);
  encode_epoch(17, kSeed, epoch.data());
  for (const std::vector<std::byte>& bytes :
       {encoded(make_update(key, value)), encoded(make_update("12345678", "12345678")), encoded(batch), epoch}) {
    RecordView view;
    size_t steps = 0;
    for (size_t room = 0; !view.parse(bytes.data(), room, kSeed); ++steps) {
      ASSERT_GT(view.bytes, room);
      ASSERT_LE(view.bytes, bytes.size());
      room = view.bytes;
    }
    EXPECT_LE(steps, 20U);
    std::vector<std::byte> damaged = bytes;
    damaged[4] = std::byte{0xff};  // no such tag
    EXPECT_FALSE(view.parse(damaged.data(), 16, kSeed));
    EXPECT_LE(view.bytes, 16U) << "more bytes would change nothing";
  }
}

// The log's overhead: crc, tag, token and generation are 8 bytes beside a key and a value of 8 bytes.
TEST(Record, IsSmall) {
  Update update = make_update("12345678", "12345678");
  update.token = 127;
  update.gen = 16'383;
  EXPECT_EQ(encoded(update).size(), 24U);
  EXPECT_EQ(encoded(std::vector<Update>(100, update)).size(), round_up(4 + 1 + 2 + 1 + 100 * 20, 8));
}

TEST(Record, NumbersOfAllSizesComeBack) {
  RecordView view;
  for (int bits = 0; bits <= 64; ++bits) {
    Update update = make_update("key", "value");
    update.gen = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
    update.token = static_cast<uint32_t>(std::min<uint64_t>(update.gen, UINT32_MAX));
    const auto bytes = encoded(update);
    EXPECT_LE(bytes.size(), round_up(update.key.size() + update.value.size() + kUpdateOverheadBytesMax, 8));
    ASSERT_TRUE(view.parse(bytes.data(), bytes.size(), kSeed)) << bits;
    expect_equal(view.updates[0], update);
  }
}

TEST(Record, PaddingIsZero) {
  const auto bytes = encoded(make_update("abc", "de"));  // 4 crc, tag, 4 numbers, 5 bytes
  ASSERT_EQ(bytes.size(), 16U);
  for (size_t i = 14; i < 16; ++i) EXPECT_EQ(bytes[i], std::byte{0});
}

TEST(Record, ALargeReferenceComesBackAndItsSizeIsChecked) {
  const std::string ref(sizeof(LargeRef), 'r');
  Update update = make_update("key", ref);
  update.large = true;
  RecordView view;
  auto bytes = encoded(update);
  ASSERT_TRUE(view.parse(bytes.data(), bytes.size(), kSeed));
  EXPECT_TRUE(view.updates[0].large);
  update.value = std::string_view(ref).substr(1);
  bytes = encoded(update);
  EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), kSeed));
}

TEST(Record, ABatchComesBackInOrder) {
  const std::vector<Update> batch = {make_update("a", "1"), make_update("b", "", true),
                                     make_update("a", "22222222222")};
  const auto bytes = encoded(batch);
  RecordView view;
  ASSERT_TRUE(view.parse(bytes.data(), bytes.size(), kSeed));
  ASSERT_EQ(view.updates.size(), batch.size());
  for (size_t i = 0; i < batch.size(); ++i) expect_equal(view.updates[i], batch[i]);
}

TEST(Record, AnEpochComesBack) {
  std::byte bytes[kEpochRecordBytes];
  EXPECT_EQ(encode_epoch(9, kSeed, bytes), kEpochRecordBytes);
  RecordView view;
  ASSERT_TRUE(view.parse(bytes, sizeof bytes, kSeed));
  EXPECT_EQ(view.kind, RecordKind::kEpoch);
  EXPECT_EQ(view.epoch, 9U);
  EXPECT_TRUE(view.updates.empty());
}

TEST(Record, EverySingleBitFlipIsRejected) {
  expect_every_flip_rejected(encoded(make_update("key", "some value")));
  expect_every_flip_rejected(encoded(make_update("12345678", "12345678")));
  expect_every_flip_rejected(encoded(make_update("gone", "", true)));
  expect_every_flip_rejected(encoded(std::vector<Update>{make_update("a", "1"), make_update("b", "22")}));
  std::vector<std::byte> epoch(kEpochRecordBytes);
  encode_epoch(3, kSeed, epoch.data());
  expect_every_flip_rejected(epoch);
}

TEST(Record, NumbersTakeAByteForSevenBits) {
  for (unsigned bits = 1; bits <= 64; ++bits) {
    const uint64_t most = UINT64_MAX >> (64 - bits);
    EXPECT_EQ(varint_bytes(most), (bits + 6) / 7) << bits;
    EXPECT_EQ(varint_bytes(most / 2 + 1), (bits + 6) / 7) << bits;
  }
  EXPECT_EQ(varint_bytes(0), 1U);
}

TEST(Record, TruncationIsRejected) {
  const auto bytes = encoded(make_update("key", "some value"));
  RecordView view;
  for (size_t room = 0; room < bytes.size(); ++room) EXPECT_FALSE(view.parse(bytes.data(), room, kSeed)) << room;
}

TEST(Record, IsValidInItsOwnPlaceAndOpeningOnly) {
  const auto bytes = encoded(make_update("key", "value"), record_seed(3, 7, 64));
  RecordView view;
  EXPECT_TRUE(view.parse(bytes.data(), bytes.size(), record_seed(3, 7, 64)));
  EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), record_seed(3, 7, 72)));
  EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), record_seed(3, 8, 64)));
  EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), record_seed(4, 7, 64)));
}

// A record whose checksum is right and whose content is not: parse() must judge the content, too.
TEST(Record, BadContentUnderAGoodChecksumIsRejected) {
  const auto repair = [](std::vector<std::byte>* bytes) {
    const uint32_t crc = base::crc32c(bytes->data() + 4, bytes->size() - 4, kSeed);
    std::memcpy(bytes->data(), &crc, sizeof crc);
  };
  const auto set = [](std::vector<std::byte>* bytes, size_t offset, uint8_t value) {
    (*bytes)[offset] = static_cast<std::byte>(value);
  };
  RecordView view;
  const auto tag = [](RecordKind kind, uint8_t flags = 0) {
    return static_cast<uint8_t>(static_cast<uint8_t>(kind) | flags);
  };
  for (const uint8_t bad : {uint8_t{0}, uint8_t{7}, tag(RecordKind::kPut, 64), tag(RecordKind::kDel, kTagValueOf8),
                            tag(RecordKind::kDel, kTagLarge), tag(RecordKind::kPut, kTagLarge)}) {
    auto bytes = encoded(make_update("key", "value"));
    set(&bytes, 4, bad);
    repair(&bytes);
    EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), kSeed)) << "tag " << static_cast<int>(bad);
  }
  const std::vector<Update> two = {make_update("a", "1"), make_update("b", "2")};  // parts of 7 bytes, from 7 on
  auto bytes = encoded(two);
  set(&bytes, 6, 3);
  repair(&bytes);
  EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), kSeed)) << "a batch with a wrong count";

  bytes = encoded(two);
  set(&bytes, 8, 100);
  repair(&bytes);
  EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), kSeed)) << "a part that sticks out of its batch";

  bytes = encoded(two);
  set(&bytes, 7, tag(RecordKind::kEpoch));
  repair(&bytes);
  EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), kSeed)) << "an epoch inside a batch";

  bytes = encoded(make_update("", "value"));
  EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), kSeed)) << "an empty key";
  bytes = encoded(make_update(std::string(kKeyBytesMax + 1, 'k'), "value"));
  EXPECT_FALSE(view.parse(bytes.data(), bytes.size(), kSeed)) << "a key that is too long";
}

// A record of an earlier opening is never taken for one of this opening: their seeds always differ.
TEST(Record, NoTwoOpeningsShareASeed) {
  for (const uint64_t offset : {uint64_t{64}, uint64_t{4096}, uint64_t{1} << 19}) {
    std::set<uint32_t> seeds;
    constexpr uint64_t kOpenings = 300'000;  // drawn by chance, about ten pairs would be equal
    for (uint64_t sequence = 1; sequence <= kOpenings; ++sequence) seeds.insert(record_seed(3, sequence, offset));
    EXPECT_EQ(seeds.size(), kOpenings);
  }
}

TEST(Record, ArbitraryBytesAreSafe) {
  base::Random random = seeded_random(1);
  RecordView view;
  int parsed = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::vector<std::byte> bytes(random.below(100));  // on the heap, so that ASan sees every step outside
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.chance(1, 2) ? random.below(30) : random.next());
    if (bytes.size() > 4) bytes[4] = static_cast<std::byte>(random.below(64));
    for (size_t i = bytes.size() - std::min<size_t>(bytes.size(), random.below(16)); i < bytes.size(); ++i) {
      bytes[i] = std::byte{0};  // padding
    }
    for (uint64_t whole = 0; whole <= bytes.size(); whole += 8) {
      if (whole > 0) {  // a checksum that fits a record of so many bytes
        const uint32_t crc = base::crc32c(bytes.data() + 4, whole - 4, kSeed);
        std::memcpy(bytes.data(), &crc, sizeof crc);
      }
      if (!view.parse(bytes.data(), bytes.size(), kSeed)) continue;
      ++parsed;
      for (const Update& update : view.updates) {
        EXPECT_GE(update.key.data(), reinterpret_cast<const char*>(bytes.data()));
        EXPECT_LE(update.value.data() + update.value.size(),
                  reinterpret_cast<const char*>(bytes.data()) + bytes.size());
      }
    }
  }
  EXPECT_GT(parsed, 100);
}

}  // namespace
}  // namespace bonsai::persist
