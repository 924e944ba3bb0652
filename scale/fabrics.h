// SPDX-License-Identifier: Apache-2.0
// Maps the scheme of a target's name to a fabric. `shm` is always available; others are added when a program links them
// (rdma: rdma/verbs.h) or by a test (sim).
#ifndef BONSAI_SCALE_FABRICS_H_
#define BONSAI_SCALE_FABRICS_H_

#include <functional>
#include <memory>
#include <string>

#include "bonsai/status.h"
#include "rdma/fabric.h"

namespace bonsai::scale {

// On `shm` a network may be modelled: BONSAI_SHM_LATENCY_NS delays what this process asks of others by so much,
// BONSAI_SHM_BYTES_PER_SECOND by the time that its bytes take on such a link (each thread has a link of its own). What
// stands for the fabric in results says so.

// Makes this node's access to a fabric. What it makes keeps alive whatever it needs.
using OpenFabric = std::function<Status(std::shared_ptr<rdma::Fabric>* fabric)>;

// From now on `scheme` stands for what `open` makes; an earlier meaning is replaced. Thread-safety: any thread.
void register_fabric(const std::string& scheme, OpenFabric open);

// Errors: NotSupported (nothing of this program serves the scheme; the message lists what does), and those of its
// OpenFabric. Thread-safety: any thread.
Status open_fabric(const std::string& scheme, std::shared_ptr<rdma::Fabric>* fabric);

// Where the processes of this user meet on `shm`: the folder that BONSAI_SHM_FOLDER names, else `bonsai` in
// XDG_RUNTIME_DIR, else `bonsai-UID` in the system's folder of temporary files; made with mode 0700 if it is missing.
// Errors: IoError (cannot be made, or others may enter it).
Status shm_folder(std::string* folder);

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_FABRICS_H_
