// SPDX-License-Identifier: Apache-2.0
// A store on a far medium, and the requests of each operation to the other side.
#ifndef BONSAI_STORE_TESTING_FAR_STORE_H_
#define BONSAI_STORE_TESTING_FAR_STORE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/nvm/far.h"
#include "persist/testing.h"
#include "store/db_impl.h"
#include "store/tiers.h"

namespace bonsai::store {

inline constexpr size_t kPoolBytes = size_t{16} << 20;

inline std::string key_of(uint64_t i) {
  std::string key(8, '\0');
  for (uint64_t word = (i + 1) * 0x9e3779b97f4a7c15, b = 0; b < key.size(); ++b)
    key[b] = static_cast<char>(word >> 8 * b);
  return key;
}
inline std::string value_of(uint64_t i, uint64_t round = 0) {
  return std::to_string(10'000'000 + i + 1'000'000 * round);
}

class FarStore : public ::testing::Test {
 protected:
  static constexpr uint64_t kRecords = 5'000;

  void open(bool create, bool upload = true, uint64_t limit_ms = 10'000, bool background = false) {
    close();
    Options options;
    options.create_if_missing = create;
    options.pool_bytes = kPoolBytes;
    options.metadata_upload = upload;
    options.stall_ms_max = 2'000;
    auto far = std::make_unique<base::FarMedium>(near_, base::FarOptions{.seed = 11, .limit_ms = limit_ms});
    far_ = far.get();
    std::vector<std::unique_ptr<base::HookedMedium>> media;
    media.push_back(std::move(far));
    std::unique_ptr<Tiers> tiers;
    const Status status = open_tiers_on(options, std::move(media), create, &tiers);
    ASSERT_TRUE(status.ok()) << status.ToString();
    BackgroundThreads threads;
    if (background) {
      ASSERT_TRUE(BackgroundThreads::reserve(options, &threads).ok());
    }
    db_ = std::make_unique<DbImpl>(options, std::move(tiers), std::move(threads));
  }
  void close() {
    if (far_ != nullptr) far_->fail_reads(0);
    db_.reset();
    far_ = nullptr;
  }
  // One run in each dnode.
  void load(uint64_t round = 0) {
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db_->Put(key_of(i), value_of(i, round)).ok());
  }
  // In a good many dnodes.
  static constexpr uint64_t kMoreRecords = 30'000;
  void load_more() {
    for (uint64_t i = 0; i < kMoreRecords; ++i) ASSERT_TRUE(db_->Put(key_of(i), value_of(i)).ok());
    ASSERT_TRUE(db_->Drain().ok());
  }
  // The first `records` records, together.
  void multi_get(uint64_t gets) {
    std::vector<std::string> keys, values(gets);
    for (uint64_t i = 0; i < gets; ++i) keys.push_back(key_of(i));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<Status> statuses(gets);
    db_->MultiGet(ReadOptions(), views, values, statuses);
    for (uint64_t i = 0; i < gets; ++i) ASSERT_EQ(values[i], value_of(i)) << statuses[i].ToString();
  }
  // Reads until they want no range compacted any more: then each has one run.
  void compact() {
    std::string value;
    for (uint64_t before = UINT64_MAX; before != db_->GetStats().compactions;) {
      before = db_->GetStats().compactions;
      for (int passes = 0; passes < 4; ++passes) {
        for (uint64_t i = 0; i < kRecords; ++i) ASSERT_TRUE(db_->Get(key_of(i), &value).ok());
      }
    }
  }
  // The requests of `work` to the other side.
  template <class Work>
  base::FarMedium::Counts asked(Work work) {
    const base::FarMedium::Counts before = far_->counts();
    work();
    const base::FarMedium::Counts after = far_->counts();
    return {after.lists - before.lists, after.reads - before.reads, after.bytes - before.bytes, 0,
            after.lists_overlapped - before.lists_overlapped};
  }
  void expect_content(uint64_t round) {
    std::string value;
    for (uint64_t i = 0; i < kRecords; ++i) {
      ASSERT_TRUE(db_->Get(key_of(i), &value).ok()) << i;
      ASSERT_EQ(value, value_of(i, round));
    }
  }

  persist::testing::MemoryMedium near_{kPoolBytes};
  base::FarMedium* far_ = nullptr;
  std::unique_ptr<DB> db_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_TESTING_FAR_STORE_H_
