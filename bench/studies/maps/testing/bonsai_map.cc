// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/maps/testing/bonsai_map.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/step.h"
#include "bonsai/db.h"
#include "testing/scratch.h"

namespace bonsai::bench::maps {
namespace {

std::string bytes_of(uint64_t key) {
  const uint64_t big_endian = __builtin_bswap64(key);
  return {reinterpret_cast<const char*>(&big_endian), sizeof big_endian};
}

uint64_t word_of(std::string_view bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

void must(const Status& status) { ASSERT_TRUE(status.ok()) << status.ToString(); }

class BonsaiMap final : public Map {
 public:
  BonsaiMap() {
    Options options;
    options.create_if_missing = true;
    options.key_format = KeyFormat::kFixed8;
    options.pool_bytes = size_t{32} << 20;
    must(DB::Open(options, scratch_.file("pool"), &db_));
  }
  ~BonsaiMap() override {
    must(db_->Close());
    db_.reset();
  }
  [[nodiscard]] bool get(uint64_t key, uint64_t* value) override {
    std::string bytes;
    const Status status = db_->Get(bytes_of(key), &bytes);
    if (status.IsNotFound()) return false;
    must(status);
    *value = word_of(bytes);
    return true;
  }
  void put(uint64_t key, uint64_t value) override {
    base::step("bonsai.put");
    must(db_->Put(bytes_of(key), {reinterpret_cast<const char*>(&value), sizeof value}));
  }
  void remove(uint64_t key) override { must(db_->Delete(bytes_of(key))); }
  void scan(uint64_t from, uint64_t to, size_t limit, std::vector<Record>* records) override {
    records->clear();
    ScanOptions options;
    options.limit = limit;
    const std::string end = to == UINT64_MAX ? "" : bytes_of(to + 1);
    options.end = end;
    must(db_->Scan(options, bytes_of(from), [&](std::string_view key, std::string_view value) {
      base::step("bonsai.visit");
      records->push_back({__builtin_bswap64(word_of(key)), word_of(value)});
      return true;
    }));
  }
  [[nodiscard]] bool scans_are_atomic() const override { return true; }
  [[nodiscard]] uint64_t bytes() const override { return db_->GetStats().dram_bytes; }

 private:
  const bonsai::testing::ScratchFolder scratch_;  // in memory: a disk would make each put wait for it
  std::unique_ptr<DB> db_;
};

}  // namespace

std::unique_ptr<Map> make_bonsai_map() { return std::make_unique<BonsaiMap>(); }

}  // namespace bonsai::bench::maps
