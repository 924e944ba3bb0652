// SPDX-License-Identifier: Apache-2.0
// PoolServer's requests about pools, each on a thread of its own. pool_server.cc has what the server's thread does.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/nvm/os_file.h"
#include "base/status_macros.h"
#include "base/with_memory.h"
#include "scale/pool_list.h"
#include "scale/pool_server.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kUnlockedMsMax = 1'000, kLeftMsMax = 5'000;  // of an owner that is replaced while it is alive
constexpr uint64_t kJudgedBytesMax = uint64_t{1} << 16;         // of a pool's beginning, to see whether it was finished

}  // namespace

Status PoolServer::change(Job* job) const {
  switch (job->request.op) {
    case PoolOp::kOpen:
    case PoolOp::kCreate:
    case PoolOp::kCreateUnnamed:
    case PoolOp::kResume:
      return open(job);
    case PoolOp::kResize:
      return resize(job);
    case PoolOp::kLeave:
    case PoolOp::kRemove:
      return release(job);
    case PoolOp::kComplete:
      return complete(job);
    case PoolOp::kList:
      return list(job);
    case PoolOp::kStatus:
      return status_of(job);
    case PoolOp::kPage:
      return set_page(job);
    case PoolOp::kRenew:
      break;
  }
  return Status::OK();
}

void PoolServer::carry_out(Job* job) const {
  job->status = base::with_memory([this, job] { return change(job); });
  const bool is_whole = job->pool != nullptr && job->pool->bytes.region != nullptr;
  if (!job->status.ok() && !is_whole) job->pool.reset();
  if (job->pool != nullptr) describe(*job->pool, &job->answer);
  job->over.store(true, std::memory_order_release);
}

Status PoolServer::list(Job* job) const {
  ListedPool pool;
  BONSAI_RETURN_IF_ERROR(next_pool(config_.folder, owners_.get(), wire_text(job->request.pool), &pool));
  put_entry(pool, &job->answer);
  return Status::OK();
}

Status PoolServer::status_of(Job* job) const {
  const std::string pool = wire_text(job->request.pool);
  if (!is_pool_name(pool)) return Status::InvalidArgument("'" + pool + "' is no name of a pool");
  BONSAI_RETURN_IF_ERROR(PoolOwner::recorded_page(config_.folder, pool, &job->answer.epoch, &job->answer.page));
  if (::access((config_.folder + "/" + pool).c_str(), F_OK) == 0) return Status::OK();
  return errno == ENOENT ? Status::NotFound("this node has no pool " + pool) : base::os_error("examine", pool, errno);
}

Status PoolServer::set_page(Job* job) {
  VersionedPage next;
  std::memcpy(&next.page, job->request.holder.data(), sizeof next.page);
  next.written_by = job->sender.epoch;
  next.version = job->request.mark;
  BONSAI_RETURN_IF_ERROR(job->paged->set_page(job->sender, next, job->unnamed));
  job->answer.page = next;
  return judge(*job->paged, job->paged->renew(job->sender), job);
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
  return owner->fence(job->sender, job->seen, request.lease_ns, request.force != 0, wire_text(request.holder));
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
    BONSAI_RETURN_IF_ERROR(job->pool->await_flushes());
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
  const Status status = base::with_memory([&] {
    BONSAI_RETURN_IF_ERROR(map_unlocked(path, options, job));
    return own(job);
  });
  if (!status.ok() && makes && pool.bytes.mapping != nullptr && pool.bytes.mapping->remove().ok()) {
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
    job->seen = pool.owner->begin_new();
    job->sender.epoch = std::max(job->seen + 1, job->request.epoch);
  } else {
    BONSAI_RETURN_IF_ERROR(pool.owner->load());
    pool.first_record = job->request.op == PoolOp::kOpen && !pool.owner->has_record();
  }
  BONSAI_RETURN_IF_ERROR(judge(*pool.owner, ask_register(pool.owner.get(), job), job));
  if (pool.unnamed) pool.owner->skip_record();
  BONSAI_RETURN_IF_ERROR(pool.owner->persist());
  BONSAI_RETURN_IF_ERROR(serve_bytes(&pool));
  if (pool.bytes.media.fence_blocks) {
    pool.flushes = std::move(job->flushes);
    pool.flushes->begin(*pool.credits);
  }
  pool.unused = !fabric_->capabilities().remote_flush &&
                (pool.bytes.media.hooked != nullptr || config_.domain == rdma::RemoteDomain::kAdr);
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
  BONSAI_RETURN_IF_ERROR(base::Mapping::open(path, declared, &pool->bytes.mapping));
  pool->bytes_before = pool->bytes.mapping->bytes();
  return Status::OK();
}

// Registers the bytes of a pool that is mapped.
Status PoolServer::serve_bytes(Pool* pool) const {
  base::Media* const media = &pool->bytes.media;
  const base::Mapping& mapping = *pool->bytes.mapping;
  BONSAI_RETURN_IF_ERROR(config_.make_media ? config_.make_media(mapping, media)
                                            : base::make_media(mapping, config_.media, media));
  return pool->bytes.register_at(fabric_);
}

void PoolServer::describe(const Pool& pool, PoolAnswer* answer) const {
  answer->region = pool.bytes.region->remote();
  answer->domain =
      static_cast<uint64_t>(pool.bytes.media.hooked != nullptr ? rdma::RemoteDomain::kAdr : config_.domain);
  answer->emulated = pool.bytes.media.emulated ? 1 : 0;
  answer->credits = *pool.credits;
  answer->page = pool.owner->group_page();
  set_wire_text(&answer->text, pool.bytes.media.text);
}

// A pool that was enlarged for nothing gets its size back, and never less.
Status PoolServer::resize(Job* job) const {
  const uint64_t bytes = job->request.bytes, least = job->pool->bytes_before;
  if (bytes < least || bytes > kPoolBytesMax) {
    return Status::InvalidArgument("pool " + job->name + " has " + std::to_string(least) + " bytes and cannot get " +
                                   std::to_string(bytes) + "; ask for as many, or for up to " +
                                   std::to_string(kPoolBytesMax));
  }
  const std::string path = job->pool->bytes.mapping->path();
  const uint64_t before = job->pool->bytes.mapping->bytes();
  if (job->pool->unnamed) return Status::InvalidArgument("pool " + job->name + " is not complete");
  BONSAI_RETURN_IF_ERROR(job->pool->await_flushes());
  const int fd = job->pool->bytes.mapping->fd();
  struct stat file = {};
  if (::fstat(fd, &file) != 0) return base::os_error("examine", path, errno);
  if (bytes < before && S_ISREG(file.st_mode) && ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    return base::os_error("make smaller", path, errno);
  }
  // The owner has it mapped, so that only the file that is open is not locked to this server, whatever has its name.
  auto resized = std::make_unique<Pool>();
  const std::unique_ptr<base::Mapping> old = std::move(job->pool->bytes.mapping);
  resized->owner = job->pool->owner;
  resized->sender = job->pool->sender;
  resized->node = job->pool->node;
  resized->link = job->pool->link;
  resized->word = job->pool->word;
  resized->credits = job->pool->credits;
  resized->first_record = job->pool->first_record;
  resized->flushes = std::move(job->pool->flushes);
  job->pool = std::move(resized);
  base::MappingOptions options;
  options.open_file = fd;
  if (bytes >= before) options.grow_bytes = bytes;
  Status status = map(path, options, job->pool.get());
  if (status.ok()) status = serve_bytes(job->pool.get());
  job->pool->bytes_before = least;
  return status;
}

// The record says so before anybody else can have the lock. A file that an owner only looked at gets none: it may be no
// pool, which the node does not know.
Status PoolServer::release(Job* job) const {
  Pool& pool = *job->pool;
  BONSAI_RETURN_IF_ERROR(pool.await_flushes());
  Status status;
  if (job->request.op == PoolOp::kRemove) status = pool.bytes.mapping->remove();
  static_cast<void>(pool.owner->leave(pool.sender));
  const bool is_gone = ::access((config_.folder + "/" + job->name).c_str(), F_OK) != 0;
  if (!pool.unnamed) {
    const bool needs_none = is_gone || (pool.first_record && pool.unused);
    const Status recorded = needs_none ? owners_->remove(job->name) : pool.owner->persist();
    if (status.ok()) status = recorded;
  }
  job->pool.reset();
  return status;
}

Status PoolServer::complete(Job* job) const {
  Pool& pool = *job->pool;
  if (!pool.unnamed) return Status::InvalidArgument("pool " + job->name + " has its name already");
  BONSAI_RETURN_IF_ERROR(pool.bytes.mapping->sync());
  BONSAI_RETURN_IF_ERROR(pool.bytes.mapping->take_name());
  pool.unnamed = false;
  owners_->keep(job->name, pool.owner);
  return pool.owner->write();
}

}  // namespace bonsai::scale
