// SPDX-License-Identifier: Apache-2.0
// Who may connect: nodes that share a secret prove it to each other, by challenge and response, before the first
// request.
//
//   connecting   secret.connect(worker, address, own, limit_ms, &peer)
//   listening    worker->listen(address, own, secret.gate())
//
//   1  connecting -> listening   Hello, nonce A
//   2  listening -> connecting   nonce B (a Challenge, with a refusal)
//   3  connecting -> listening   Hello, nonce A, proof 1
//   4  listening -> connecting   Hello, proof 2
//
// Both nonces are random. A proof is a keyed hash (BLAKE2b by libsodium) over its purpose, both nonces, the address to
// which the connecting node spoke, and its Hello; proof 2 also over the listening node's Hello. So neither Hello can be
// changed on the way; a proof is good once, at the listener that drew nonce B for nonce A, and at no other address; and
// nothing is good after a restart, which forgets its nonces. docs/security.md compares this with the Noise framework.
//
// Not promised: secrecy or integrity of what is sent after the connection was made (docs/security.md).
#ifndef BONSAI_RDMA_CREDENTIALS_H_
#define BONSAI_RDMA_CREDENTIALS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "rdma/fabric.h"

namespace bonsai::rdma {

struct GateOptions {
  uint64_t challenge_ms_max = 10'000;             // between message 1 and message 3
  size_t challenges_max = 4'096;                  // unanswered ones; more end the oldest
  size_t connects_per_minute_max = 600;           // of one link (Hello::session)
  size_t links_per_minute_max = size_t{1} << 16;  // of nodes that know the secret; further ones are refused
};

// Thread-safety: const members from any thread.
class Secret {
 public:
  static constexpr size_t kBytes = 32;

  // Requires: nobody can guess `bytes` (base::random_secret).
  explicit Secret(std::span<const std::byte, kBytes> bytes);
  // Reads a file of 64 hexadecimal digits that only its owner may read. Errors: IoError, InvalidArgument (says what is
  // wrong with it and how to make one).
  static Status load(const std::string& path, Secret* secret);
  Secret() = default;
  ~Secret();
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;

  // As Worker::connect, to a listener that knows the secret. Errors: also InvalidArgument (it does not).
  [[nodiscard]] Status connect(Worker* worker, const std::string& address, const Hello& own, uint64_t limit_ms,
                               std::unique_ptr<Peer>* peer) const;

  // The parts of connect(). Message 1: adds a nonce to a Hello that is otherwise complete.
  static void introduce(Hello* hello);
  // Message 3: adds the proof. Requires: introduce().
  void prove(const Challenge& challenge, Hello* hello) const;
  // Whether the node that answered `sent` knows the secret. Errors: InvalidArgument.
  [[nodiscard]] Status check_answer(const Challenge& challenge, const Hello& sent, const Hello& answer) const;

  // Admits nodes that know the secret, if `next`, where given, admits them, too. The returned Admit keeps its own
  // memory of nonces and rates: make one per listening worker. Errors of the Admit: InvalidArgument (no or a wrong
  // secret, another listener was meant), Busy (too many), Unavailable with a challenge.
  [[nodiscard]] Admit gate(const GateOptions& options = {}, Admit next = {}) const;

 private:
  std::array<std::byte, kBytes> key_{};
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_CREDENTIALS_H_
