// SPDX-License-Identifier: Apache-2.0
#include "testing/sim/final_check.h"

#include <fstream>

#include "bonsai/db.h"

namespace bonsai::testing::sim {

std::string check_images(const ScratchFolder& scratch, size_t targets,
                         const std::function<std::span<const std::byte>(size_t)>& image) {
  std::string paths;
  for (size_t i = 0; i < targets; ++i) {
    const std::string path = scratch.file("check." + std::to_string(i));
    const std::span<const std::byte> bytes = image(i);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    paths += (i == 0 ? "" : ",") + path;
  }
  CheckReport report;
  const Status status = Check(paths, &report);
  if (!status.ok()) return "check: " + status.ToString();
  if (!report.ok()) return "check: " + report.damages[0].where + ": " + report.damages[0].what;
  return "";
}

}  // namespace bonsai::testing::sim
