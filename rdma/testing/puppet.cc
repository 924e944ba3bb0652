// SPDX-License-Identifier: Apache-2.0
#include "rdma/testing/puppet.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <sstream>
#include <vector>

#include "base/thread.h"
#include "rdma/remote_persist.h"
#include "rdma/testing/node.h"

namespace bonsai::rdma {
namespace {

constexpr uint32_t kAgentNumber = 50;  // added to its node's number

Rights parse_rights(const std::string& text) {
  return {text.find("read") != std::string::npos, text.find("write") != std::string::npos,
          text.find("atomic") != std::string::npos};
}

std::string describe(const RemoteRegion& region) {
  return std::to_string(region.key) + " " + std::to_string(region.base) + " " + std::to_string(region.bytes);
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string to_hex(const std::string& bytes) {
  if (bytes.empty()) return "-";
  std::string text;
  for (const char byte : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  if (text == "-") return bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// A flush agent on a worker and a thread of its own.
class Agent {
 public:
  Agent(Node& node, const std::string& at) : address(at) {
    EXPECT_EQ("OK", status_text(node.fabric->make_worker(&worker_)));
    EXPECT_EQ("OK",
              status_text(FlushAgent::make(
                  node.fabric.get(), worker_.get(), 16,
                  FlushAgent::within(node.memory->bytes(), [this](auto bytes) { flushed += bytes.size(); }), &agent_)));
    EXPECT_EQ("OK", status_text(worker_->listen(address, node.hello, {})));
    thread_ = base::Thread("agent", [this] {
      while (!stop_) static_cast<void>(agent_->serve(1));
    });
  }
  ~Agent() {
    stop_ = true;
    thread_.join();
  }

  const std::string address;
  std::atomic<uint64_t> flushed{0};

 private:
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<FlushAgent> agent_;
  std::atomic<bool> stop_{false};
  base::Thread thread_;
};

// A node and what it holds.
struct Puppet::Body {
  Body(World& its_world, uint32_t number, Rights rights) : world(its_world), node(its_world, number, rights) {}
  ~Body() {
    peers.clear();  // ends the requests that were begun
    static_cast<void>(node.worker->poll());
  }

  struct Extra {
    std::unique_ptr<SharedMemory> memory;
    std::unique_ptr<Region> region;
  };

  std::string obey(const std::string& verb, std::istringstream& in);

  World& world;
  Node node;
  std::map<size_t, Extra> extras;
  size_t extras_made = 0;
  std::vector<std::unique_ptr<Peer>> peers;
  std::deque<WorkList> begun;
  std::vector<Message> held;
  std::unique_ptr<Agent> agent;

 private:
  std::string memory_command(const std::string& verb, std::istringstream& in);
  std::string message_command(const std::string& verb, std::istringstream& in);
  std::string answer(std::istringstream& in);
  std::string begin(std::istringstream& in);
};

std::string Puppet::Body::memory_command(const std::string& verb, std::istringstream& in) {
  size_t first = 0;
  std::string second;
  in >> first >> second;
  if (verb == "put") {
    node.put(first, from_hex(second));
    return "OK";
  }
  if (verb == "bytes") return "OK " + to_hex(node.text(first, std::stoul(second)));
  if (verb == "region") {
    Extra extra;
    Status status = SharedMemory::make(first, &extra.memory);
    if (status.ok()) {
      status = node.fabric->register_region(extra.memory->bytes().first(first), parse_rights(second), &extra.region);
    }
    if (!status.ok()) return status_text(status);
    const std::string text = "OK " + std::to_string(extras_made) + " " + describe(extra.region->remote());
    extras.emplace(extras_made++, std::move(extra));
    return text;
  }
  Extra& extra = extras.at(first);  // unregister
  extra.region.reset();
  const std::string text = "OK " + to_hex(text_of(extra.memory->bytes()));
  extras.erase(first);
  return text;
}

std::string Puppet::Body::message_command(const std::string& verb, std::istringstream& in) {
  uint64_t argument = 0;
  in >> argument;
  if (verb == "receive") {
    Message message;
    if (const Status status = node.worker->receive(argument, &message); !status.ok()) return status_text(status);
    held.push_back(std::move(message));
    return "OK " + std::to_string(held.back().from()) + " " + to_hex(text_of(held.back().bytes()));
  }
  if (verb == "accept") {
    std::unique_ptr<Peer> peer;
    if (const Status status = node.worker->accept(argument, &peer); !status.ok()) return status_text(status);
    peers.push_back(std::move(peer));
    return "OK " + std::to_string(peers.size() - 1) + " " + std::to_string(peers.back()->hello().node);
  }
  if (verb == "release") held.clear();
  if (verb == "close") peers.at(argument).reset();
  return "OK";
}

std::string Puppet::Body::answer(std::istringstream& in) {
  size_t peer = 0;
  Remote remote;
  std::string text;
  in >> peer >> remote.key >> remote.address >> text;
  const Slice slice = node.put(0, from_hex(text));
  WorkList list;
  list.write(*peers.at(peer), slice, remote);
  list.send(*peers.at(peer), slice);
  return status_text(node.worker->run(&list, kTestLimitMs));
}

std::string Puppet::Body::begin(std::istringstream& in) {
  size_t peer = 0;
  std::string wanted;
  Remote remote;
  in >> peer >> wanted >> remote.key >> remote.address;
  const auto verb =
      std::find_if(kFabricVerbs.begin(), kFabricVerbs.end(), [&](Verb known) { return wanted == verb_name(known); });
  if (verb == kFabricVerbs.end()) return "no such request";
  WorkList& list = begun.emplace_back();
  add_seven(&list, *verb, *peers.at(peer), remote, node.region->slice(8 * begun.size(), 8));
  return status_text(node.worker->post(&list));
}

std::string Puppet::Body::obey(const std::string& verb, std::istringstream& in) {
  if (verb == "put" || verb == "bytes" || verb == "region" || verb == "unregister") return memory_command(verb, in);
  if (verb == "receive" || verb == "release" || verb == "accept" || verb == "close") return message_command(verb, in);
  if (verb == "answer") return answer(in);
  if (verb == "begin") return begin(in);
  if (verb == "traffic") return "OK " + node.worker->traffic().text();
  if (verb == "agent") {
    agent = std::make_unique<Agent>(node, world.address(node.hello.node + kAgentNumber));
    return "OK " + agent->address;
  }
  if (verb == "flushed") return "OK " + std::to_string(agent->flushed.load());
  if (verb == "admit") {
    uint64_t epoch = 0;
    int credential = 0;
    in >> epoch >> credential;
    node.set_admit([epoch, credential](const Hello& hello, Hello* own) {
      if (hello.session < epoch) return Status::Unavailable("epoch " + std::to_string(hello.session) + " has ended");
      if (hello.credentials[0] != std::byte(credential)) return Status::InvalidArgument("wrong credentials");
      own->credentials[1] = hello.credentials[0];
      return Status::OK();
    });
    return "OK";
  }
  return "no such command";
}

Puppet::Puppet(World& world) : world_(world) {}
Puppet::~Puppet() = default;

std::string Puppet::obey(const std::string& command) {
  std::istringstream in(command);
  std::string verb;
  uint32_t number = 0;
  in >> verb;
  if (verb == "die") std::raise(SIGKILL);
  in >> number;
  if (verb == "make") {
    std::string rights;
    in >> rights;
    auto& body = bodies_[number];
    body.reset();
    body = std::make_unique<Body>(world_, number, parse_rights(rights));
    return "OK " + body->node.address + " " + describe(body->node.region->remote());
  }
  if (verb == "drop") {
    bodies_.erase(number);
    return "OK";
  }
  const auto found = bodies_.find(number);
  return found == bodies_.end() ? "no such node" : found->second->obey(verb, in);
}

}  // namespace bonsai::rdma
