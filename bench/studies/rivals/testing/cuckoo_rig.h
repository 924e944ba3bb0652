// SPDX-License-Identifier: Apache-2.0
// Tables and clients of the tests of the RCuckoo-like engine.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_TESTING_CUCKOO_RIG_H_
#define BONSAI_BENCH_STUDIES_RIVALS_TESTING_CUCKOO_RIG_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "bench/studies/rivals/rcuckoo.h"
#include "bench/studies/rivals/testing/narrow_client.h"
#include "bench/studies/rivals/testing/rig.h"

namespace bonsai::bench::rivals::rcuckoo {

inline std::string key(uint32_t number) { return NarrowClient::bytes(number); }

inline std::unique_ptr<CuckooClient> client_of(Connection* connection, const ClientOptions& options) {
  std::unique_ptr<CuckooClient> client;
  EXPECT_EQ("OK", text(CuckooClient::make(connection, options, &client)));
  return client;
}

// The first key from `from` on whose rows are as wanted.
inline uint32_t key_where(const Table& table, uint32_t from, const std::function<bool(const Place&)>& wanted) {
  while (!wanted(table.place(from))) ++from;
  return from;
}

// The content of a table that no client changes.
class Inspector {
 public:
  Inspector(const Table& table, MemoryNode* node) : table_(table), memory_(node->data()) {}

  [[nodiscard]] Row row(uint64_t number) const {
    Row row{};
    base::racy_load(&row, memory_ + table_.row_at(number).offset, sizeof row);
    return row;
  }
  void put(uint64_t number, const Row& row) {
    base::racy_store(memory_ + table_.row_at(number).offset, &row, sizeof row);
  }
  [[nodiscard]] uint64_t lock_word(uint64_t word) const {
    return base::word_at(memory_ + Table::lock_word_at(word).offset).load();
  }
  void set_lock_word(uint64_t word, uint64_t bits) {
    base::word_at(memory_ + Table::lock_word_at(word).offset).store(bits);
  }
  [[nodiscard]] uint64_t locks_held() const {
    uint64_t held = 0;
    for (uint64_t word = 0; word < table_.lock_bits() / kLocksPerWord; ++word) {
      held += static_cast<uint64_t>(std::popcount(lock_word(word)));
    }
    return held;
  }
  [[nodiscard]] uint64_t seals_wrong() const {
    uint64_t wrong = 0;
    for (uint64_t number = 0; number < table_.rows(); ++number) wrong += row(number).sealed(number) ? 0 : 1;
    return wrong;
  }
  // The values of each key, including those in a row that is not the key's.
  [[nodiscard]] std::map<uint32_t, std::vector<uint32_t>> records() const {
    std::map<uint32_t, std::vector<uint32_t>> records;
    for (uint64_t number = 0; number < table_.rows(); ++number) {
      for (const uint64_t entry : row(number).entries) {
        if (entry != 0) records[Entry::key(entry)].push_back(Entry::value(entry));
      }
    }
    return records;
  }

 private:
  const Table& table_;
  std::byte* const memory_;
};

}  // namespace bonsai::bench::rivals::rcuckoo

#endif  // BONSAI_BENCH_STUDIES_RIVALS_TESTING_CUCKOO_RIG_H_
