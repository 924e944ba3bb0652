// SPDX-License-Identifier: Apache-2.0
// The removal of a pool, and what its crashes may leave.
#ifndef BONSAI_PERSIST_TESTING_REMOVING_H_
#define BONSAI_PERSIST_TESTING_REMOVING_H_

#include <gtest/gtest.h>

#include "persist/removal.h"
#include "persist/testing/explorer.h"

namespace bonsai::persist::testing {

// A removal leaves the whole pool, or a target that holds none and can be made one; the latter once it has returned.
class Removing final : public Explorer {
 public:
  using Explorer::Explorer;

  void run() {
    MemoryMedium fresh(kPoolBytesMin);
    EXPECT_TRUE(Rig({&fresh}).format().ok());
    start(fresh.image());
    Rig rig({&opened()});
    EXPECT_TRUE(rig.analyse_only().ok());
    EXPECT_TRUE(wipe_target(rig.volume, 0).ok());
    removed_ = true;
    explore();
    collect_sites();
  }

 private:
  ReadSet judge() override {
    if (is_unfinished({scratch_.view(), kFirstBytes})) return {};
    if (removed_) violation("the pool is still there");
    Rig rig({&scratch_});
    const Status status = rig.analyse_only();
    if (!status.ok()) {
      violation("neither a pool nor none: " + status.ToString());
      return {};
    }
    if (analysed_content(rig) != Content{}) violation("a removal changes the content");
    return ReadSet(rig);
  }

  bool removed_ = false;
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_REMOVING_H_
