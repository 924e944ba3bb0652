#include "scale/pool_server.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status_macros.h"

namespace bonsai::scale {
namespace {

constexpr size_t kRequestsMax = 64;  // that wait while one is served
constexpr uint64_t kLookNs = 50'000'000;
constexpr base::Site kSiteServe{"server.flush"};

}  // namespace

Status PoolServer::make(rdma::Fabric* fabric, const Config& config, std::unique_ptr<PoolServer>* server) {
  std::unique_ptr<PoolServer> made(new PoolServer(fabric, config));
  BONSAI_RETURN_IF_ERROR(made->start());
  *server = std::move(made);
  return Status::OK();
}

PoolServer::~PoolServer() {
  agent_.reset();  // closes the connections
  pools_.clear();
}

Status PoolServer::start() {
  std::error_code ignored;
  if (!std::filesystem::is_directory(config_.folder, ignored)) {
    return Status::IoError(config_.folder + " is no folder; make it, pools will be files in it");
  }
  if (config_.domain == rdma::RemoteDomain::kUnknown) {
    return Status::InvalidArgument(
        "the node's persistence domain is not declared, so an owner's write could be lost after it was acknowledged; "
        "declare adr, adr-direct or eadr");
  }
  BONSAI_RETURN_IF_ERROR(fabric_->make_worker(&worker_));
  BONSAI_RETURN_IF_ERROR(rdma::FlushAgent::make(
      fabric_, worker_.get(), kRequestsMax, [this](auto ranges) { return flush(ranges); }, &agent_));
  agent_->set_other([this](std::span<const std::byte> message, uint32_t node) { return take(message, node); });
  rdma::Hello own;
  own.node = config_.node;
  return worker_->listen(config_.address, own, config_.secret != nullptr ? config_.secret->gate() : rdma::Admit());
}

Status PoolServer::serve(uint64_t limit_ms) {
  const Status status = agent_->serve(limit_ms);
  if (const uint64_t now_ns = base::now_ns(); now_ns - looked_ns_ >= kLookNs) {
    looked_ns_ = now_ns;
    close_abandoned();
  }
  return status;
}

void PoolServer::close_abandoned() {
  std::erase_if(pools_, [this](const auto& pool) { return !agent_->connected(pool.second.owner); });
}

void PoolServer::Pool::flush(const rdma::FlushRequest::Range& range) {
  const std::byte* const begin = region->memory().data() + (range.address - region->remote().base);
  if (media.hooked != nullptr) return media.hooked->flush(begin, range.bytes, kSiteServe);
  base::ProductMedium(mapping->data(), mapping->bytes(), mapping->domain()).flush(begin, range.bytes, kSiteServe);
}

bool PoolServer::Pool::fence() {
  if (media.hooked != nullptr) return media.hooked->fence(kSiteServe);
  return base::ProductMedium(mapping->data(), mapping->bytes(), mapping->domain()).fence(kSiteServe);
}

PoolServer::Pool* PoolServer::pool_of(const rdma::FlushRequest::Range& range) {
  for (auto& [name, pool] : pools_) {
    const rdma::RemoteRegion served = pool.region->remote();
    const uint64_t offset = range.address - served.base;
    if (offset <= served.bytes && range.bytes <= served.bytes - offset) return &pool;
  }
  return nullptr;
}

// One fence for each pool that is named, after all flushes.
rdma::FlushResult PoolServer::flush(std::span<const rdma::FlushRequest::Range> ranges) {
  std::vector<Pool*> flushed;
  for (const rdma::FlushRequest::Range& range : ranges) {
    Pool* const pool = pool_of(range);
    if (pool == nullptr) return rdma::FlushResult::kNotServed;
    pool->flush(range);
    if (std::find(flushed.begin(), flushed.end(), pool) == flushed.end()) flushed.push_back(pool);
  }
  bool kept = true;
  for (Pool* const pool : flushed) kept = pool->fence() && kept;
  return kept ? rdma::FlushResult::kDone : rdma::FlushResult::kFailed;
}

Status PoolServer::take(std::span<const std::byte> message, uint32_t node) {
  PoolRequest request;
  if (message.size() != sizeof request) {
    return Status::InvalidArgument("a request of " + std::to_string(message.size()) + " bytes was dropped");
  }
  std::memcpy(&request, message.data(), sizeof request);
  if (request.magic != PoolRequest::kMagic || request.token == 0) {
    return Status::InvalidArgument("a malformed request was dropped");
  }
  PoolAnswer answer;
  if (const Status status = admit(request, node, &answer); !status.ok()) {
    answer = {};
    answer.code = static_cast<int64_t>(status.code());
    set_wire_text(&answer.text, status.message());
  }
  answer.token = request.token;
  return agent_->answer(node, std::as_bytes(std::span(&answer, 1)), request.answer, config_.answer_ms_max);
}

Status PoolServer::admit(const PoolRequest& request, uint32_t node, PoolAnswer* answer) {
  const std::string name = wire_text(request.pool);
  if (!is_pool_name(name)) return Status::InvalidArgument("'" + name + "' is no name of a pool");
  close_abandoned();
  switch (request.op) {
    case PoolOp::kOpen:
    case PoolOp::kCreate:
      return open(request, name, node, answer);
    case PoolOp::kClose:
    case PoolOp::kRemove:
      return release(name, node, request.op == PoolOp::kRemove);
  }
  return Status::NotSupported("this node's server does not know the request; run the same version on both");
}

Status PoolServer::open(const PoolRequest& request, const std::string& name, uint32_t node, PoolAnswer* answer) {
  const bool create = request.op == PoolOp::kCreate;
  const std::string path = config_.folder + "/" + name;
  if (pools_.contains(name)) {
    return Status::Busy("pool " + name + " has an owner, node " + std::to_string(pools_[name].owner) +
                        "; close it there, or wait until that node is gone");
  }
  std::error_code ignored;
  if (!create && !std::filesystem::exists(path, ignored)) {
    return Status::NotFound("this node has no pool " + name);
  }
  base::MappingOptions options;
  options.create_bytes = create ? request.bytes : 0;
  options.create_mark = create ? request.mark : 0;
  options.grow_bytes = create ? 0 : request.bytes;
  options.domain = config_.cache_domain;
  if (create && request.bytes < base::kMappingBytesMin) {
    return Status::InvalidArgument("a pool of " + std::to_string(request.bytes) + " bytes is too small");
  }
  Pool pool;
  BONSAI_RETURN_IF_ERROR(base::Mapping::open(path, options, &pool.mapping));
  Status status = base::make_media(*pool.mapping, config_.media, &pool.media);
  if (status.ok()) {
    const std::span<std::byte> memory = pool.media.hooked != nullptr
                                            ? std::span(pool.media.hooked->view(), pool.media.hooked->bytes())
                                            : std::span(pool.mapping->data(), pool.mapping->bytes());
    rdma::Rights rights;
    rights.read = rights.write = true;
    status = fabric_->register_region(memory, rights, &pool.region);
  }
  if (!status.ok()) {
    if (create) std::filesystem::remove(path, ignored);
    return status;
  }
  pool.owner = node;
  answer->region = pool.region->remote();
  answer->domain = static_cast<uint64_t>(pool.media.hooked != nullptr ? rdma::RemoteDomain::kAdr : config_.domain);
  answer->emulated = pool.media.emulated ? 1 : 0;
  set_wire_text(&answer->text, pool.media.text);
  pools_.emplace(name, std::move(pool));
  return Status::OK();
}

Status PoolServer::release(const std::string& name, uint32_t node, bool remove) {
  const auto found = pools_.find(name);
  if (found == pools_.end() || found->second.owner != node) {
    return Status::InvalidArgument("pool " + name + " is not this owner's");
  }
  const std::string path = found->second.mapping->path();
  pools_.erase(found);
  std::error_code error;
  if (remove && !std::filesystem::remove(path, error)) {
    return Status::IoError("pool " + name + " could not be removed: " + error.message());
  }
  return Status::OK();
}

}  // namespace bonsai::scale
