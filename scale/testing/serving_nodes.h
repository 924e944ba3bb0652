// SPDX-License-Identifier: Apache-2.0
// Several nodes of a test's process, each with a folder of its own, on one network that a scheme names.
#ifndef BONSAI_SCALE_TESTING_SERVING_NODES_H_
#define BONSAI_SCALE_TESTING_SERVING_NODES_H_

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/temp_folder.h"
#include "rdma/shm/shm.h"
#include "scale/fabrics.h"
#include "scale/pool_owner.h"
#include "scale/testing/serving_node.h"

namespace bonsai::scale {

class ServingNodes {
 public:
  // Nodes a, b, c, ... `last_media`: of the last one; null: as the others.
  ServingNodes(const std::string& scheme, size_t count, ServingNode::MakeMedia last_media = nullptr) : scheme_(scheme) {
    register_fabric(scheme, [this](std::shared_ptr<rdma::Fabric>* fabric) {
      *fabric = network_.make_fabric();
      return Status::OK();
    });
    for (size_t i = 0; i < count; ++i) {
      folders_.push_back(
          std::unique_ptr<testing::TempFolder>(new testing::TempFolder(testing::TempFolder::on_tmpfs())));
      nodes_.push_back(std::make_unique<ServingNode>(&network_, folders_[i]->path(), nullptr,
                                                     i + 1 == count ? last_media : nullptr, address_of(i)));
    }
  }

  [[nodiscard]] ServingNode& operator[](size_t node) { return *nodes_[node]; }
  // "SCHEME://b/POOL".
  [[nodiscard]] std::string name(size_t node, const std::string& pool) const {
    return scheme_ + "://" + address_of(node) + "/" + pool;
  }
  // The group of all nodes' pools of that name.
  [[nodiscard]] std::string group(const std::string& pool) const {
    std::string all = name(0, pool);
    for (size_t i = 1; i < nodes_.size(); ++i) all += "|" + name(i, pool);
    return all;
  }
  [[nodiscard]] std::string file(size_t node, const std::string& pool) const { return folders_[node]->file(pool); }
  [[nodiscard]] std::string bytes_of(size_t node, const std::string& pool) const {
    return testing::read_file(file(node, pool));
  }
  // The page of a node's pool, as its record says.
  [[nodiscard]] VersionedPage page_of(size_t node, const std::string& pool) const {
    uint64_t epoch = 0;
    VersionedPage page;
    EXPECT_EQ("OK", PoolOwner::recorded_page(folders_[node]->path(), pool, &epoch, &page).ToString());
    EXPECT_LE(page.written_by, epoch);
    return page;
  }
  // Whether a page that names the node comes in force within the bound: all that it names have it. `meanwhile` is
  // called now and then.
  [[nodiscard]] bool comes_in_sync(size_t node, const std::string& pool,
                                   const std::function<void()>& meanwhile = nullptr) const {
    for (base::BoundedWait wait("test.in_sync", 60'000); !wait.expired(); wait.pause()) {
      if (meanwhile) meanwhile();
      if (!std::filesystem::exists(record(node, pool))) continue;
      const VersionedPage own = page_of(node, pool);
      if (own.page.has(node) && is_in_force(own, pool)) return true;
    }
    return false;
  }
  // The node has lost its disk. Requires: it was ended.
  void lose(size_t node, const std::string& pool) const {
    std::filesystem::remove(file(node, pool));
    std::filesystem::remove(record(node, pool));
  }
  [[nodiscard]] std::string record(size_t node, const std::string& pool) const {
    return folders_[node]->file("." + pool + ".owner");
  }

 private:
  [[nodiscard]] bool is_in_force(const VersionedPage& page, const std::string& pool) const {
    for (size_t node = 0; node < page.page.members; ++node) {
      if (!page.page.has(node)) continue;
      if (!std::filesystem::exists(record(node, pool))) return false;
      const VersionedPage other = page_of(node, pool);
      if (other.is_newer_than(page) || page.is_newer_than(other)) return false;
    }
    return true;
  }
  static std::string address_of(size_t node) { return {static_cast<char>('a' + node)}; }

  const std::string scheme_;
  rdma::ShmNetwork network_;
  std::vector<std::unique_ptr<testing::TempFolder>> folders_;
  std::vector<std::unique_ptr<ServingNode>> nodes_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_TESTING_SERVING_NODES_H_
