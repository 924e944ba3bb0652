// SPDX-License-Identifier: Apache-2.0
// Connections through librdmacm: the thread that receives their events, and one connection with its queue pair.
//
// This code sets up the queue pair instead of librdmacm, so that it can choose MTU, time-outs and retries.
#ifndef BONSAI_RDMA_VERBS_LINK_H_
#define BONSAI_RDMA_VERBS_LINK_H_

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/nvm/os_file.h"
#include "base/thread.h"
#include "bonsai/status.h"
#include "rdma/fabric.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/handles.h"

namespace bonsai::rdma::verbs {

// The destructor waits until the reported events of the identifier have been handled.
using ConnectionId = std::unique_ptr<rdma_cm_id, Destroy<rdma_destroy_id>>;

// Receives the events of an identifier; its context. Called on the thread of Events; must not destroy the identifier.
class EventSink {
 public:
  virtual void on_event(const rdma_cm_event& event) = 0;

 protected:
  ~EventSink() = default;
};

// A channel of connection events and the thread that dispatches them.
class Events {
 public:
  static Status make(std::unique_ptr<Events>* events);
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  // Requires: `sink` outlives the identifier.
  Status make_id(EventSink* sink, ConnectionId* id);

 private:
  Events() = default;
  void run();

  std::unique_ptr<rdma_event_channel, Destroy<rdma_destroy_event_channel>> channel_;
  base::OsFile stop_;
  base::Thread thread_;
};

// "host:port" as a socket address. Errors: InvalidArgument.
Status parse_address(const std::string& text, sockaddr_storage* address);
// In numbers: "10.0.0.1:7000", or "10.0.0.1".
std::string address_text(const sockaddr& address, bool with_port);

// The first message in either direction; little-endian machines only. It fits the 56 bytes of a request.
struct Greeting {
  Hello hello;
  uint8_t mtu_code = 0;  // the maximum of the sender; 0: any
  uint8_t reserved[7] = {};
};
static_assert(sizeof(Greeting) == 56);

class Link final : public EventSink {
 public:
  // The resources that a worker shares with all of its links. Requires: outlives them.
  struct Queues {
    const Device* device;
    ibv_cq* completions;
    ibv_srq* receives;
    std::function<void()> on_change;  // called on the event thread
  };

  ~Link();

  // Connects as `own`; retries until a peer listens. Errors: as Worker::greet.
  static Status connect(Events& events, const Queues& queues, const std::string& address, const Hello& own,
                        uint64_t limit_ms, std::unique_ptr<Link>* link, Challenge* challenge);
  // Accepts the connection request `id` and takes ownership of it. Called on the event thread.
  static Status accept(ConnectionId id, const Queues& queues, const rdma_conn_param& asked, const Greeting& other,
                       const Hello& own, std::unique_ptr<Link>* link);

  [[nodiscard]] ibv_qp* pair() const { return pair_.get(); }
  [[nodiscard]] uint32_t number() const { return number_; }  // of the queue pair, valid even after that is destroyed
  [[nodiscard]] const Hello& other() const { return other_; }
  [[nodiscard]] bool established() const { return state_.load() == State::kEstablished; }
  [[nodiscard]] bool gone() const { return state_.load() == State::kGone; }

  // A message came from the other end, so the connection is complete there.
  void heard() {
    State coming = State::kComing;
    state_.compare_exchange_strong(coming, State::kEstablished);
  }

  // Stops the queue pair, so that no posted request starts any more, and informs the other end.
  void disconnect();
  // After disconnect(): destroys the queue pair. The device touches no memory on its behalf from here on.
  void destroy_pair() { pair_.reset(); }

  void on_event(const rdma_cm_event& event) override;

 private:
  enum class State : uint8_t { kComing, kEstablished, kGone };
  // The last step of a connection that the event thread has seen.
  struct Step {
    rdma_cm_event_type type;
    int status;
    std::string private_data;
  };

  explicit Link(const Queues& queues) : queues_(queues) {}
  Status try_connect(Events& events, const sockaddr_storage& to, const Hello& own, uint64_t deadline_ns, bool* nobody);
  Status refused(const Step& step, bool* nobody);
  Status await(rdma_cm_event_type expected, uint64_t deadline_ns, Step* step, bool* nobody);
  Status make_pair();
  Status bring_up(uint8_t mtu_limit);
  Status change_state(ibv_qp_state state, uint8_t mtu_limit);
  [[nodiscard]] rdma_conn_param parameters(const Greeting& greeting) const;

  const Queues queues_;
  ConnectionId id_;
  QueuePair pair_;  // destroyed before the identifier
  uint32_t number_ = 0;
  Hello other_;
  Challenge challenge_;  // that a refusal has asked
  std::atomic<State> state_{State::kComing};
  std::mutex mutex_;
  std::optional<Step> step_;
  base::Event stepped_;
};

// Rejects a request; the other end's greet() returns `why`, and has the challenge.
void refuse(ConnectionId id, const Status& why, const Challenge& challenge);

}  // namespace bonsai::rdma::verbs

#endif  // BONSAI_RDMA_VERBS_LINK_H_
