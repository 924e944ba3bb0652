// SPDX-License-Identifier: Apache-2.0
#include "server/service.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "base/with_memory.h"
#include "server/executor.h"
#include "server/sockets.h"

namespace bonsai::server {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;
using Descriptor = asio::posix::stream_descriptor;

constexpr size_t kReadBytes = size_t{16} << 10;     // of one connection in one turn
constexpr size_t kReadBytesMax = size_t{1} << 20;   // where a large request is expected
constexpr size_t kOutBytesKept = size_t{64} << 10;  // a larger buffer of replies is given back
constexpr size_t kAcceptedAtOnce = 64;              // before connections are served again
constexpr uint64_t kReleaseMs = 1'000;
constexpr auto kTick = std::chrono::milliseconds(100);
constexpr uint64_t kLingerNs = 500 * base::kNsPerMs;  // for a client to take its last replies
constexpr std::string_view kTooMany = "-ERR max number of clients reached\r\n";

struct Connection {
  Connection(asio::io_context* loop, int descriptor) : socket(*loop, descriptor) {}

  Client client;
  Descriptor socket;
  uint64_t heard_ns = 0;       // when it sent something last
  uint64_t took_ns = 0;        // when it took replies last, or had none to take
  uint64_t lingers_to_ns = 0;  // it gets nothing more, and what it sends is dropped; 0: not yet
  bool reading = false, writing = false, ready = false;
};
using Shared = std::shared_ptr<Connection>;

// One thread, its event loop and its connections.
class Worker {
 public:
  explicit Worker(State* state) : state_(*state), loop_(1), timer_(loop_) {}

  Status start(uint32_t number);
  // From any thread.
  void adopt(int descriptor, std::string peer);
  void begin_stop();
  void join() { thread_.join(); }
  [[nodiscard]] size_t connections() const { return count_.load(std::memory_order_relaxed); }
  asio::io_context& loop() { return loop_; }

 private:
  void run();
  void serve(int descriptor, const std::string& peer);
  void await_reading(const Shared& connection);
  void await_writing(const Shared& connection);
  void read(const Shared& connection);
  void make_ready(const Shared& connection);
  void take_turn();
  void end_turn(const Shared& connection, bool has_more);
  // Whether the connection is still open.
  bool send(const Shared& connection);
  void begin_close(const Shared& connection);
  void close(const Shared& connection);
  void tick();
  void check_times(const Shared& connection, uint64_t now_ns);

  State& state_;
  asio::io_context loop_;
  asio::steady_timer timer_;
  std::unique_ptr<Executor> executor_;
  std::unordered_map<uint64_t, Shared> connections_;
  std::atomic<size_t> count_{0};  // connections, and those on their way here
  std::vector<Shared> ready_, turn_;
  bool turn_posted_ = false, stopping_ = false;
  base::Thread thread_;
};

Status Worker::start(uint32_t number) {
  executor_ = Executor::make(&state_);
  if (executor_ == nullptr) return base::out_of_memory();
  tick();
  return base::Thread::start(
      "resp." + std::to_string(number), [this] { run(); }, &thread_);
}

void Worker::run() {
  for (;;) {
    try {
      loop_.run();
      return;
    } catch (const std::bad_alloc&) {  // of Asio, for one handler
      base::memory_ran_out();
    }
  }
}

void Worker::adopt(int descriptor, std::string peer) {
  count_.fetch_add(1, std::memory_order_relaxed);
  state_.counters.connections.fetch_add(1, std::memory_order_relaxed);
  asio::post(loop_, [this, descriptor, peer = std::move(peer)] { serve(descriptor, peer); });
}

void Worker::serve(int descriptor, const std::string& peer) {
  try {
    auto connection = std::make_shared<Connection>(&loop_, descriptor);
    connection->client.id = state_.clients.fetch_add(1) + 1;
    connection->client.address = peer;
    connection->client.connected_ns = connection->heard_ns = connection->took_ns = base::now_ns();
    connections_.emplace(connection->client.id, connection);
    if (stopping_) return close(connection);
    await_reading(connection);
  } catch (const std::exception&) {  // no memory, or epoll takes no more
    ::close(descriptor);
    count_.fetch_sub(1, std::memory_order_relaxed);
    state_.counters.connections.fetch_sub(1, std::memory_order_relaxed);
  }
}

void Worker::await_reading(const Shared& connection) {
  if (connection->reading || !connection->socket.is_open()) return;
  connection->reading = true;
  connection->socket.async_wait(Descriptor::wait_read, [this, connection](const Error& error) {
    connection->reading = false;
    if (!error && connection->socket.is_open()) read(connection);
  });
}

void Worker::await_writing(const Shared& connection) {
  if (connection->writing || !connection->socket.is_open()) return;
  connection->writing = true;
  connection->socket.async_wait(Descriptor::wait_write, [this, connection](const Error& error) {
    connection->writing = false;
    if (!error && connection->socket.is_open()) end_turn(connection, true);
  });
}

void Worker::read(const Shared& connection) {
  Client& client = connection->client;
  ssize_t got = -1;
  const Status status = base::with_memory([&] {
    const size_t wanted = client.parser.wanted();
    const size_t more = wanted > client.in.size() ? wanted - client.in.size() : 0;
    const size_t room = std::clamp(more, kReadBytes, kReadBytesMax);
    got = ::recv(connection->socket.native_handle(), client.in.prepare(room), room, MSG_DONTWAIT);
    if (got > 0) client.in.commit(static_cast<size_t>(got));
    return Status::OK();
  });
  if (!status.ok()) return close(connection);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return await_reading(connection);
  if (got < 0) return close(connection);
  if (connection->lingers_to_ns != 0) {  // what it sends is dropped
    client.in.consume(client.in.size());
    return got == 0 ? close(connection) : await_reading(connection);
  }
  if (got == 0) {
    client.ending = true;
    return end_turn(connection, false);
  }
  state_.counters.bytes_in.fetch_add(static_cast<uint64_t>(got), std::memory_order_relaxed);
  connection->heard_ns = base::now_ns();
  make_ready(connection);
}

// The turn is queued behind all that the loop has found readable, and so executes it together.
void Worker::make_ready(const Shared& connection) {
  if (!std::exchange(connection->ready, true)) ready_.push_back(connection);
  if (!std::exchange(turn_posted_, true)) asio::post(loop_, [this] { take_turn(); });
}

void Worker::take_turn() {
  turn_posted_ = false;
  turn_.swap(ready_);
  std::vector<bool> has_more;
  const uint64_t begun_ns = base::now_ns();
  try {
    has_more.reserve(turn_.size());
    for (const Shared& connection : turn_) {
      connection->ready = false;
      has_more.push_back(connection->socket.is_open() && executor_->run(&connection->client));
    }
    executor_->finish();
    state_.counters.add_latency(base::now_ns() - begun_ns, executor_->take_requests());
  } catch (const std::bad_alloc&) {
    base::memory_ran_out();
    executor_->abandon();
    has_more.clear();
  }
  for (size_t i = 0; i < turn_.size(); ++i) {
    turn_[i]->ready = false;
    if (turn_[i]->socket.is_open()) end_turn(turn_[i], i >= has_more.size() || has_more[i]);
  }
  turn_.clear();
}

// Sends replies, and goes on with the connection. `has_more`: perhaps it has complete requests.
void Worker::end_turn(const Shared& connection, bool has_more) {
  Client& client = connection->client;
  if (client.lost) return close(connection);
  client.in.trim();
  if (!send(connection)) return;
  if (client.unsent() != 0) await_writing(connection);
  if (client.ending) {
    if (client.unsent() == 0) begin_close(connection);
    return;
  }
  if (client.unsent() >= Executor::kUnsentMax) return;  // until they are taken
  if (has_more && client.in.size() != 0) return make_ready(connection);
  await_reading(connection);
}

bool Worker::send(const Shared& connection) {
  Client& client = connection->client;
  while (client.unsent() != 0) {
    const ssize_t taken = ::send(connection->socket.native_handle(), client.out.data() + client.sent, client.unsent(),
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0 && errno == EAGAIN) return true;
    if (taken < 0) return close(connection), false;
    client.sent += static_cast<size_t>(taken);
    connection->took_ns = base::now_ns();
    state_.counters.bytes_out.fetch_add(static_cast<uint64_t>(taken), std::memory_order_relaxed);
  }
  client.sent = 0;
  client.out.clear();
  if (client.out.capacity() > kOutBytesKept) client.out.shrink_to_fit();
  return true;
}

// Closing at once would reset the connection if the client has sent more, and so drop replies on their way to it.
void Worker::begin_close(const Shared& connection) {
  if (connection->lingers_to_ns != 0) return;
  connection->lingers_to_ns = base::now_ns() + kLingerNs;
  if (::shutdown(connection->socket.native_handle(), SHUT_WR) != 0) return close(connection);
  await_reading(connection);
}

void Worker::close(const Shared& connection) {
  if (!connection->socket.is_open()) return;
  Error ignored;
  connection->socket.close(ignored);
  connections_.erase(connection->client.id);
  count_.fetch_sub(1, std::memory_order_relaxed);
  state_.counters.connections.fetch_sub(1, std::memory_order_relaxed);
}

void Worker::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const Error& error) {
    if (error || (stopping_ && connections() == 0)) return;  // the loop has nothing more to do
    tick();
    state_.snapshots.drop_expired();
    const uint64_t now_ns = base::now_ns();
    std::vector<Shared> all;
    all.reserve(connections_.size());
    for (const auto& [id, connection] : connections_) all.push_back(connection);
    for (const Shared& connection : all) check_times(connection, now_ns);
  });
}

void Worker::check_times(const Shared& connection, uint64_t now_ns) {
  const auto is_past = [now_ns](uint64_t since_ns, uint32_t seconds) {
    return seconds != 0 && now_ns > since_ns && now_ns - since_ns > seconds * base::kNsPerSecond;
  };
  const uint64_t watch_ns = state_.config.watch_s * base::kNsPerSecond;
  connection->client.transaction.end_watch_before(now_ns - std::min(now_ns, watch_ns));
  if (connection->lingers_to_ns != 0) {
    if (now_ns > connection->lingers_to_ns) close(connection);
  } else if (connection->client.unsent() == 0) {
    connection->took_ns = now_ns;
    if (!is_past(connection->heard_ns, state_.config.idle_s)) return;
    state_.counters.closed_idle.fetch_add(1, std::memory_order_relaxed);
    close(connection);
  } else if (is_past(connection->took_ns, state_.config.slow_s) ||
             (stopping_ && now_ns > connection->took_ns + kLingerNs)) {
    state_.counters.closed_slow.fetch_add(1, std::memory_order_relaxed);
    close(connection);
  }
}

void Worker::begin_stop() {
  asio::post(loop_, [this] {
    if (!ready_.empty()) take_turn();
    stopping_ = true;
    std::vector<Shared> all;
    for (const auto& [id, connection] : connections_) all.push_back(connection);
    for (const Shared& connection : all) {
      connection->client.ending = true;
      end_turn(connection, false);
    }
  });
}

class ServiceImpl final : public Service {
 public:
  explicit ServiceImpl(State* state) : state_(*state) {}
  ~ServiceImpl() override { end(); }

  Status open();
  void stop() override { end(); }
  [[nodiscard]] std::vector<std::string> addresses() const override;

 private:
  struct Listener {
    ListeningSocket socket;
    std::unique_ptr<Descriptor> descriptor;
  };

  void end();
  void release_listeners();
  void await_connections(Listener* listener);
  void accept(Listener* listener);
  void admit(int descriptor, std::string peer);

  State& state_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Listener>> listeners_;  // on the loop of the first worker
  std::unique_ptr<asio::steady_timer> retry_;
  bool serving_ = false, stopped_ = false;
  base::Event released_;  // the listeners are; it outlives the worker that signals it
};

Status ServiceImpl::open() {
  for (const Address& address : state_.config.listen) {
    auto& listener = listeners_.emplace_back(std::make_unique<Listener>());
    BONSAI_RETURN_IF_ERROR(ListeningSocket::open(address, &listener->socket));
  }
  for (uint32_t i = 0; i < state_.config.threads; ++i) workers_.push_back(std::make_unique<Worker>(&state_));
  asio::io_context& loop = workers_.front()->loop();
  retry_ = std::make_unique<asio::steady_timer>(loop);
  for (const auto& listener : listeners_) {
    listener->descriptor = std::make_unique<Descriptor>(loop, listener->socket.descriptor());
    await_connections(listener.get());
  }
  for (uint32_t i = 0; i < workers_.size(); ++i) BONSAI_RETURN_IF_ERROR(workers_[i]->start(i));
  serving_ = true;
  return Status::OK();
}

std::vector<std::string> ServiceImpl::addresses() const {
  std::vector<std::string> texts;
  for (const auto& listener : listeners_) texts.push_back(listener->socket.address().text());
  return texts;
}

void ServiceImpl::await_connections(Listener* listener) {
  listener->descriptor->async_wait(Descriptor::wait_read, [this, listener](const Error& error) {
    if (!error && listener->descriptor->is_open()) accept(listener);
  });
}

void ServiceImpl::accept(Listener* listener) {
  for (size_t i = 0; i < kAcceptedAtOnce; ++i) {
    std::string peer;
    const int descriptor = listener->socket.accept(&peer);
    if (descriptor >= 0) {
      admit(descriptor, std::move(peer));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      // It stays readable; look again when connections may have been closed.
      state_.counters.refused.fetch_add(1, std::memory_order_relaxed);
      retry_->expires_after(kTick);
      return retry_->async_wait([this, listener](const Error& error) {
        if (!error && listener->descriptor->is_open()) await_connections(listener);
      });
    } else if (errno == EAGAIN) {
      break;
    }
  }
  await_connections(listener);
}

void ServiceImpl::admit(int descriptor, std::string peer) {
  state_.counters.accepted.fetch_add(1, std::memory_order_relaxed);
  if (state_.counters.connections.load(std::memory_order_relaxed) >= state_.config.connections_max) {
    state_.counters.refused.fetch_add(1, std::memory_order_relaxed);
    static_cast<void>(::send(descriptor, kTooMany.data(), kTooMany.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    ::close(descriptor);
    return;
  }
  const auto emptiest = std::min_element(workers_.begin(), workers_.end(), [](const auto& a, const auto& b) {
    return a->connections() < b->connections();
  });
  (*emptiest)->adopt(descriptor, std::move(peer));
}

void ServiceImpl::end() {
  if (std::exchange(stopped_, true)) return;
  if (serving_) {
    asio::post(workers_.front()->loop(), [this] {
      release_listeners();
      released_.signal();
    });
    while (!released_.wait_for(kReleaseMs)) continue;  // a turn before it may take as long as a stall
  }
  for (const auto& worker : workers_) worker->begin_stop();
  for (const auto& worker : workers_) worker->join();
  release_listeners();
  retry_.reset();
  listeners_.clear();
  workers_.clear();
}

// The sockets are closed by ListeningSocket.
void ServiceImpl::release_listeners() {
  if (retry_ != nullptr) retry_->cancel();
  for (const auto& listener : listeners_) {
    if (listener->descriptor != nullptr && listener->descriptor->is_open()) listener->descriptor->release();
  }
}

}  // namespace

Status Service::start(State* state, std::unique_ptr<Service>* service) {
  return base::with_memory([&] {
    auto made = std::make_unique<ServiceImpl>(state);
    BONSAI_RETURN_IF_ERROR(made->open());
    *service = std::move(made);
    return Status::OK();
  });
}

}  // namespace bonsai::server
