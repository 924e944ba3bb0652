// SPDX-License-Identifier: Apache-2.0
#include "scale/fabrics.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/nvm/os_file.h"
#include "base/status_macros.h"

namespace bonsai::scale {
namespace {

// A shm node with the network that it belongs to.
struct ShmNode {
  explicit ShmNode(const rdma::ShmOptions& options) : network(options) {}
  rdma::ShmNetwork network;
  std::unique_ptr<rdma::Fabric> fabric;
};

struct Provider {
  OpenFabric open;
  FabricReach reach;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Provider> schemes{
      {"shm", {[](auto* fabric) { return open_shm({}, fabric); }, FabricReach::kMachine}}};
};

Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

void register_fabric(const std::string& scheme, OpenFabric open, FabricReach reach) {
  BONSAI_CHECK(!scheme.empty() && open);
  const std::lock_guard lock(registry().mutex);
  registry().schemes[scheme] = {std::move(open), reach};
}

FabricReach fabric_reach(const std::string& scheme) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().schemes.find(scheme);
  return found != registry().schemes.end() ? found->second.reach : FabricReach::kNetwork;
}

Status open_shm(rdma::ShmOptions options, std::shared_ptr<rdma::Fabric>* fabric) {
  if (options.folder.empty()) BONSAI_RETURN_IF_ERROR(shm_folder(&options.folder));
  const auto node = std::make_shared<ShmNode>(options);
  BONSAI_RETURN_IF_ERROR(node->network.make_fabric(&node->fabric));
  *fabric = std::shared_ptr<rdma::Fabric>(node, node->fabric.get());
  return Status::OK();
}

Status open_fabric(const std::string& scheme, std::shared_ptr<rdma::Fabric>* fabric) {
  OpenFabric open;
  std::string known;
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& [name, unused] : registry().schemes) known += (known.empty() ? "" : ", ") + name + "://";
    if (const auto found = registry().schemes.find(scheme); found != registry().schemes.end())
      open = found->second.open;
  }
  if (open) return open(fabric);
  return Status::NotSupported("this program reaches no " + scheme + ":// targets; it knows plain paths and " + known);
}

Status shm_folder(std::string* folder) {
  const char* const chosen = std::getenv("BONSAI_SHM_FOLDER");
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  std::error_code error;
  std::string path;
  if (chosen != nullptr && *chosen != '\0') {
    path = chosen;
  } else if (runtime != nullptr && *runtime != '\0') {
    path = std::string(runtime) + "/bonsai";
  } else {
    path = std::filesystem::temp_directory_path(error).string() + "/bonsai-" + std::to_string(::getuid());
  }
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return base::os_error("make the folder", path, errno);
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return base::os_error("look at", path, errno);
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::getuid() || (found.st_mode & 077) != 0) {
    return Status::IoError(path + " is where the processes of a user meet, so it must be a folder of that user with " +
                           "mode 0700; run chmod 700 on it, or name another by BONSAI_SHM_FOLDER");
  }
  *folder = path;
  return Status::OK();
}

}  // namespace bonsai::scale
