// SPDX-License-Identifier: Apache-2.0
// Conditional updates through the C interface.
#include <gtest/gtest.h>

#include <string>

#include "base/testing/temp_folder.h"
#include "bonsai/c.h"
#include "store/testing/message.h"

namespace bonsai {
namespace {

using testing::Message;

class CConditions : public ::testing::Test {
 protected:
  void must_open() {
    bonsai_options_t* options = bonsai_options_create();
    bonsai_options_set_create_if_missing(options, 1);
    bonsai_options_set_pool_bytes(options, uint64_t{64} << 20);
    Message message;
    ASSERT_EQ(bonsai_open(options, folder_.file("pool").c_str(), &db_, message.slot()), BONSAI_OK) << message.text();
    bonsai_options_destroy(options);
  }
  void TearDown() override { EXPECT_EQ(bonsai_close(db_, nullptr), BONSAI_OK); }

  bonsai::testing::TempFolder folder_;
  bonsai_t* db_ = nullptr;
};

TEST_F(CConditions, ConditionsDecideAndSetNoMessage) {
  must_open();
  const bonsai_condition_t absent = {BONSAI_IF_ABSENT, nullptr, 0, nullptr};
  const bonsai_condition_t present = {BONSAI_IF_PRESENT, nullptr, 0, nullptr};
  const bonsai_condition_t red = {BONSAI_IF_EQUALS, "red", 3, nullptr};
  Message message;
  EXPECT_EQ(bonsai_put_if(db_, &absent, "k", 1, "red", 3, message.slot()), BONSAI_OK);
  EXPECT_EQ(bonsai_put_if(db_, &absent, "k", 1, "red", 3, message.slot()), BONSAI_CONDITION_FAILED);
  EXPECT_FALSE(message.is_set());
  EXPECT_STREQ(bonsai_code_name(BONSAI_CONDITION_FAILED), "condition failed");
  bonsai_snapshot_t* snapshot = nullptr;
  ASSERT_EQ(bonsai_snapshot_create(db_, &snapshot, nullptr), BONSAI_OK);
  const bonsai_condition_t unchanged = {BONSAI_IF_UNCHANGED, nullptr, 0, snapshot};
  EXPECT_EQ(bonsai_put_if(db_, &unchanged, "k", 1, "red", 3, nullptr), BONSAI_OK);
  EXPECT_EQ(bonsai_delete_if(db_, &unchanged, "k", 1, nullptr), BONSAI_CONDITION_FAILED);
  bonsai_snapshot_release(snapshot);

  bonsai_writebatch_t* batch = bonsai_writebatch_create();
  ASSERT_EQ(bonsai_writebatch_put(batch, "n", 1, "41", 2, nullptr), BONSAI_OK);
  ASSERT_EQ(bonsai_writebatch_require(batch, &red, "k", 1, nullptr), BONSAI_OK);
  size_t failed = 9;
  EXPECT_EQ(bonsai_write_if(db_, batch, &failed, nullptr), BONSAI_OK);
  ASSERT_EQ(bonsai_writebatch_require(batch, &absent, "n", 1, nullptr), BONSAI_OK);
  EXPECT_EQ(bonsai_write_if(db_, batch, &failed, nullptr), BONSAI_CONDITION_FAILED);
  EXPECT_EQ(failed, 1U);
  EXPECT_EQ(bonsai_write(db_, batch, nullptr), BONSAI_CONDITION_FAILED);
  bonsai_writebatch_destroy(batch);

  bonsai_session_t* session = nullptr;
  ASSERT_EQ(bonsai_session_create(db_, 4, &session, nullptr), BONSAI_OK);
  bonsai_result_t results[3];
  int64_t sum = 0, alone = 0;
  bonsai_session_put_if(session, &present, "none", 4, "x", 1, &results[0]);
  bonsai_session_increment(session, "n", 1, 1, &sum, &results[1]);
  bonsai_session_delete_if(session, &red, "k", 1, &results[2]);
  EXPECT_EQ(bonsai_session_wait(session, nullptr), BONSAI_OK);
  EXPECT_EQ(results[0].code, BONSAI_CONDITION_FAILED);
  EXPECT_EQ(results[2].code, BONSAI_OK);
  EXPECT_EQ(sum, 42);
  bonsai_session_destroy(session);
  EXPECT_EQ(bonsai_increment(db_, "n", 1, -2, &alone, nullptr), BONSAI_OK);
  EXPECT_EQ(alone, 40);
}

TEST_F(CConditions, ConditionsThatMakeNoSenseAreRefused) {
  must_open();
  Message message;
  const auto refuses = [&](const bonsai_condition_t* condition) {
    return bonsai_put_if(db_, condition, "k", 1, "v", 1, message.slot()) == BONSAI_INVALID_ARGUMENT;
  };
  const bonsai_condition_t unknown = {77, nullptr, 0, nullptr}, none = {BONSAI_IF_UNCHANGED, nullptr, 0, nullptr};
  const bonsai_condition_t null = {BONSAI_IF_EQUALS, nullptr, 3, nullptr};
  EXPECT_TRUE(refuses(nullptr));
  EXPECT_TRUE(refuses(&unknown));
  EXPECT_NE(message.text().find("77"), std::string::npos);
  EXPECT_TRUE(refuses(&none));
  EXPECT_TRUE(refuses(&null));
  EXPECT_EQ(bonsai_exists(db_, nullptr, "k", 1, nullptr), BONSAI_NOT_FOUND);
}

}  // namespace
}  // namespace bonsai
