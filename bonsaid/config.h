// SPDX-License-Identifier: Apache-2.0
// What bonsaid serves: from its configuration file (conf/bonsaid.toml) and its flags, which win. Both have the same
// settings under the same names.
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

// Where bonsaid listens, e.g. shm://NAME or rdma://HOST:PORT.
struct Address {
  std::string scheme;
  std::string node;  // in the notation of the fabric's provider

  [[nodiscard]] std::string text() const { return scheme + "://" + node; }
};

struct Config {
  std::string folder;
  std::vector<Address> listen;
  rdma::RemoteDomain domain = rdma::RemoteDomain::kUnknown;
  std::string secret_file;  // empty: none
  bool open_to_all = false;
  TestOptions test;  // its medium, and whether a shadow drops flushes
  uint64_t litmus_ms = 250;
};

// The names of all settings, which are also those of flags.
std::vector<std::string_view> setting_names();

// Sets one from its text, as a flag has it; a list has commas between. Errors: InvalidArgument (unknown name; a value,
// and then the message does not repeat the name).
Status set(std::string_view name, const std::string& text, Config* config);

// Sets what the file has. Errors: IoError (cannot be read), InvalidArgument (no TOML, unknown or mistyped setting; the
// message has the file and the line).
Status read_config(const std::string& path, Config* config);

// Whether it says all that is needed. Errors: InvalidArgument (what is missing or contradicts, and what to do).
Status check(const Config& config);

}  // namespace bonsai::bonsaid

#endif  // BONSAI_BONSAID_CONFIG_H_
