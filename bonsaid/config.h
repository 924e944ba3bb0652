// SPDX-License-Identifier: Apache-2.0
// The configuration of bonsaid: from its file (conf/bonsaid.toml) and its flags, which win. Both have the same settings
// under the same names.
#ifndef BONSAI_BONSAID_CONFIG_H_
#define BONSAI_BONSAID_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/status.h"
#include "bonsai/testing.h"
#include "rdma/domain.h"

namespace bonsai::bonsaid {

// An address at which bonsaid listens, e.g. shm://NAME or rdma://HOST:PORT.
struct Address {
  std::string scheme;
  std::string node;  // in the notation of the fabric's provider

  [[nodiscard]] std::string text() const { return scheme + "://" + node; }
  bool operator==(const Address&) const = default;
};

struct Config {
  std::string folder;
  std::vector<Address> listen;
  rdma::RemoteDomain domain = rdma::RemoteDomain::kUnknown;
  std::string secret_file;  // empty: none
  bool open_to_all = false;
  TestOptions test;     // the test medium, and whether a shadow drops flushes
  std::string metrics;  // the address of metrics::Service; empty: none
  uint64_t litmus_ms = 250;
};

// The names of all settings, equal to the names of the flags.
std::vector<std::string_view> setting_names();

// Sets one setting from its text, as in a flag; commas separate the entries of a list. Errors: InvalidArgument (unknown
// name, or invalid value; the message about a value does not repeat the name).
Status set(std::string_view name, const std::string& text, Config* config);

// Applies the settings of the file. Errors: IoError (cannot be read), InvalidArgument (no TOML, unknown setting, or
// value of the wrong type; the message has the file and the line).
Status read_config(const std::string& path, Config* config);

// The names of the settings that only a restart brings into force and that differ, after commas.
[[nodiscard]] std::string fixed_settings_that_differ(const Config& a, const Config& b);

// Checks that the settings are complete and consistent. Errors: InvalidArgument (the missing or contradictory setting,
// and what to do).
Status check(const Config& config);

}  // namespace bonsai::bonsaid

#endif  // BONSAI_BONSAID_CONFIG_H_
