// What every provider must do, through the interface only. A provider joins by a line in kProviders.
#include "rdma/fabric.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/coro/scheduler.h"
#include "base/thread.h"
#include "rdma/loopback.h"
#include "rdma/testing.h"

namespace bonsai::rdma {
namespace {

constexpr uint64_t kLimitMs = 10'000;

// A provider's world, in which nodes can be made.
class World {
 public:
  virtual ~World() = default;
  virtual std::unique_ptr<Fabric> make_fabric() = 0;
};

class LoopbackWorld final : public World {
 public:
  std::unique_ptr<Fabric> make_fabric() override { return network_.make_fabric(); }

 private:
  LoopbackNetwork network_;
};

struct Provider {
  const char* name;
  std::unique_ptr<World> (*make)();
};
const Provider kProviders[] = {
    {"loopback", [] { return std::unique_ptr<World>(std::make_unique<LoopbackWorld>()); }},
};

// A node with memory of its own and one worker.
struct Node {
  static constexpr size_t kBytes = 8192;
  static constexpr size_t kMessageBytes = 128;

  explicit Node(World& world, uint32_t number, Rights rights = Rights::all()) : fabric(world.make_fabric()) {
    hello.node = number;
    EXPECT_TRUE(fabric->register_region(std::as_writable_bytes(std::span(words)), rights, &region).ok());
    EXPECT_TRUE(fabric->register_region(std::as_writable_bytes(std::span(ring)), Rights::none(), &ring_region).ok());
    EXPECT_TRUE(fabric->make_worker(&worker).ok());
    EXPECT_TRUE(worker->set_receive_ring(ring_region->slice(0, 4 * kMessageBytes), kMessageBytes).ok());
    EXPECT_TRUE(worker->listen(address(), hello, [this](const Hello& other) { return admit(other); }).ok());
  }
  [[nodiscard]] std::string address() const { return "node" + std::to_string(hello.node); }
  [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(words.data()); }
  std::unique_ptr<Peer> connect(const Node& other) {
    std::unique_ptr<Peer> peer;
    const Status status = worker->connect(other.address(), hello, kLimitMs, &peer);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return peer;
  }
  [[nodiscard]] std::string text(size_t offset, size_t n) { return {reinterpret_cast<char*>(bytes()) + offset, n}; }
  Slice put(size_t offset, const std::string& text) {
    std::memcpy(bytes() + offset, text.data(), text.size());
    return region->slice(offset, text.size());
  }

  Hello hello;
  std::function<Status(const Hello&)> admit = [](const Hello&) { return Status::OK(); };
  std::vector<uint64_t> words = std::vector<uint64_t>(kBytes / 8);
  std::vector<uint64_t> ring = std::vector<uint64_t>(4 * kMessageBytes / 8);
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Region> region, ring_region;
  std::unique_ptr<Worker> worker;
};

class FabricTest : public ::testing::TestWithParam<Provider> {
 protected:
  std::unique_ptr<World> world_ = GetParam().make();
  Node here_{*world_, 1};
  Node there_{*world_, 2};
};

TEST_P(FabricTest, WritesAndReadsBytes) {
  const auto peer = here_.connect(there_);
  WorkList list;
  list.write(*peer, here_.put(0, "hello, far away"), there_.region->remote().at(101));
  list.read(*peer, there_.region->remote().at(103), here_.region->slice(1000, 10));
  ASSERT_TRUE(here_.worker->run(&list, kLimitMs).ok());
  EXPECT_EQ(there_.text(101, 15), "hello, far away");
  EXPECT_EQ(here_.text(1000, 10), "llo, far a");
  EXPECT_EQ(here_.text(1010, 1), std::string(1, '\0')) << "no byte more";
}

TEST_P(FabricTest, CasAndFaaAnswerTheOldValue) {
  const auto peer = here_.connect(there_);
  const RemoteRegion remote = there_.region->remote();
  there_.words[3] = 40;
  WorkList list;
  list.cas(*peer, remote.at(24), 40, 41, here_.region->slice(0, 8));
  list.cas(*peer, remote.at(24), 40, 99, here_.region->slice(8, 8));
  list.faa(*peer, remote.at(24), 2, here_.region->slice(16, 8));
  list.faa(*peer, remote.at(24), ~uint64_t{0}, here_.region->slice(24, 8));
  ASSERT_TRUE(here_.worker->run(&list, kLimitMs).ok());
  EXPECT_EQ(here_.words[0], 40u);
  EXPECT_EQ(here_.words[1], 41u) << "a failed CAS tells what it met";
  EXPECT_EQ(here_.words[2], 41u);
  EXPECT_EQ(here_.words[3], 43u);
  EXPECT_EQ(there_.words[3], 42u);
}

TEST_P(FabricTest, MessagesArriveInOrderAndNameTheirSender) {
  const auto peer = here_.connect(there_);
  WorkList list;
  list.send(*peer, here_.put(0, "one"));
  list.send(*peer, here_.put(16, "second"));
  list.send(*peer, here_.region->slice(32, 0));
  ASSERT_TRUE(here_.worker->run(&list, kLimitMs).ok());
  for (const std::string expected : {"one", "second", ""}) {
    Message message;
    ASSERT_TRUE(there_.worker->receive(kLimitMs, &message).ok());
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(message.bytes().data()), message.bytes().size()), expected);
    EXPECT_EQ(message.from(), 1u);
  }
  Message none;
  EXPECT_TRUE(there_.worker->receive(1, &none).IsUnavailable());
  EXPECT_EQ(there_.worker->traffic().received, (Traffic::Flow{3, 9}));
}

TEST_P(FabricTest, BuffersAreGivenBackAndTheirLackIsSaid) {
  auto peer = here_.connect(there_);
  Message held[4];
  for (int round = 0; round < 3; ++round) {  // the ring has four buffers
    WorkList list;
    for (int i = 0; i < 4; ++i) list.send(*peer, here_.put(0, "x"));
    ASSERT_TRUE(here_.worker->run(&list, kLimitMs).ok()) << round;
    for (Message& message : held) ASSERT_TRUE(there_.worker->receive(kLimitMs, &message).ok());
    for (Message& message : held) message = Message();
  }
  WorkList list;
  for (int i = 0; i < 5; ++i) list.send(*peer, here_.put(0, "x"));
  EXPECT_TRUE(here_.worker->run(&list, kLimitMs).IsUnavailable());
  EXPECT_EQ(list.outcome(3), Outcome::kDone);
  EXPECT_EQ(list.outcome(4), Outcome::kReceiverNotReady);
  peer = here_.connect(there_);
  WorkList too_long;
  too_long.send(*peer, here_.region->slice(0, Node::kMessageBytes + 1));
  EXPECT_TRUE(here_.worker->run(&too_long, kLimitMs).IsInvalidArgument());
  EXPECT_EQ(too_long.outcome(0), Outcome::kMessageTooLong);
}

TEST_P(FabricTest, TheAcceptedEndCanAnswer) {
  const auto peer = here_.connect(there_);
  std::unique_ptr<Peer> back;
  ASSERT_TRUE(there_.worker->accept(kLimitMs, &back).ok());
  EXPECT_EQ(back->hello().node, 1u);
  EXPECT_EQ(peer->hello().node, 2u);
  WorkList list;
  list.write(*back, there_.put(0, "flushed"), here_.region->remote().at(64));
  list.send(*back, there_.region->slice(0, 7));
  ASSERT_TRUE(there_.worker->run(&list, kLimitMs).ok());
  Message message;
  ASSERT_TRUE(here_.worker->receive(kLimitMs, &message).ok());
  EXPECT_EQ(here_.text(64, 7), "flushed");
  EXPECT_TRUE(there_.worker->accept(1, &back).IsUnavailable());
}

TEST_P(FabricTest, CostIsCountedExactly) {
  Node third(*world_, 3);
  const auto near_one = here_.connect(there_);
  const auto near_two = here_.connect(third);
  {  // a 3-stripe read over two nodes: one round trip, three messages
    const Budget budget(*here_.worker, {.round_trips = 1, .doorbells = 2, .messages = 3, .bytes = 3 * 64});
    WorkList list;
    for (size_t i = 0; i < 3; ++i) {
      Node& node = i == 1 ? third : there_;
      list.read(i == 1 ? *near_two : *near_one, node.region->remote().at(64 * i), here_.region->slice(64 * i, 64));
    }
    ASSERT_TRUE(here_.worker->run(&list, kLimitMs).ok());
  }
  {  // what is dependent goes in one doorbell
    const Budget budget(*here_.worker, {.round_trips = 1, .doorbells = 1, .messages = 2, .bytes = 24});
    WorkList list;
    list.write(*near_one, here_.region->slice(0, 16), there_.region->remote().at(0));
    list.faa(*near_one, there_.region->remote().at(16), 1, here_.region->slice(16, 8));
    ASSERT_TRUE(here_.worker->run(&list, kLimitMs).ok());
  }
  {  // nothing costs nothing
    const Budget budget(*here_.worker, {});
    WorkList list;
    EXPECT_TRUE(here_.worker->run(&list, kLimitMs).ok());
  }
  EXPECT_EQ(here_.worker->traffic().of(Verb::kRead), (Traffic::Flow{3, 192}));
  EXPECT_EQ(there_.worker->traffic(), Traffic()) << "one-sided: the other side does nothing";
}

TEST_P(FabricTest, AListIsPendingUntilPolled) {
  const auto peer = here_.connect(there_);
  WorkList list;
  list.read(*peer, there_.region->remote().at(0), here_.region->slice(0, 8));
  ASSERT_TRUE(here_.worker->post(&list).ok());
  EXPECT_TRUE(list.pending());
  ASSERT_TRUE(here_.worker->wait(list, kLimitMs).ok());
  EXPECT_FALSE(list.pending());
  EXPECT_EQ(here_.worker->poll(), 0u);
}

TEST_P(FabricTest, PendingListsAreBounded) {
  const auto peer = here_.connect(there_);
  const size_t bound = here_.fabric->capabilities().lists_pending_max;
  std::vector<std::unique_ptr<WorkList>> lists;
  for (size_t i = 0; i <= bound; ++i) {
    lists.push_back(std::make_unique<WorkList>());
    lists.back()->faa(*peer, there_.region->remote().at(0), 1, here_.region->slice(0, 8));
    EXPECT_EQ(here_.worker->post(lists.back().get()).ok(), i < bound) << i;
  }
  EXPECT_EQ(here_.worker->traffic().round_trips, bound) << "what was refused is not counted";
  for (size_t i = 0; i < bound; ++i) EXPECT_TRUE(here_.worker->wait(*lists[i], kLimitMs).ok());
  EXPECT_FALSE(lists[bound]->pending());
  EXPECT_TRUE(here_.worker->run(lists[bound].get(), kLimitMs).ok());
  EXPECT_EQ(there_.words[0], bound + 1);
}

TEST_P(FabricTest, CoroutinesRunWhileOneWaits) {
  const auto peer = here_.connect(there_);
  std::vector<std::string> order;
  base::Scheduler scheduler;
  for (size_t i = 0; i < 2; ++i) {
    scheduler.spawn([&, i] {
      for (size_t step = 0; step < 2; ++step) {
        WorkList list;
        list.faa(*peer, there_.region->remote().at(0), 1, here_.region->slice(8 * i, 8));
        EXPECT_TRUE(here_.worker->post(&list).ok());
        order.push_back("post" + std::to_string(i));
        EXPECT_TRUE(here_.worker->wait(list, kLimitMs).ok());
        order.push_back("done" + std::to_string(i));
      }
    });
  }
  ASSERT_TRUE(scheduler.run().ok());
  ASSERT_EQ(order.size(), 8u);
  EXPECT_EQ(order[0], "post0");
  EXPECT_EQ(order[1], "post1") << "the sibling posts while the first waits";
  EXPECT_EQ(there_.words[0], 4u);
}

INSTANTIATE_TEST_SUITE_P(, FabricTest, ::testing::ValuesIn(kProviders),
                         [](const auto& provider) { return std::string(provider.param.name); });

class FabricFaultTest : public FabricTest {};

// Sends `list` and checks how its first request ends, that the connection is broken, and that a new one works.
void expect_fault(Node& here, Node& there, Peer& peer, WorkList& list, Outcome outcome) {
  list.write(peer, here.put(512, "later"), there.region->remote().at(512));
  const Status status = here.worker->run(&list, kLimitMs);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(list.outcome(0), outcome) << outcome_name(list.outcome(0));
  EXPECT_EQ(list.outcome(1), Outcome::kFlushed);
  EXPECT_NE(there.text(512, 5), "later");
  EXPECT_FALSE(peer.usable());
  WorkList again;
  again.write(peer, here.put(512, "later"), there.region->remote().at(512));
  EXPECT_TRUE(here.worker->run(&again, kLimitMs).IsUnavailable());
  EXPECT_EQ(again.outcome(0), Outcome::kFlushed);
  again.clear();
  const auto fresh = here.connect(there);
  again.write(*fresh, here.put(512, "later"), there.region->remote().at(512));
  EXPECT_TRUE(here.worker->run(&again, kLimitMs).ok());
  EXPECT_EQ(there.text(512, 5), "later");
}

TEST_P(FabricFaultTest, AccessOutsideTheRegion) {
  for (const uint64_t offset : {uint64_t{Node::kBytes - 7}, uint64_t{Node::kBytes}, ~uint64_t{0}, uint64_t{1} << 40}) {
    there_.put(512, "-----");
    const auto peer = here_.connect(there_);
    WorkList list;
    list.write(*peer, here_.region->slice(0, 8), there_.region->remote().at(offset));
    expect_fault(here_, there_, *peer, list, Outcome::kRemoteAccess);
  }
}

TEST_P(FabricFaultTest, KeyThatIsGoneOrGuessed) {
  std::vector<uint64_t> memory(8);
  std::unique_ptr<Region> region;
  ASSERT_TRUE(there_.fabric->register_region(std::as_writable_bytes(std::span(memory)), Rights::all(), &region).ok());
  RemoteRegion remote = region->remote();
  region.reset();
  for (int i = 0; i < 2; ++i, ++remote.key) {
    there_.put(512, "-----");
    const auto peer = here_.connect(there_);
    WorkList list;
    list.faa(*peer, remote.at(0), 1, here_.region->slice(0, 8));
    expect_fault(here_, there_, *peer, list, Outcome::kRemoteAccess);
  }
  EXPECT_EQ(memory[0], 0u);
}

TEST_P(FabricFaultTest, RightsAreKept) {
  std::vector<uint64_t> memory(8);
  for (const Verb refused : {Verb::kRead, Verb::kWrite, Verb::kFaa}) {
    there_.put(512, "-----");
    Rights rights = Rights::all();
    (refused == Verb::kRead ? rights.read : refused == Verb::kWrite ? rights.write : rights.atomic) = false;
    std::unique_ptr<Region> region;
    ASSERT_TRUE(there_.fabric->register_region(std::as_writable_bytes(std::span(memory)), rights, &region).ok());
    const auto peer = here_.connect(there_);
    WorkList list;
    const Slice word = here_.region->slice(0, 8);
    if (refused == Verb::kRead) list.read(*peer, region->remote().at(0), word);
    if (refused == Verb::kWrite) list.write(*peer, word, region->remote().at(0));
    if (refused == Verb::kFaa) list.faa(*peer, region->remote().at(0), 1, word);
    expect_fault(here_, there_, *peer, list, Outcome::kRemoteAccess);
  }
  EXPECT_EQ(memory, std::vector<uint64_t>(8));
}

TEST_P(FabricFaultTest, MisalignedAtomicAndForeignMemory) {
  there_.put(512, "-----");
  auto peer = here_.connect(there_);
  WorkList list;
  list.cas(*peer, there_.region->remote().at(4), 0, 1, here_.region->slice(0, 8));
  expect_fault(here_, there_, *peer, list, Outcome::kMisaligned);
  there_.put(512, "-----");
  peer = here_.connect(there_);
  WorkList foreign;
  foreign.read(*peer, there_.region->remote().at(0), there_.region->slice(64, 8));
  expect_fault(here_, there_, *peer, foreign, Outcome::kLocalAccess);
}

TEST_P(FabricFaultTest, AFaultConcernsItsPeerOnly) {
  Node third(*world_, 3);
  const auto bad = here_.connect(there_);
  const auto good = here_.connect(third);
  WorkList list;
  list.read(*bad, there_.region->remote().at(Node::kBytes), here_.region->slice(0, 8));
  list.write(*good, here_.put(0, "fine"), third.region->remote().at(0));
  list.read(*bad, there_.region->remote().at(0), here_.region->slice(0, 8));
  EXPECT_TRUE(here_.worker->run(&list, kLimitMs).IsInvalidArgument());
  EXPECT_EQ(list.outcome(1), Outcome::kDone);
  EXPECT_EQ(list.outcome(2), Outcome::kFlushed);
  EXPECT_EQ(third.text(0, 4), "fine");
  EXPECT_TRUE(good->usable());
}

TEST_P(FabricFaultTest, APeerThatLeft) {
  const auto peer = here_.connect(there_);
  std::unique_ptr<Peer> far_end;
  ASSERT_TRUE(there_.worker->accept(kLimitMs, &far_end).ok());
  far_end.reset();
  WorkList list;
  list.read(*peer, there_.region->remote().at(0), here_.region->slice(0, 8));
  there_.put(512, "-----");
  expect_fault(here_, there_, *peer, list, Outcome::kUnreachable);
}

TEST_P(FabricFaultTest, ConnectionsAreRefusedWithAReason) {
  std::unique_ptr<Peer> peer;
  EXPECT_TRUE(here_.worker->connect("nowhere", here_.hello, 1, &peer).IsUnavailable());
  Hello newer = here_.hello;
  newer.version = kProtocolVersion + 1;
  EXPECT_TRUE(here_.worker->connect(there_.address(), newer, kLimitMs, &peer).IsNotSupported());
  there_.admit = [](const Hello& hello) {
    if (hello.epoch < 5) return Status::Unavailable("epoch " + std::to_string(hello.epoch) + " has ended");
    return hello.credentials[0] == std::byte{7} ? Status::OK() : Status::InvalidArgument("wrong credentials");
  };
  Hello hello = here_.hello;
  EXPECT_TRUE(here_.worker->connect(there_.address(), hello, kLimitMs, &peer).IsUnavailable());
  hello.epoch = 5;
  EXPECT_TRUE(here_.worker->connect(there_.address(), hello, kLimitMs, &peer).IsInvalidArgument());
  EXPECT_EQ(peer, nullptr);
  hello.credentials[0] = std::byte{7};
  EXPECT_TRUE(here_.worker->connect(there_.address(), hello, kLimitMs, &peer).ok());
}

TEST_P(FabricFaultTest, BadSetUpIsRefused) {
  std::unique_ptr<Region> region;
  EXPECT_TRUE(here_.fabric->register_region({}, Rights::all(), &region).IsInvalidArgument());
  std::unique_ptr<Worker> worker;
  ASSERT_TRUE(here_.fabric->make_worker(&worker).ok());
  EXPECT_TRUE(worker->listen(there_.address(), here_.hello, {}).IsBusy());
  EXPECT_TRUE(worker->listen("", here_.hello, {}).IsInvalidArgument());
  EXPECT_TRUE(here_.worker->listen("second", here_.hello, {}).IsInvalidArgument());
  EXPECT_TRUE(here_.worker->set_receive_ring(here_.ring_region->slice(0, 64), 64).IsInvalidArgument()) << "set already";
  EXPECT_TRUE(worker->set_receive_ring(here_.ring_region->slice(0, 64), 65).IsInvalidArgument());
  EXPECT_TRUE(worker->set_receive_ring(here_.ring_region->slice(0, 64), 0).IsInvalidArgument());
}

INSTANTIATE_TEST_SUITE_P(, FabricFaultTest, ::testing::ValuesIn(kProviders),
                         [](const auto& provider) { return std::string(provider.param.name); });

}  // namespace
}  // namespace bonsai::rdma
