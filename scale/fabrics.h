// SPDX-License-Identifier: Apache-2.0
// The registry of fabric providers: the scheme of a target's name stands for a provider and its properties. `shm` is
// always available; others are added when a program links them (rdma: rdma/verbs.h) or by a test (sim).
#ifndef BONSAI_SCALE_FABRICS_H_
#define BONSAI_SCALE_FABRICS_H_

#include <functional>
#include <memory>
#include <string>

#include "bonsai/status.h"
#include "rdma/fabric.h"
#include "rdma/shm/shm.h"

namespace bonsai::scale {

// Makes this node's access to a fabric. The result keeps alive whatever it needs.
using OpenFabric = std::function<Status(std::shared_ptr<rdma::Fabric>* fabric)>;

// The nodes that can connect to a node which listens on a provider.
enum class FabricReach {
  kMachine,  // processes of this user on this machine
  kNetwork,  // other machines, which must prove that they may
};

// From now on `scheme` stands for what `open` makes; an earlier meaning is replaced. Thread-safety: any thread.
void register_fabric(const std::string& scheme, OpenFabric open, FabricReach reach = FabricReach::kNetwork);

// kNetwork where the scheme is unknown. Thread-safety: any thread.
[[nodiscard]] FabricReach fabric_reach(const std::string& scheme);

// Errors: NotSupported (nothing of this program serves the scheme; the message lists what does), and those of its
// OpenFabric. Thread-safety: any thread.
Status open_fabric(const std::string& scheme, std::shared_ptr<rdma::Fabric>* fabric);

// Makes a node of `shm`. Without a folder in the options it meets the others in shm_folder(). Errors: as shm_folder().
Status open_shm(rdma::ShmOptions options, std::shared_ptr<rdma::Fabric>* fabric);

// The folder in which this user's processes meet on `shm`: BONSAI_SHM_FOLDER if set, else `bonsai` in XDG_RUNTIME_DIR,
// else `bonsai-UID` in the system's folder of temporary files; made with mode 0700 if it is missing. Errors: IoError
// (cannot be made, or others may enter it).
Status shm_folder(std::string* folder);

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_FABRICS_H_
