// SPDX-License-Identifier: Apache-2.0
// Any bytes as a Hello at a gate, as a message to a flush agent, and as messages of another process over the socket of
// the shm provider.
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz.h"
#include "base/testing/temp_folder.h"
#include "rdma/credentials.h"
#include "rdma/provider.h"
#include "rdma/remote_persist.h"
#include "rdma/shm/shm.h"
#include "rdma/shm/wire.h"

namespace bonsai::rdma {
namespace {

using testing::fuzz_bytes;
using testing::FuzzInput;
using testing::FuzzRegistration;

constexpr uint64_t kLimitMs = 5'000;

// ---- Hello

const Secret& secret_of(std::byte with) {
  static const std::array<std::byte, Secret::kBytes> ours{std::byte{1}}, theirs{std::byte{2}};
  static const Secret first(ours), second(theirs);
  return with == std::byte{0} ? first : second;
}

// The first byte selects: 0, the bytes unchanged; 1, proved with another secret; 2, proved and then changed in one
// place.
void run_hello(std::string_view bytes) {
  FuzzInput input(bytes);
  const uint8_t how = input.take<uint8_t>() % 3;
  const auto place = input.take<uint8_t>();
  auto hello = input.take<Hello>();
  const Hello made = hello;
  static const Admit gate = secret_of(std::byte{0}).gate();
  Hello answer;
  const auto tell = [&] { return gate({hello, "node", "a fuzzer"}, &answer); };
  BONSAI_CHECK(!tell().ok());
  const Challenge challenge = challenge_of(answer, "node");
  if (how != 0) secret_of(std::byte{how == 1}).prove(challenge, &hello);
  if (how == 2) reinterpret_cast<std::byte*>(&hello)[place % sizeof hello] ^= std::byte{1};
  BONSAI_CHECK(!tell().ok());
  BONSAI_CHECK(!secret_of(std::byte{0}).check_answer(challenge, made, hello).ok());
}

std::vector<std::string> seeds_of_hellos() {
  Hello hello;
  hello.node = 7, hello.session = 9;
  Secret::introduce(&hello);
  std::vector<std::string> seeds;
  for (const char how : {0, 1, 2}) seeds.push_back(std::string(1, how) + std::string(1, 20) + fuzz_bytes(hello));
  return seeds;
}

const FuzzRegistration hello("hello", run_hello, seeds_of_hellos);

// ---- flush request

// An agent over 4 KiB and a peer of it, in one process and one thread.
class FlushRig {
 public:
  FlushRig() {
    BONSAI_CHECK(server_->make_worker(&serving_).ok() && client_->make_worker(&sending_).ok());
    const auto flush = [this](std::span<const std::byte> bytes) {
      BONSAI_CHECK(bytes.data() >= served_.data() && bytes.data() + bytes.size() <= served_.data() + served_.size());
    };
    BONSAI_CHECK(FlushAgent::make(server_.get(), serving_.get(), 8, FlushAgent::within(served_, flush), &agent_).ok());
    BONSAI_CHECK(serving_->listen("agent", {}, {}).ok());
    BONSAI_CHECK(client_->register_region(memory_, Rights::all(), &region_).ok());
    connect();
  }
  // Small values in the input give a token, an answer's place and a first range that are nearly valid.
  void tell(std::string_view message) {
    if (message.empty() || message.size() > kMessageBytesMax) return;
    std::memcpy(memory_.data(), message.data(), message.size());
    add(offsetof(FlushRequest, answer) + offsetof(Remote, key), region_->remote().key, message.size());
    add(offsetof(FlushRequest, answer) + offsetof(Remote, address), region_->remote().base + kAnswerAt, message.size());
    add(offsetof(FlushRequest, range), reinterpret_cast<uintptr_t>(served_.data()), message.size());
    list_.clear();
    list_.send(*peer_, region_->slice(0, message.size()));
    BONSAI_CHECK(sending_->run(&list_, kLimitMs).ok());
    static_cast<void>(agent_->serve(kLimitMs));
    static_cast<void>(serving_->poll());
    if (!peer_->usable()) connect();  // an answer to an invalid place ends the connection
  }

 private:
  static constexpr size_t kMessageBytesMax = sizeof(FlushRequest), kAnswerAt = 1024;

  void connect() { BONSAI_CHECK(sending_->connect("agent", {}, kLimitMs, &peer_).ok()); }
  void add(size_t at, uint64_t value, size_t message_bytes) {
    if (at + sizeof value > message_bytes) return;
    uint64_t word;
    std::memcpy(&word, memory_.data() + at, sizeof word);
    word += value;
    std::memcpy(memory_.data() + at, &word, sizeof word);
  }

  ShmNetwork network_;
  std::unique_ptr<Fabric> server_ = network_.make_fabric(), client_ = network_.make_fabric();
  std::vector<std::byte> served_ = std::vector<std::byte>(4096), memory_ = std::vector<std::byte>(2048);
  std::unique_ptr<Worker> serving_, sending_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<FlushAgent> agent_;
  std::unique_ptr<Peer> peer_;
  WorkList list_;
};

void run_flush(std::string_view input) {
  static FlushRig rig;
  rig.tell(input);
}

std::vector<std::string> seeds_of_flushes() {
  FlushRequest request;
  request.token = 5;
  request.ranges = 1;
  request.range[0] = {0, 128};
  const std::string one = fuzz_bytes(request).substr(0, offsetof(FlushRequest, range) + sizeof(FlushRequest::Range));
  request.ranges = FlushRequest::kRangesMax;
  return {one, fuzz_bytes(request), one.substr(0, 8), one.substr(0, one.size() - 1)};
}

const FuzzRegistration flush("flush_request", run_flush, seeds_of_flushes);

// ---- messages of the shm provider

// A node that listens, and sockets to it as another process would open them.
class ShmRig {
 public:
  ShmRig() { BONSAI_CHECK(fabric_->make_worker(&worker_).ok() && worker_->listen("node", {}, {}).ok()); }
  ~ShmRig() {
    worker_.reset();
    fabric_.reset();
  }
  ShmRig(const ShmRig&) = delete;
  ShmRig& operator=(const ShmRig&) = delete;

  // Each message is a u8, whether a memory file is attached, and the bytes of a ShmWire. The first is a greeting in
  // most inputs.
  void talk(std::string_view bytes) {
    FuzzInput input(bytes);
    ShmSocket socket;
    BONSAI_CHECK(ShmSocket::connect(folder_.file("node"), &socket).ok());
    for (size_t i = 0; i < kMessagesMax && !input.empty(); ++i) {
      const bool with_file = input.take<uint8_t>() % 2 == 1;
      auto message = input.take<ShmWire>();
      if (i == 0) message.magic ^= ShmWire::kMagic;
      const base::OsFile file(::memfd_create("fuzz", MFD_CLOEXEC));
      BONSAI_CHECK(::ftruncate(file.fd(), kTableBytes) == 0);
      if (!(with_file ? socket.send(message, {file.fd()}) : socket.send(message, {}))) break;
      std::vector<base::OsFile> files;
      ShmWire answer;
      for (base::BoundedWait wait("fuzz.answer", 50); !wait.expired(); wait.pause()) {
        if (socket.receive(&answer, &files) != ShmSocket::Read::kNothing) break;
      }
    }
    std::unique_ptr<Peer> peer;
    static_cast<void>(worker_->accept(0, &peer));
  }

 private:
  static constexpr size_t kMessagesMax = 4;
  static constexpr off_t kTableBytes = 8192 * sizeof(uint64_t);

  const testing::TempFolder folder_;
  ShmNetwork network_{[this] {
    ShmOptions options;
    options.folder = folder_.path();
    return options;
  }()};
  std::unique_ptr<Fabric> fabric_ = network_.make_fabric();
  std::unique_ptr<Worker> worker_;
};

void run_shm(std::string_view input) {
  static ShmRig rig;
  rig.talk(input);
}

std::vector<std::string> seeds_of_shm() {
  ShmWire greeting, question;
  greeting.magic = 0;
  greeting.say = ShmSay::kHello;
  question.say = ShmSay::kInbox;
  const std::string hello_bytes = fuzz_bytes(greeting);
  return {std::string(1, 1) + hello_bytes, std::string(1, 0) + hello_bytes,
          std::string(1, 1) + hello_bytes + std::string(1, 0) + fuzz_bytes(question)};
}

const FuzzRegistration shm("shm_wire", run_shm, seeds_of_shm);

}  // namespace
}  // namespace bonsai::rdma
