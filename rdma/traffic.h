// SPDX-License-Identifier: Apache-2.0
// Counts the costs of an operation on the fabric. The counts do not depend on the machine.
//
// The counts are defined by what the caller submitted, so they are the same on every provider:
//   round trips work lists that were posted: all requests of one list travel at once
//   doorbells    per list, the peers that it names: one doorbell rings for all work towards one peer
//   messages     work requests of posted lists, by verb; a request that failed or was flushed counts, too
//   bytes        payload without headers: the bytes of a READ, WRITE or SEND, 8 for an atomic, 0 for a FLUSH
//
// Thread-safety: value types. A worker's traffic belongs to the worker's thread.
#ifndef BONSAI_RDMA_TRAFFIC_H_
#define BONSAI_RDMA_TRAFFIC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace bonsai::rdma {

enum class Verb : uint8_t { kRead, kWrite, kCas, kFaa, kSend, kFlush, kMaskedCas };
inline constexpr size_t kVerbs = 7;

// "READ", "WRITE", "CAS", "FAA", "SEND", "FLUSH", "masked CAS".
const char* verb_name(Verb verb);
// Whether the verb changes one 8-byte word and returns its old value.
[[nodiscard]] inline bool is_atomic(Verb verb) {
  return verb == Verb::kCas || verb == Verb::kFaa || verb == Verb::kMaskedCas;
}

struct Traffic {
  struct Flow {
    uint64_t messages = 0;
    uint64_t bytes = 0;
    bool operator==(const Flow&) const = default;
  };

  uint64_t round_trips = 0;
  uint64_t doorbells = 0;
  std::array<Flow, kVerbs> sent{};  // by Verb
  Flow received;                    // messages that peers sent to this worker and that it has taken

  [[nodiscard]] const Flow& of(Verb verb) const { return sent[static_cast<size_t>(verb)]; }
  void count(Verb verb, uint64_t bytes) {
    ++sent[static_cast<size_t>(verb)].messages;
    sent[static_cast<size_t>(verb)].bytes += bytes;
  }

  [[nodiscard]] uint64_t messages() const;  // sent, all verbs
  [[nodiscard]] uint64_t bytes() const;     // sent, all verbs

  Traffic& operator+=(const Traffic& other);
  // The traffic since `earlier`, a former value of the same count.
  Traffic operator-(const Traffic& earlier) const;
  bool operator==(const Traffic&) const = default;

  // For example "1 round trip, 2 doorbells, 3 messages, 192 bytes (READ 3 x, 192 bytes)".
  [[nodiscard]] std::string text() const;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TRAFFIC_H_
