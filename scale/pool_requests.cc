// SPDX-License-Identifier: Apache-2.0
#include "scale/pool_requests.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/boot_clock.h"
#include "base/clock.h"
#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/wire_status.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kRequestMsMax = 3'600'000;       // for a node that reports that it is at work
constexpr uint64_t kRenewalNsMax = 10'000'000'000;  // the answer to a request for a grant is taken for lost then
constexpr uint64_t kWaitNsMax = 10'000'000'000;     // for other owners' leases
constexpr int kEpochsMax = 16;                      // that are found to be newer than the last one that was seen

rdma::Rights exchange_rights() {
  rdma::Rights rights;
  rights.write = true;  // nodes write their answers there
  rights.read = true;   // and look whether this one is still there
  return rights;
}

// This process as users read it.
std::string own_name() {
  std::array<char, 48> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return std::string(program_invocation_short_name).substr(0, 16) + "[" + std::to_string(::getpid()) + "] on " +
         host.data();
}

}  // namespace

PoolClient::PoolClient(TargetName name) : name_(std::move(name)) { renumber(); }

void PoolClient::renumber() {
  node_ = static_cast<uint32_t>(base::fresh_seed() | 1);
  renewing_ = false;  // its answer will not arrive
}

Status PoolClient::make(rdma::Fabric& fabric, const TargetName& name, std::unique_ptr<PoolClient>* client) {
  std::unique_ptr<PoolClient> made(new PoolClient(name));
  BONSAI_RETURN_IF_ERROR(rdma::RegisteredMemory::make(fabric, sizeof(Exchange), exchange_rights(), &made->memory_));
  *client = std::move(made);
  return Status::OK();
}

uint64_t PoolClient::answer_word(size_t offset) const {
  const std::byte* const word = memory_->data() + offsetof(Exchange, answer) + offset;
  return base::word_at(word).load(std::memory_order_acquire);
}

bool PoolClient::answered() const {
  return answer_word(offsetof(PoolAnswer, token)) == exchange().request.token && !list_.pending();
}

// An earlier request that was given up may still be on its way to the node, which is slow and not away.
void PoolRequests::await_earlier(const PoolClient& client, const rdma::Peer& peer) const {
  static_cast<void>(poll_until([&] { return !client.list_.pending() || !peer.usable(); }));
}

// Writes the next request, which await() sends. Errors: Unavailable (an earlier one is still in flight).
Status PoolRequests::write(PoolClient* client, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark) {
  const auto locked = lock();
  static_cast<void>(worker_.poll());
  if (client->list_.pending()) return Status::Unavailable("an earlier request has not ended yet");
  PoolRequest& request = client->exchange().request;
  request = {};
  request.op = op;
  request.bytes = bytes;
  request.mark = mark;
  request.token = ++client->tokens_;
  request.session = client->session_.bits;
  request.epoch = client->epoch_;
  request.lease_ns = kOwnerLeaseNs;
  request.force = client->forces_ ? 1 : 0;
  if (op == PoolOp::kPage) {
    std::memcpy(request.holder.data(), &client->page_, sizeof client->page_);
  } else {
    set_wire_text(&request.holder, own_name());
  }
  if (op == PoolOp::kOpen && client->wanted_epoch_ > client->epoch_) {
    request.step = static_cast<uint32_t>(std::min<uint64_t>(client->wanted_epoch_ - client->epoch_, UINT32_MAX));
  }
  if (makes_pool(op)) request.epoch = client->wanted_epoch_;
  request.answer = client->memory_->remote().at(offsetof(PoolClient::Exchange, answer));
  set_wire_text(&request.pool, client->name_.pool);
  client->list_.clear();
  client->list_.send(*peer, client->memory_->slice(0, sizeof request));
  client->peer_ = peer;
  client->renewing_ = op == PoolOp::kRenew;
  client->sent_ns_ = base::boot_ns();
  client->sent_at_ = Leases::now();
  client->verdict_ = OwnerVerdict::kNone;
  return Status::OK();
}

std::unique_lock<base::YieldingMutex> PoolRequests::lock() const {
  return mutex_ == nullptr ? std::unique_lock<base::YieldingMutex>() : std::unique_lock(*mutex_);
}

// ready() is called while the worker is locked.
Status PoolRequests::poll_until(const std::function<bool()>& ready) const {
  for (base::BoundedWait wait("link.answer", limit_ms_);; wait.pause()) {
    {
      const auto locked = lock();
      static_cast<void>(worker_.poll());
      if (ready()) return Status::OK();
    }
    if (wait.expired()) return wait.status();
  }
}

// Sends all requests before it waits for an answer. Returns when each node has answered or left; it waits for as long
// as one of them reports that it is at work. It waits for room, too: abandoned reads may be in flight.
Status PoolRequests::await(std::span<PoolClient* const> clients) {
  size_t posted = 0;
  uint64_t beats = 0;
  bool all = false;
  base::BoundedWait request("link.request", kRequestMsMax);
  for (; !request.expired(); static_cast<void>(request.watch_ns())) {
    const uint64_t seen = beats;
    BONSAI_RETURN_IF_ERROR(poll_until([&] {
      while (posted < clients.size() && !worker_.post(&clients[posted]->list_).IsBusy()) ++posted;
      all = posted == clients.size();
      beats = 0;
      for (PoolClient* const client : clients) {
        beats += client->answer_word(offsetof(PoolAnswer, beats));
        all = (client->answered() || !client->peer_->usable()) && all;
      }
      return all || beats != seen;
    }));
    if (all) return Status::OK();
  }
  return request.status();
}

Status PoolRequests::ask(PoolClient* client, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark,
                         ServedPool* pool) {
  const std::string& name = client->name_.text;
  await_earlier(*client, *peer);
  Status status = write(client, peer, op, bytes, mark);
  if (status.ok()) status = await({&client, 1});
  // Who left may still have a request in flight, which any user of the worker may find complete.
  if (const auto locked = lock(); status.ok() && !client->answered()) {
    const bool sent = client->list_.pending() || client->list_.status().ok();
    status = sent ? Status::Unavailable("the node left") : client->list_.status();
  }
  if (!status.ok()) {
    return Status::Unavailable(name + ": the node does not answer (" + std::string(status.message()) +
                               "); see whether bonsaid runs there, and retry");
  }
  return read_answer(client, pool);
}

Status PoolRequests::status_of(PoolClient* client, rdma::Peer* peer, uint64_t* epoch, VersionedPage* page) {
  ServedPool pool;
  client->newest_epoch_ = 0;
  const Status status = ask(client, peer, PoolOp::kStatus, 0, 0, &pool);
  *epoch = client->newest_epoch_;
  *page = pool.page;
  return status;
}

Status PoolRequests::set_page(PoolClient* client, rdma::Peer* peer, const GroupPage& page, uint64_t version) {
  client->page_ = page;
  return ask(client, peer, PoolOp::kPage, 0, version, nullptr);
}

Status PoolRequests::renew(PoolClient* client, rdma::Peer* peer) {
  bool posted = client->renewing_ && base::boot_ns() - client->sent_ns_ < kRenewalNsMax;
  if (!posted) BONSAI_RETURN_IF_ERROR(write(client, peer, PoolOp::kRenew, 0, 0));
  static_cast<void>(poll_until([&] {
    const rdma::Traffic before = worker_.traffic();
    if (!posted && worker_.post(&client->list_).ok()) {
      posted = true;
      renewals_ += worker_.traffic() - before;
    }
    return (posted && client->answered()) || !peer->usable();
  }));
  client->renewing_ = posted;
  if (const auto locked = lock(); !posted || !client->answered()) {
    return Status::Unavailable(client->name_.text + ": the node does not answer; see whether bonsaid runs there");
  }
  client->renewing_ = false;
  return read_answer(client, nullptr);
}

// Requires: the client is answered.
Status PoolRequests::read_answer(PoolClient* client, ServedPool* pool) const {
  const std::string& name = client->name_.text;
  const PoolOp op = client->exchange().request.op;
  PoolAnswer answer;
  base::racy_load(&answer, reinterpret_cast<const std::byte*>(&client->exchange().answer), sizeof answer);
  client->verdict_ = static_cast<OwnerVerdict>(answer.verdict);
  client->newest_epoch_ = answer.epoch;
  client->owner_ns_ = answer.owner_ns;
  if (op != PoolOp::kOpen && client->verdict_ == OwnerVerdict::kReplaced) client->replaced_ = true;
  if (answer.code != 0) {
    return base::status_from_wire(static_cast<int32_t>(answer.code), name + ": " + wire_text(answer.text));
  }
  if (pool != nullptr) {
    *pool = {answer.region,  static_cast<rdma::RemoteDomain>(answer.domain),    answer.emulated != 0,
             answer.credits, wire_text(answer.text) + ", over " + fabric_text_, answer.page};
  }
  return Status::OK();
}

Status PoolRequests::take(PoolClient* client, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark,
                          ServedPool* pool, const TakeOver& take_over) {
  // A lease that ends so much later than an earlier answer said was renewed: by a third of it, and clocks differ by
  // less.
  constexpr uint64_t kRenewedNs = kOwnerLeaseNs / 6;
  base::random_secret(std::as_writable_bytes(std::span(client->session_.bits)));
  client->epoch_ = 0;
  client->wanted_epoch_ = take_over.epoch;
  client->forces_ = take_over.wanted && op == PoolOp::kOpen;
  uint64_t waited_ns = 0, until_ns = UINT64_MAX;
  for (int epochs = 0;;) {
    const Status status = ask(client, peer, op, bytes, mark, pool);
    if (status.IsUnavailable()) return status;
    if (status.ok()) {
      client->epoch_ = client->newest_epoch_;
      return status;
    }
    const uint64_t ns = client->owner_ns_;
    if (client->verdict_ == OwnerVerdict::kReplaced && client->newest_epoch_ > client->epoch_ &&
        ++epochs < kEpochsMax) {
      client->epoch_ = client->newest_epoch_;
      until_ns = UINT64_MAX;
    } else if (client->verdict_ == OwnerVerdict::kLeaseRuns && ns != 0 && ns <= kWaitNsMax - waited_ns) {
      const uint64_t now_ns = base::boot_ns();
      if (!client->forces_ && until_ns != UINT64_MAX && now_ns + ns > until_ns + kRenewedNs) return status;
      if (client->forces_ && waited_ns == 0 && take_over.note) take_over.note(std::string(status.message()));
      until_ns = std::min(until_ns, now_ns + ns);
      waited_ns += ns;
      base::sleep_ms(ns / base::kNsPerMs + 1);
    } else {
      return status;
    }
  }
}

void PoolRequests::close(std::span<const Opened> pools) {
  std::vector<PoolClient*> asked;
  for (const Opened& pool : pools) {
    if (write(pool.client, pool.peer, PoolOp::kLeave, 0, 0).ok()) asked.push_back(pool.client);
  }
  if (!asked.empty()) static_cast<void>(await(asked));
}

}  // namespace bonsai::scale
