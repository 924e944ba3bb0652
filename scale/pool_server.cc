// SPDX-License-Identifier: Apache-2.0
#include "scale/pool_server.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/nvm/os_file.h"
#include "base/status_macros.h"

namespace bonsai::scale {
namespace {

constexpr size_t kRequestsMax = 256;  // that wait while one is served
constexpr size_t kJobsMax = 64;
constexpr uint64_t kLookNs = 100'000'000;
constexpr base::Site kSiteServe{"server.flush"};
constexpr uint64_t kJudgedBytesMax = uint64_t{1} << 16;  // of a pool's beginning, to see whether it was finished

std::string complete_name(const std::string& name) {
  return name.ends_with(kPartialEnding) ? name.substr(0, name.size() - kPartialEnding.size()) : name;
}

}  // namespace

Status PoolServer::make(rdma::Fabric* fabric, const Config& config, std::unique_ptr<PoolServer>* server) {
  std::unique_ptr<PoolServer> made(new PoolServer(fabric, config));
  BONSAI_RETURN_IF_ERROR(made->start());
  *server = std::move(made);
  return Status::OK();
}

PoolServer::~PoolServer() {
  agent_.reset();  // closes the connections
  jobs_.clear();
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
  Status status;
  for (base::BoundedWait wait("server.request", limit_ms);; wait.pause()) {
    status = agent_->serve(jobs_.empty() ? limit_ms : 0);
    if (end_jobs()) status = Status::OK();
    if (!status.IsUnavailable() || jobs_.empty() || limit_ms == 0 || wait.expired()) break;
  }
  if (const uint64_t now_ns = base::now_ns(); now_ns - looked_ns_ >= kLookNs) {
    looked_ns_ = now_ns;
    close_abandoned();
    look_for_owners();
    send_beats();
  }
  return status;
}

// A sign that cannot leave at once is dropped: nobody waits for it, and the next one has the same meaning.
void PoolServer::send_beats() {
  for (const auto& [name, job] : jobs_) {
    ++job->beats;
    const rdma::Remote to = {job->request.answer.key, job->request.answer.address + offsetof(PoolAnswer, beats)};
    static_cast<void>(agent_->answer(job->node, std::as_bytes(std::span(&job->beats, 1)), to, 0));
  }
}

void PoolServer::look_for_owners() {
  std::map<uint32_t, rdma::Remote> words;
  for (const auto& [name, pool] : pools_) words[pool->owner] = pool->word;
  agent_->look_for(words);
}

void PoolServer::close_abandoned() {
  std::erase_if(pools_, [this](const auto& pool) { return !agent_->connected(pool.second->owner); });
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
    const rdma::RemoteRegion served = pool->region->remote();
    const uint64_t offset = range.address - served.base;
    if (offset <= served.bytes && range.bytes <= served.bytes - offset) return pool.get();
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
  const Status status = begin(request, node);
  if (status.ok()) return status;
  PoolAnswer refusal;
  return answer(request, node, status, &refusal);
}

Status PoolServer::answer(const PoolRequest& request, uint32_t node, const Status& status, PoolAnswer* answer) {
  if (!status.ok()) {
    *answer = {};
    answer->code = static_cast<int64_t>(status.code());
    set_wire_text(&answer->text, status.message());
  }
  answer->token = request.token;
  return agent_->answer(node, std::as_bytes(std::span(answer, 1)), request.answer, config_.answer_ms_max);
}

Status PoolServer::begin(const PoolRequest& request, uint32_t node) {
  const std::string name = wire_text(request.pool);
  if (!is_pool_name(name)) return Status::InvalidArgument("'" + name + "' is no name of a pool");
  close_abandoned();
  if (jobs_.count(complete_name(name)) != 0) {
    return Status::Busy("an earlier request about pool " + name + " is being carried out; try again later");
  }
  if (jobs_.size() == kJobsMax) {
    return Status::Busy(std::to_string(kJobsMax) + " requests are being carried out here; try again later");
  }
  BONSAI_RETURN_IF_ERROR(admit(request.op, name, node));
  auto made = std::make_unique<Job>();
  Job* const job = made.get();
  job->request = request;
  job->name = name;
  job->node = node;
  if (const auto found = pools_.find(name); found != pools_.end()) {
    job->pool = std::move(found->second);
    pools_.erase(found);
  }
  jobs_.emplace(complete_name(name), std::move(made));
  job->thread = base::Thread("pool request", [this, job] { carry_out(job); });
  return Status::OK();
}

// Whether the node may ask for that. Of pools that have no owner nothing is known here.
Status PoolServer::admit(PoolOp op, const std::string& name, uint32_t node) const {
  const auto found = pools_.find(name);
  switch (op) {
    case PoolOp::kOpen:
    case PoolOp::kCreate:
      if (found == pools_.end()) return Status::OK();
      if (found->second->owner == node) {
        return Status::InvalidArgument("pool " + name + " is named twice; name each target once");
      }
      return Status::Busy("pool " + name + " has an owner, node " + std::to_string(found->second->owner) +
                          "; close it there, or wait until that node has disconnected");
    case PoolOp::kResize:
    case PoolOp::kClose:
    case PoolOp::kRemove:
    case PoolOp::kComplete:
      if (found != pools_.end() && found->second->owner == node) return Status::OK();
      return Status::InvalidArgument("pool " + name + " is not this owner's");
  }
  return Status::NotSupported("this node's server does not support the request; run the same version on both");
}

// On the job's thread.
void PoolServer::carry_out(Job* job) const {
  switch (job->request.op) {
    case PoolOp::kOpen:
    case PoolOp::kCreate:
      job->status = open(job);
      break;
    case PoolOp::kResize:
      job->status = resize(job);
      break;
    case PoolOp::kClose:
    case PoolOp::kRemove:
    case PoolOp::kComplete:
      job->status = release(job);
      break;
  }
  if (!job->status.ok() && job->pool != nullptr && job->pool->region == nullptr) job->pool.reset();  // made in part
  if (job->pool != nullptr) describe(*job->pool, &job->answer);
  job->over.store(true, std::memory_order_release);
}

// Answers what has been carried out. Whether there was any.
bool PoolServer::end_jobs() {
  return std::erase_if(jobs_, [this](auto& entry) {
           Job& job = *entry.second;
           if (!job.over.load(std::memory_order_acquire)) return false;
           if (job.pool != nullptr) pools_.emplace(job.name, std::move(job.pool));
           // A node that left meanwhile gets no answer, and its pool is closed as that of any other.
           static_cast<void>(answer(job.request, job.node, job.status, &job.answer));
           return true;
         }) != 0;
}

// Whether there is a pool to be opened; one that was never finished is none.
Status PoolServer::find(const PoolRequest& request, const std::string& path, const std::string& name) const {
  const uint64_t looked_at = std::min<uint64_t>(request.bytes, kJudgedBytesMax);
  const auto unfinished = [&](std::span<const std::byte> first) { return base::is_marked(first, request.mark); };
  // Of a copy that was interrupted there may be less than can be opened, and its owner is to remove it.
  if (name.ends_with(kPartialEnding)) static_cast<void>(base::remove_shorter(path, base::kMappingBytesMin));
  std::error_code ignored;
  if (request.mark != 0) {
    static_cast<void>(base::remove_unused(path, looked_at, unfinished));
    if (std::filesystem::is_character_file(path, ignored)) {
      base::MappingOptions options;
      options.read_only = true;
      std::unique_ptr<base::Mapping> device;
      BONSAI_RETURN_IF_ERROR(base::Mapping::open(path, options, &device));
      const std::span<const std::byte> first(device->data(), std::min<uint64_t>(device->bytes(), looked_at));
      const bool blank = std::all_of(first.begin(), first.end(), [](std::byte byte) { return byte == std::byte{0}; });
      if (blank || unfinished(first)) return Status::NotFound("the device " + name + " of this node holds no pool");
    }
  }
  std::error_code error;
  if (std::filesystem::exists(path, error)) return Status::OK();
  if (error) return base::os_error("examine", path, error.value());
  return Status::NotFound("this node has no pool " + name);
}

Status PoolServer::open(Job* job) const {
  const PoolRequest& request = job->request;
  const bool create = request.op == PoolOp::kCreate;
  const std::string path = config_.folder + "/" + job->name;
  if (!create) BONSAI_RETURN_IF_ERROR(find(request, path, job->name));
  if (create && (request.bytes < base::kMappingBytesMin || request.bytes > kPoolBytesMax)) {
    return Status::InvalidArgument("a pool cannot have " + std::to_string(request.bytes) + " bytes; ask for " +
                                   std::to_string(base::kMappingBytesMin) + " to " + std::to_string(kPoolBytesMax));
  }
  base::MappingOptions options;
  options.create_bytes = create ? request.bytes : 0;
  options.create_mark = create ? request.mark : 0;
  const Status status = map(path, options, job);
  if (!status.ok() && create && job->pool->mapping != nullptr) static_cast<void>(job->pool->mapping->remove());
  return status;
}

// Maps the pool and registers its bytes. After an error the mapping is there if it was made.
Status PoolServer::map(const std::string& path, const base::MappingOptions& options, Job* job) const {
  job->pool = std::make_unique<Pool>();
  Pool& pool = *job->pool;
  pool.owner = job->node;
  pool.word = job->request.answer;
  base::MappingOptions declared = options;
  declared.domain = config_.cache_domain;
  BONSAI_RETURN_IF_ERROR(base::Mapping::open(path, declared, &pool.mapping));
  pool.bytes_before = pool.mapping->bytes();
  BONSAI_RETURN_IF_ERROR(config_.make_media ? config_.make_media(*pool.mapping, &pool.media)
                                            : base::make_media(*pool.mapping, config_.media, &pool.media));
  const std::span<std::byte> memory = pool.media.hooked != nullptr
                                          ? std::span(pool.media.hooked->view(), pool.media.hooked->bytes())
                                          : std::span(pool.mapping->data(), pool.mapping->bytes());
  rdma::Rights rights;
  rights.read = rights.write = true;
  return fabric_->register_region(memory, rights, &pool.region);
}

void PoolServer::describe(const Pool& pool, PoolAnswer* answer) const {
  answer->region = pool.region->remote();
  answer->domain = static_cast<uint64_t>(pool.media.hooked != nullptr ? rdma::RemoteDomain::kAdr : config_.domain);
  answer->emulated = pool.media.emulated ? 1 : 0;
  set_wire_text(&answer->text, pool.media.text);
}

// A pool that was enlarged for nothing gets its size back, and never less.
Status PoolServer::resize(Job* job) const {
  const uint64_t bytes = job->request.bytes, least = job->pool->bytes_before;
  if (bytes < least || bytes > kPoolBytesMax) {
    return Status::InvalidArgument("pool " + job->name + " has " + std::to_string(least) + " bytes and cannot get " +
                                   std::to_string(bytes) + "; ask for as many, or for up to " +
                                   std::to_string(kPoolBytesMax));
  }
  const std::string path = job->pool->mapping->path();
  const uint64_t before = job->pool->mapping->bytes();
  job->pool.reset();
  base::MappingOptions options;
  std::error_code error;
  if (bytes >= before) {
    options.grow_bytes = bytes;
  } else if (std::filesystem::is_regular_file(path, error)) {
    std::filesystem::resize_file(path, bytes, error);
    if (error) return Status::IoError("pool " + job->name + " cannot be made smaller: " + error.message());
  }
  const Status status = map(path, options, job);
  job->pool->bytes_before = least;
  return status;
}

Status PoolServer::release(Job* job) {
  const PoolOp op = job->request.op;
  const std::string& name = job->name;
  const std::string path = job->pool->mapping->path();
  if (op == PoolOp::kComplete) {
    if (!name.ends_with(kPartialEnding)) return Status::InvalidArgument("pool " + name + " is complete");
    const std::string whole = complete_name(path);
    std::error_code error;
    if (std::filesystem::exists(whole, error)) return Status::InvalidArgument(whole + " exists already");
    job->pool.reset();
    std::filesystem::rename(path, whole, error);
    if (error) return Status::IoError("pool " + name + " cannot be given its name: " + error.message());
    return base::sync_directory_of(whole);
  }
  const Status status = op == PoolOp::kRemove ? job->pool->mapping->remove() : Status::OK();
  job->pool.reset();
  return status;
}

std::map<std::string, uint32_t> PoolServer::owners() const {
  std::map<std::string, uint32_t> owners;
  for (const auto& [name, pool] : pools_) owners.emplace(name, pool->owner);
  return owners;
}

}  // namespace bonsai::scale
