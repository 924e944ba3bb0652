// SPDX-License-Identifier: Apache-2.0
// A node of a remote store goes silent in the middle of each call. Every call that needs it gives up within its bound,
// and acknowledged updates are there afterwards. Over shm reads need no processor of the node as long as its lease
// runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/testing/running_time.h"
#include "base/thread.h"
#include "bonsai/db.h"
#include "rdma/shm/shm.h"
#include "scale/fabrics.h"
#include "scale/testing/serving_node.h"
#include "store/testing/silent_node.h"
#include "testing/scratch.h"

namespace bonsai::store {
namespace {

constexpr uint64_t kWaitMs = 200, kBoundMs = 5 * kWaitMs, kPatientMs = 20'000, kPuts = 1'000;

std::string filled_key(uint64_t i) { return "key " + std::to_string(i); }

class SilenceTest : public ::testing::Test {
 protected:
  SilenceTest() {
    scale::register_fabric("silent", [this](std::shared_ptr<rdma::Fabric>* fabric) {
      *fabric = network_.make_fabric();
      return Status::OK();
    });
    for (int i = 1; i < 8; ++i) path_ += ",silent://node/" + std::to_string(i);
    options_.create_if_missing = true;
    options_.pool_bytes = uint64_t{2} << 20;
    options_.background_threads = 0;
  }
  // What is judged waits for kWaitMs; what prepares it, for as long as a slow machine takes.
  void open(uint64_t wait_ms) {
    options_.fabric_wait_ms_max = options_.stall_ms_max = wait_ms;
    const Status status = open_soon(options_, path_, &db_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void fill() {
    ASSERT_NO_FATAL_FAILURE(open(kPatientMs));
    for (uint64_t i = 0; i < kPuts; ++i) ASSERT_TRUE(db_->Put(filled_key(i), "value").ok());
    ASSERT_TRUE(db_->Drain().ok());
    db_.reset();
  }
  void expect_filled() {
    ASSERT_NO_FATAL_FAILURE(open(kPatientMs));
    std::string value;
    for (uint64_t i = 0; i < kPuts; ++i) ASSERT_TRUE(db_->Get(filled_key(i), &value).ok()) << filled_key(i);
    for (const std::string& key : acknowledged_) ASSERT_TRUE(db_->Get(key, &value).ok()) << key;
    db_.reset();
  }

  Status put_new() {
    const std::string key = "new " + std::to_string(++calls_);
    Status status = db_->Put(key, "value");
    if (status.ok()) acknowledged_.push_back(key);
    return status;
  }
  Status multi(bool put) {
    if (put) {
      db_->MultiPut(views_, views_, statuses_);
    } else {
      db_->MultiGet(ReadOptions(), views_, values_, statuses_);
    }
    return first_failure();
  }
  Status walk() {
    const auto iterator = db_->NewIterator(ReadOptions());
    for (iterator->SeekToFirst(); iterator->Valid();) iterator->Next();
    return iterator->status();
  }
  Status write() {
    WriteBatch batch;
    for (const std::string& key : keys_) batch.Put(key, key);
    return db_->Write(batch);
  }
  Status wait() {
    const auto session = db_->NewSession();
    for (size_t i = 0; i < keys_.size(); ++i) session->Put(keys_[i], keys_[i], &statuses_[i]);
    session->Wait();
    return first_failure();
  }
  Status copy() {
    const std::string to = "silent://node/copy" + std::to_string(++calls_);
    return Checkpoint(db_.get(), options_, to);
  }
  [[nodiscard]] Status first_failure() const {
    for (const Status& status : statuses_) {
      if (!status.ok() && !status.IsNotFound()) return status;
    }
    return Status::OK();
  }

  // The call, until it fails or one of them began when the node had been silent for a while.
  Status run_until_silence(const std::function<Status()>& call, bool once, uint64_t* longest_ms) {
    if (once) node_.pause(true);
    std::atomic<uint64_t> end_ns{UINT64_MAX};  // once the node is silent
    const base::Thread silencer("silencer", [&] {
      base::sleep_ms(5);
      node_.pause(true);
      end_ns.store(base::now_ns() + 100 * base::kNsPerMs);
    });
    Status status;
    uint64_t begin_ns;
    do {
      begin_ns = base::now_ns();
      const uint64_t begin_ms = time_.ms();
      status = call();
      *longest_ms = std::max(*longest_ms, time_.ms() - begin_ms);
    } while (status.ok() && !once && begin_ns < end_ns.load());
    return status;
  }

  const testing::RunningTime time_;
  testing::ScratchFolder scratch_;
  rdma::ShmNetwork network_;
  scale::ServingNode node_{&network_, std::filesystem::path(scratch_.file("x")).parent_path().string()};
  std::string path_ = "silent://node/0";
  Options options_;
  std::unique_ptr<DB> db_;
  const std::vector<std::string> keys_ = {filled_key(1), filled_key(2), "other 1", "other 2"};
  const std::vector<std::string_view> views_{keys_.begin(), keys_.end()};
  std::vector<std::string> values_ = std::vector<std::string>(keys_.size());
  std::vector<Status> statuses_ = std::vector<Status>(keys_.size());
  std::vector<std::string> acknowledged_;
  uint64_t calls_ = 0;
};

TEST_F(SilenceTest, EachCallAnswersWithinItsBound) {
  struct Call {
    std::string name;
    bool needs_node;
    std::function<Status()> run;
  };
  const auto after_put = [this](const auto& call) {
    const Status put = put_new();
    return put.ok() ? call() : put;
  };
  std::string value;
  const std::vector<Call> table = {
      {"Get", false, [&] { return db_->Get(filled_key(++calls_ % kPuts), &value); }},
      {"MultiGet", false, [&] { return multi(false); }},
      {"Scan", false, [&] { return db_->Scan(ScanOptions(), "", [](auto, auto) { return true; }); }},
      {"Next", false, [&] { return walk(); }},
      {"Put", true, [&] { return put_new(); }},
      {"MultiPut", true, [&] { return multi(true); }},
      {"Write", true, [&] { return write(); }},
      {"Wait", true, [&] { return wait(); }},
      {"Drain", true, [&] { return after_put([&] { return db_->Drain(); }); }},
      {"Sync", true, [&] { return after_put([&] { return db_->Sync(); }); }},
      {"Checkpoint", true, [&] { return copy(); }},
      {"Close", true, [&] { return db_->Close(); }},
  };
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const Call& call : table) {
    SCOPED_TRACE(call.name);
    ASSERT_NO_FATAL_FAILURE(open(kWaitMs));
    uint64_t longest_ms = 0;
    const Status status = run_until_silence(call.run, call.name == "Close", &longest_ms);
    EXPECT_EQ(status.IsUnavailable() && !is_without_lease(status), call.needs_node) << status.ToString();
    const uint64_t begin_ms = time_.ms();
    db_.reset();
    longest_ms = std::max(longest_ms, time_.ms() - begin_ms);
    EXPECT_LT(longest_ms, kBoundMs) << "of 8 targets each";
    node_.pause(false);
    ASSERT_NO_FATAL_FAILURE(expect_filled());
  }
}

}  // namespace
}  // namespace bonsai::store
