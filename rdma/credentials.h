// SPDX-License-Identifier: Apache-2.0
// Who may connect: nodes that share a secret prove it to each other in their Hellos, without an extra round trip.
//
//   connecting   secret.sign(&hello); worker->connect(address, hello, ...); secret.check_answer(hello, peer->hello())
//   listening    worker->listen(address, own, secret.gate())
//
// The connecting node sends a fresh nonce, the time, and a keyed hash (BLAKE2b by libsodium) over them and the whole
// Hello; the listening node answers with a keyed hash over its own Hello and the nonce. So node number, session and
// version cannot be changed on the way, an answer cannot be forged or reused, and an intercepted greeting is
// rejected when it is repeated or late.
//
// Not promised: secrecy or integrity of what is sent after the connection was made (docs/security.md).
#ifndef BONSAI_RDMA_CREDENTIALS_H_
#define BONSAI_RDMA_CREDENTIALS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "rdma/fabric.h"

namespace bonsai::rdma {

struct GateOptions {
  uint64_t clock_skew_s_max = 30;        // between the nodes' calendar clocks, including the message's flight
  size_t connects_per_minute_max = 600;  // per node
  size_t nonces_max = size_t{1} << 16;   // stored; once full, further connections within the skew are refused
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

  // Fills the credentials of a Hello that is otherwise complete. Each connection takes a new one.
  void sign(Hello* hello) const;
  // Whether the node that answered `sent` knows the secret. If not, close the connection unused.
  // Errors: InvalidArgument.
  [[nodiscard]] Status check_answer(const Hello& sent, const Hello& answer) const;

  // Admits nodes that know the secret, if `next`, where given, admits them, too. The returned Admit keeps its own
  // memory of nonces and rates: make one per listening worker. Errors of the Admit: InvalidArgument (wrong secret, too
  // late, repeated), Busy (too many).
  [[nodiscard]] Admit gate(const GateOptions& options = {}, Admit next = {}) const;

 private:
  std::array<std::byte, kBytes> key_{};
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_CREDENTIALS_H_
