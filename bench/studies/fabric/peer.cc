// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/fabric/peer.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/status_macros.h"
#include "base/thread.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kLimitMs = 10'000;
constexpr uint64_t kNapMs = 20;  // while a test needs nothing of this side, it is left alone
constexpr uint64_t kCreditEvery = FabricEnd::kSlots / 4;
constexpr uint64_t kListenMsMax = 20'000;
constexpr size_t kPeersMax = 16;

std::string file_text(const char* path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

bool is_sound(const PerftestOrder& order) {
  const auto within = [](uint64_t value, uint64_t low, uint64_t high) { return value >= low && value <= high; };
  const FabricCell& cell = order.cell;
  return cell.verb <= rdma::Verb::kSend && within(cell.bytes, kFabricBytesMin, kFabricBytesMax) &&
         within(cell.batch, 1, kFabricBatchMax) && within(cell.depth, 1, kFabricDepthMax) &&
         within(order.iterations, 1, 10'000'000) && within(order.port, 1024, 65535) && order.blocks <= 1;
}

Status FabricPeer::make(FabricEnd* end, const std::string& address, std::unique_ptr<FabricPeer>* peer) {
  std::unique_ptr<FabricPeer> made(new FabricPeer(end));
  BONSAI_RETURN_IF_ERROR(end->worker().listen(address, {.node = 1}, {}));
  *peer = std::move(made);
  return Status::OK();
}

FabricPeer::~FabricPeer() {
  for (auto& peer : peers_) end_.close(&peer);
}

void FabricPeer::look_after_connections() {
  if (served_ != nullptr && !served_->usable()) {
    served_ = nullptr;
    is_busy_ = false;
    ping_next_ = ping_end_;
    perftest_.reset();
  }
  for (auto& peer : peers_) {
    if (!peer->usable()) end_.close(&peer);
  }
  std::erase(peers_, nullptr);
  std::unique_ptr<rdma::Peer> peer;
  while (peers_.size() < kPeersMax && end_.worker().accept(0, &peer).ok()) peers_.push_back(std::move(peer));
}

void FabricPeer::step(uint64_t patience_ms) {
  const bool pings = ping_next_ != ping_end_;
  if (pings && pong(patience_ms)) return;
  rdma::Message message;
  if (end_.worker().receive(is_busy_ && !pings ? patience_ms : 0, &message).ok()) {
    handle(message);
    message = {};  // its buffer is free before the sender learns so
    if (served_ != nullptr) count_message();
    return;
  }
  look_after_connections();
  if (!is_busy_ && !pings && patience_ms > 0) base::sleep_ms(kNapMs);
}

void FabricPeer::handle(const rdma::Message& message) {
  OrderKind kind{};
  if (message.bytes().size() < sizeof kind) return;
  std::memcpy(&kind, message.bytes().data(), sizeof kind);
  FabricOrder order;
  if (kind == OrderKind::kEcho) {
    echo(message);
  } else if (kind == OrderKind::kGreet) {
    greet(message);
  } else if (kind != OrderKind::kData && FabricEnd::read_order(message, &order)) {
    obey(order);
  }
}

void FabricPeer::greet(const rdma::Message& message) {
  look_after_connections();
  const auto found = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const auto& peer) { return peer->hello().node == message.from(); });
  FabricOrder order;
  if (found == peers_.end() || !FabricEnd::read_order(message, &order)) return;
  served_ = found->get();
  memory_ = order.region;
  taken_ = 0;
  has_served_ = true;
  is_busy_ = false;
  ping_next_ = ping_end_;
  for (rdma::WorkList* list : {&credit_, &answer_}) {  // which may have failed with the connection of the node before
    if (!list->pending()) list->clear();
  }
  const rdma::Slice pings = end_.slice(FabricEnd::kPingAt, kFabricBytesMax);  // of the node that was served before
  std::memset(pings.data(), 0, pings.bytes());
  answer_order({.kind = OrderKind::kAnswer, .region = end_.remote()});
}

void FabricPeer::obey(const FabricOrder& order) {
  if (served_ == nullptr) return;
  switch (order.kind) {
    case OrderKind::kBusy:
      is_busy_ = true;
      return;
    case OrderKind::kIdle:
      is_busy_ = false;
      return;
    case OrderKind::kPing:
      if (order.bytes < kFabricBytesMin || order.bytes > kFabricBytesMax || order.bytes % sizeof(uint64_t) != 0) return;
      ping_bytes_ = order.bytes;
      ping_next_ = order.first;
      ping_end_ = order.first + order.count;
      return;
    case OrderKind::kPerftest: {
      const uint64_t listens = is_sound(order.perftest) && serve_perftest(order.perftest) ? 1 : 0;
      answer_order({.kind = OrderKind::kAnswer, .count = listens});
      return;
    }
    default:
      return;
  }
}

void FabricPeer::answer_order(const FabricOrder& answer) {
  if (end_.tell(*served_, answer, kLimitMs).ok()) return;
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const auto& peer) { return peer.get() == served_; });
  served_ = nullptr;
  end_.close(&*found);
  peers_.erase(found);
}

// The answer is where the message is, whose buffer is given back only when it has been sent: so it is copied.
void FabricPeer::echo(const rdma::Message& message) {
  if (served_ == nullptr || !end_.worker().wait(answer_, kLimitMs).ok()) return;
  const size_t bytes = std::min<size_t>(message.bytes().size(), kFabricBytesMax);
  std::memcpy(end_.slice(FabricEnd::kOutAt, bytes).data(), message.bytes().data(), bytes);
  answer_.clear();
  answer_.send(*served_, end_.slice(FabricEnd::kOutAt, bytes));
  static_cast<void>(end_.worker().post(&answer_));
}

// Answers a ping. False: none has come yet; the other end may not be running, or be gone.
bool FabricPeer::pong(uint64_t patience_ms) {
  const uint64_t last_word = ping_bytes_ - sizeof(uint64_t);
  const Status status = end_.worker().await("fabric.ping", patience_ms, [&] {
    return !answer_.pending() && end_.word(FabricEnd::kPingAt + last_word) == ping_next_;
  });
  if (!status.ok()) return false;
  end_.set_word(FabricEnd::kOutAt + last_word, ping_next_++);
  answer_.clear();
  answer_.write(*served_, end_.slice(FabricEnd::kOutAt, ping_bytes_), memory_.at(FabricEnd::kPingAt));
  static_cast<void>(end_.worker().post(&answer_));
  return true;
}

// The sender learns now and then how many buffers it may fill again.
void FabricPeer::count_message() {
  ++taken_;
  if (taken_ % kCreditEvery != 0) return;
  // Waited for, not left out: the sender may have used up all the others.
  if (!end_.worker().wait(credit_, kLimitMs).ok()) return;
  end_.set_word(FabricEnd::kOrderAt + sizeof(FabricOrder), taken_);
  credit_.clear();
  credit_.write(*served_, end_.slice(FabricEnd::kOrderAt + sizeof(FabricOrder), sizeof taken_),
                memory_.at(FabricEnd::kCreditAt));
  static_cast<void>(end_.worker().post(&credit_));
}

bool FabricPeer::serve_perftest(const PerftestOrder& order) {
  perftest_.reset();
  if (end_.device().empty()) return false;
  const std::vector<std::string> words = perftest_command(order, end_.device(), "");
  if (!base::ChildProcess::start(words, {.out = "/dev/null"}, &perftest_).ok()) return false;
  for (base::BoundedWait wait("perftest.listen", kListenMsMax); !wait.expired(); wait.pause()) {
    if (is_listening(file_text("/proc/net/tcp"), order.port)) return true;
  }
  return false;
}

}  // namespace bonsai::bench
