// SPDX-License-Identifier: Apache-2.0
// A folder that lives as long as the object, on /dev/shm where there is one (fast, and the usual place of pools).
#ifndef BONSAI_ADMIN_TESTING_TEMP_FOLDER_H_
#define BONSAI_ADMIN_TESTING_TEMP_FOLDER_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace bonsai::admin {

class TempFolder {
 public:
  TempFolder() {
    const bool has_shm = access("/dev/shm", W_OK) == 0;
    path_ = has_shm ? "/dev/shm/bonsai-admin-XXXXXX" : "/tmp/bonsai-admin-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] std::string path(const std::string& below = "") const { return path_ + "/" + below; }

  // Writes a file below the folder, making the folders above it. Returns its path.
  std::string write(const std::string& below, const std::string& bytes) const {
    const std::filesystem::path file = path(below);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  std::string bytes(static_cast<size_t>(in.tellg()), '\0');
  in.seekg(0);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_TESTING_TEMP_FOLDER_H_
