// Scratch files of a test: unique names in memory-backed storage where there is some, removed at the end.
#ifndef BONSAI_STORE_TESTING_SCRATCH_H_
#define BONSAI_STORE_TESTING_SCRATCH_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace bonsai::testing {

// The folder for pools and logs: $BONSAI_TEST_DIR, else /dev/shm where it is writable, else the temporary folder.
inline std::filesystem::path scratch_folder() {
  const char* chosen = std::getenv("BONSAI_TEST_DIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  if (::access("/dev/shm", W_OK) == 0) return "/dev/shm";
  return std::filesystem::temp_directory_path();
}

// A folder of its own. Thread-safety: one owner. A forked child must leave by _exit, or it removes the folder too.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (scratch_folder() / "bonsai_test.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  // The path of a pool of so many targets, as DB::Open takes it.
  [[nodiscard]] std::string pool(size_t targets, const std::string& name = "pool") const {
    std::string path;
    for (size_t i = 0; i < targets; ++i) path += (i == 0 ? "" : ",") + file(name + "." + std::to_string(i));
    return path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace bonsai::testing

#endif  // BONSAI_STORE_TESTING_SCRATCH_H_
