// SPDX-License-Identifier: Apache-2.0
// The creation of a pool, over old bytes or in a new file, and what its crashes may leave.
#ifndef BONSAI_PERSIST_TESTING_CREATION_H_
#define BONSAI_PERSIST_TESTING_CREATION_H_

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "persist/testing/explorer.h"

namespace bonsai::persist::testing {

// Creation leaves no pool, or a sound one; and a sound one once format has returned. In a new file, which has the mark
// from its first moment on, what holds no pool may be made one again.
class Creation final : public Explorer {
 public:
  using Explorer::Explorer;

  void run(bool in_new_file) {
    in_new_file_ = in_new_file;
    std::vector<std::byte> before(kPoolBytesMin);
    if (in_new_file) {
      std::memcpy(before.data(), &kCreatingMagic, sizeof kCreatingMagic);
    } else {
      for (std::byte& byte : before) byte = static_cast<std::byte>(random_.next());
    }
    start(before);
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
    if (!status.ok() && in_new_file_ && !is_unfinished({scratch_.view(), kFirstBytes})) {
      violation("what a creation left is in the way: " + status.ToString());
    }
    const ReadSet read = content ? ReadSet(rig) : ReadSet();
    if (random_.chance(1, 32) && !failed()) judge_rest(read, content);
    return read;
  }

  bool in_new_file_ = false;
  bool created_ = false;
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_CREATION_H_
