// SPDX-License-Identifier: Apache-2.0
// Hash maps as engines keep integers and strings apart and lose nothing; the counter of inserts never runs ahead.
#include "bench/engines/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/random.h"
#include "bench/engines/acknowledged_counter.h"

namespace bonsai::bench {
namespace {

template <class Key, class Value>
using Table = TableOf<std::unordered_map<Key, Value, ChosenHash<Key>, std::equal_to<Key>, CountedPairs<Key, Value>>>;

EngineOptions options_of(KeyForm form, size_t value_bytes) {
  EngineOptions options;
  options.shape.key_form = form;
  options.shape.value_bytes = value_bytes;
  return options;
}

TEST(HashEngine, KeepsIntegersOnlyWhereKeyAndValueAreOfEightBytes) {
  EXPECT_TRUE(has_integer_records(options_of(KeyForm::kFixed8, 8)));
  EXPECT_FALSE(has_integer_records(options_of(KeyForm::kFixed8, 9)));
  EXPECT_FALSE(has_integer_records(options_of(KeyForm::kString, 8)));
  EXPECT_TRUE(has_fixed_records(options_of(KeyForm::kString, kFixedValueBytes)));
  EXPECT_FALSE(has_fixed_records(options_of(KeyForm::kString, kFixedValueBytes - 1)));
  EngineOptions long_keys = options_of(KeyForm::kString, kFixedValueBytes);
  long_keys.shape.zero_padding = 30;
  EXPECT_FALSE(has_fixed_records(long_keys));
}

TEST(HashEngine, AnswersAsAMapInBothForms) {
  for (const KeyForm form : {KeyForm::kFixed8, KeyForm::kString}) {
    for (const size_t value_bytes : {8U, 100U}) {
      HashEngine<Table> engine;
      const EngineOptions options = options_of(form, value_bytes);
      ASSERT_TRUE(engine.open(options).ok());
      const std::string first(value_bytes, 'a'), second(value_bytes, 'b');
      std::array<char, 64> room{}, other_room{};
      const std::string_view key = encode_key(options.shape, 17, room.data());
      const std::string_view other = encode_key(options.shape, 18, other_room.data());
      std::string value;
      EXPECT_TRUE(engine.read(key, &value).IsNotFound());
      EXPECT_TRUE(engine.insert(key, first).ok());
      EXPECT_TRUE(engine.read(key, &value).ok());
      EXPECT_EQ(value, first);
      EXPECT_TRUE(engine.update(key, second).ok());
      EXPECT_TRUE(engine.read(key, &value).ok());
      EXPECT_EQ(value, second);
      EXPECT_TRUE(engine.read(other, &value).IsNotFound());
      std::string old;
      EXPECT_TRUE(engine.read_modify_write(key, first, &old).ok());
      EXPECT_EQ(old, second);
      EXPECT_TRUE(engine.remove(key).ok());
      EXPECT_TRUE(engine.remove(key).ok()) << "absent already";
      EXPECT_TRUE(engine.read(key, &value).IsNotFound());
      EXPECT_TRUE(engine.close().ok());
      EXPECT_TRUE(engine.close().ok());
    }
  }
}

TEST(HashEngine, IsEmptyWhenItIsOpenedAgain) {
  HashEngine<Table> engine;
  const EngineOptions options = options_of(KeyForm::kString, 8);
  std::string value;
  ASSERT_TRUE(engine.open(options).ok());
  ASSERT_TRUE(engine.insert("user1", "12345678").ok());
  ASSERT_TRUE(engine.close().ok());
  ASSERT_TRUE(engine.open(options).ok());
  EXPECT_TRUE(engine.read("user1", &value).IsNotFound());
}

TEST(HashEngine, CountsWhatItsMapAllocates) {
  for (const size_t value_bytes : {8U, 100U, 1000U}) {
    HashEngine<Table> engine;
    ASSERT_TRUE(engine.open(options_of(value_bytes == 8 ? KeyForm::kFixed8 : KeyForm::kString, value_bytes)).ok());
    const std::string value(value_bytes, 'v');
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(engine.insert(std::to_string(10'000'000 + i), value).ok());
    const uint64_t full = engine.memory().dram_bytes.value_or(0);
    EXPECT_GE(full, 1000 * (8 + value_bytes));
    EXPECT_LE(full, 1000 * (8 + value_bytes) * 2 + 100'000);
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(engine.update(std::to_string(10'000'000 + i), value).ok());
    EXPECT_EQ(engine.memory().dram_bytes, full) << "updates in place";
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(engine.remove(std::to_string(10'000'000 + i)).ok());
    EXPECT_LT(engine.memory().dram_bytes.value_or(0), full - 1000 * (8 + value_bytes) + 1);
    ASSERT_TRUE(engine.close().ok());
    EXPECT_EQ(engine.memory().dram_bytes, 0U);
  }
}

TEST(MemoryAccount, AddsUpWhatThreadsAllocateAndOthersFree) {
  MemoryAccount account;
  std::vector<int*> blocks(8);
  {
    std::vector<std::thread> threads;
    for (int*& block : blocks) {
      threads.emplace_back([&] { block = CountingAllocator<int>(&account).allocate(100); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(account.bytes(), 8 * 100 * sizeof(int));
  for (int* block : blocks) CountingAllocator<int>(&account).deallocate(block, 100);
  EXPECT_EQ(account.bytes(), 0U);
  CountedString text;  // counts nothing until it is assigned one that does
  text = CountedString(100, 'x', CountingAllocator<char>(&account));
  EXPECT_GE(account.bytes(), 100U);
}

// The expected value is that of CityHash64 v1.1, from bindings by other authors.
TEST(ChosenHash, CityHashIsCityHash) {
  ChosenHash<CountedString> city{HashKind::kCity};
  EXPECT_EQ(city(CountedString("")), 0x9ae16a3b2f90404fU);
  EXPECT_NE(city(CountedString("user1")), ChosenHash<CountedString>()(CountedString("user1")));
  const ChosenHash<uint64_t> of_numbers{HashKind::kCity};
  const uint64_t word = 0x3132333435363738;
  EXPECT_EQ(of_numbers(word), city(CountedString("87654321")));
}

TEST(ChosenHash, SpreadsConsecutiveKeys) {
  const ChosenHash<uint64_t> hash;
  std::unordered_set<size_t> high_bytes;
  for (uint64_t key = 0; key < 4096; ++key) high_bytes.insert(hash(key) >> 56);
  EXPECT_EQ(high_bytes.size(), 256U);
}

TEST(AcknowledgedCounter, EndIsTheFirstThatIsMissing) {
  AcknowledgedCounter counter(10, 4);
  EXPECT_EQ(counter.end(), 10U);
  for (uint64_t i = 10; i < 14; ++i) EXPECT_EQ(counter.take(), i);
  counter.acknowledge(12);
  counter.acknowledge(11);
  EXPECT_EQ(counter.end(), 10U) << "10 is still on its way";
  counter.acknowledge(10);
  EXPECT_EQ(counter.end(), 13U);
  counter.acknowledge(13);
  EXPECT_EQ(counter.end(), 14U);
}

TEST(AcknowledgedCounter, CatchesUpWhateverTheOrderOfThreads) {
  constexpr uint64_t kThreads = 4, kEach = 2'000;
  AcknowledgedCounter counter(0, kThreads * kEach);
  std::vector<std::atomic<bool>> stored(kThreads * kEach);
  std::atomic<uint64_t> ran_ahead{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(t);
      std::vector<uint64_t> held;
      for (uint64_t i = 0; i < kEach; ++i) {
        held.push_back(counter.take());
        if (held.size() < 8 && i + 1 < kEach) continue;
        while (!held.empty()) {
          std::swap(held.back(), held[random.below(held.size())]);
          stored[held.back()] = true;
          counter.acknowledge(held.back());
          held.pop_back();
        }
        const uint64_t end = counter.end();
        if (end > 0 && !stored[end - 1]) ++ran_ahead;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.end(), kThreads * kEach);
  EXPECT_EQ(ran_ahead, 0U);
}

}  // namespace
}  // namespace bonsai::bench
