// SPDX-License-Identifier: Apache-2.0
// The creation of a pool over old bytes, and what its crashes may leave.
#ifndef BONSAI_PERSIST_TESTING_CREATION_H_
#define BONSAI_PERSIST_TESTING_CREATION_H_

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "persist/testing/explorer.h"

namespace bonsai::persist::testing {

// Creation over old bytes: no pool, or a sound one; and a sound one once format has returned.
class Creation final : public Explorer {
 public:
  using Explorer::Explorer;

  void run() {
    std::vector<std::byte> garbage(kPoolBytesMin);
    for (std::byte& byte : garbage) byte = static_cast<std::byte>(random_.next());
    start(garbage);
    Rig rig({&opened()});
    EXPECT_TRUE(rig.format().ok());
    created_ = true;
    explore();
    collect_sites();
  }

 private:
  ReadSet judge() override {
    Rig rig({&scratch_});
    const Status status = rig.analyse_only();
    std::optional<Content> content;
    if (status.ok()) content = analysed_content(rig);
    if (!status.ok() && created_) violation("the pool is gone: " + status.ToString());
    if (status.ok() && content != Content{}) violation("a new pool is not empty");
    const ReadSet read = content ? ReadSet(rig) : ReadSet();
    if (random_.chance(1, 32) && !failed()) judge_rest(read, content);
    return read;
  }

  bool created_ = false;
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_CREATION_H_
