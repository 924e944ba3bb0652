// SPDX-License-Identifier: Apache-2.0
#include "scale/fabrics.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/nvm/os_file.h"
#include "base/status_macros.h"
#include "rdma/shm/shm.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kModelLatencyNsMax = 1'000'000'000;

// A shm node with the network that it belongs to.
struct ShmNode {
  explicit ShmNode(const rdma::ShmOptions& options) : network(options) {}
  rdma::ShmNetwork network;
  std::unique_ptr<rdma::Fabric> fabric;
};

// A number in the environment; 0 without one. Errors: InvalidArgument.
Status number_from(const char* variable, uint64_t max, uint64_t* number) {
  const char* const text = std::getenv(variable);
  *number = 0;
  if (text == nullptr || *text == '\0') return Status::OK();
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, *number);
  if (error == std::errc() && stopped == end && *number <= max) return Status::OK();
  return Status::InvalidArgument(std::string(variable) + " is '" + text + "'; give a whole number up to " +
                                 std::to_string(max));
}

Status open_shm(std::shared_ptr<rdma::Fabric>* fabric) {
  rdma::ShmOptions options;
  BONSAI_RETURN_IF_ERROR(shm_folder(&options.folder));
  BONSAI_RETURN_IF_ERROR(number_from("BONSAI_SHM_LATENCY_NS", kModelLatencyNsMax, &options.latency_ns));
  BONSAI_RETURN_IF_ERROR(number_from("BONSAI_SHM_BYTES_PER_SECOND", UINT64_MAX, &options.bytes_per_second));
  const auto node = std::make_shared<ShmNode>(options);
  BONSAI_RETURN_IF_ERROR(node->network.make_fabric(&node->fabric));
  *fabric = std::shared_ptr<rdma::Fabric>(node, node->fabric.get());
  return Status::OK();
}

struct Registry {
  std::mutex mutex;
  // Not the function itself, whose type libbonsai.so would export.
  std::map<std::string, OpenFabric> schemes{{"shm", [](auto* fabric) { return open_shm(fabric); }}};
};

Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

void register_fabric(const std::string& scheme, OpenFabric open) {
  const std::lock_guard lock(registry().mutex);
  registry().schemes[scheme] = std::move(open);
}

Status open_fabric(const std::string& scheme, std::shared_ptr<rdma::Fabric>* fabric) {
  OpenFabric open;
  std::string known;
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& [name, unused] : registry().schemes) known += (known.empty() ? "" : ", ") + name + "://";
    if (const auto found = registry().schemes.find(scheme); found != registry().schemes.end()) open = found->second;
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
