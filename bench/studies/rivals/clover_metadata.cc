// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/clover_metadata.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace bonsai::bench::rivals::clover {

Status MetadataServer::make(rdma::Fabric* fabric, std::vector<std::string> addresses, const Options& options,
                            const std::vector<MemoryNodeName>& memory_nodes, std::unique_ptr<MetadataServer>* server) {
  BONSAI_RETURN_IF_ERROR(Store::check(options.store));
  if (options.versions_end <= kFirstVersion || options.versions_end > kVersionsEnd) {
    return Status::InvalidArgument("versions_end is 2 to " + std::to_string(kVersionsEnd));
  }
  if (memory_nodes.size() != options.store.memory_nodes) {
    return Status::InvalidArgument("a Clover-like store of " + std::to_string(options.store.memory_nodes) +
                                   " memory nodes was given " + std::to_string(memory_nodes.size()));
  }
  for (const MemoryNodeName& node : memory_nodes) {
    if (node.memory.bytes < options.store.node_bytes) {
      return Status::InvalidArgument("memory node " + node.address + " is smaller than the store's node_bytes");
    }
  }
  if (addresses.size() != options.store.metadata_workers) {
    return Status::InvalidArgument("a metadata server of " + std::to_string(options.store.metadata_workers) +
                                   " workers was given " + std::to_string(addresses.size()) + " addresses");
  }
  std::unique_ptr<MetadataServer> made(new MetadataServer(fabric, std::move(addresses), options, memory_nodes));
  for (const std::string& address : made->addresses_) {
    Worker& worker = made->workers_.emplace_back();
    BONSAI_RETURN_IF_ERROR(CallServer::make(fabric, address, sizeof(ReportCall), sizeof(Answer), &worker.calls));
    BONSAI_RETURN_IF_ERROR(
        rdma::RegisteredMemory::make(*fabric, sizeof(uint64_t), rdma::Rights::none(), &worker.scratch));
  }
  *server = std::move(made);
  return Status::OK();
}

void MetadataServer::rejoin(const std::vector<MemoryNodeName>& memory_nodes) {
  for (Worker& worker : workers_) worker.connection.reset();
  memory_nodes_ = memory_nodes;
}

Status MetadataServer::connect(size_t worker) {
  if (workers_[worker].connection != nullptr) return Status::OK();
  const auto number = static_cast<uint32_t>(options_.number - worker);
  return Connection::make(fabric_, number, memory_nodes_, &workers_[worker].connection);
}

uint64_t MetadataServer::busy_ns() const {
  uint64_t most = 0;
  for (const Worker& worker : workers_) most = std::max(most, worker.busy_ns);
  return most;
}

Status MetadataServer::serve(size_t worker, uint64_t limit_ms) {
  BONSAI_RETURN_IF_ERROR(connect(worker));
  std::array<std::byte, sizeof(ReportCall)> bytes{};
  CallServer::Call received;
  BONSAI_RETURN_IF_ERROR(workers_[worker].calls->take(limit_ms, bytes.data(), &received));
  const uint64_t began_ns = base::now_ns();
  Status status = answer_call(&workers_[worker], bytes.data(), received);
  workers_[worker].busy_ns += base::now_ns() - began_ns;
  return status;
}

Status MetadataServer::answer_call(Worker* worker, const std::byte* bytes, const CallServer::Call& received) {
  Answer answer;
  uint64_t token = 0;
  rdma::Remote to;
  if (received.bytes == sizeof(ReportCall)) {
    ReportCall call;
    std::memcpy(static_cast<void*>(&call), bytes, sizeof call);
    if (call.count > kReportsPerCall) return Status::InvalidArgument("a call of too many reports was dropped");
    const std::lock_guard lock(mutex_);
    ++counters_.calls;
    for (size_t i = 0; i < call.count; ++i) take_report(call.reports[i]);
    answer.epoch = epoch();
    token = call.token;
    to = call.answer;
  } else if (received.bytes == sizeof(Call)) {
    Call call;
    std::memcpy(static_cast<void*>(&call), bytes, sizeof call);
    if (!carry_out(worker, call, &answer)) {
      return Status::InvalidArgument("a call for something unknown was dropped");
    }
    token = call.token;
    to = call.answer;
  } else {
    return Status::InvalidArgument("a call of a wrong size was dropped");
  }
  answer.check = answer.check_of(token);
  return worker->calls->answer(&answer, to, received.caller);
}

bool MetadataServer::carry_out(Worker* worker, const Call& call, Answer* answer) {
  std::unique_lock lock(mutex_);
  ++counters_.calls;
  answer->epoch = epoch();
  if (call.ask == Ask::kFind) {
    find(call, answer);
  } else if (call.ask == Ask::kBuffers) {
    give_buffers(answer);
  } else if (call.ask == Ask::kInsert) {
    if (!insert(call, answer)) return true;
    lock.unlock();
    if (!write_shortcut(worker, answer->shortcut, Link(call.link)).ok()) answer->outcome = Outcome::kUnavailable;
  } else {
    return false;
  }
  return true;
}

// The first begins when something is parked.
uint64_t MetadataServer::epoch() {
  const uint64_t now = base::now_ns();
  if (parked_.empty()) epoch_began_ns_ = now;
  const uint64_t passed = (now - epoch_began_ns_) / options_.epoch_ns;
  epoch_began_ns_ += passed * options_.epoch_ns;
  return epoch_ += passed;
}

void MetadataServer::find(const Call& call, Answer* answer) const {
  const auto chain = chains_.find(call.hash);
  if (chain == chains_.end()) {
    answer->outcome = Outcome::kAbsent;
    return;
  }
  answer->link = chain->second.head.word();
  answer->shortcut = chain->second.shortcut;
}

bool MetadataServer::insert(const Call& call, Answer* answer) {
  const auto [chain, is_new] = chains_.try_emplace(call.hash, Chain{Link(call.link), chains_.size()});
  if (!is_new) {
    find(call, answer);
    answer->outcome = Outcome::kExists;
    return false;
  }
  if (chain->second.shortcut == options_.store.keys_max) {
    chains_.erase(chain);
    answer->outcome = Outcome::kNoSpace;
    return false;
  }
  counters_.keys = chains_.size();
  answer->shortcut = chain->second.shortcut;
  return true;
}

Status MetadataServer::write_shortcut(Worker* worker, uint64_t shortcut, Link link) const {
  const uint64_t word = link.word();
  const rdma::Slice from = worker->scratch->slice(0, sizeof word);
  std::memcpy(from.data(), &word, sizeof word);
  Batch batch(worker->connection.get());
  batch.write(from, store_.shortcut_at(shortcut));
  return batch.run();
}

void MetadataServer::give_buffers(Answer* answer) {
  recycle();
  for (Buffer& buffer : answer->buffers) {
    if (counters_.slabs_used < store_.slabs()) {
      buffer = {store_.handle_of(counters_.slabs_used++), kFirstVersion};
    } else if (!free_.empty()) {
      buffer = free_.front();
      free_.pop_front();
    } else {
      break;
    }
    ++answer->buffer_count;
  }
}

void MetadataServer::take_report(const Report& report) {
  const auto found = chains_.find(report.hash);
  if (found == chains_.end()) return;
  Link& head = found->second.head;
  if (head != Link(report.older)) ++counters_.reports_early;
  reported_early_.emplace(std::pair(report.hash, report.older), Link(report.newer));
  for (auto next = reported_early_.find({report.hash, head.word()}); next != reported_early_.end();
       next = reported_early_.find({report.hash, head.word()})) {
    retire(head);
    head = next->second;
    reported_early_.erase(next);
  }
}

void MetadataServer::retire(Link link) {
  ++counters_.retired;
  retired_.push_back({{link.handle(), link.version()}, base::now_ns() + options_.retire_ns});
}

void MetadataServer::recycle() {
  const uint64_t now = base::now_ns();
  for (; !retired_.empty() && retired_.front().until <= now; retired_.pop_front()) {
    Buffer buffer = retired_.front().buffer;
    if (++buffer.version < options_.versions_end) {
      free_.push_back(buffer);
      ++counters_.recycled;
    } else {
      parked_.push_back({{buffer.handle, kFirstVersion}, epoch() + kEpochsParked});
      ++counters_.parked;
    }
  }
  for (; !parked_.empty() && parked_.front().until <= epoch_; parked_.pop_front()) {
    free_.push_back(parked_.front().buffer);
    ++counters_.recycled;
  }
}

}  // namespace bonsai::bench::rivals::clover
