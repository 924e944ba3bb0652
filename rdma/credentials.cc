// SPDX-License-Identifier: Apache-2.0
#include "rdma/credentials.h"

#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
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
constexpr size_t kDigestBytes = 32;
constexpr uint64_t kMinuteNs = 60 * base::kNsPerSecond;
constexpr size_t kSecretTextBytesMax = 4096;  // the first word of the text is the secret

using Nonce = std::array<std::byte, 16>;
using Proof = std::array<unsigned char, kProofBytes>;

// Layout of the 32 bytes of Hello::credentials. Message 2 has nonce B there; message 4, no nonce.
struct Credentials {
  Nonce nonce{};
  Proof proof = {};
};
static_assert(sizeof(Credentials) == sizeof(Hello::credentials));

struct Name {
  explicit Name(const Hello& hello) : version(hello.version), node(hello.node), session(hello.session) {}
  uint32_t version, node;
  uint64_t session;
};

// The hashed data. `purpose` prevents the use of a greeting as an answer.
struct Statement {
  uint64_t purpose;
  Name connecting, listening;
  Nonce connecting_nonce, listening_nonce;
  std::array<unsigned char, kDigestBytes> listener;  // of its address
};
static_assert(sizeof(Statement) == 104);  // no byte of it is padding
constexpr uint64_t kGreeting = 0x676e697465657267, kAnswer = 0x7265777361;

Credentials credentials_of(const Hello& hello) {
  Credentials credentials;
  std::memcpy(&credentials, hello.credentials.data(), sizeof credentials);
  return credentials;
}

void set_credentials(Hello* hello, const Credentials& credentials) {
  std::memcpy(hello->credentials.data(), &credentials, sizeof credentials);
}

Nonce fresh_nonce() {
  Nonce nonce{};
  base::random_secret(nonce);
  return nonce;
}

// `listening`: a greeting leaves it empty, since its sender does not know it yet.
Proof prove_to(std::span<const std::byte> key, uint64_t purpose, const Challenge& challenge, const Hello& connecting,
               const Hello& listening) {
  Statement statement{purpose, Name(connecting), Name(listening), credentials_of(connecting).nonce, challenge.nonce,
                      {}};
  const auto* const listener = reinterpret_cast<const unsigned char*>(challenge.listener.data());
  crypto_generichash(statement.listener.data(), kDigestBytes, listener, challenge.listener.size(), nullptr, 0);
  Proof proof{};
  crypto_generichash(proof.data(), proof.size(), reinterpret_cast<const unsigned char*>(&statement), sizeof statement,
                     reinterpret_cast<const unsigned char*>(key.data()), key.size());
  return proof;
}

bool equal(const Proof& a, const Proof& b) { return sodium_memcmp(a.data(), b.data(), kProofBytes) == 0; }

// A listener's memory of the challenges that it has asked, and of the connections made to it.
class Gate {
 public:
  Gate(const GateOptions& options, Admit next) : options_(options), next_(std::move(next)) {}

  // The listener's nonce for this nonce of a connecting node, drawn now unless there is one.
  Nonce ask(const Nonce& nonce) {
    const std::lock_guard lock(mutex_);
    const uint64_t now_ns = base::now_ns();
    if (const auto found = find(nonce, now_ns); found != asked_.end()) return found->ours;
    if (asked_.size() >= options_.challenges_max) asked_.pop_front();
    asked_.push_back({nonce, fresh_nonce(), now_ns});
    return asked_.back().ours;
  }
  // False: it has none. One that was used, or is late, has none any more.
  bool asked(const Nonce& nonce, Nonce* ours) {
    const std::lock_guard lock(mutex_);
    const auto found = find(nonce, base::now_ns());
    if (found != asked_.end()) *ours = found->ours;
    return found != asked_.end();
  }
  // Admits a greeting whose proof is correct, or refuses it. It uses the challenge up.
  Status admit(const Hello& other, const Nonce& nonce) {
    const std::lock_guard lock(mutex_);
    const uint64_t now_ns = base::now_ns();
    const auto found = find(nonce, now_ns);
    if (found == asked_.end()) return Status::Unavailable("the greeting arrived twice; connect again");
    asked_.erase(found);
    if (std::exchange(minute_, now_ns / kMinuteNs) != now_ns / kMinuteNs) connects_.clear();
    const bool has_room = connects_.size() < options_.links_per_minute_max || connects_.count(other.session) != 0;
    if (!has_room || ++connects_[other.session] > options_.connects_per_minute_max) {
      return Status::Busy("too many connections within a minute; try again later");
    }
    return Status::OK();
  }
  [[nodiscard]] const Admit& next() const { return next_; }

 private:
  struct Asked {
    Nonce theirs, ours;
    uint64_t ns;
  };

  std::deque<Asked>::iterator find(const Nonce& nonce, uint64_t now_ns) {
    while (!asked_.empty() && now_ns - asked_.front().ns > options_.challenge_ms_max * base::kNsPerMs) {
      asked_.pop_front();
    }
    return std::find_if(asked_.begin(), asked_.end(), [&](const Asked& each) { return each.theirs == nonce; });
  }

  const GateOptions options_;
  const Admit next_;
  std::mutex mutex_;
  std::deque<Asked> asked_;  // unanswered challenges, oldest first
  uint64_t minute_ = 0;
  std::map<uint64_t, size_t> connects_;  // in this minute, by session of a node that knows the secret
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

void Secret::introduce(Hello* hello) { set_credentials(hello, {fresh_nonce(), {}}); }

void Secret::prove(const Challenge& challenge, Hello* hello) const {
  set_credentials(hello, {credentials_of(*hello).nonce, prove_to(key_, kGreeting, challenge, *hello, {})});
}

Status Secret::check_answer(const Challenge& challenge, const Hello& sent, const Hello& answer) const {
  const bool is_right = equal(prove_to(key_, kAnswer, challenge, sent, answer), credentials_of(answer).proof);
  if (challenge.was_asked() && is_right) return Status::OK();
  return Status::InvalidArgument("the responding node does not have the secret; check address and secret file");
}

Status Secret::connect(Worker* worker, const std::string& address, const Hello& own, uint64_t limit_ms,
                       std::unique_ptr<Peer>* peer) const {
  Hello hello = own;
  introduce(&hello);
  Challenge answered;
  const auto answer = [&](const Challenge& challenge, Hello* greeting) {
    prove(challenge, greeting);
    answered = challenge;
  };
  std::unique_ptr<Peer> made;
  BONSAI_RETURN_IF_ERROR(worker->connect(address, hello, limit_ms, &made, answer));
  BONSAI_RETURN_IF_ERROR(check_answer(answered, hello, made->hello()));
  *peer = std::move(made);
  return Status::OK();
}

Admit Secret::gate(const GateOptions& options, Admit next) const {
  const auto gate = std::make_shared<Gate>(options, std::move(next));
  return [secret = *this, gate](const Arrival& other, Hello* answer) {
    const Credentials credentials = credentials_of(other);
    answer->credentials = {};
    if (credentials.nonce == Nonce{}) {
      return Status::InvalidArgument(
          "the connecting node does not have the secret; give all nodes the same secret file");
    }
    Challenge challenge{{}, other.listener};
    if (!gate->asked(credentials.nonce, &challenge.nonce) || credentials.proof == Proof{}) {
      set_credentials(answer, {gate->ask(credentials.nonce), {}});
      return Status::Unavailable("the node asks for a proof; run the same version on both nodes");
    }
    if (!equal(prove_to(secret.key_, kGreeting, challenge, other, {}), credentials.proof)) {
      return Status::InvalidArgument(
          "the connecting node does not have the secret, or meant another node; give all nodes the same secret file");
    }
    BONSAI_RETURN_IF_ERROR(gate->admit(other, credentials.nonce));
    if (gate->next()) BONSAI_RETURN_IF_ERROR(gate->next()(other, answer));
    set_credentials(answer, {{}, prove_to(secret.key_, kAnswer, challenge, other, *answer)});
    return Status::OK();
  };
}

}  // namespace bonsai::rdma
