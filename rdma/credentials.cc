// SPDX-License-Identifier: Apache-2.0
#include "rdma/credentials.h"

#include <sodium.h>
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/nvm/os_file.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace bonsai::rdma {
namespace {

constexpr size_t kProofBytes = 16;
constexpr size_t kSecondsPerMinute = 60;
constexpr size_t kSecretTextBytesMax = 4096;  // the first word of the text is the secret

// Layout of the 32 bytes of Hello::credentials.
struct Credentials {
  uint64_t nonce = 0;
  uint64_t seconds = 0;  // calendar time
  std::array<unsigned char, kProofBytes> proof{};
};
static_assert(sizeof(Credentials) == sizeof(Hello::credentials));

// The hashed data. `purpose` prevents the use of a greeting as an answer.
struct Statement {
  uint64_t purpose;
  uint32_t version, node;
  uint64_t epoch, nonce, seconds;
};
constexpr uint64_t kGreeting = 0x676e697465657267, kAnswer = 0x7265777361;

Credentials credentials_of(const Hello& hello) {
  Credentials credentials;
  std::memcpy(&credentials, hello.credentials.data(), sizeof credentials);
  return credentials;
}

std::array<unsigned char, kProofBytes> prove(std::span<const std::byte> key, uint64_t purpose, const Hello& hello,
                                             const Credentials& credentials) {
  const Statement statement{purpose, hello.version, hello.node, hello.session, credentials.nonce, credentials.seconds};
  std::array<unsigned char, kProofBytes> proof{};
  crypto_generichash(proof.data(), proof.size(), reinterpret_cast<const unsigned char*>(&statement), sizeof statement,
                     reinterpret_cast<const unsigned char*>(key.data()), key.size());
  return proof;
}

bool equal(const std::array<unsigned char, kProofBytes>& a, const std::array<unsigned char, kProofBytes>& b) {
  return sodium_memcmp(a.data(), b.data(), kProofBytes) == 0;
}

// A listener's memory of the connections made to it.
class Gate {
 public:
  Gate(const GateOptions& options, Admit next) : options_(options), next_(std::move(next)) {}

  // Admits or refuses a greeting whose proof is correct.
  Status admit(const Hello& other, const Credentials& credentials) {
    const auto now = static_cast<uint64_t>(base::wall_seconds());
    const uint64_t skew = now > credentials.seconds ? now - credentials.seconds : credentials.seconds - now;
    if (skew > options_.clock_skew_s_max) {
      return Status::InvalidArgument("the connecting node's clock differs by " + std::to_string(skew) +
                                     " s, or its greeting was overheard; set the clocks");
    }
    const std::lock_guard lock(mutex_);
    while (!nonces_.empty() && nonces_.begin()->first + 2 * options_.clock_skew_s_max < now) {
      nonces_.erase(nonces_.begin());
    }
    if (nonces_.count({credentials.seconds, credentials.nonce}) != 0) {
      return Status::InvalidArgument("this greeting was used before; connect with a new one");
    }
    auto& [minute, connects] = rates_[other.node];
    if (std::exchange(minute, now / kSecondsPerMinute) != now / kSecondsPerMinute) connects = 0;
    if (++connects > options_.connects_per_minute_max || nonces_.size() >= options_.nonces_max) {
      return Status::Busy("too many connections within a minute; try again later");
    }
    const bool fresh = nonces_.insert({credentials.seconds, credentials.nonce}).second;
    BONSAI_CHECK(fresh && nonces_.size() <= options_.nonces_max);
    return Status::OK();
  }
  [[nodiscard]] const Admit& next() const { return next_; }

 private:
  const GateOptions options_;
  const Admit next_;
  std::mutex mutex_;
  std::set<std::pair<uint64_t, uint64_t>> nonces_;         // by time
  std::map<uint32_t, std::pair<uint64_t, size_t>> rates_;  // by node that knows the secret: minute, connects
};

}  // namespace

Secret::Secret(std::span<const std::byte, kBytes> bytes) {
  BONSAI_CHECK(sodium_init() >= 0);
  std::memcpy(key_.data(), bytes.data(), kBytes);
}

Secret::~Secret() { sodium_memzero(key_.data(), key_.size()); }

Status Secret::load(const std::string& path, Secret* secret) {
  struct stat found {};
  const std::string remedy = "; make one with: (umask 077; openssl rand -hex 32 >" + path + ")";
  if (::stat(path.c_str(), &found) != 0) {
    if (errno != ENOENT) return base::os_error("read the secret file", path, errno);
    return Status::IoError("the secret file " + path + " does not exist; copy that of the nodes there, or, for a new " +
                           "deployment, " + remedy.substr(2));
  }
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Status::InvalidArgument("others than its owner may read " + path + remedy);
  }
  std::string text;
  if (!base::read_text(path, kSecretTextBytesMax, &text)) return base::os_error("read", path, errno);
  std::istringstream(std::exchange(text, {})) >> text;
  std::array<std::byte, kBytes> key{};
  size_t bytes = 0;
  if (sodium_hex2bin(reinterpret_cast<unsigned char*>(key.data()), key.size(), text.c_str(), text.size(), nullptr,
                     &bytes, nullptr) != 0 ||
      bytes != kBytes || text.size() != 2 * kBytes) {
    return Status::InvalidArgument(path + " does not hold 64 hexadecimal digits" + remedy);
  }
  *secret = Secret(key);
  sodium_memzero(key.data(), key.size());
  sodium_memzero(text.data(), text.size());
  return Status::OK();
}

void Secret::sign(Hello* hello) const {
  Credentials credentials;
  base::random_secret(std::as_writable_bytes(std::span(&credentials.nonce, 1)));
  credentials.seconds = static_cast<uint64_t>(base::wall_seconds());
  credentials.proof = prove(key_, kGreeting, *hello, credentials);
  std::memcpy(hello->credentials.data(), &credentials, sizeof credentials);
}

Status Secret::check_answer(const Hello& sent, const Hello& answer) const {
  Credentials asked = credentials_of(sent);
  if (equal(prove(key_, kAnswer, answer, asked), credentials_of(answer).proof)) return Status::OK();
  return Status::InvalidArgument("the responding node does not have the secret; check address and secret file");
}

Admit Secret::gate(const GateOptions& options, Admit next) const {
  const auto gate = std::make_shared<Gate>(options, std::move(next));
  return [secret = *this, gate](const Hello& other, Hello* answer) {
    const Credentials credentials = credentials_of(other);
    if (!equal(prove(secret.key_, kGreeting, other, credentials), credentials.proof)) {
      return Status::InvalidArgument(
          "the connecting node does not have the secret; give all nodes the same secret file");
    }
    BONSAI_RETURN_IF_ERROR(gate->admit(other, credentials));
    if (gate->next()) BONSAI_RETURN_IF_ERROR(gate->next()(other, answer));
    Credentials reply;
    reply.proof = prove(secret.key_, kAnswer, *answer, credentials);
    std::memcpy(answer->credentials.data(), &reply, sizeof reply);
    return Status::OK();
  };
}

}  // namespace bonsai::rdma
