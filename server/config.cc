// SPDX-License-Identifier: Apache-2.0
#include "server/config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sodium.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "admin/text.h"
#include "base/status_macros.h"
#include "server/request.h"
#include "server/slow_log.h"
#include "server/snapshots.h"

namespace bonsai::server {
namespace {

constexpr size_t kPasswordBytesMax = 512;
constexpr uint64_t kBytesMin = uint64_t{1} << 16;

Status no_address(const std::string& text) {
  return Status::InvalidArgument("'" + admin::escape(text) +
                                 "' is no address; give HOST:PORT with a numeric host, e.g. 127.0.0.1:6379 or "
                                 "[::1]:6379, unix:PATH, or systemd for the sockets of a .socket unit");
}

bool is_ip(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 || ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

Status parse_address(const std::string& text, Address* address) {
  constexpr std::string_view kUnix = "unix:";
  if (text == "systemd") return address->passed = true, Status::OK();
  if (text.starts_with(kUnix)) {
    address->path = text.substr(kUnix.size());
    if (address->path.empty()) return no_address(text);
    constexpr size_t kPathBytesMax = sizeof sockaddr_un::sun_path - 1;
    if (address->path.size() <= kPathBytesMax) return Status::OK();
    return Status::InvalidArgument("'" + admin::escape(text) + "' has a path of " +
                                   std::to_string(address->path.size()) + " bytes; a socket's path has at most " +
                                   std::to_string(kPathBytesMax) + ": choose a shorter one");
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return no_address(text);
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data() + colon + 1, end, address->port);
  if (error != std::errc() || read != end || !is_ip(host)) return no_address(text);
  address->host = host;
  return Status::OK();
}

}  // namespace

bool Address::is_local() const { return is_unix() || host.starts_with("127.") || host == "::1"; }

std::string Address::text() const {
  if (passed && descriptor < 0) return "systemd";
  if (is_unix()) return "unix:" + path;
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return shown + ":" + std::to_string(port);
}

Status parse_addresses(const std::string& text, std::vector<Address>* addresses) {
  addresses->clear();
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    Address address;
    BONSAI_RETURN_IF_ERROR(parse_address(word, &address));
    if (std::find(addresses->begin(), addresses->end(), address) != addresses->end()) {
      return Status::InvalidArgument(word + " is named twice");
    }
    addresses->push_back(std::move(address));
  }
  return Status::OK();
}

Password::Hash Password::hash_of(std::string_view text) {
  Hash hash{};
  ::crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                       nullptr, 0);
  return hash;
}

bool Password::is(std::string_view text) const {
  const Hash other = hash_of(text);
  return ::sodium_memcmp(hash_.data(), other.data(), hash_.size()) == 0;
}

Status Password::load(const std::string& path, std::optional<Password>* password) {
  struct stat found {};
  std::ifstream in(path);
  if (::stat(path.c_str(), &found) != 0 || !in) {
    return Status::IoError("the password file " + path + " cannot be read: " + std::strerror(errno) +
                           "; make it: (umask 077; openssl rand -hex 32 >" + path + ")");
  }
  if (S_ISDIR(found.st_mode)) {
    return Status::InvalidArgument("the password file " + path + " is a folder; name a file in it");
  }
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Status::InvalidArgument("the password file " + path + " is open to other users; close it: chmod 600 " +
                                   path);
  }
  std::string line;
  std::getline(in, line);
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty() || line.size() > kPasswordBytesMax) {
    return Status::InvalidArgument("the first line of " + path + " must be the password, of 1 to " +
                                   std::to_string(kPasswordBytesMax) + " bytes");
  }
  *password = Password(line);
  return Status::OK();
}

Status check(const Config& config) {
  if (config.listen.empty()) {
    return Status::InvalidArgument("no address was named; add --listen=127.0.0.1:6379, or --listen=unix:PATH");
  }
  for (const Address& address : config.listen) {
    if (address.is_local() || !config.password_file.empty()) continue;
    return Status::InvalidArgument(address.text() +
                                   " is open to other machines, and there is no password; add --password_file=FILE, "
                                   "made by (umask 077; openssl rand -hex 32 >FILE), or listen on 127.0.0.1");
  }
  if (config.threads < 1 || config.threads > kServerThreadsMax) {
    return Status::InvalidArgument("--threads must be 1 to " + std::to_string(kServerThreadsMax));
  }
  if (config.connections_max < 1) return Status::InvalidArgument("--connections_max must be 1 or more");
  for (const uint64_t bytes : {config.request_bytes_max, config.reply_bytes_max, config.transaction_bytes_max}) {
    if (bytes >= kBytesMin && bytes <= kRequestBytesLimit) continue;
    return Status::InvalidArgument(
        "--request_bytes_max, --reply_bytes_max and --transaction_bytes_max must be 64K to 1G");
  }
  if (config.slowlog_entries_max > kSlowEntriesLimit) {
    return Status::InvalidArgument("--slowlog_entries_max must be " + std::to_string(kSlowEntriesLimit) + " or less");
  }
  if (config.snapshots_max > kSnapshotsLimit) {
    return Status::InvalidArgument("--snapshots_max must be " + std::to_string(kSnapshotsLimit) + " or less");
  }
  if (config.watch_s < 1) return Status::InvalidArgument("--watch_s must be 1 or more");
  return Status::OK();
}

}  // namespace bonsai::server
