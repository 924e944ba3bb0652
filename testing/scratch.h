// SPDX-License-Identifier: Apache-2.0
// Scratch files of a test: unique names in memory-backed storage where there is some, removed at the end, when the
// pools among them are checked.
#ifndef BONSAI_TESTING_SCRATCH_H_
#define BONSAI_TESTING_SCRATCH_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "bonsai/db.h"

namespace bonsai::testing {

// The folder for pools and logs: $BONSAI_TEST_DIR, else /dev/shm where it is writable, else the temporary folder.
inline std::filesystem::path scratch_folder() {
  const char* chosen = std::getenv("BONSAI_TEST_DIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  if (::access("/dev/shm", W_OK) == 0) return "/dev/shm";
  return std::filesystem::temp_directory_path();
}

// A folder of its own. What was named in it and is a pool that nobody has open must pass `Check` in the end: no damage,
// no overlap, no leak. Thread-safety: one owner. A forked child must leave by _exit, or it removes the folder too.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (scratch_folder() / "bonsai_test.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~ScratchFolder() {
    for (const std::string& path : named_) {
      CheckReport report;
      if (damaged_.contains(path) || !Check(path, &report).ok() || report.ok()) continue;
      ADD_FAILURE() << "a pool is left damaged: " << report.damages[0].where << ": " << report.damages[0].what;
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // The test does damage to this pool: it is not checked in the end.
  void expect_damage(const std::string& path) { damaged_.insert(path); }

  [[nodiscard]] std::string file(const std::string& name) const {
    return *named_.insert((path_ / name).string()).first;
  }
  // The path of a pool of so many targets, as DB::Open takes it.
  [[nodiscard]] std::string pool(size_t targets, const std::string& name = "pool") const {
    std::string path;
    for (size_t i = 0; i < targets; ++i) {
      path += (i == 0 ? "" : ",") + (path_ / (name + "." + std::to_string(i))).string();
    }
    return *named_.insert(path).first;
  }

 private:
  std::filesystem::path path_;
  mutable std::set<std::string> named_;
  std::set<std::string> damaged_;
};

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_SCRATCH_H_
