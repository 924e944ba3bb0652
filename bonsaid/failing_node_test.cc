// SPDX-License-Identifier: Apache-2.0
// Allocations of a memory node fail, one at a time, while it serves. The node goes on; its owner gets an error or a
// result, and nothing acknowledged is lost.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/temp_folder.h"
#include "bonsai/db.h"
#include "bonsaid/service.h"
#include "testing/failing_new.h"

namespace bonsai::failing_node {
namespace {

constexpr int64_t kTaken = -2, kNone = -1;
constexpr uint32_t kPatientMs = 20'000;

// What the test asks of the node's process.
struct Asked {
  std::atomic<int64_t> succeeding;  // kTaken: done; kNone: no allocation fails
  std::atomic<bool> failed, ready, stop;
};

// The node's process.
int serve(const std::string& folder, Asked* asked) {
  bonsaid::Config config;
  config.folder = folder;
  config.domain = rdma::RemoteDomain::kAdr;
  config.litmus_ms = 2;
  std::unique_ptr<bonsaid::Service> service;
  const auto owners = std::make_shared<scale::PoolOwners>(folder);
  const Status status = bonsaid::Service::start(config, {"shm", "node"}, nullptr, owners, &service);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 1;
  for (asked->ready.store(true); !asked->stop.load(); base::sleep_ms(1)) {
    const int64_t succeeding = asked->succeeding.load();
    if (succeeding == kTaken) continue;
    if (succeeding == kNone) asked->failed.store(testing::end_failing_allocations());
    if (succeeding >= 0) testing::fail_allocation_after(succeeding);
    asked->succeeding.store(kTaken);
  }
  service.reset();
  return 0;
}

class FailingNode : public ::testing::Test {
 protected:
  FailingNode() {
    void* const shared = ::mmap(nullptr, sizeof(Asked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    BONSAI_CHECK(shared != MAP_FAILED);
    asked_ = new (shared) Asked{{kTaken}, {false}, {false}, {false}};
    ::setenv("BONSAI_SHM_FOLDER", folder_.path().c_str(), 1);
    node_ = ::fork();
    BONSAI_CHECK(node_ >= 0);
    if (node_ == 0) {
      ::alarm(240);
      ::_exit(serve(folder_.path(), asked_));
    }
    await([this] { return asked_->ready.load(); });
  }
  ~FailingNode() override {
    ::unsetenv("BONSAI_SHM_FOLDER");
    ::munmap(asked_, sizeof *asked_);
  }

  template <class Condition>
  void await(Condition&& condition) {
    base::BoundedWait wait("node", 20'000);
    while (!condition() && !wait.expired()) wait.pause();
    ASSERT_TRUE(condition()) << "the node does not answer";
  }
  void tell(int64_t succeeding) {
    asked_->succeeding.store(succeeding);
    await([this] { return asked_->succeeding.load() == kTaken; });
  }

  // With the node's full memory an opening waits for as long as a slow machine takes.
  static Status open(const std::string& name, bool create, std::unique_ptr<DB>* db, uint32_t wait_ms = 1'000) {
    Options options;
    options.create_if_missing = create;
    options.pool_bytes = uint64_t{1} << 18;
    options.background_threads = 0;
    options.fabric_wait_ms_max = wait_ms;
    return DB::Open(options, "shm://node/" + name, db);
  }

  // Succeeds once the node has noticed that the earlier owner is gone, whose request to leave may have got lost.
  template <class Call>
  static void expect_soon(Call&& call) {
    Status status;
    for (base::BoundedWait wait("earlier owner", 20'000); !wait.expired(); wait.pause()) {
      status = call();
      if (!status.IsBusy()) break;
    }
    EXPECT_EQ("OK", status.ToString());
  }

  // Returns whether an allocation of the node failed.
  bool use(int64_t succeeding) {
    const std::string number = std::to_string(succeeding), made = "made" + number;
    tell(succeeding);
    std::unique_ptr<DB> db;
    bool is_made = false, is_put = false;
    if (open(made, true, &db).ok()) is_made = db->Close().ok();
    db.reset();
    if (open("pool", false, &db).ok()) {
      is_put = db->Put(number, "value").ok();
      static_cast<void>(db->Close());
    }
    db.reset();
    tell(kNone);
    if (is_made) {
      expect_soon([&] { return Remove("shm://node/" + made); });
    }
    if (is_put) put_.push_back(number);
    return asked_->failed.load();
  }

  const testing::TempFolder folder_ = testing::TempFolder::on_tmpfs();
  Asked* asked_;
  pid_t node_ = -1;
  std::vector<std::string> put_;
};

TEST_F(FailingNode, GoesOnWhateverAllocationFails) {
  std::unique_ptr<DB> db;
  ASSERT_EQ("OK", open("pool", true, &db, kPatientMs).ToString());
  ASSERT_EQ("OK", db->Close().ToString());
  const int64_t step = testing::budget<int64_t>(31, 7, 1);
  uint64_t failed = 0;
  for (int64_t succeeding = 0; !HasFailure() && use(succeeding); succeeding += step) {
    ++failed;
    ASSERT_EQ(::waitpid(node_, nullptr, WNOHANG), 0) << "the node has ended at allocation " << succeeding;
  }
  std::printf("%llu allocations of the node failed, %zu updates done\n", static_cast<unsigned long long>(failed),
              put_.size());
  testing::add_figure("failing_allocations", failed);
  EXPECT_GT(failed, 5u);
  expect_soon([&] { return open("pool", false, &db, kPatientMs); });
  ASSERT_NE(db, nullptr);
  std::string value;
  for (const std::string& key : put_) EXPECT_EQ("OK", db->Get(key, &value).ToString()) << key;
  ASSERT_EQ("OK", db->Close().ToString());
  asked_->stop.store(true);
  int status = 0;
  ASSERT_EQ(::waitpid(node_, &status, 0), node_);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace bonsai::failing_node
