// SPDX-License-Identifier: Apache-2.0
// Any bytes as a configuration give settings, or an error that names the file and the line.
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz.h"
#include "base/testing/temp_folder.h"
#include "bonsaid/config.h"

namespace bonsai::bonsaid {
namespace {

void run_config(std::string_view input) {
  static const testing::TempFolder folder;
  Config config;
  const Status status = read_config(folder.write("conf.toml", std::string(input)), &config);
  if (status.ok()) return;
  BONSAI_CHECK(status.IsInvalidArgument() && status.message().find("conf.toml, line ") != std::string_view::npos);
}

std::vector<std::string> seeds_of_configs() {
  std::string deep = "a";
  for (int i = 0; i < 4'000; ++i) deep += ".a";
  return {"folder = \"/pools\"\nlisten = [\"shm://a\", \"rdma://b:1\"]\ndomain = \"adr\"\nlitmus_ms = 5\n",
          "open_to_all = true\n[secret_file]\nx = {y = [1]}\n", deep + " = 1\n", "[" + deep + "]\n"};
}

const testing::FuzzRegistration registration("config", run_config, seeds_of_configs);

}  // namespace
}  // namespace bonsai::bonsaid
