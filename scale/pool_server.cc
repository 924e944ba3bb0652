// SPDX-License-Identifier: Apache-2.0
#include "scale/pool_server.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/nvm/bus_guard.h"
#include "base/nvm/os_file.h"
#include "base/status_macros.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kCreditsMax = 128;  // of one owner: as many as four lanes have in flight
constexpr size_t kJobsMax = 64;
constexpr uint64_t kDescriptorsKept = 64;  // for those who are served: connections end, memory is mapped
constexpr uint64_t kLookNs = 100'000'000;
constexpr uint64_t kUnlockedMsMax = 1'000;
constexpr base::Site kSiteServe{"server.flush"};
constexpr uint64_t kJudgedBytesMax = uint64_t{1} << 16;  // of a pool's beginning, to see whether it was finished

// Whether the file is as large as its mapping. A device, and memory without a file, are.
bool has_bytes(const base::Mapping& mapping) {
  struct stat found {};
  if (mapping.fd() < 0 || ::fstat(mapping.fd(), &found) != 0 || !S_ISREG(found.st_mode)) return true;
  return static_cast<uint64_t>(found.st_size) >= mapping.bytes();
}

// Whether so few descriptors are left that a further owner could take them from those who are served.
bool lacks_descriptors() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  const uint64_t open = base::names_in("/proc/self/fd").size();
  return open == 0 || open + std::min<uint64_t>(kDescriptorsKept, limit.rlim_cur / 4) > limit.rlim_cur;
}

}  // namespace

Status PoolServer::make(rdma::Fabric* fabric, const Config& config, std::unique_ptr<PoolServer>* server) {
  base::catch_bus_errors();
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
  const size_t requests = std::min(config_.requests_max, fabric_->capabilities().messages_waiting_max);
  credits_ = std::make_shared<Credits>(requests - requests / 8);
  BONSAI_RETURN_IF_ERROR(rdma::FlushAgent::make(
      fabric_, worker_.get(), requests, [this](auto ranges) { return flush(ranges); }, &agent_));
  agent_->set_other([this](std::span<const std::byte> message, uint32_t node) { return take(message, node); });
  rdma::Hello own;
  own.node = config_.node;
  *testing_ = config_.tester != 0;
  return worker_->listen(config_.address, own, gate());
}

rdma::Admit PoolServer::gate() const {
  const rdma::Admit owners = config_.secret != nullptr ? config_.secret->gate() : rdma::Admit();
  return [owners, tester = config_.tester, testing = testing_, notes = notes_, sessions = sessions_](
             const rdma::Hello& other, rdma::Hello* answer) {
    if (*testing) {
      return other.node == tester ? Status::OK() : Status::Unavailable("the node is being started; try again");
    }
    if (lacks_descriptors()) {
      notes->add("a connection was refused: this process is at its limit of open files; raise it (ulimit -n)");
      return Status::NoSpace(
          "the node is at its limit of open files; raise it there (ulimit -n), or close other pools");
    }
    // First the secret: a stranger does not take a number.
    if (owners) BONSAI_RETURN_IF_ERROR(owners(other, answer));
    return sessions->admit(other);
  };
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
    sessions_->keep([this](uint32_t node) { return agent_->connected(node); });
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

bool PoolServer::Pool::flush(const rdma::FlushRequest::Range& range) {
  const std::byte* const begin = region->memory().data() + (range.address - region->remote().base);
  if (media.hooked == nullptr) {
    base::ProductMedium medium(mapping->data(), mapping->bytes(), mapping->domain());
    return base::survive_bus_error([&] { medium.flush(begin, range.bytes, kSiteServe); });
  }
  // Such a medium notes the range only, and its fence hands it to the kernel.
  if (!has_bytes(*mapping)) return false;
  media.hooked->flush(begin, range.bytes, kSiteServe);
  return true;
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
    if (pool->cut_short) return rdma::FlushResult::kFailed;
    if (!pool->flush(range)) {
      note_cut_short(pool);
      return rdma::FlushResult::kFailed;
    }
    if (std::find(flushed.begin(), flushed.end(), pool) == flushed.end()) flushed.push_back(pool);
  }
  bool kept = true;
  for (Pool* const pool : flushed) kept = pool->fence() && kept;
  return kept ? rdma::FlushResult::kDone : rdma::FlushResult::kFailed;
}

void PoolServer::note_cut_short(Pool* pool) {
  pool->cut_short = true;
  const std::string path = pool->mapping->path();
  notes_->add(path + " was cut short while it was in use: its owner's updates fail from now on; restore the file");
}

void PoolServer::Notes::add(std::string text) {
  const std::lock_guard lock(mutex_);
  const bool known = std::find(notes_.begin(), notes_.end(), text) != notes_.end();
  if (!known && notes_.size() < kNotesMax) notes_.push_back(std::move(text));
}

std::vector<std::string> PoolServer::Notes::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
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
  if (jobs_.count(name) != 0) {
    return Status::Busy("an earlier request about pool " + name + " is being carried out; try again later");
  }
  if (jobs_.size() == kJobsMax) {
    return Status::Busy(std::to_string(kJobsMax) + " requests are being carried out here; try again later");
  }
  BONSAI_RETURN_IF_ERROR(admit(request.op, name, node));
  auto made = std::make_unique<Job>();
  Job* const job = made.get();
  BONSAI_RETURN_IF_ERROR(base::Thread::reserve("pool request", &job->thread));
  const bool opens =
      request.op == PoolOp::kOpen || request.op == PoolOp::kCreate || request.op == PoolOp::kCreateUnnamed;
  if (opens) BONSAI_RETURN_IF_ERROR(grant_credits(name, &job->credits));
  job->request = request;
  job->name = name;
  job->node = node;
  if (const auto found = pools_.find(name); found != pools_.end()) {
    job->pool = std::move(found->second);
    pools_.erase(found);
  }
  jobs_.emplace(name, std::move(made));
  job->thread.begin([this, job] { carry_out(job); });
  return Status::OK();
}

Status PoolServer::grant_credits(const std::string& name, std::shared_ptr<const uint64_t>* credits) {
  const uint64_t share = credits_->take_share(kCreditsMax);
  if (share == 0) {
    return Status::Busy("pool " + name +
                        " would be one more than this address has receive buffers for; close others, " +
                        "or serve it at another address");
  }
  *credits = {new uint64_t(share), [all = credits_](const uint64_t* granted) {
                all->give_back(*granted);
                delete granted;
              }};
  return Status::OK();
}

// Whether the node may ask for that. Of pools that have no owner nothing is known here.
Status PoolServer::admit(PoolOp op, const std::string& name, uint32_t node) const {
  const auto found = pools_.find(name);
  switch (op) {
    case PoolOp::kOpen:
    case PoolOp::kCreate:
    case PoolOp::kCreateUnnamed:
      if (found == pools_.end()) return Status::OK();
      if (found->second->owner == node) {
        return Status::InvalidArgument("pool " + name + " is named twice; name each target once");
      }
      return Status::Busy("pool " + name +
                          " has an owner; close it there, or wait until that one has disconnected (its node's log " +
                          "names it)");
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
    case PoolOp::kCreateUnnamed:
      job->status = open(job);
      break;
    case PoolOp::kResize:
      job->status = resize(job);
      break;
    case PoolOp::kClose:
    case PoolOp::kRemove:
      job->status = release(job);
      break;
    case PoolOp::kComplete:
      job->status = complete(job);
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
Status PoolServer::find(const PoolRequest& request, const std::string& path, const std::string& name) {
  const uint64_t looked_at = std::min<uint64_t>(request.bytes, kJudgedBytesMax);
  const auto unfinished = [&](std::span<const std::byte> first) { return base::is_marked(first, request.mark); };
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
  const bool create = request.op != PoolOp::kOpen;
  const std::string path = config_.folder + "/" + job->name;
  if (!create) BONSAI_RETURN_IF_ERROR(find(request, path, job->name));
  if (create && (request.bytes < base::kMappingBytesMin || request.bytes > kPoolBytesMax)) {
    return Status::InvalidArgument("a pool cannot have " + std::to_string(request.bytes) + " bytes; ask for " +
                                   std::to_string(base::kMappingBytesMin) + " to " + std::to_string(kPoolBytesMax));
  }
  base::MappingOptions options;
  options.create_bytes = create ? request.bytes : 0;
  options.create_mark = create ? request.mark : 0;
  options.name_later = request.op == PoolOp::kCreateUnnamed;
  const Status status = map_unlocked(path, options, job);
  if (!status.ok() && create && job->pool->mapping != nullptr) static_cast<void>(job->pool->mapping->remove());
  return status;
}

// An earlier owner on this machine may have it mapped, and so locked, for a moment after it gave it back; one that is
// stopped, for longer than anybody waits.
Status PoolServer::map_unlocked(const std::string& path, const base::MappingOptions& options, Job* job) const {
  Status status;
  for (base::BoundedWait wait("pool.unlocked", kUnlockedMsMax);; wait.pause()) {
    status = map(path, options, job);
    if (!status.IsBusy()) return status;
    if (wait.expired()) break;
  }
  return Status::Busy("pool " + job->name + " is still mapped by a process of its node: an earlier owner that is " +
                      "stopped or hangs, or a store that opened the file itself; end it or close it there (fuser " +
                      path + " names it)");
}

// Maps the pool and registers its bytes. After an error the mapping is there if it was made.
Status PoolServer::map(const std::string& path, const base::MappingOptions& options, Job* job) const {
  job->pool = std::make_unique<Pool>();
  Pool& pool = *job->pool;
  pool.owner = job->node;
  pool.word = job->request.answer;
  pool.credits = job->credits;
  pool.unnamed = options.name_later;
  base::MappingOptions declared = options;
  declared.domain = config_.cache_domain;
  declared.leave_lock = true;
  BONSAI_RETURN_IF_ERROR(base::Mapping::open(path, declared, &pool.mapping));
  pool.bytes_before = pool.mapping->bytes();
  BONSAI_RETURN_IF_ERROR(config_.make_media ? config_.make_media(*pool.mapping, &pool.media)
                                            : base::make_media(*pool.mapping, config_.media, &pool.media));
  const std::span<std::byte> memory = pool.media.hooked != nullptr
                                          ? std::span(pool.media.hooked->view(), pool.media.hooked->bytes())
                                          : std::span(pool.mapping->data(), pool.mapping->bytes());
  rdma::Rights rights;
  rights.read = rights.write = true;
  // The lock of the file is then that of all who have it mapped, this server or not.
  const bool is_file = memory.data() == pool.mapping->data() && pool.mapping->fd() >= 0;
  return is_file ? fabric_->register_file(memory, rights, pool.mapping->fd(), &pool.region)
                 : fabric_->register_region(memory, rights, &pool.region);
}

void PoolServer::describe(const Pool& pool, PoolAnswer* answer) const {
  answer->region = pool.region->remote();
  answer->domain = static_cast<uint64_t>(pool.media.hooked != nullptr ? rdma::RemoteDomain::kAdr : config_.domain);
  answer->emulated = pool.media.emulated ? 1 : 0;
  answer->credits = *pool.credits;
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
  if (job->pool->unnamed) return Status::InvalidArgument("pool " + job->name + " is not complete");
  const int fd = job->pool->mapping->fd();
  struct stat file = {};
  if (::fstat(fd, &file) != 0) return base::os_error("examine", path, errno);
  if (bytes < before && S_ISREG(file.st_mode) && ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    return base::os_error("make smaller", path, errno);
  }
  // The owner has it mapped, so that only the file that is open is not locked to this server, whatever has its name.
  const std::unique_ptr<base::Mapping> old = std::move(job->pool->mapping);
  job->credits = job->pool->credits;
  job->pool.reset();
  base::MappingOptions options;
  options.open_file = fd;
  if (bytes >= before) options.grow_bytes = bytes;
  const Status status = map(path, options, job);
  job->pool->bytes_before = least;
  return status;
}

Status PoolServer::release(Job* job) {
  Status status;
  if (job->request.op == PoolOp::kRemove) status = job->pool->mapping->remove();
  job->pool.reset();
  return status;
}

Status PoolServer::complete(Job* job) {
  Pool& pool = *job->pool;
  if (!pool.unnamed) return Status::InvalidArgument("pool " + job->name + " has its name already");
  BONSAI_RETURN_IF_ERROR(pool.mapping->sync());
  BONSAI_RETURN_IF_ERROR(pool.mapping->take_name());
  pool.unnamed = false;
  return Status::OK();
}

std::map<std::string, uint32_t> PoolServer::owners() const {
  std::map<std::string, uint32_t> owners;
  for (const auto& [name, pool] : pools_) owners.emplace(name, pool->owner);
  return owners;
}

}  // namespace bonsai::scale
