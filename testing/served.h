// SPDX-License-Identifier: Apache-2.0
// The files of a test as pools of other nodes: each folder is served by a node of this process, over shm.
#ifndef BONSAI_TESTING_SERVED_H_
#define BONSAI_TESTING_SERVED_H_

#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "rdma/shm/shm.h"
#include "scale/fabrics.h"
#include "scale/testing/serving_node.h"

namespace bonsai::testing {

class ServedFolders {
 public:
  ServedFolders() {
    scale::register_fabric("served", [this](std::shared_ptr<rdma::Fabric>* fabric) {
      *fabric = network_.make_fabric();
      return Status::OK();
    });
  }

  // The remote name of a file, whose folder is served from now on until it is gone.
  std::string name_of(const std::string& file) {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    std::erase_if(nodes_, [](const auto& node) { return !std::filesystem::exists(node.first); });
    std::unique_ptr<scale::ServingNode>& node = nodes_[folder];
    const std::string address = folder.filename();
    if (node == nullptr) {
      node = std::make_unique<scale::ServingNode>(&network_, folder.string(), nullptr, nullptr, address);
    }
    return "served://" + address + file.substr(folder.string().size());
  }

 private:
  rdma::ShmNetwork network_;
  std::map<std::filesystem::path, std::unique_ptr<scale::ServingNode>> nodes_;  // by folder
};

// The test's list of targets, each on its node. Thread-safety: one thread.
inline std::string served(const std::string& path) {
  static ServedFolders folders;
  std::string names;
  std::istringstream files(path);
  for (std::string file; std::getline(files, file, ',');) names += (names.empty() ? "" : ",") + folders.name_of(file);
  return names;
}

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_SERVED_H_
