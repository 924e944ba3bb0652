// SPDX-License-Identifier: Apache-2.0
// A node that serves a folder of its own, on a network of its own, for tests that name its pools by a scheme.
#ifndef BONSAI_STORE_TESTING_ISLAND_H_
#define BONSAI_STORE_TESTING_ISLAND_H_

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "rdma/shm/shm.h"
#include "scale/fabrics.h"
#include "scale/testing/serving_node.h"
#include "testing/scratch.h"

namespace bonsai::store {

// A node with a folder, on a network of its own, which `scheme` names.
struct Island {
  explicit Island(const std::string& scheme, const rdma::Secret* secret = nullptr, const rdma::ShmOptions& model = {})
      : folder(std::filesystem::path(scratch.file("x")).parent_path().string() + "/"),
        network(model),
        node(&network, folder, secret) {
    scale::register_fabric(scheme, [this](std::shared_ptr<rdma::Fabric>* fabric) {
      *fabric = network.make_fabric();
      return Status::OK();
    });
  }
  // Every file of the folder with its content.
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      // The record of who owned a pool last is no part of the pool.
      if (entry.path().filename().string().front() == '.') continue;
      std::string content(std::filesystem::file_size(entry.path()), '\0');
      std::ifstream(entry.path(), std::ios::binary).read(content.data(), static_cast<std::streamsize>(content.size()));
      all[entry.path().filename()] = std::move(content);
    }
    return all;
  }

  testing::ScratchFolder scratch;
  const std::string folder;
  rdma::ShmNetwork network;
  scale::ServingNode node;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_TESTING_ISLAND_H_
