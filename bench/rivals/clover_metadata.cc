// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/clover_metadata.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace bonsai::bench::rivals::clover {

Status MetadataServer::make(rdma::Fabric* fabric, const std::string& address, const Options& options,
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
  std::unique_ptr<MetadataServer> made(new MetadataServer(fabric, address, options, memory_nodes));
  BONSAI_RETURN_IF_ERROR(CallServer::make(fabric, address, sizeof(ReportCall), sizeof(Answer), &made->calls_));
  BONSAI_RETURN_IF_ERROR(
      rdma::RegisteredMemory::make(*fabric, sizeof(uint64_t), rdma::Rights::none(), &made->scratch_));
  *server = std::move(made);
  return Status::OK();
}

void MetadataServer::rejoin(const std::vector<MemoryNodeName>& memory_nodes) {
  connection_.reset();
  memory_nodes_ = memory_nodes;
}

Status MetadataServer::connect() {
  if (connection_ != nullptr) return Status::OK();
  return Connection::make(fabric_, options_.number, memory_nodes_, &connection_);
}

Status MetadataServer::serve(uint64_t limit_ms) {
  BONSAI_RETURN_IF_ERROR(connect());
  std::array<std::byte, sizeof(ReportCall)> bytes{};
  CallServer::Call received;
  BONSAI_RETURN_IF_ERROR(calls_->take(limit_ms, bytes.data(), &received));
  ++counters_.calls;
  if (received.bytes == sizeof(ReportCall)) {
    ReportCall call;
    std::memcpy(static_cast<void*>(&call), bytes.data(), sizeof call);
    if (call.count > kReportsPerCall) return Status::InvalidArgument("a call of too many reports was dropped");
    for (size_t i = 0; i < call.count; ++i) take_report(call.reports[i]);
    return answer(call.token, call.answer, received.caller, {});
  }
  if (received.bytes != sizeof(Call)) return Status::InvalidArgument("a call of a wrong size was dropped");
  Call call;
  std::memcpy(static_cast<void*>(&call), bytes.data(), sizeof call);
  Answer made;
  if (call.ask == Ask::kFind) {
    find(call, &made);
  } else if (call.ask == Ask::kInsert) {
    insert(call, &made);
  } else if (call.ask == Ask::kBuffers) {
    give_buffers(&made);
  } else {
    return Status::InvalidArgument("a call for something unknown was dropped");
  }
  return answer(call.token, call.answer, received.caller, made);
}

Status MetadataServer::answer(uint64_t token, rdma::Remote to, uint32_t caller, Answer answer) {
  answer.check = answer.check_of(token);
  return calls_->answer(&answer, to, caller);
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

void MetadataServer::insert(const Call& call, Answer* answer) {
  find(call, answer);
  if (answer->outcome == Outcome::kDone) {
    answer->outcome = Outcome::kExists;
    return;
  }
  if (chains_.size() == options_.store.keys_max) {
    answer->outcome = Outcome::kNoSpace;
    return;
  }
  const Chain chain{Link(call.link), chains_.size()};
  if (!write_shortcut(chain.shortcut, chain.head).ok()) {
    answer->outcome = Outcome::kUnavailable;
    return;
  }
  chains_.emplace(call.hash, chain);
  counters_.keys = chains_.size();
  answer->outcome = Outcome::kDone;
  answer->shortcut = chain.shortcut;
}

Status MetadataServer::write_shortcut(uint64_t shortcut, Link link) {
  const uint64_t word = link.word();
  const rdma::Slice from = scratch_->slice(0, sizeof word);
  std::memcpy(from.data(), &word, sizeof word);
  Batch batch(connection_.get());
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
  for (; !retired_.empty() && retired_.front().until_ns <= now; retired_.pop_front()) {
    Buffer buffer = retired_.front().buffer;
    if (++buffer.version < options_.versions_end) {
      free_.push_back(buffer);
      ++counters_.recycled;
    } else {
      parked_.push_back({{buffer.handle, kFirstVersion}, now + kEpochsParked * options_.epoch_ns});
      ++counters_.parked;
    }
  }
  for (; !parked_.empty() && parked_.front().until_ns <= now; parked_.pop_front()) {
    free_.push_back(parked_.front().buffer);
    ++counters_.recycled;
  }
}

}  // namespace bonsai::bench::rivals::clover
