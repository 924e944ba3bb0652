// SPDX-License-Identifier: Apache-2.0
#include "rdma/testing/suite.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "base/testing/temp_folder.h"

namespace bonsai::rdma {
namespace {

std::unique_ptr<Site> current;
std::string current_name;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<Setting> choose_settings() {
  if (const std::string provider = environment("BONSAI_FABRIC"); !provider.empty()) {
    const std::string puppet = environment("BONSAI_FABRIC_PUPPET");
    return {{provider.substr(0, provider.find(':')) + (puppet.empty() ? "" : "_far"), provider, puppet}};
  }
  static const testing::TempFolder meeting;  // where processes find each other
  const std::string& folder = meeting.path();
  const std::string puppet = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "rdma_puppet").string();
  return {
      {"sim", "sim", ""},
      {"shm", "shm", ""},
      {"shm_processes", "shm:" + folder, puppet + " shm:" + folder},
  };
}

}  // namespace

const std::vector<Setting>& settings() {
  static const std::vector<Setting> chosen = choose_settings();
  return chosen;
}

namespace {

template <class Wanted>
std::vector<Setting> settings_that(Wanted wanted) {
  std::vector<Setting> chosen;
  std::copy_if(settings().begin(), settings().end(), std::back_inserter(chosen), wanted);
  return chosen;
}

}  // namespace

std::vector<Setting> far_settings() {
  return settings_that([](const Setting& setting) { return !setting.puppet.empty(); });
}

std::vector<Setting> threaded_settings() {
  return settings_that([](const Setting& setting) { return setting.provider != "sim"; });
}

Site::Site(const Setting& setting) : setting_(setting), world_(make_world(setting.provider)) {
  channel_ = far() ? far_channel(setting.puppet) : direct_channel(*world_);
}

Site& Site::of(const Setting& setting) {
  if (current == nullptr || current_name != setting.name) {
    current.reset();
    current = std::make_unique<Site>(setting);
    current_name = setting.name;
  }
  return *current;
}

void Site::forget() { current_name.clear(); }

}  // namespace bonsai::rdma
