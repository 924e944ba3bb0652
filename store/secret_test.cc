// SPDX-License-Identifier: Apache-2.0
// The secret of a fabric: from Options::fabric_secret_file, else from the file that BONSAI_SECRET_FILE names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "bonsai/db.h"
#include "store/testing/island.h"

namespace bonsai::store {
namespace {

rdma::Secret secret_of(char byte, const std::string& file) {
  std::ofstream(file) << std::string(2 * rdma::Secret::kBytes, byte);
  std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  rdma::Secret secret;
  EXPECT_EQ("OK", rdma::Secret::load(file, &secret).ToString());
  return secret;
}

TEST(RemoteSecret, ComesFromAFileThatOptionsOrEnvironmentName) {
  const testing::ScratchFolder scratch;
  const std::string right = scratch.file("right"), wrong = scratch.file("wrong");
  const rdma::Secret secret = secret_of('a', right);
  secret_of('b', wrong);
  const Island guarded("guarded", &secret);
  Options options;
  options.create_if_missing = true;
  options.pool_bytes = uint64_t{8} << 20;
  const auto open = [&](const std::string& file) {
    options.fabric_secret_file = file;
    std::unique_ptr<DB> db;
    return DB::Open(options, "guarded://node/a", &db);
  };
  for (const std::string& file : {std::string(), wrong}) {
    const Status refused = open(file);
    EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
    EXPECT_NE(refused.message().find("secret"), std::string::npos) << refused.ToString();
  }
  EXPECT_TRUE(open(scratch.file("none")).IsIoError());
  EXPECT_TRUE(guarded.files().empty());
  EXPECT_EQ("OK", open(right).ToString());
  ASSERT_EQ(::setenv("BONSAI_SECRET_FILE", right.c_str(), 1), 0);
  EXPECT_EQ("OK", open("").ToString());
  EXPECT_TRUE(open(wrong).IsInvalidArgument()) << "an option wins";
  ::unsetenv("BONSAI_SECRET_FILE");
}

}  // namespace
}  // namespace bonsai::store
