// SPDX-License-Identifier: Apache-2.0
// Listing the pools of a folder and of a node: what is there, who has it, and what is left out.
#include "scale/pool_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/nvm/descriptor.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "rdma/shm/shm.h"
#include "scale/fabrics.h"
#include "scale/remote_link.h"
#include "scale/testing/serving_node.h"

namespace bonsai::scale {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kListedBytes = 64 << 10;
constexpr uint64_t kListMs = 20'000;

class PoolListTest : public ::testing::Test {
 protected:
  PoolListTest() {
    present = &network_;
    register_fabric("listtest", [](std::shared_ptr<rdma::Fabric>* fabric) {  // the first registration stays
      *fabric = present->make_fabric();
      return Status::OK();
    });
  }

  static Status list(const std::string& place, std::vector<ListedPool>* pools) {
    return list_pools(
        place, "", kListMs, [](const std::string& path) { return path.find("other") == path.npos; }, pools);
  }
  std::vector<ListedPool> listed(const std::string& place) {
    std::vector<ListedPool> pools;
    EXPECT_EQ("OK", list(place, &pools).ToString());
    for (const ListedPool& pool : pools) {
      const auto now = static_cast<uint64_t>(std::time(nullptr));  // NOLINT: what users see
      EXPECT_LE(pool.used_s, now + 1) << pool.name;
      EXPECT_GE(pool.used_s + 3'600, now) << pool.name;
    }
    return pools;
  }
  static std::string names(const std::vector<ListedPool>& pools) {
    std::string names;
    for (const ListedPool& pool : pools) names += pool.name + " ";
    return names;
  }
  std::unique_ptr<RemoteLink> own(const std::string& pool) {
    std::unique_ptr<RemoteLink> link;
    EXPECT_EQ("OK", RemoteLink::make(network_.make_fabric(), {.limit_ms = kListMs}, &link).ToString());
    size_t target = 0;
    EXPECT_EQ("OK", link->open(named(pool), PoolOp::kCreate, kListedBytes, 0, &target).ToString());
    return link;
  }

  inline static rdma::ShmNetwork* present = nullptr;
  testing::TempFolder scratch_ = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network_;
  ServingNode node_{&network_, scratch_.path()};
};

TEST_F(PoolListTest, ANodeNamesItsPoolsAndTheirOwners) {
  EXPECT_TRUE(listed("listtest://node").empty());
  const auto owner = own("pool.b");
  own("pool.a").reset();
  std::ofstream(scratch_.file("other")) << "what a node does not know";
  fs::create_directory(scratch_.file("folder"));
  const std::vector<ListedPool> pools = listed("listtest://node");
  EXPECT_EQ(names(pools), "other pool.a pool.b ");
  EXPECT_EQ(pools[0].bytes, 25u);
  EXPECT_EQ(pools[0].owner, "");
  EXPECT_EQ(pools[1].bytes, kListedBytes);
  EXPECT_EQ(pools[1].owner, "") << "it was closed";
  EXPECT_NE(pools[2].owner.find("[" + std::to_string(::getpid()) + "] on "), std::string::npos) << pools[2].owner;
  EXPECT_NE(pools[2].owner.find(" since 20"), std::string::npos) << pools[2].owner;
  EXPECT_NE(pools[2].owner.find(", seen 0 s ago"), std::string::npos) << pools[2].owner;
}

TEST_F(PoolListTest, AfterARestartTheOwnerIsTheOneInTheRecord) {
  const auto owner = own("pool");
  node_.end();
  node_.start();
  const std::vector<ListedPool> pools = listed("listtest://node");
  ASSERT_EQ(names(pools), "pool ");
  EXPECT_NE(pools[0].owner.find("[" + std::to_string(::getpid()) + "] on "), std::string::npos) << pools[0].owner;
  EXPECT_EQ(pools[0].owner.find("seen"), std::string::npos) << "this node has not seen it: " << pools[0].owner;
}

TEST_F(PoolListTest, AFolderOfThisMachineIsListedByItself) {
  const auto owner = own("served");
  std::ofstream(scratch_.file("closed")) << "12345678";
  std::ofstream(scratch_.file("locked")) << "12345678";
  std::ofstream(scratch_.file("other")) << "no pool";
  base::OsFile lock = base::open_file(scratch_.file("locked"), O_RDWR);
  ASSERT_TRUE(lock.try_lock(true));
  const std::vector<ListedPool> pools = listed(scratch_.path());
  ASSERT_EQ(names(pools), "closed locked served ");
  EXPECT_EQ(pools[0].owner, "");
  if (fs::exists("/proc/locks")) {
    EXPECT_EQ(pools[1].owner, "process " + std::to_string(::getpid()) + " of its machine");
  }
  EXPECT_NE(pools[2].owner.find("[" + std::to_string(::getpid()) + "] on "), std::string::npos) << pools[2].owner;
}

TEST_F(PoolListTest, ManyPoolsComeInTheOrderOfTheirNames) {
  std::string expected;
  for (int i = 100; i < 200; ++i) {
    std::ofstream(scratch_.file("p" + std::to_string(i))) << "x";
    expected += "p" + std::to_string(i) + " ";
  }
  EXPECT_EQ(names(listed("listtest://node")), expected);
}

// It is no request about a pool, so it waits for none, and a pool's request does not wait for it.
TEST_F(PoolListTest, SeveralListAtOnceWhileOwnersComeAndGo) {
  const auto stays = own("stays");
  std::vector<base::Thread> listers;
  for (int i = 0; i < 3; ++i) {
    listers.emplace_back("lister", [this] {
      for (int round = 0; round < 20; ++round) {
        EXPECT_NE(names(listed("listtest://node")).find("stays "), std::string::npos);
      }
    });
  }
  for (int round = 0; round < 20; ++round) own("goes." + std::to_string(round)).reset();
  for (base::Thread& lister : listers) lister.join();
}

TEST_F(PoolListTest, WrongPlacesSaySo) {
  std::vector<ListedPool> pools;
  for (const char* place : {"listtest://", "://node", "listtest://node/pool", "listtest://node/"}) {
    const Status status = list(place, &pools);
    EXPECT_TRUE(status.IsInvalidArgument()) << place << ": " << status.ToString();
  }
  EXPECT_TRUE(list("nosuch://node", &pools).IsNotSupported());
  const Status none = list(scratch_.file("none"), &pools);
  EXPECT_TRUE(none.IsIoError());
  EXPECT_NE(none.message().find("there is no folder " + scratch_.file("none")), std::string_view::npos);
  EXPECT_EQ(none.message().find("create"), std::string_view::npos) << "a place to look at is not to be made";
  const Status unnamed = list("", &pools);
  EXPECT_TRUE(unnamed.IsInvalidArgument());
  EXPECT_NE(unnamed.message().find("give a folder"), std::string_view::npos) << unnamed.ToString();
  std::ofstream(scratch_.file("file")) << "x";
  const Status file = list(scratch_.file("file"), &pools);
  EXPECT_NE(file.message().find("is no folder"), std::string_view::npos) << file.ToString();
  node_.end();
  const Status silent = list_pools("listtest://node", "", 50, nullptr, &pools);
  EXPECT_TRUE(silent.IsUnavailable()) << silent.ToString();
  EXPECT_NE(silent.message().find("listtest://node: "), std::string_view::npos) << silent.ToString();
  node_.start();
}

}  // namespace
}  // namespace bonsai::scale
