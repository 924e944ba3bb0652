// SPDX-License-Identifier: Apache-2.0
#include "rdma/traffic.h"

#include "base/check.h"

namespace bonsai::rdma {

const char* verb_name(Verb verb) {
  static constexpr const char* kNames[kVerbs] = {"READ", "WRITE", "CAS", "FAA", "SEND", "FLUSH", "masked CAS"};
  BONSAI_CHECK(static_cast<size_t>(verb) < kVerbs);
  return kNames[static_cast<size_t>(verb)];
}

uint64_t Traffic::messages() const {
  uint64_t sum = 0;
  for (const Flow& flow : sent) sum += flow.messages;
  return sum;
}

uint64_t Traffic::bytes() const {
  uint64_t sum = 0;
  for (const Flow& flow : sent) sum += flow.bytes;
  return sum;
}

Traffic& Traffic::operator+=(const Traffic& other) {
  round_trips += other.round_trips;
  doorbells += other.doorbells;
  for (size_t i = 0; i < kVerbs; ++i) {
    sent[i].messages += other.sent[i].messages;
    sent[i].bytes += other.sent[i].bytes;
  }
  received.messages += other.received.messages;
  received.bytes += other.received.bytes;
  return *this;
}

Traffic Traffic::operator-(const Traffic& earlier) const {
  BONSAI_CHECK(earlier.round_trips <= round_trips && earlier.doorbells <= doorbells);
  BONSAI_CHECK(earlier.messages() <= messages() && earlier.bytes() <= bytes());
  Traffic difference;
  difference.round_trips = round_trips - earlier.round_trips;
  difference.doorbells = doorbells - earlier.doorbells;
  for (size_t i = 0; i < kVerbs; ++i) {
    difference.sent[i] = {sent[i].messages - earlier.sent[i].messages, sent[i].bytes - earlier.sent[i].bytes};
  }
  difference.received = {received.messages - earlier.received.messages, received.bytes - earlier.received.bytes};
  return difference;
}

std::string Traffic::text() const {
  const auto some = [](uint64_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  std::string text = some(round_trips, "round trip") + ", " + some(doorbells, "doorbell") + ", " +
                     some(messages(), "message") + ", " + some(bytes(), "byte");
  const char* separator = " (";
  for (size_t i = 0; i < kVerbs; ++i) {
    if (sent[i].messages == 0) continue;
    text += separator + std::string(verb_name(static_cast<Verb>(i))) + " " + std::to_string(sent[i].messages) + " x, " +
            some(sent[i].bytes, "byte");
    separator = "; ";
  }
  if (messages() != 0) text += ")";
  if (received.messages != 0) {
    text += ", received " + some(received.messages, "message") + ", " + some(received.bytes, "byte");
  }
  return text;
}

}  // namespace bonsai::rdma
