// SPDX-License-Identifier: Apache-2.0
// A medium of a test, served as another node's: a node of this process serves it over shm, and this class is the remote
// target that a store has of it. The fabric's writes reach the medium's bytes without its operations; the node calls
// only flush and fence of them.
#ifndef BONSAI_SCALE_TESTING_SERVED_MEDIUM_H_
#define BONSAI_SCALE_TESTING_SERVED_MEDIUM_H_

#include <gtest/gtest.h>

#include <memory>

#include "base/check.h"
#include "base/nvm/far.h"
#include "base/nvm/mapping.h"
#include "base/nvm/medium.h"
#include "base/testing/far.h"
#include "base/testing/temp_folder.h"
#include "rdma/shm/shm.h"
#include "scale/remote_link.h"
#include "scale/remote_medium.h"
#include "scale/testing/file_on_medium.h"
#include "scale/testing/serving_node.h"

namespace bonsai::scale {

class ServedMedium {
 public:
  // Requires: `near` outlives it and has a mapped view.
  explicit ServedMedium(base::HookedMedium& near)
      : node_(&network_, folder_.path(), nullptr, [&near](const base::Mapping&, base::Media* media) {
          media->hooked = std::make_unique<FileOnMedium>(near, near.bytes());
          return Status::OK();
        }) {
    BONSAI_CHECK(RemoteLink::make(network_.make_fabric(), {}, &link_).ok());
    size_t target = 0;
    // The file gives the pool its name; its bytes are the medium's.
    BONSAI_CHECK(link_->open(named("pool"), PoolOp::kCreate, base::kMappingBytesMin, 0, &target).ok());
    BONSAI_CHECK(RemoteMedium::make(link_.get(), target, &target_).ok());
  }

  [[nodiscard]] base::HookedMedium* remote() { return target_.get(); }

 private:
  const testing::TempFolder folder_ = testing::TempFolder::on_tmpfs();
  rdma::ShmNetwork network_;
  ServingNode node_;
  std::unique_ptr<RemoteLink> link_;
  std::unique_ptr<RemoteMedium> target_;
};

// The medium over a remote target, if the run asks for that (base/testing/far.h); otherwise itself.
class AskedMedium {
 public:
  // Requires: as ServedMedium. Far media of one volume have seeds of their own.
  explicit AskedMedium(base::HookedMedium& near, uint64_t seed = 1) : medium_(&near) {
    if (testing::far_asked()) {
      far_ = std::make_unique<base::FarMedium>(near, base::FarOptions{.seed = seed});
      medium_ = far_.get();
    } else if (testing::shm_asked()) {
      served_ = std::make_unique<ServedMedium>(near);
      medium_ = served_->remote();
    }
  }
  [[nodiscard]] base::HookedMedium* medium() const { return medium_; }

 private:
  base::HookedMedium* medium_;
  std::unique_ptr<base::FarMedium> far_;
  std::unique_ptr<ServedMedium> served_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_TESTING_SERVED_MEDIUM_H_
