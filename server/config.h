// SPDX-License-Identifier: Apache-2.0
// What bonsai-server serves, where, and within which limits.
#ifndef BONSAI_SERVER_CONFIG_H_
#define BONSAI_SERVER_CONFIG_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::server {

// Where the server listens: HOST:PORT with a numeric host, unix:PATH, or the sockets that systemd has opened.
struct Address {
  std::string host;     // an IPv4 or IPv6 address without brackets; empty: `path`
  uint16_t port = 0;    // 0: the system chooses
  std::string path;     // @NAME: an abstract one, which has no file
  bool passed = false;  // systemd has opened it; what it is, take_passed_sockets() says
  int descriptor = -1;  // of a socket that was passed

  [[nodiscard]] bool is_unix() const { return host.empty(); }
  // Whether only programs of this machine reach it.
  [[nodiscard]] bool is_local() const;
  [[nodiscard]] std::string text() const;
  bool operator==(const Address&) const = default;
};

// Addresses, separated by commas. "localhost" is 127.0.0.1, "systemd" all sockets that are passed. Errors:
// InvalidArgument, with the form.
Status parse_addresses(const std::string& text, std::vector<Address>* addresses);

// The password of the server: its hash, compared in a time that says nothing about it.
class Password {
 public:
  // The first line of a file that nobody but its owner may read or write. Errors: IoError (it cannot be read),
  // InvalidArgument (empty, too long, readable by others), with the remedy.
  static Status load(const std::string& path, std::optional<Password>* password);
  static Password of(std::string_view text) { return Password(text); }

  [[nodiscard]] bool is(std::string_view text) const;

 private:
  explicit Password(std::string_view text) : hash_(hash_of(text)) {}
  using Hash = std::array<unsigned char, 32>;
  static Hash hash_of(std::string_view text);

  Hash hash_;
};

inline constexpr uint32_t kServerThreadsMax = 256;

struct Config {
  std::vector<Address> listen;
  std::string password_file;  // empty: none
  uint32_t threads = 1;       // 1 to kServerThreadsMax
  uint32_t connections_max = 10'000;
  uint64_t request_bytes_max = uint64_t{64} << 20;
  uint64_t reply_bytes_max = uint64_t{64} << 20;        // of one reply of KEYS, SCAN and RANGE
  uint64_t transaction_bytes_max = uint64_t{64} << 20;  // of what a transaction queues, watches, or writes
  uint32_t watch_s = 60;                                // keys are watched for so long at most
  uint32_t idle_s = 0;                 // a connection that sends nothing for so long is closed; 0: never
  uint32_t slow_s = 60;                // one that takes nothing of its replies for so long is closed; 0: never
  uint32_t snapshots_max = 64;         // with a name, at a time; at most kSnapshotsLimit
  uint32_t snapshot_s_max = 3'600;     // they live so long at most
  int64_t slowlog_us = 10'000;         // a command that takes as long is logged; negative: none is
  uint32_t slowlog_entries_max = 128;  // at most kSlowEntriesLimit
  bool buffered = false;
};

// Errors: InvalidArgument: what is missing or contradictory, and what to do; among them an address that other machines
// reach, without a password.
Status check(const Config& config);

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_CONFIG_H_
