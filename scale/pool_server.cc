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
#include "base/with_memory.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kCreditsMax = 128;  // of one owner: as many as four lanes have in flight
constexpr size_t kJobsMax = 64;
constexpr uint64_t kDescriptorsKept = 64;  // for those who are served: connections end, memory is mapped
constexpr uint64_t kLookNs = 100'000'000;
constexpr uint64_t kEndSeenNsMax = 125'000'000;  // so long a connection may look whole after its process has ended

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
      fabric_, worker_.get(), requests, [this](auto ranges, const auto& asked) { return flush(ranges, asked); },
      &agent_));
  agent_->set_other([this](std::span<const std::byte> message, uint32_t node) { return take(message, node); });
  rdma::Hello own;
  own.node = config_.node;
  admit_by(config_.secret);
  *testing_ = config_.tester != 0;
  return worker_->listen(config_.address, own, gate());
}

rdma::Admit PoolServer::gate() const {
  return [owners = gate_, tester = config_.tester, testing = testing_, notes = notes_, attachments = attachments_,
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
    if (const Status status = owners->admit(other, answer); !status.ok()) {
      if (!status.IsUnavailable()) refusals->add(other.from, status);  // else it is asked for its proof
      return status;
    }
    return attachments->admit(other);
  };
}

void PoolServer::admit_by(const rdma::Secret* secret) {
  gate_->set(secret != nullptr ? secret->gate() : rdma::Admit());
}

void PoolServer::Gate::set(rdma::Admit admit) {
  auto next = admit ? std::make_shared<const rdma::Admit>(std::move(admit)) : nullptr;
  const std::lock_guard lock(mutex_);
  admit_ = std::move(next);
}

Status PoolServer::Gate::admit(const rdma::Arrival& other, rdma::Hello* answer) const {
  std::shared_ptr<const rdma::Admit> admit;
  {
    const std::lock_guard lock(mutex_);
    admit = admit_;
  }
  return admit != nullptr ? (*admit)(other, answer) : Status::OK();
}

Status PoolServer::serve(uint64_t limit_ms) {
  Status status;
  for (base::BoundedWait wait("server.request", limit_ms);; wait.pause()) {
    status = agent_->serve(at_work() ? 0 : limit_ms);
    const bool flushed = end_flushes();
    if (end_jobs() || flushed) status = Status::OK();
    if (!status.IsUnavailable() || !at_work() || limit_ms == 0 || wait.expired()) break;
  }
  if (const uint64_t now_ns = base::now_ns(); now_ns - looked_ns_ >= kLookNs) {
    looked_ns_ = now_ns;
    close_abandoned();
    look_for_owners();
    look_for_slow_flushes();
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

// A pool whose flush has not ended stays until then: its medium may be stuck, and nobody waits for it here.
void PoolServer::close_abandoned() {
  std::erase_if(pools_, [this](const auto& entry) {
    const Pool& pool = *entry.second;
    if (jobs_.count(entry.first) != 0) return false;  // its page is being written, under its lock
    return !agent_->connected(pool.node) && (pool.flushes == nullptr || pool.flushes->idle());
  });
}

PoolServer::Pool* PoolServer::pool_of(const rdma::FlushRequest::Range& range) {
  for (auto& [name, pool] : pools_) {
    if (pool->bytes.holds(range)) return pool.get();
  }
  return nullptr;
}

// The ranges of a request are of one pool, because a connection is made for one.
rdma::FlushResult PoolServer::flush(std::span<const rdma::FlushRequest::Range> ranges,
                                    const rdma::FlushAgent::Asked& asked) {
  using Result = rdma::FlushResult;
  ++counted_.flush_requests;
  for (const auto& range : ranges) counted_.flushed_bytes += range.bytes;
  if (ranges.empty()) return Result::kDone;
  Pool* const pool = pool_of(ranges[0]);
  if (pool == nullptr) return Result::kNotServed;
  PoolBytes& bytes = pool->bytes;
  if (!std::ranges::all_of(ranges, [&bytes](const auto& range) { return bytes.holds(range); })) {
    return Result::kNotServed;
  }
  pool->unused = false;
  if (pool->flushes != nullptr) {
    return pool->flushes->add(&bytes, ranges, asked) ? Result::kLater : Result::kNotServed;
  }
  std::string note;
  const Result result = bytes.flush(ranges, &note);
  if (result == Result::kFailed) ++counted_.failed_flushes;
  if (!note.empty()) notes_->add(note);
  return result;
}

// Answers the flush requests whose threads are done with them. False: there were none.
bool PoolServer::end_flushes() {
  const std::vector<FlushResults::Done> ended = flushed_->take();
  for (const FlushResults::Done& done : ended) {
    if (!done.note.empty()) notes_->add(done.note);
    if (done.result == rdma::FlushResult::kFailed) ++counted_.failed_flushes;
    static_cast<void>(agent_->answer_flush(done.asked, done.result));  // who left gets none
  }
  return !ended.empty();
}

void PoolServer::look_for_slow_flushes() {
  for (const auto& [name, pool] : pools_) {
    if (pool->flushes == nullptr || !pool->flushes->finds_slow()) continue;
    notes_->add("a flush of " + pool->bytes.mapping->path() +
                " takes more than a second, and its owner waits; look at the disk that the file is on");
  }
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
  job->name = request.op == PoolOp::kList     ? "the list for " + std::to_string(node)
              : request.op == PoolOp::kStatus ? "the status for " + std::to_string(node)
                                              : wire_text(request.pool);
  ++counted_.pool_requests;
  job->node = node;
  job->attachment = attachments_->find(node);
  const uint64_t step = request.op == PoolOp::kOpen ? std::max<uint64_t>(request.step, 1) : 0;
  job->sender = {{request.session}, request.epoch + step, job->attachment.order};
  job->seen = request.epoch;
  bool begins = false;
  const Status status = base::with_memory([&] { return begin(job, &begins); });
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
  const PoolOp op = job->request.op;
  const bool lists = op == PoolOp::kList || op == PoolOp::kStatus;
  if (!lists && !is_pool_name(name)) return Status::InvalidArgument("'" + name + "' is no name of a pool");
  close_abandoned();
  const auto found = pools_.find(name);
  Pool* const pool = found != pools_.end() ? found->second.get() : nullptr;
  // Also while its page is being written.
  if (op == PoolOp::kRenew && (pool != nullptr || jobs_.count(name) == 0)) return renew(pool, job);
  if (jobs_.count(name) != 0) {
    return Status::Busy("an earlier request about pool " + name + " is being carried out; try again later");
  }
  if (jobs_.size() == kJobsMax) {
    return Status::Busy(std::to_string(kJobsMax) + " requests are being carried out here; try again later");
  }
  BONSAI_RETURN_IF_ERROR(base::Thread::reserve("pool request", &job->thread));
  if (op == PoolOp::kPage) BONSAI_RETURN_IF_ERROR(admit_page(pool, job));
  if (lists || op == PoolOp::kPage) {
    *begins = true;
    return Status::OK();
  }
  if (takes_pool(op)) {
    BONSAI_RETURN_IF_ERROR(grant_credits(name, &job->credits));
    BONSAI_RETURN_IF_ERROR(FlushThread::reserve(flushed_, &job->flushes));
  }
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

Status PoolServer::admit_page(const Pool* pool, Job* job) {
  if (pool == nullptr || pool->node != job->node || !pool->owner->serves(job->sender)) {
    job->answer.verdict = static_cast<uint64_t>(OwnerVerdict::kAgain);
    return Status::Unavailable("pool " + job->name + " is not served over this connection");
  }
  job->paged = pool->owner;
  job->unnamed = pool->unnamed;
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
    job->answer.verdict = static_cast<uint64_t>(OwnerVerdict::kLeaseRuns);
    job->answer.owner_ns = kEndSeenNsMax;
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

PoolServer::Report PoolServer::report() const {
  Report report = counted_;
  for (const auto& [name, pool] : pools_) {
    report.pools.emplace(name, Report::Owned{pool->owner->holder(), pool->owner->lease_left_ns()});
  }
  report.attachments = attachments_->count();
  report.traffic = worker_->traffic();
  return report;
}

}  // namespace bonsai::scale
