// SPDX-License-Identifier: Apache-2.0
// Folders of tests, with unique names, removed at the end; and reading and writing whole files in them.
#ifndef BONSAI_BASE_TESTING_TEMP_FOLDER_H_
#define BONSAI_BASE_TESTING_TEMP_FOLDER_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/check.h"

namespace bonsai::testing {

// Thread-safety: one owner. A forked child must leave by _exit, or it removes the folder too.
class TempFolder {
 public:
  // In memory-backed storage, where pools are made durable at no cost, if there is some: below $BONSAI_TEST_DIR, else
  // /dev/shm where it is writable, else the temporary folder.
  TempFolder() : TempFolder(memory_backed()) {}
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  static TempFolder on_tmpfs() { return TempFolder("/dev/shm"); }
  static TempFolder on_disk() { return TempFolder(std::filesystem::temp_directory_path()); }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& below) const { return path_ + "/" + below; }

  // Writes a file, making the folders above it. Returns its path.
  std::string write(const std::string& below, const std::string& bytes) const {
    const std::filesystem::path path = file(below);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

 private:
  explicit TempFolder(const std::filesystem::path& parent) : path_((parent / "bonsai_test.XXXXXX").string()) {
    BONSAI_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  static std::filesystem::path memory_backed() {
    const char* const chosen = std::getenv("BONSAI_TEST_DIR");
    if (chosen != nullptr && *chosen != '\0') return chosen;
    if (::access("/dev/shm", W_OK) == 0) return "/dev/shm";
    return std::filesystem::temp_directory_path();
  }

  std::string path_;
};

// The bytes of a file; empty if it cannot be read.
inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  std::string bytes(static_cast<size_t>(in.tellg()), '\0');
  in.seekg(0);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_TEMP_FOLDER_H_
