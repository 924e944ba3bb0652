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
#include <iterator>
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
constexpr uint64_t kUnlockedMsMax = 1'000, kLeftMsMax = 5'000;  // of an owner that is replaced while it is alive
constexpr base::Site kSiteServe{"server.flush"};
constexpr uint64_t kJudgedBytesMax = uint64_t{1} << 16;  // of a pool's beginning, to see whether it was finished

bool makes_pool(PoolOp op) { return op == PoolOp::kCreate || op == PoolOp::kCreateUnnamed; }
// Whether the caller is served from then on.
bool takes_pool(PoolOp op) { return makes_pool(op) || op == PoolOp::kOpen || op == PoolOp::kResume; }

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
  return [owners, tester = config_.tester, testing = testing_, notes = notes_, attachments = attachments_,
          refusals = refusals_](const rdma::Arrival& other, rdma::Hello* answer) {
    if (*testing) {
      return other.node == tester ? Status::OK() : Status::Unavailable("the node is being started; try again");
    }
    if (lacks_descriptors()) {
      notes->add("a connection was refused: this process is at its limit of open files; raise it (ulimit -n)");
      return Status::NoSpace(
          "the node is at its limit of open files; raise it there (ulimit -n), or close other pools");
    }
    // First the secret: a stranger does not take a number.
    if (const Status status = owners ? owners(other, answer) : Status::OK(); !status.ok()) {
      if (!status.IsUnavailable()) refusals->add(other.from, status);  // else it is asked for its proof
      return status;
    }
    return attachments->admit(other);
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
    attachments_->keep([this](uint32_t node) { return agent_->connected(node); });
    send_beats();
  }
  return status;
}

// A sign that cannot leave at once is dropped: no client waits for it, and the next one has the same meaning.
void PoolServer::send_beats() {
  for (const auto& [name, job] : jobs_) {
    ++job->beats;
    const rdma::Remote to = {job->request.answer.key, job->request.answer.address + offsetof(PoolAnswer, beats)};
    static_cast<void>(agent_->answer(job->node, std::as_bytes(std::span(&job->beats, 1)), to, 0));
  }
}

void PoolServer::look_for_owners() {
  std::map<uint32_t, rdma::Remote> words;
  for (const auto& [name, pool] : pools_) words[pool->node] = pool->word;
  agent_->look_for(words);
}

void PoolServer::close_abandoned() {
  std::erase_if(pools_, [this](const auto& pool) { return !agent_->connected(pool.second->node); });
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

std::vector<std::string> PoolServer::take_notes() {
  std::vector<std::string> notes = notes_->take();
  std::ranges::move(refusals_->take(), std::back_inserter(notes));
  return notes;
}

Status PoolServer::take(std::span<const std::byte> message, uint32_t node) {
  auto made = std::make_unique<Job>();
  Job* const job = made.get();
  PoolRequest& request = job->request;
  if (message.size() != sizeof request) {
    return Status::InvalidArgument("a request of " + std::to_string(message.size()) + " bytes was dropped");
  }
  std::memcpy(&request, message.data(), sizeof request);
  if (request.magic != PoolRequest::kMagic || request.token == 0) {
    return Status::InvalidArgument("a malformed request was dropped");
  }
  job->name = wire_text(request.pool);
  job->node = node;
  job->attachment = attachments_->find(node);
  job->sender = {{request.session}, request.epoch + (request.op == PoolOp::kOpen ? 1 : 0), job->attachment.order};
  bool begins = false;
  const Status status = begin(job, &begins);
  if (!begins) return answer(job, status);
  jobs_.emplace(job->name, std::move(made));
  job->thread.begin([this, job] { carry_out(job); });
  return Status::OK();
}

Status PoolServer::answer(Job* job, const Status& status) {
  PoolAnswer& answer = job->answer;
  if (!status.ok()) {
    answer.code = static_cast<int64_t>(status.code());
    answer.region = {};
    set_wire_text(&answer.text, status.message());
  }
  answer.token = job->request.token;
  return agent_->answer(job->node, std::as_bytes(std::span(&answer, 1)), job->request.answer, config_.answer_ms_max);
}

// *begins: the request is to be carried out; else it is answered at once, with the returned status.
Status PoolServer::begin(Job* job, bool* begins) {
  const std::string& name = job->name;
  if (!is_pool_name(name)) return Status::InvalidArgument("'" + name + "' is no name of a pool");
  close_abandoned();
  if (jobs_.count(name) != 0) {
    return Status::Busy("an earlier request about pool " + name + " is being carried out; try again later");
  }
  if (jobs_.size() == kJobsMax) {
    return Status::Busy(std::to_string(kJobsMax) + " requests are being carried out here; try again later");
  }
  const PoolOp op = job->request.op;
  const auto found = pools_.find(name);
  Pool* const pool = found != pools_.end() ? found->second.get() : nullptr;
  if (op == PoolOp::kRenew) return renew(pool, job);
  BONSAI_RETURN_IF_ERROR(base::Thread::reserve("pool request", &job->thread));
  if (takes_pool(op)) BONSAI_RETURN_IF_ERROR(grant_credits(name, &job->credits));
  BONSAI_RETURN_IF_ERROR(pool != nullptr ? admit(*pool, job) : admit_without_owner(*job));
  if (pool != nullptr) {
    if (pool->node != job->node) agent_->end(pool->node);
    job->pool = std::move(found->second);
    pools_.erase(found);
  }
  *begins = true;
  return Status::OK();
}

Status PoolServer::renew(const Pool* pool, Job* job) {
  if (pool == nullptr) {
    job->answer.verdict = static_cast<uint64_t>(OwnerVerdict::kAgain);
    return Status::OK();
  }
  return judge(*pool->owner, pool->owner->renew(job->sender), job);
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

// For requests about a pool that has no owner here.
Status PoolServer::admit_without_owner(const Job& job) {
  if (takes_pool(job.request.op)) return Status::OK();
  return job.request.op >= PoolOp::kOpen && job.request.op <= PoolOp::kRenew
             ? Status::InvalidArgument("pool " + job.name + " is not this owner's")
             : Status::NotSupported("this node's server does not support the request; run the same version on both");
}

// Whether the caller may make this request. It may become the owner of a pool that still has another one, whose lease
// has run out.
Status PoolServer::admit(const Pool& pool, Job* job) const {
  const PoolOp op = job->request.op;
  const bool is_same_link = job->attachment.link != 0 && pool.link == job->attachment.link;
  if (op == PoolOp::kOpen || makes_pool(op)) {
    if (is_same_link) return Status::InvalidArgument("pool " + job->name + " is named twice; name each target once");
    if (makes_pool(op)) return Status::Busy("pool " + job->name + " has an owner: " + pool.owner->text());
  }
  const bool stays = !fabric_->capabilities().closing_ends_access && job->request.force == 0;
  if (op == PoolOp::kOpen && stays) {
    return Status::Busy("pool " + job->name + " has an owner: " + pool.owner->text() +
                        "; close it there, end that process if it hangs, or take the pool over by force");
  }
  if (op == PoolOp::kOpen || op == PoolOp::kResume) {
    const PoolOwner::Register::Reply reply = ask_register(pool.owner.get(), job);
    if (reply.answer == PoolOwner::Register::Answer::kGranted) {
      return Status::Busy("pool " + job->name + " is served over this connection already");
    }
    return judge(*pool.owner, reply, job);
  }
  if (takes_pool(op) || (pool.node == job->node && pool.owner->serves(job->sender))) return Status::OK();
  return admit_without_owner(*job);
}

// On the job's thread.
void PoolServer::carry_out(Job* job) const {
  switch (job->request.op) {
    case PoolOp::kOpen:
    case PoolOp::kCreate:
    case PoolOp::kCreateUnnamed:
    case PoolOp::kResume:
      job->status = open(job);
      break;
    case PoolOp::kResize:
      job->status = resize(job);
      break;
    case PoolOp::kLeave:
    case PoolOp::kRemove:
      job->status = release(job);
      break;
    case PoolOp::kComplete:
      job->status = complete(job);
      break;
    case PoolOp::kRenew:
      break;
  }
  if (!job->status.ok() && job->pool != nullptr && job->pool->region == nullptr) job->pool.reset();  // made in part
  if (job->pool != nullptr) describe(*job->pool, &job->answer);
  job->over.store(true, std::memory_order_release);
}

// Answers the requests that have been carried out. False: there were none.
bool PoolServer::end_jobs() {
  return std::erase_if(jobs_, [this](auto& entry) {
           Job& job = *entry.second;
           if (!job.over.load(std::memory_order_acquire)) return false;
           if (job.pool != nullptr) pools_.emplace(job.name, std::move(job.pool));
           // A node that left meanwhile gets no answer, and its pool is closed like any other.
           static_cast<void>(answer(&job, job.status));
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

PoolOwner::Register::Reply PoolServer::ask_register(PoolOwner* owner, Job* job) {
  const PoolRequest& request = job->request;
  if (request.op == PoolOp::kResume) return owner->resume(job->sender);
  return owner->fence(job->sender, job->sender.epoch - 1, request.lease_ns, request.force != 0,
                      wire_text(request.holder));
}

// Sets the owner's fields of the answer. OK: the sender is, or will be, the owner.
Status PoolServer::judge(const PoolOwner& owner, const PoolOwner::Register::Reply& reply, Job* job) {
  using Answer = PoolOwner::Register::Answer;
  job->answer.epoch = reply.epoch;
  job->answer.owner_ns = reply.ns;
  const auto set = [job](OwnerVerdict verdict) { job->answer.verdict = static_cast<uint64_t>(verdict); };
  const std::string who = "pool " + job->name + " has an owner: " + owner.text();
  switch (reply.answer) {
    case Answer::kGranted:
    case Answer::kDone:
      set(OwnerVerdict::kGranted);
      return Status::OK();
    case Answer::kDenied:
      set(OwnerVerdict::kDenied);
      return Status::OK();
    case Answer::kAgain:
      set(OwnerVerdict::kAgain);
      return Status::OK();
    case Answer::kLeaseRuns:
      set(OwnerVerdict::kLeaseRuns);
      return Status::Busy(who + "; its lease runs for " + std::to_string(reply.ns / base::kNsPerMs + 1) + " ms more" +
                          (job->request.force == 0 ? "; close it there, wait, or take the pool over by force"
                                                   : " and is not renewed: then the pool is taken over"));
    case Answer::kReplaced:
      set(OwnerVerdict::kReplaced);
      return Status::Busy("pool " + job->name + " has got another owner meanwhile" +
                          (owner.holder().empty() ? "" : ": " + owner.holder()) + "; open the store again");
    case Answer::kInvalid:
      break;
  }
  return Status::InvalidArgument("pool " + job->name + " is not given to an owner without a session, or with a lease " +
                                 "or an epoch out of range; run the same version on both nodes");
}

Status PoolServer::open(Job* job) const {
  const PoolRequest& request = job->request;
  const bool makes = makes_pool(request.op);
  const std::string path = config_.folder + "/" + job->name;
  if (job->pool != nullptr) {  // its earlier attachment has ended
    BONSAI_RETURN_IF_ERROR(job->pool->owner->persist());
    job->pool.reset();
  }
  if (!makes) BONSAI_RETURN_IF_ERROR(find(request, path, job->name));
  if (makes && (request.bytes < base::kMappingBytesMin || request.bytes > kPoolBytesMax)) {
    return Status::InvalidArgument("a pool cannot have " + std::to_string(request.bytes) + " bytes; ask for " +
                                   std::to_string(base::kMappingBytesMin) + " to " + std::to_string(kPoolBytesMax));
  }
  base::MappingOptions options;
  options.create_bytes = makes ? request.bytes : 0;
  options.create_mark = makes ? request.mark : 0;
  options.name_later = request.op == PoolOp::kCreateUnnamed;
  job->pool = std::make_unique<Pool>();
  Pool& pool = *job->pool;
  pool.node = job->node;
  pool.link = job->attachment.link;
  pool.word = request.answer;
  pool.credits = job->credits;
  pool.unnamed = options.name_later;
  Status status = map_unlocked(path, options, job);
  if (status.ok()) status = own(job);
  if (!status.ok() && makes && pool.mapping != nullptr && pool.mapping->remove().ok()) {
    if (!pool.unnamed && ::access(path.c_str(), F_OK) != 0) static_cast<void>(owners_->remove(job->name));
  }
  return status;
}

// Makes the sender the owner of a pool whose file is locked, and registers its bytes.
Status PoolServer::own(Job* job) const {
  Pool& pool = *job->pool;
  const bool makes = makes_pool(job->request.op);
  pool.owner = pool.unnamed ? owners_->make(job->name) : owners_->of(job->name);
  if (makes) {
    job->sender.epoch = pool.owner->begin_new() + 1;
  } else {
    BONSAI_RETURN_IF_ERROR(pool.owner->load());
  }
  BONSAI_RETURN_IF_ERROR(judge(*pool.owner, ask_register(pool.owner.get(), job), job));
  if (pool.unnamed) pool.owner->skip_record();
  BONSAI_RETURN_IF_ERROR(pool.owner->persist());
  BONSAI_RETURN_IF_ERROR(serve_bytes(&pool));
  pool.sender = job->sender;
  pool.owner->earlier_ended(pool.sender.connection);
  return judge(*pool.owner, pool.owner->renew(pool.sender), job);
}

// An earlier owner on this machine may have it mapped, and so locked, for a moment after it gave it back; one that is
// stopped, for longer than anybody waits.
Status PoolServer::map_unlocked(const std::string& path, const base::MappingOptions& options, Job* job) const {
  Status status;
  const uint64_t limit_ms = job->request.force == 0 ? kUnlockedMsMax : kLeftMsMax;
  for (base::BoundedWait wait("pool.unlocked", limit_ms);; wait.pause()) {
    status = map(path, options, job->pool.get());
    if (!status.IsBusy()) return status;
    if (wait.expired()) break;
  }
  return Status::Busy("pool " + job->name + " is still mapped by a process of its node: an earlier owner that is " +
                      "stopped or hangs, or a store that opened the file itself; end it or close it there (fuser " +
                      path + " names it)");
}

// Maps the pool and takes its lock. After an error the mapping is there if it was made.
Status PoolServer::map(const std::string& path, const base::MappingOptions& options, Pool* pool) const {
  base::MappingOptions declared = options;
  declared.domain = config_.cache_domain;
  declared.leave_lock = true;
  BONSAI_RETURN_IF_ERROR(base::Mapping::open(path, declared, &pool->mapping));
  pool->bytes_before = pool->mapping->bytes();
  return Status::OK();
}

// Registers the bytes of a pool that is mapped.
Status PoolServer::serve_bytes(Pool* pool) const {
  const base::Mapping& mapping = *pool->mapping;
  BONSAI_RETURN_IF_ERROR(config_.make_media ? config_.make_media(mapping, &pool->media)
                                            : base::make_media(mapping, config_.media, &pool->media));
  const std::span<std::byte> memory = pool->media.hooked != nullptr
                                          ? std::span(pool->media.hooked->view(), pool->media.hooked->bytes())
                                          : std::span(mapping.data(), mapping.bytes());
  rdma::Rights rights;
  rights.read = rights.write = true;
  // All processes that have the file mapped then share its lock, also after this server has ended.
  const bool is_file = memory.data() == mapping.data() && mapping.fd() >= 0;
  return is_file ? fabric_->register_file(memory, rights, mapping.fd(), &pool->region)
                 : fabric_->register_region(memory, rights, &pool->region);
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
  auto resized = std::make_unique<Pool>();
  resized->owner = job->pool->owner;
  resized->sender = job->pool->sender;
  resized->node = job->pool->node;
  resized->link = job->pool->link;
  resized->word = job->pool->word;
  resized->credits = job->pool->credits;
  job->pool = std::move(resized);
  base::MappingOptions options;
  options.open_file = fd;
  if (bytes >= before) options.grow_bytes = bytes;
  Status status = map(path, options, job->pool.get());
  if (status.ok()) status = serve_bytes(job->pool.get());
  job->pool->bytes_before = least;
  return status;
}

// The record says so before anybody else can have the lock.
Status PoolServer::release(Job* job) const {
  Pool& pool = *job->pool;
  Status status;
  if (job->request.op == PoolOp::kRemove) status = pool.mapping->remove();
  static_cast<void>(pool.owner->leave(pool.sender));
  const bool is_gone = ::access((config_.folder + "/" + job->name).c_str(), F_OK) != 0;
  if (!pool.unnamed) {
    const Status recorded = is_gone ? owners_->remove(job->name) : pool.owner->persist();
    if (status.ok()) status = recorded;
  }
  job->pool.reset();
  return status;
}

Status PoolServer::complete(Job* job) const {
  Pool& pool = *job->pool;
  if (!pool.unnamed) return Status::InvalidArgument("pool " + job->name + " has its name already");
  BONSAI_RETURN_IF_ERROR(pool.mapping->sync());
  BONSAI_RETURN_IF_ERROR(pool.mapping->take_name());
  pool.unnamed = false;
  owners_->keep(job->name, pool.owner);
  return pool.owner->write();
}

std::map<std::string, std::string> PoolServer::owners() const {
  std::map<std::string, std::string> owners;
  for (const auto& [name, pool] : pools_) owners.emplace(name, pool->owner->holder());
  return owners;
}

}  // namespace bonsai::scale
