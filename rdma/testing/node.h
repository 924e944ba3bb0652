// SPDX-License-Identifier: Apache-2.0
// A node of a test: a fabric with its own memory and one listening worker.
#ifndef BONSAI_RDMA_TESTING_NODE_H_
#define BONSAI_RDMA_TESTING_NODE_H_

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/nvm/racy_copy.h"
#include "rdma/fabric.h"
#include "rdma/shared_memory.h"
#include "rdma/testing/world.h"

namespace bonsai::rdma {

inline constexpr uint64_t kTestLimitMs = 10'000;

inline std::string status_text(const Status& status) { return status.ToString(); }

struct Node {
  static constexpr size_t kBytes = 8192;
  static constexpr size_t kMessageBytes = 128;
  static constexpr size_t kMessages = 4;

  Node(World& world, uint32_t number, Rights rights = Rights::all())
      : address(world.address(number)), fabric(world.make_fabric()) {
    hello.node = number;
    EXPECT_EQ("OK", status_text(SharedMemory::make(kBytes, &memory)));
    EXPECT_EQ("OK", status_text(SharedMemory::make(kMessages * kMessageBytes, &ring)));
    EXPECT_EQ("OK", status_text(fabric->register_region(memory->bytes(), rights, &region)));
    EXPECT_EQ("OK", status_text(fabric->register_region(ring->bytes(), Rights::none(), &ring_region)));
    EXPECT_EQ("OK", status_text(fabric->make_worker(&worker)));
    EXPECT_EQ("OK",
              status_text(worker->set_receive_ring(ring_region->slice(0, kMessages * kMessageBytes), kMessageBytes)));
    EXPECT_EQ("OK", status_text(worker->listen(
                        address, hello, [this](const Arrival& other, Hello* answer) { return admit(other, answer); })));
  }

  // Sets the rule for admission; without one the node admits every node. The provider calls it on its own thread.
  void set_admit(Admit rule) {
    const std::lock_guard lock(admit_mutex);
    admit_rule = std::move(rule);
  }

  std::unique_ptr<Peer> connect(const std::string& other) {
    std::unique_ptr<Peer> peer;
    EXPECT_EQ("OK", status_text(worker->connect(other, hello, kTestLimitMs, &peer)));
    return peer;
  }

  [[nodiscard]] std::byte* bytes() { return memory->bytes().data(); }
  // Words and texts are accessed by racy copies, because the fabric may access them at the same time.
  [[nodiscard]] uint64_t word(size_t index) { return base::word_at(bytes() + 8 * index).load(); }
  void set_word(size_t index, uint64_t value) { base::word_at(bytes() + 8 * index).store(value); }
  [[nodiscard]] std::string text(size_t offset, size_t n) {
    std::string text(n, '\0');
    base::racy_load(text.data(), bytes() + offset, n);
    return text;
  }
  Slice put(size_t offset, const std::string& text) {
    base::racy_store(bytes() + offset, text.data(), text.size());
    return region->slice(offset, text.size());
  }

  Status admit(const Arrival& other, Hello* answer) {
    const std::lock_guard lock(admit_mutex);
    return admit_rule(other, answer);
  }

  std::string address;
  Hello hello;
  std::mutex admit_mutex;
  Admit admit_rule = [](const Hello&, Hello*) { return Status::OK(); };
  std::unique_ptr<SharedMemory> memory, ring;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Region> region, ring_region;
  std::unique_ptr<Worker> worker;
};

inline constexpr std::array kFabricVerbs = {Verb::kRead, Verb::kWrite, Verb::kCas, Verb::kFaa, Verb::kSend};

// Adds one request of `verb`. A one-sided request accesses the word at `remote`, which changes from 0 to 7 unless it is
// only read; a message is the value 7.
inline void add_seven(WorkList* list, Verb verb, Peer& peer, Remote remote, Slice word) {
  base::word_at(word.data()).store(7);
  if (verb == Verb::kRead) list->read(peer, remote, word);
  if (verb == Verb::kWrite) list->write(peer, word, remote);
  if (verb == Verb::kCas) list->cas(peer, remote, 0, 7, word);
  if (verb == Verb::kFaa) list->faa(peer, remote, 7, word);
  if (verb == Verb::kSend) list->send(peer, word);
}

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_NODE_H_
