// SPDX-License-Identifier: Apache-2.0
#include "scale/pool_requests.h"

#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"
#include "base/wire_status.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kRequestMsMax = 3'600'000;  // for a node that reports that it is at work

rdma::Rights exchange_rights() {
  rdma::Rights rights;
  rights.write = true;  // nodes write their answers there
  rights.read = true;   // and look whether this one is still there
  return rights;
}

}  // namespace

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

// Writes the next request, which await() sends. Errors: Unavailable (an earlier one is still in flight).
Status PoolRequests::write(PoolClient* client, rdma::Peer* peer, PoolOp op, uint64_t bytes, uint64_t mark) {
  static_cast<void>(worker_.poll());
  if (client->list_.pending()) return Status::Unavailable("an earlier request has not ended yet");
  PoolRequest& request = client->exchange().request;
  request = {};
  request.op = op;
  request.bytes = bytes;
  request.mark = mark;
  request.token = ++tokens_;
  request.answer = client->memory_->remote().at(offsetof(PoolClient::Exchange, answer));
  set_wire_text(&request.pool, client->name_.pool);
  client->list_.clear();
  client->list_.send(*peer, client->memory_->slice(0, sizeof request));
  client->peer_ = peer;
  return Status::OK();
}

// Sends all requests before it waits for an answer. Returns when each node has answered or left; it waits for as long
// as one of them gives signs of being at work. It waits for room, too: reads that nobody waits for may be in flight.
Status PoolRequests::await(std::span<PoolClient* const> clients) {
  size_t posted = 0;
  uint64_t beats = 0;
  bool all = false;
  base::BoundedWait request("link.request", kRequestMsMax);
  for (; !request.expired(); static_cast<void>(request.watch_ns())) {
    const uint64_t seen = beats;
    BONSAI_RETURN_IF_ERROR(worker_.await("link.answer", limit_ms_, [&] {
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
  Status status = write(client, peer, op, bytes, mark);
  if (status.ok()) status = await({&client, 1});
  if (status.ok() && !client->answered()) {
    const bool sent = client->list_.pending() || client->list_.status().ok();
    status = sent ? Status::Unavailable("the node left") : client->list_.status();
  }
  if (!status.ok()) {
    return Status::Unavailable(name + ": the node does not answer (" + std::string(status.message()) +
                               "); see whether bonsaid runs there, and retry");
  }
  PoolAnswer answer;
  base::racy_load(&answer, reinterpret_cast<const std::byte*>(&client->exchange().answer), sizeof answer);
  if (answer.code != 0) {
    return base::status_from_wire(static_cast<int32_t>(answer.code), name + ": " + wire_text(answer.text));
  }
  if (pool != nullptr) {
    *pool = {answer.region, static_cast<rdma::RemoteDomain>(answer.domain), answer.emulated != 0, answer.credits,
             wire_text(answer.text) + ", over " + fabric_text_};
  }
  return Status::OK();
}

void PoolRequests::close(std::span<const Opened> pools) {
  std::vector<PoolClient*> asked;
  for (const Opened& pool : pools) {
    if (write(pool.client, pool.peer, PoolOp::kClose, 0, 0).ok()) asked.push_back(pool.client);
  }
  if (!asked.empty()) static_cast<void>(await(asked));
}

}  // namespace bonsai::scale
