// SPDX-License-Identifier: Apache-2.0
// Scratch files of a test, in a folder of their own. At the end the pools among them are checked, and all is removed.
#ifndef BONSAI_TESTING_SCRATCH_H_
#define BONSAI_TESTING_SCRATCH_H_

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/testing/temp_folder.h"
#include "bonsai/db.h"

namespace bonsai::testing {

// A folder for a test's pools. At the end each pool in it that is not open must pass `Check`: no damage, no overlap, no
// leak. Thread-safety: one owner. A forked child must leave by _exit, or it removes the folder too.
class ScratchFolder {
 public:
  ScratchFolder() = default;
  ~ScratchFolder() {
    for (const std::string& path : named_) {
      CheckReport report;
      if (damaged_.contains(path) || !Check(path, &report).ok() || report.ok()) continue;
      ADD_FAILURE() << "a pool is left damaged: " << report.damages[0].where << ": " << report.damages[0].what;
    }
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // The test does damage to this pool: it is not checked in the end.
  void expect_damage(const std::string& path) { damaged_.insert(path); }

  [[nodiscard]] std::string file(const std::string& name) const { return *named_.insert(folder_.file(name)).first; }
  // The path of a pool of this many targets, as DB::Open takes it.
  [[nodiscard]] std::string pool(size_t targets, const std::string& name = "pool") const {
    std::string path;
    for (size_t i = 0; i < targets; ++i) {
      path += (i == 0 ? "" : ",") + folder_.file(name + "." + std::to_string(i));
    }
    return *named_.insert(path).first;
  }

 private:
  TempFolder folder_;
  mutable std::set<std::string> named_;
  std::set<std::string> damaged_;
};

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_SCRATCH_H_
