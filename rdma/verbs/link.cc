// SPDX-License-Identifier: Apache-2.0
#include "rdma/verbs/link.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/wire_status.h"
#include "rdma/provider.h"

namespace bonsai::rdma::verbs {
namespace {

constexpr uint8_t kRetries = 6;             // of a request without an answer; 7 means for ever on Soft-RoCE
constexpr uint8_t kReceiverRetries = 6;     // of a SEND that finds no buffer,
constexpr uint8_t kReceiverPauseCode = 20;  // each after 10.24 ms
constexpr int kRejectedNobodyListens = 8;   // IB_CM_REJ_INVALID_SERVICE_ID
constexpr uint32_t kRefusalMagic = 0x62736e52;

// Private data of a rejection: the status of connect() at the other end.
struct Refusal {
  uint32_t magic = kRefusalMagic;
  int32_t code = 0;
  std::array<char, 124> text = {};
  std::array<std::byte, 16> nonce = {};  // of a Challenge
};
static_assert(sizeof(Refusal) == 148);

Status failed(const char* what) { return Status::IoError(std::string("cannot ") + what + ": " + reason(errno)); }

// The code of a device's retransmission time-out, 4.096 us << code. The first transmission and kRetries retries
// together last `unreachable_ms`.
uint8_t acknowledge_code(uint64_t unreachable_ms) {
  uint8_t code = 8;
  while (code < 31 && (uint64_t{4096} << code) * (kRetries + 1) < unreachable_ms * base::kNsPerMs) ++code;
  return code;
}

constexpr uint64_t kLastTryMsMax = 200;

int ms_until(uint64_t deadline_ns) {
  const uint64_t now = base::now_ns();
  return deadline_ns <= now ? 1
                            : static_cast<int>(std::min<uint64_t>((deadline_ns - now) / base::kNsPerMs + 1, 60'000));
}

}  // namespace

// ---- events

Status Events::make(std::unique_ptr<Events>* events) {
  std::unique_ptr<Events> made(new Events);
  {
    const base::StandardPlaces occupied;
    made->channel_.reset(rdma_create_event_channel());
  }
  if (made->channel_ == nullptr) return failed("open the connection manager (is the module rdma_ucm loaded?)");
  // An event may be withdrawn together with its identifier: fetching it must not wait for the next event.
  if (::fcntl(made->channel_->fd, F_SETFL, O_NONBLOCK) != 0) return failed("set up the connection manager");
  made->stop_ = base::make_event();
  if (!made->stop_.is_open()) return failed("make an eventfd");
  BONSAI_RETURN_IF_ERROR(base::Thread::start(
      "fabric-events", [raw = made.get()] { raw->run(); }, &made->thread_));
  *events = std::move(made);
  return Status::OK();
}

Events::~Events() {
  const uint64_t one = 1;
  if (stop_.is_open()) static_cast<void>(!::write(stop_.fd(), &one, sizeof one));
}

void Events::run() {
  std::array<pollfd, 2> sources = {{{channel_->fd, POLLIN, 0}, {stop_.fd(), POLLIN, 0}}};
  while (true) {
    if (::poll(sources.data(), sources.size(), -1) < 0) continue;
    if (sources[1].revents != 0) return;
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_.get(), &event) != 0) continue;
    const rdma_cm_id* const id = event->listen_id != nullptr ? event->listen_id : event->id;
    try {
      static_cast<EventSink*>(id->context)->on_event(*event);
    } catch (const std::bad_alloc&) {  // who waits for it gives up after a limit
    }
    rdma_ack_cm_event(event);
  }
}

Status Events::make_id(EventSink* sink, ConnectionId* id) {
  rdma_cm_id* made = nullptr;
  const base::StandardPlaces occupied;
  if (rdma_create_id(channel_.get(), &made, sink, RDMA_PS_TCP) != 0) return failed("make a connection identifier");
  id->reset(made);
  return Status::OK();
}

Status parse_address(const std::string& text, sockaddr_storage* address) {
  const size_t colon = text.rfind(':');
  const std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (host.empty()) {
    return Status::InvalidArgument("'" + text + "' is no address of the fabric; write HOST:PORT, e.g. 10.0.0.1:7000");
  }
  const base::StandardPlaces occupied;
  if (const int error = getaddrinfo(host.c_str(), text.c_str() + colon + 1, &hints, &found); error != 0) {
    return Status::InvalidArgument("'" + text + "' leads to no host (" + gai_strerror(error) +
                                   "); check its spelling " + "and port, see whether `getent hosts " + host +
                                   "` finds it, or write its address, " + "e.g. 10.0.0.1:7000");
  }
  std::memcpy(address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return Status::OK();
}

std::string address_text(const sockaddr& address, bool with_port) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (address.sa_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    static_cast<void>(::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size()));
    return with_port ? "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(six.sin6_port)) : text.data();
  }
  const auto& four = reinterpret_cast<const sockaddr_in&>(address);
  static_cast<void>(::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size()));
  return text.data() + (with_port ? ":" + std::to_string(ntohs(four.sin_port)) : "");
}

// ---- one connection

Link::~Link() {
  disconnect();
  destroy_pair();
  id_.reset();  // no more events after this: only now may the other members be destroyed
}

void Link::disconnect() {
  if (pair_ == nullptr) return;
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  static_cast<void>(ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE));
  static_cast<void>(rdma_disconnect(id_.get()));
}

void Link::on_event(const rdma_cm_event& event) {
  bool changed = true;
  switch (event.event) {
    case RDMA_CM_EVENT_ESTABLISHED:
      heard();
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      state_.store(State::kGone);
      break;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    case RDMA_CM_EVENT_ADDR_RESOLVED:
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      changed = false;
      [[fallthrough]];
    default: {
      if (changed) state_.store(State::kGone);
      const std::lock_guard lock(mutex_);
      const auto* data = static_cast<const char*>(event.param.conn.private_data);
      step_ = {event.event, event.status, data == nullptr ? "" : std::string(data, event.param.conn.private_data_len)};
      stepped_.signal();
    }
  }
  if (changed) queues_.on_change();
}

Status Link::await(rdma_cm_event_type expected, uint64_t deadline_ns, Step* step, bool* nobody) {
  *nobody = true;
  if (!stepped_.wait_for(static_cast<uint64_t>(ms_until(deadline_ns)))) {
    return Status::Unavailable("no answer within the limit (fabric.connect)");
  }
  {
    const std::lock_guard lock(mutex_);
    *step = *step_;
  }
  if (step->type == expected) {
    *nobody = false;
    return Status::OK();
  }
  return refused(*step, nobody);
}

// The status of a step that was not the expected one.
Status Link::refused(const Step& step, bool* nobody) {
  Refusal refusal;
  if (step.type == RDMA_CM_EVENT_REJECTED && step.private_data.size() >= sizeof refusal) {
    std::memcpy(&refusal, step.private_data.data(), sizeof refusal);
    if (refusal.magic == kRefusalMagic) {
      *nobody = false;
      challenge_.nonce = refusal.nonce;
      return base::status_from_wire(refusal.code,
                                    {refusal.text.data(), strnlen(refusal.text.data(), refusal.text.size())});
    }
  }
  if (step.type == RDMA_CM_EVENT_REJECTED && step.status == kRejectedNobodyListens) {
    return Status::Unavailable("nobody listens there");
  }
  return Status::Unavailable(std::string(rdma_event_str(step.type)) + ", " + std::to_string(step.status));
}

Status Link::make_pair() {
  const Device& device = *queues_.device;
  ibv_qp_init_attr attributes = {};
  attributes.send_cq = attributes.recv_cq = queues_.completions;
  attributes.srq = queues_.receives;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = device.sends_max();
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_inline_data = device.inline_bytes_max();
  pair_.reset(ibv_create_qp(device.domain(), &attributes));
  if (pair_ == nullptr) {
    return Status::NoSpace(device.name() + " makes no further queue pair: " + reason(errno) +
                           "; close connections, or raise the limit of locked memory (ulimit -l)");
  }
  number_ = pair_->qp_num;
  return Status::OK();
}

Status Link::change_state(ibv_qp_state state, uint8_t mtu_limit) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = state;
  const uint8_t reads_max = queues_.device->reads_in_flight_max();
  int mask = 0;
  if (rdma_init_qp_attr(id_.get(), &attributes, &mask) != 0) return failed("learn the state of a queue pair");
  if (state == IBV_QPS_INIT) {
    attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  } else if (state == IBV_QPS_RTR) {
    attributes.max_dest_rd_atomic = std::min(attributes.max_dest_rd_atomic, reads_max);
    attributes.min_rnr_timer = kReceiverPauseCode;
    if (mtu_limit != 0) attributes.path_mtu = static_cast<ibv_mtu>(std::min<int>(attributes.path_mtu, mtu_limit));
  } else {
    attributes.max_rd_atomic = std::min(attributes.max_rd_atomic, reads_max);
    attributes.timeout = acknowledge_code(queues_.device->options().unreachable_ms);
    attributes.retry_cnt = kRetries;
    attributes.rnr_retry = kReceiverRetries;
  }
  return ibv_modify_qp(pair_.get(), &attributes, mask) == 0 ? Status::OK() : failed("bring up a queue pair");
}

Status Link::bring_up(uint8_t mtu_limit) {
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    BONSAI_RETURN_IF_ERROR(change_state(state, mtu_limit));
  }
  return Status::OK();
}

rdma_conn_param Link::parameters(const Greeting& greeting) const {
  rdma_conn_param parameters = {};
  parameters.private_data = &greeting;
  parameters.private_data_len = sizeof greeting;
  parameters.responder_resources = parameters.initiator_depth = queues_.device->reads_in_flight_max();
  parameters.retry_count = kRetries;
  parameters.rnr_retry_count = kReceiverRetries;
  parameters.srq = 1;
  parameters.qp_num = number_;
  return parameters;
}

Status Link::try_connect(Events& events, const sockaddr_storage& to, const Hello& own, uint64_t deadline_ns,
                         bool* nobody) {
  *nobody = false;
  Step step;
  const Device& device = *queues_.device;
  BONSAI_RETURN_IF_ERROR(events.make_id(this, &id_));
  sockaddr_storage from = {};
  const bool from_known = !device.host().empty() && parse_address(device.host() + ":0", &from).ok();
  if (rdma_resolve_addr(id_.get(), from_known ? reinterpret_cast<sockaddr*>(&from) : nullptr,
                        reinterpret_cast<sockaddr*>(const_cast<sockaddr_storage*>(&to)), ms_until(deadline_ns)) != 0) {
    *nobody = true;
    return Status::Unavailable("no way there: " + reason(errno));
  }
  BONSAI_RETURN_IF_ERROR(await(RDMA_CM_EVENT_ADDR_RESOLVED, deadline_ns, &step, nobody));
  if (id_->verbs != device.context()) return Status::InvalidArgument("it is not reached through " + device.name());
  if (rdma_resolve_route(id_.get(), ms_until(deadline_ns)) != 0) return failed("find a route");
  BONSAI_RETURN_IF_ERROR(await(RDMA_CM_EVENT_ROUTE_RESOLVED, deadline_ns, &step, nobody));
  BONSAI_RETURN_IF_ERROR(make_pair());
  Greeting greeting{own, mtu_code(device.options().mtu_bytes)};
  rdma_conn_param asked = parameters(greeting);
  if (rdma_connect(id_.get(), &asked) != 0) return failed("ask for a connection");
  BONSAI_RETURN_IF_ERROR(await(RDMA_CM_EVENT_CONNECT_RESPONSE, deadline_ns, &step, nobody));
  if (step.private_data.size() < sizeof greeting) return Status::NotSupported("what listens there is not a fabric");
  std::memcpy(&greeting, step.private_data.data(), sizeof greeting);
  other_ = greeting.hello;
  BONSAI_RETURN_IF_ERROR(bring_up(greeting.mtu_code));
  heard();
  return rdma_establish(id_.get()) == 0 ? Status::OK() : failed("complete a connection");
}

Status Link::connect(Events& events, const Queues& queues, const std::string& address, const Hello& own,
                     uint64_t limit_ms, std::unique_ptr<Link>* link, Challenge* challenge) {
  sockaddr_storage to = {};
  BONSAI_RETURN_IF_ERROR(parse_address(address, &to));
  uint64_t deadline_ns = base::now_ns() + limit_ms * base::kNsPerMs;
  bool last_try = false;  // after the limit: this process may have been stopped
  for (base::BoundedWait wait("fabric.connect", limit_ms);; wait.pause()) {
    std::unique_ptr<Link> made(new Link(queues));
    bool nobody = false;
    const Status status = made->try_connect(events, to, own, deadline_ns, &nobody);
    if (status.ok()) {
      *link = std::move(made);
      return status;
    }
    *challenge = made->challenge_;
    challenge->listener = address_text(reinterpret_cast<const sockaddr&>(to), /*with_port=*/true);
    if (!nobody) return status;
    if (last_try) {
      return Status::Unavailable(address + " did not answer within " + std::to_string(limit_ms) + " ms (" +
                                 std::string(status.message()) + "); start that node, and look at the network");
    }
    last_try = base::now_ns() >= deadline_ns;
    if (last_try) deadline_ns = base::now_ns() + std::min(limit_ms, kLastTryMsMax) * base::kNsPerMs;
  }
}

Status Link::accept(ConnectionId id, const Queues& queues, const rdma_conn_param& asked, const Greeting& other,
                    const Hello& own, std::unique_ptr<Link>* link) {
  std::unique_ptr<Link> made(new Link(queues));
  made->id_ = std::move(id);
  made->id_->context = static_cast<EventSink*>(made.get());
  made->other_ = other.hello;
  const uint8_t wanted = mtu_code(queues.device->options().mtu_bytes);
  const uint8_t mtu_limit =
      wanted == 0 || other.mtu_code == 0 ? std::max(wanted, other.mtu_code) : std::min(wanted, other.mtu_code);
  Status status = made->make_pair();
  if (status.ok()) status = made->bring_up(mtu_limit);
  if (!status.ok()) {
    made->pair_.reset();
    refuse(std::move(made->id_), status, {});
    return status;
  }
  const Greeting greeting{own, mtu_limit};
  rdma_conn_param answer = made->parameters(greeting);
  answer.responder_resources = std::min(answer.responder_resources, asked.responder_resources);
  answer.initiator_depth = std::min(answer.initiator_depth, asked.initiator_depth);
  if (rdma_accept(made->id_.get(), &answer) != 0) return failed("accept a connection");
  *link = std::move(made);
  return Status::OK();
}

void refuse(ConnectionId id, const Status& why, const Challenge& challenge) {
  Refusal refusal;
  refusal.nonce = challenge.nonce;
  refusal.code = static_cast<int32_t>(why.code());
  why.message().copy(refusal.text.data(), refusal.text.size());
  static_cast<void>(rdma_reject(id.get(), &refusal, sizeof refusal));
}

}  // namespace bonsai::rdma::verbs
