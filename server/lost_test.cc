// SPDX-License-Identifier: Apache-2.0
// A server whose pool another owner has taken ends, instead of answering errors for ever, and stands by when it is
// started again.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bonsai/db.h"
#include "server/testing/connection.h"
#include "testing/child.h"
#include "testing/scratch.h"

namespace bonsai::server {
namespace {

constexpr int kExitFailed = 3, kExitLost = 5;

// A memory node on this machine.
class ServerLost : public ::testing::Test {
 protected:
  ServerLost() {
    for (const std::string& folder : {pools_, meeting_}) std::filesystem::create_directory(folder);
    std::filesystem::permissions(meeting_, std::filesystem::perms::owner_all);
    ::setenv("BONSAI_SHM_FOLDER", meeting_.c_str(), 1);
  }
  ~ServerLost() override { ::unsetenv("BONSAI_SHM_FOLDER"); }

  std::string new_folder() {
    std::string folder = scratch_.file("run." + std::to_string(folders_++));
    std::filesystem::create_directory(folder);
    return folder;
  }
  [[nodiscard]] std::vector<std::string> node() const {
    return {BONSAID_PROGRAM, "--folder=" + pools_, "--listen=shm://n", "--domain=adr", "--litmus_ms=5"};
  }
  [[nodiscard]] std::vector<std::string> server() const {
    return {BONSAI_SERVER_PROGRAM, "--pool=" + pool_, "--create", "--bytes=4M", "--threads=1", "--listen=" + address_};
  }

  testing::ScratchFolder scratch_;
  const std::string pools_ = scratch_.file("pools"), meeting_ = scratch_.file("meeting");
  const std::string pool_ = "shm://n/served", address_ = "unix:" + scratch_.file("socket");
  int folders_ = 0;
};

TEST_F(ServerLost, ItEndsAndItsSuccessorStandsBy) {
  testing::Child memory(new_folder(), node());
  ASSERT_TRUE(memory.prints("ready: serves ")) << memory.err();
  testing::Child first(new_folder(), server());
  ASSERT_TRUE(first.prints("ready: serves ")) << first.err();
  TestConnection client(address_);
  EXPECT_EQ(client.ask({"SET", "apple", "red"}), "+OK");
  EXPECT_EQ(client.ask({"SET", "", "red"}).substr(0, 5), "-ERR ");  // an error that says nothing about the pool
  EXPECT_EQ(client.ask({"GET", "apple"}), "$red");
  std::unique_ptr<DB> taken;
  Options options;
  options.take_over = true;
  const Status opened = DB::Open(options, pool_, &taken);
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  EXPECT_EQ(client.ask({"GET", "apple"}).substr(0, 16), "-ERR unavailable");
  EXPECT_TRUE(client.is_closed_within(TestConnection::kReplyMsMax));
  EXPECT_EQ(first.wait(), kExitLost) << first.err();
  EXPECT_NE(first.err().find("stopping, because the pool is lost: unavailable: "), std::string::npos) << first.err();
  EXPECT_EQ(testing::run(server()).exit_code, kExitFailed);
  std::string value;
  EXPECT_TRUE(taken->Get("apple", &value).ok() && value == "red");
  EXPECT_TRUE(taken->Close().ok());
  testing::Child again(new_folder(), server());
  ASSERT_TRUE(again.prints("ready: serves ")) << again.err();
  EXPECT_EQ(TestConnection(address_).ask({"GET", "apple"}), "$red");
  again.signal(SIGTERM);
  EXPECT_EQ(again.wait(), 0) << again.err();
  memory.signal(SIGTERM);
  EXPECT_EQ(memory.wait(), 0) << memory.err();
}

}  // namespace
}  // namespace bonsai::server
