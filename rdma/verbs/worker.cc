// SPDX-License-Identifier: Apache-2.0
#include "rdma/verbs/worker.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "base/coro/scheduler.h"
#include "base/status_macros.h"
#include "rdma/provider.h"
#include "rdma/verbs/region.h"

namespace bonsai::rdma::verbs {
namespace {

constexpr uint64_t kReceive = uint64_t{1} << 63;  // flag in a work identifier: a receive buffer
constexpr int kPollsPerLook = 8;
constexpr int kBlockMsMax = 5;  // then the wait checks its limit
constexpr unsigned kEventsUnacknowledgedMax = 1000;

Outcome outcome_of(ibv_wc_status status, Verb verb) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return Outcome::kDone;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
      return Outcome::kLocalAccess;
    case IBV_WC_REM_ACCESS_ERR:
      return Outcome::kRemoteAccess;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return verb == Verb::kSend ? Outcome::kMessageTooLong
                                 : (is_atomic(verb) ? Outcome::kMisaligned : Outcome::kRemoteAccess);
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return Outcome::kReceiverNotReady;
    default:
      return Outcome::kUnreachable;
  }
}

// Fills in a work request, except its place in the chain.
void fill(const WorkRequest& request, uint32_t inline_bytes_max, ibv_send_wr* wr, ibv_sge* piece) {
  *piece = {reinterpret_cast<uint64_t>(request.local.data()), static_cast<uint32_t>(request.local.bytes()),
            static_cast<const VerbsRegion*>(request.local.region())->local_key()};
  wr->sg_list = piece;
  wr->num_sge = request.local.bytes() == 0 ? 0 : 1;
  wr->send_flags = request.fenced ? IBV_SEND_FENCE : 0;
  const bool fits = request.local.bytes() <= inline_bytes_max;
  const auto key = static_cast<uint32_t>(request.remote.key);
  switch (request.verb) {
    case Verb::kSend:
      wr->opcode = IBV_WR_SEND;
      wr->send_flags |= fits ? IBV_SEND_INLINE : 0;
      return;
    case Verb::kWrite:
      wr->opcode = IBV_WR_RDMA_WRITE;
      wr->send_flags |= fits ? IBV_SEND_INLINE : 0;
      wr->wr.rdma = {request.remote.address, key};
      return;
    case Verb::kRead:
      wr->opcode = IBV_WR_RDMA_READ;
      wr->wr.rdma = {request.remote.address, key};
      return;
    case Verb::kCas:
      wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
      wr->wr.atomic = {request.remote.address, request.expected, request.operand, key};
      return;
    case Verb::kFaa:
      wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      wr->wr.atomic = {request.remote.address, request.operand, 0, key};
      return;
    case Verb::kFlush:
    case Verb::kMaskedCas:
      return;
  }
}

}  // namespace

VerbsPeer::VerbsPeer(VerbsWorker& worker, std::unique_ptr<Link> link)
    : Peer(link->other()), worker_(worker), link_(std::move(link)) {}

VerbsPeer::~VerbsPeer() { worker_.close(this); }

// ---- set-up

Status VerbsWorker::make(const Device& device, Events& events, std::unique_ptr<Worker>* worker) {
  std::unique_ptr<VerbsWorker> made(new VerbsWorker(device, events));
  BONSAI_RETURN_IF_ERROR(made->make_queues());
  *worker = std::move(made);
  return Status::OK();
}

Status VerbsWorker::make_queues() {
  const auto depth = static_cast<int>(device_.sends_max() + device_.receives_max());
  {
    const base::StandardPlaces occupied;
    channel_.reset(ibv_create_comp_channel(device_.context()));
  }
  bell_ = base::make_event();
  if (channel_ != nullptr && bell_.is_open()) {
    completions_.reset(ibv_create_cq(device_.context(), depth, nullptr, channel_.get(), 0));
  }
  ibv_srq_init_attr attributes = {};
  attributes.attr.max_wr = device_.receives_max();
  attributes.attr.max_sge = 1;
  if (completions_ != nullptr) receives_.reset(ibv_create_srq(device_.domain(), &attributes));
  if (receives_ == nullptr) {
    return Status::NoSpace(device_.name() + " makes no further queues: " + reason(errno) +
                           "; use fewer workers, or raise the limits of open files and locked memory (ulimit -n, -l)");
  }
  doorbells_.resize(device_.sends_max());  // a list names as many peers as it has requests, at most
  for (size_t slot = doorbells_.size(); slot > 0; --slot) free_doorbells_.push_back(slot - 1);
  return Status::OK();
}

VerbsWorker::~VerbsWorker() {
  static_cast<void>(poll());
  BONSAI_CHECK(peers_.empty() && lists_pending_ == 0);
  listener_.reset();
  ibv_ack_cq_events(completions_.get(), completion_events_);
}

Link::Queues VerbsWorker::queues() {
  return {&device_, completions_.get(), receives_.get(), [this] {
            links_changed_.store(true);
            const uint64_t one = 1;
            static_cast<void>(!::write(bell_.fd(), &one, sizeof one));
          }};
}

Status VerbsWorker::listen(const std::string& address, const Hello& own, Admit admit) {
  if (listener_ != nullptr) return Status::InvalidArgument("a worker listens once; make another worker");
  return Listener::make(events_, queues(), address, own, std::move(admit), &listener_);
}

Status VerbsWorker::greet(const std::string& address, const Hello& own, uint64_t limit_ms, std::unique_ptr<Peer>* peer,
                          Challenge* challenge) {
  std::unique_ptr<Link> link;
  BONSAI_RETURN_IF_ERROR(Link::connect(events_, queues(), address, own, limit_ms, &link, challenge));
  *peer = make_peer(std::move(link));
  return Status::OK();
}

std::unique_ptr<Peer> VerbsWorker::make_peer(std::unique_ptr<Link> link) {
  const uint32_t number = link->number();
  auto peer = std::make_unique<VerbsPeer>(*this, std::move(link));
  peers_[number] = peer.get();
  links_changed_.store(true);  // the link may be gone already
  return peer;
}

bool VerbsWorker::try_accept(std::unique_ptr<Peer>* peer) {
  if (listener_ == nullptr) return false;
  std::unique_ptr<Link> link = listener_->take();
  if (link == nullptr) return false;
  *peer = make_peer(std::move(link));
  return true;
}

// ---- work

Status VerbsWorker::start(WorkList* list) {
  const size_t pending_max = device_.capabilities().lists_pending_max;
  if (lists_pending_ == pending_max) {
    return Status::Busy(std::to_string(pending_max) + " work lists are pending; wait for one first");
  }
  ++lists_pending_;
  list->set_pending(list->peers());
  for (size_t i = 0; i < list->size(); ++i) {
    Peer* const peer = (*list)[i].peer;
    bool rung = false;
    for (size_t j = 0; j < i && !rung; ++j) rung = (*list)[j].peer == peer;
    if (!rung) ring(list, static_cast<VerbsPeer*>(peer));
  }
  return Status::OK();
}

// Whether the device must carry out the request. False: its outcome is known already, and is set. A refusal stops the
// peer.
bool VerbsWorker::may_submit(WorkRequest* request, VerbsPeer* peer) const {
  BONSAI_CHECK(request->verb != Verb::kFlush && request->verb != Verb::kMaskedCas);  // Capabilities say so
  if (!peer->usable()) {
    request->outcome = peer->has_failed_ ? Outcome::kFlushed : Outcome::kUnreachable;
  } else if (!static_cast<const VerbsRegion*>(request->local.region())->is_of(device_)) {
    request->outcome = Outcome::kLocalAccess;  // before inlining, which would not check the key
  } else if (is_atomic(request->verb) && request->remote.address % sizeof(uint64_t) != 0) {
    request->outcome = Outcome::kMisaligned;
  } else if (request->remote.key > UINT32_MAX) {
    request->outcome = Outcome::kRemoteAccess;
  } else if (request->local.bytes() > device_.capabilities().message_bytes_max) {
    request->outcome = Outcome::kMessageTooLong;
  } else {
    return true;
  }
  peer->broken_ = peer->has_failed_ = true;
  return false;
}

void VerbsWorker::ring(WorkList* list, VerbsPeer* peer) {
  BONSAI_CHECK(!free_doorbells_.empty());  // post() is Busy when as many lists are pending
  const size_t slot = free_doorbells_.back();
  BONSAI_CHECK(doorbells_[slot].list == nullptr);
  doorbells_[slot] = {list, peer};
  if (submit(slot)) {
    free_doorbells_.pop_back();
    ++peer->doorbells_;
  } else {
    doorbells_[slot].list = nullptr;
    not_submitted_.push_back(list);
  }
}

// Submits the rest of a doorbell to the device, up to the next fence if the device does not keep fences: Soft-RoCE
// (Linux 6.1) sometimes never continues after one. False if nothing was left to submit: then all outcomes are known.
bool VerbsWorker::submit(size_t slot) {
  Doorbell& doorbell = doorbells_[slot];
  WorkList* const list = doorbell.list;
  VerbsPeer* const peer = doorbell.peer;
  const bool keeps_fences = !device_.capabilities().emulated;
  std::array<ibv_send_wr, WorkList::kRequestsMax> chain;
  std::array<ibv_sge, WorkList::kRequestsMax> pieces;
  size_t count = 0;
  for (; doorbell.rest < list->size(); ++doorbell.rest) {
    WorkRequest& request = list->request(doorbell.rest);
    if (request.peer != peer) continue;
    if (request.fenced && !keeps_fences && count > 0) break;
    if (!may_submit(&request, peer)) continue;
    ibv_send_wr& wr = chain[count];
    fill(request, device_.inline_bytes_max(), &wr, &pieces[count]);
    wr.wr_id = slot * WorkList::kRequestsMax + doorbell.rest;
    wr.next = nullptr;
    if (count > 0) chain[count - 1].next = &wr;
    ++count;
    doorbell.last = doorbell.rest;
  }
  has_broken_peers_ |= peer->broken_;
  if (count == 0) return false;
  chain[0].send_flags &= keeps_fences ? ~0U : ~unsigned{IBV_SEND_FENCE};
  chain[count - 1].send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(peer->link_->pair(), chain.data(), &refused) != 0) {
    peer->broken_ = peer->must_close_ = has_broken_peers_ = true;  // some of it may be in flight
  }
  return true;
}

size_t VerbsWorker::poll() {
  lists_ended_ = 0;
  drain();
  for (WorkList* list : std::exchange(not_submitted_, {})) end_doorbell(list);
  if (has_broken_peers_ || links_changed_.load(std::memory_order_relaxed)) look_after_peers();
  return lists_ended_;
}

size_t VerbsWorker::drain() {
  std::array<ibv_wc, 16> completions;
  const int room = static_cast<int>(completions.size());
  size_t all = 0;
  for (int found = room; found == room;) {
    found = ibv_poll_cq(completions_.get(), room, completions.data());
    for (int i = 0; i < found; ++i) complete(completions[static_cast<size_t>(i)]);
    all += static_cast<size_t>(std::max(found, 0));
  }
  return all;
}

void VerbsWorker::complete(const ibv_wc& completion) {
  if ((completion.wr_id & kReceive) != 0) return complete_receive(completion);
  Doorbell& doorbell = doorbells_[completion.wr_id / WorkList::kRequestsMax];
  const size_t index = completion.wr_id % WorkList::kRequestsMax;
  BONSAI_CHECK(doorbell.list != nullptr && index >= doorbell.next && index <= doorbell.last);
  VerbsPeer& peer = *doorbell.peer;
  if (completion.status == IBV_WC_SUCCESS) return settle(&doorbell, index, Outcome::kDone);
  const bool unanswered = completion.status == IBV_WC_WR_FLUSH_ERR;
  const Outcome outcome =
      unanswered ? peer.unanswered_ : outcome_of(completion.status, doorbell.list->request(index).verb);
  if (outcome != Outcome::kUnreachable) peer.unanswered_ = Outcome::kFlushed;
  peer.broken_ = peer.must_close_ = peer.has_failed_ = has_broken_peers_ = true;
  settle(&doorbell, index, outcome);
}

// Only the last request of a doorbell and those that fail have a completion: earlier requests without one are done.
void VerbsWorker::settle(Doorbell* doorbell, size_t index, Outcome outcome) {
  WorkList* const list = doorbell->list;
  VerbsPeer* const peer = doorbell->peer;
  for (; doorbell->next < index; ++doorbell->next) {
    WorkRequest& earlier = list->request(doorbell->next);
    if (earlier.peer == peer) earlier.outcome = doorbell->failed ? peer->unanswered_ : Outcome::kDone;
  }
  list->request(index).outcome = outcome;
  doorbell->next = index + 1;
  doorbell->failed |= outcome != Outcome::kDone;
  if (index < doorbell->last) return;
  const auto slot = static_cast<size_t>(doorbell - doorbells_.data());
  if (!doorbell->failed && submit(slot)) return;
  for (; doorbell->rest < list->size(); ++doorbell->rest) {
    WorkRequest& behind = list->request(doorbell->rest);
    if (behind.peer == peer) behind.outcome = Outcome::kFlushed;
  }
  doorbell->list = nullptr;
  free_doorbells_.push_back(slot);
  BONSAI_CHECK(peer->doorbells_ > 0);
  --peer->doorbells_;
  end_doorbell(list);
}

void VerbsWorker::end_doorbell(WorkList* list) {
  list->complete_doorbell();
  if (list->pending()) return;
  BONSAI_CHECK(lists_pending_ > 0);
  --lists_pending_;
  ++lists_ended_;
}

// ---- connections that end

void VerbsWorker::look_after_peers() {
  has_broken_peers_ = false;
  if (links_changed_.exchange(false)) {
    for (const auto& [number, peer] : peers_) {
      if (peer->link_->gone()) peer->broken_ = peer->must_close_ = true;
    }
  }
  for (auto next = peers_.begin(); next != peers_.end();) {
    VerbsPeer* const peer = (next++)->second;
    if (!peer->broken_) continue;
    if (peer->must_close_ || peer->doorbells_ == 0) {
      close(peer);
    } else {
      has_broken_peers_ = true;
    }
  }
}

// Devices differ in how they return the requests of a broken queue pair, so this code does not rely on it. Once the
// queue pair is destroyed no request is carried out any more, and requests without a completion get none.
void VerbsWorker::close(VerbsPeer* peer) {
  if (std::exchange(peer->is_closed_, true)) return;
  peer->broken_ = true;
  peer->link_->disconnect();
  drain();
  peer->link_->destroy_pair();
  drain();
  for (Doorbell& doorbell : doorbells_) {
    if (doorbell.list == nullptr || doorbell.peer != peer) continue;
    doorbell.failed = peer->has_failed_ = true;
    settle(&doorbell, doorbell.last, peer->unanswered_);
  }
  BONSAI_INVARIANT(peer->doorbells_ == 0);  // nothing more is carried out there, and all have their outcome (1, 2)
  peers_.erase(peer->link_->number());
}

// ---- messages

Status VerbsWorker::set_receive_ring(Slice memory, size_t message_bytes_max) {
  if (message_bytes_max == 0 || memory.bytes() < message_bytes_max || ring_.bytes() != 0) {
    return Status::InvalidArgument("a receive ring is set once and holds at least one message");
  }
  if (message_bytes_max > UINT32_MAX || !static_cast<const VerbsRegion*>(memory.region())->is_of(device_)) {
    return Status::InvalidArgument("a receive ring is memory of its worker's fabric, and a message less than 4 GiB");
  }
  ring_ = memory;
  message_bytes_max_ = message_bytes_max;
  const size_t slots = std::min<size_t>(memory.bytes() / message_bytes_max, device_.receives_max());
  for (size_t slot = 0; slot < slots; ++slot) {
    if (const int error = offer_buffer(slot); error != 0) {
      return Status::IoError(device_.name() + " takes no receive buffer: " + reason(error) +
                             "; look at the device (rdma link, dmesg)");
    }
  }
  return Status::OK();
}

// Returns an error number, or 0. A device that refuses has failed: its connections end, and this buffer is not missed.
int VerbsWorker::offer_buffer(size_t slot) {
  BONSAI_CHECK((slot + 1) * message_bytes_max_ <= ring_.bytes());
  ibv_sge piece = {reinterpret_cast<uint64_t>(ring_.data() + slot * message_bytes_max_),
                   static_cast<uint32_t>(message_bytes_max_),
                   static_cast<const VerbsRegion*>(ring_.region())->local_key()};
  ibv_recv_wr wr = {kReceive | slot, nullptr, &piece, 1};
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_srq_recv(receives_.get(), &wr, &refused);
  BONSAI_CHECK(error != ENOMEM);  // the queue has room for all slots
  return error;
}

void VerbsWorker::complete_receive(const ibv_wc& completion) {
  const size_t slot = completion.wr_id & ~kReceive;
  uint32_t from = 0;
  bool known = completion.status == IBV_WC_SUCCESS;
  if (known) {
    const auto peer = peers_.find(completion.qp_num);
    if (peer != peers_.end()) {
      from = peer->second->hello().node;
    } else {
      known = listener_ != nullptr && listener_->find(completion.qp_num, &from);
    }
  }
  if (!known)
    return static_cast<void>(offer_buffer(slot));  // a message that was too long, or whose connection ended halfway
  arrived_.push_back({slot, completion.byte_len, from});
}

bool VerbsWorker::try_receive(Message* message) {
  if (arrived_.empty()) static_cast<void>(poll());
  if (arrived_.empty()) return false;
  const Arrival next = arrived_.front();
  arrived_.pop_front();
  *message = Message(this, next.slot, next.from, {ring_.data() + next.slot * message_bytes_max_, next.bytes});
  return true;
}

void VerbsWorker::release_buffer(size_t slot) { static_cast<void>(offer_buffer(slot)); }

// ---- waiting

void VerbsWorker::pause(base::BoundedWait* wait) {
  if (base::Scheduler::current() != nullptr) return wait->pause();
  // Reads the clock only now and then: that costs more than a poll, and far more in some virtual machines.
  for (int i = 0; i < kPollsPerLook; ++i) {
    if (drain() != 0) return;
  }
  if (wait->watch_ns() / base::kNsPerUs < device_.options().spin_us) return;
  if (is_armed_) return block();
  is_armed_ = ibv_req_notify_cq(completions_.get(), 0) == 0;  // completions before the arming are polled once more
  if (!is_armed_) wait->pause();
}

void VerbsWorker::block() {
  std::array<pollfd, 2> sources = {{{channel_->fd, POLLIN, 0}, {bell_.fd(), POLLIN, 0}}};
  if (::poll(sources.data(), sources.size(), kBlockMsMax) <= 0) return;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (sources[0].revents != 0 && ibv_get_cq_event(channel_.get(), &queue, &context) == 0) {
    is_armed_ = false;
    if (++completion_events_ == kEventsUnacknowledgedMax) {
      ibv_ack_cq_events(completions_.get(), std::exchange(completion_events_, 0U));
    }
  }
  uint64_t rings = 0;
  if (sources[1].revents != 0) static_cast<void>(!::read(bell_.fd(), &rings, sizeof rings));
}

// ---- listening

Status Listener::make(Events& events, const Link::Queues& queues, const std::string& address, const Hello& own,
                      Admit admit, std::unique_ptr<Listener>* listener) {
  sockaddr_storage at = {};
  BONSAI_RETURN_IF_ERROR(parse_address(address, &at));
  std::unique_ptr<Listener> made(new Listener(queues, own, std::move(admit)));
  BONSAI_RETURN_IF_ERROR(events.make_id(made.get(), &made->id_));
  if (rdma_bind_addr(made->id_.get(), reinterpret_cast<sockaddr*>(&at)) != 0) {
    if (errno == EADDRINUSE) return Status::Busy(address + " has a listener already; choose another address");
    return Status::InvalidArgument("cannot listen at " + address + ": " + reason(errno) +
                                   "; name an address of this machine's RDMA network");
  }
  if (rdma_listen(made->id_.get(), kArrivedMax) != 0) {
    if (errno == EADDRINUSE) return Status::Busy(address + " has a listener already; choose another address");
    return Status::IoError("cannot listen at " + address + ": " + reason(errno));
  }
  *listener = std::move(made);
  return Status::OK();
}

std::unique_ptr<Link> Listener::take() {
  const std::lock_guard lock(mutex_);
  for (auto next = arrived_.begin(); next != arrived_.end(); ++next) {
    if (!(*next)->established() && !(*next)->gone()) continue;
    std::unique_ptr<Link> link = std::move(*next);
    arrived_.erase(next);
    return link;
  }
  return nullptr;
}

bool Listener::find(uint32_t pair_number, uint32_t* node) {
  const std::lock_guard lock(mutex_);
  for (const auto& link : arrived_) {
    if (link->number() != pair_number) continue;
    link->heard();
    *node = link->other().node;
    return true;
  }
  return false;
}

Status Listener::admit(const rdma_cm_event& event, Greeting* other, Hello* answer) {
  const rdma_conn_param& asked = event.param.conn;
  if (asked.private_data == nullptr || asked.private_data_len < sizeof *other) {
    return Status::NotSupported("what asks is not a fabric");
  }
  std::memcpy(other, asked.private_data, sizeof *other);
  if (event.id->verbs != queues_.device->context()) {
    return Status::InvalidArgument("this address is not one of " + queues_.device->name());
  }
  *answer = own_;
  const Arrival arrival{other->hello, address_text(*rdma_get_local_addr(event.id), /*with_port=*/true),
                        address_text(*rdma_get_peer_addr(event.id), /*with_port=*/false)};
  return admit_peer(admit_, arrival, answer);
}

void Listener::on_event(const rdma_cm_event& event) {
  if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST) return;
  ConnectionId id(event.id);
  Greeting other;
  Hello answer;
  if (const Status status = admit(event, &other, &answer); !status.ok()) {
    return refuse(std::move(id), status, challenge_of(answer, ""));
  }
  const std::lock_guard lock(mutex_);  // find() knows the connection before its first message can come
  if (arrived_.size() >= kArrivedMax) {
    return refuse(std::move(id), Status::Unavailable("too many connections wait to be accepted there; try later"), {});
  }
  std::unique_ptr<Link> link;
  if (Link::accept(std::move(id), queues_, event.param.conn, other, answer, &link).ok()) {
    arrived_.push_back(std::move(link));
  }
}

}  // namespace bonsai::rdma::verbs
