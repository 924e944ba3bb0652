// SPDX-License-Identifier: Apache-2.0
// What tests have in common that run the program bonsai-server. Requires: BONSAI_SERVER_PROGRAM, the program's path.
#ifndef BONSAI_SERVER_TESTING_SERVER_FIXTURE_H_
#define BONSAI_SERVER_TESTING_SERVER_FIXTURE_H_

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "server/testing/connection.h"
#include "testing/child.h"
#include "testing/scratch.h"

namespace bonsai::server {

class ServerFixture : public ::testing::Test {
 protected:
  std::string new_folder() {
    std::string folder = scratch_.file("run." + std::to_string(folders_++));
    std::filesystem::create_directory(folder);
    return folder;
  }
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {
        BONSAI_SERVER_PROGRAM, "--pool=" + pool_, "--create", "--bytes=16M", "--listen=127.0.0.1:0,unix:" + socket_,
        "--threads=2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Starts the program, and waits until it serves.
  void start(const std::vector<std::string>& more = {}) {
    program_.emplace(new_folder(), words(more));
    ASSERT_TRUE(program_->prints("ready: serves ")) << program_->err();
    const std::string log = program_->err(), before = " at 127.0.0.1:";
    const size_t begin = log.find(before) + before.size() - std::string("127.0.0.1:").size();
    tcp_ = log.substr(begin, log.find(',', begin) - begin);
  }
  void stop() {
    program_->signal(SIGTERM);
    EXPECT_EQ(program_->wait(), 0) << program_->err();
  }
  void kill() {
    program_->signal(SIGKILL);
    EXPECT_EQ(program_->wait(), 128 + SIGKILL);
  }
  [[nodiscard]] TestConnection connect() const { return TestConnection(tcp_); }

  testing::ScratchFolder scratch_;
  const std::string pool_ = scratch_.file("pool"), socket_ = scratch_.file("socket");
  std::string tcp_;  // HOST:PORT
  int folders_ = 0;
  std::optional<testing::Child> program_;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_TESTING_SERVER_FIXTURE_H_
