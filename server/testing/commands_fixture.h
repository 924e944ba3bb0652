// SPDX-License-Identifier: Apache-2.0
// Clients without sockets, on a store of their own.
#ifndef BONSAI_SERVER_TESTING_COMMANDS_FIXTURE_H_
#define BONSAI_SERVER_TESTING_COMMANDS_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bonsai/db.h"
#include "server/executor.h"
#include "server/testing/resp.h"
#include "testing/scratch.h"

namespace bonsai::server {

class CommandsFixture : public ::testing::Test {
 protected:
  CommandsFixture() { start({}); }
  ~CommandsFixture() override { stop(); }

  // The server anew, on the same pool.
  void start(const Config& config, std::optional<Password> password = std::nullopt, uint64_t pool_bytes = 16 << 20) {
    stop();
    Options options;
    options.create_if_missing = true;
    options.pool_bytes = pool_bytes;
    options.stall_ms_max = 100;
    options.background_threads = 0;  // only what a test does makes fences
    ASSERT_TRUE(DB::Open(options, scratch_.file(pool_), &db_).ok());
    state_.emplace(db_.get(), config, std::move(password), 1'000);
    executor_ = Executor::make(&*state_);
    ASSERT_NE(executor_, nullptr);
  }
  void stop() {
    client_ = Client();  // it may watch keys
    executor_.reset();
    state_.reset();
    if (db_ != nullptr) {
      EXPECT_TRUE(db_->Close().ok());
    }
    db_.reset();
  }

  static void send(Client* client, const std::string& bytes) {
    bytes.copy(client->in.prepare(bytes.size()), bytes.size());
    client->in.commit(bytes.size());
  }
  static std::string take(Client* client) { return std::exchange(client->out, ""); }

  // The replies to these bytes.
  std::string replies(const std::string& bytes, Client* client = nullptr) {
    if (client == nullptr) client = &client_;
    send(client, bytes);
    executor_->run(client);
    executor_->finish();
    client->in.trim();
    return show_replies(take(client));
  }
  // The reply to one command, of words between blanks.
  std::string ask(const std::string& line, Client* client = nullptr) { return replies(line + "\r\n", client); }
  std::string ask_words(const std::vector<std::string>& words) { return replies(request(words)); }

  testing::ScratchFolder scratch_;
  std::string pool_ = "pool";
  std::unique_ptr<DB> db_;
  std::optional<State> state_;
  std::unique_ptr<Executor> executor_;
  Client client_;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_TESTING_COMMANDS_FIXTURE_H_
