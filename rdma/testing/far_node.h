// SPDX-License-Identifier: Apache-2.0
// Controls a node of a puppet, as Node does for a node of this process.
#ifndef BONSAI_RDMA_TESTING_FAR_NODE_H_
#define BONSAI_RDMA_TESTING_FAR_NODE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <sstream>
#include <string>

#include "rdma/fabric.h"
#include "rdma/testing/puppet.h"

namespace bonsai::rdma {

class FarNode {
 public:
  FarNode(Channel& channel, uint32_t number) : channel_(channel), number_(number) {
    read_ok("make", "read,write,atomic", &address, &region.key, &region.base, &region.bytes);
  }
  ~FarNode() {
    if (alive_) tell("drop");
  }
  FarNode(const FarNode&) = delete;
  FarNode& operator=(const FarNode&) = delete;

  // Sends a command about this node and returns the answer.
  std::string tell(const std::string& verb, const std::string& arguments = "") {
    return channel_.ask(verb + " " + std::to_string(number_) + " " + arguments);
  }
  // As above; expects OK and parses the answer's values.
  template <class... Values>
  void read_ok(const std::string& verb, const std::string& arguments, Values*... values) {
    std::istringstream in(tell(verb, arguments));
    std::string word;
    in >> word;
    EXPECT_EQ(word, "OK") << verb << ": " << in.str();
    (static_cast<void>(in >> *values), ...);
  }
  void ok(const std::string& verb, const std::string& arguments = "") { read_ok(verb, arguments); }

  [[nodiscard]] std::string text(size_t offset, size_t n) {
    std::string hex;
    read_ok("bytes", std::to_string(offset) + " " + std::to_string(n), &hex);
    return from_hex(hex);
  }
  void put(size_t offset, const std::string& text) { ok("put", std::to_string(offset) + " " + to_hex(text)); }
  [[nodiscard]] uint64_t word(size_t index) {
    uint64_t word = 0;
    std::memcpy(&word, text(8 * index, 8).data(), sizeof word);
    return word;
  }
  void set_word(size_t index, uint64_t value) {
    put(8 * index, std::string(reinterpret_cast<const char*>(&value), sizeof value));
  }

  // Adds a region of zeros.
  RemoteRegion add_region(size_t bytes, const std::string& rights, size_t* id) {
    RemoteRegion added;
    read_ok("region", std::to_string(bytes) + " " + rights, id, &added.key, &added.base, &added.bytes);
    return added;
  }
  // Removes the region and returns its bytes.
  std::string remove_region(size_t id) {
    std::string hex;
    read_ok("unregister", std::to_string(id), &hex);
    return from_hex(hex);
  }

  // Returns the next message and its sender; it keeps its buffer until ok("release").
  std::string receive(uint32_t* from) {
    std::string hex;
    read_ok("receive", "10000", from, &hex);
    return from_hex(hex);
  }
  // Accepts the next connection; returns its index and the node that made it.
  size_t accept(uint32_t* from) {
    size_t index = 0;
    read_ok("accept", "10000", &index, from);
    return index;
  }

  // Kills the puppet's process. Requires: the puppet has its own process. It accepts no commands afterwards.
  void die() {
    EXPECT_EQ(channel_.ask("die"), "gone");
    alive_ = false;
  }

  std::string address;
  RemoteRegion region;

 private:
  Channel& channel_;
  uint32_t number_;
  bool alive_ = true;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_FAR_NODE_H_
