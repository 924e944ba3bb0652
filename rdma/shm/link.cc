// SPDX-License-Identifier: Apache-2.0
#include "rdma/shm/link.h"

#include <cstring>
#include <new>

#include "base/check.h"
#include "base/nvm/racy_copy.h"
#include "rdma/provider.h"

namespace bonsai::rdma {
namespace {

// The longest wait until another process passes the file of a region or an inbox, because that process may be stopped.
// A node that serves many others needs a shorter wait than their wait for its answer.
constexpr uint64_t kAnswerMsMax = 2'000;

}  // namespace

ShmEnd::ShmEnd(uint32_t number, size_t side, std::shared_ptr<SharedMemory> page, std::shared_ptr<ShmWorkerState> own,
               std::shared_ptr<ShmWorkerState> far)
    : number_(number), side_(side), page_(std::move(page)), own_(std::move(own)), far_(std::move(far)) {}

ShmEnd::ShmEnd(uint32_t number, size_t side, std::shared_ptr<SharedMemory> page, std::shared_ptr<ShmWorkerState> own,
               ShmSocket socket, std::unique_ptr<SharedMemory> far_table, std::shared_ptr<ShmService> service)
    : number_(number),
      side_(side),
      page_(std::move(page)),
      own_(std::move(own)),
      socket_(std::move(socket)),
      far_table_(std::move(far_table)),
      service_(std::move(service)) {}

ShmEnd::~ShmEnd() {
  if (!closed_) close();  // its peer could not be made
}

void ShmEnd::open() {
  BONSAI_CHECK(!closed_ && side_ < 2 && page_->bytes().size() >= sizeof(ShmPage));
  BONSAI_CHECK((far_ == nullptr) == (service_ != nullptr));  // another process is reached by its socket alone
  own_->regions().attach(this, accessor());
  attached_ = true;
  if (service_ == nullptr) return;
  service_->watch(socket_.fd(), [self = weak_from_this()] {
    const auto end = self.lock();
    return end != nullptr && end->hear();
  });
}

void ShmEnd::close() {
  BONSAI_CHECK(!closed_);
  closed_ = true;
  page().closed[side_].store(1, std::memory_order_seq_cst);
  // The other end checks this inside its turn: after the turn that is in flight now it accesses nothing more here.
  base::BoundedWait wait("shm.stopped_process", ShmRegions::kStoppedMsMax);
  static_cast<void>(accessor().wait_out(ShmAccessor::kAnyRegion, &wait));
  if (attached_) own_->regions().detach(this);
  if (service_ != nullptr) service_->unwatch(socket_.fd());
  for (const auto& [key, view] : views_) unmap_backing(view.mapping);
  views_.clear();
}

Outcome ShmEnd::perform(const WorkRequest& request, bool own) {
  BONSAI_INVARIANT(!closed_);  // (2)
  if (broken_) return Outcome::kFlushed;
  Outcome outcome = Outcome::kUnreachable;
  try {
    if (!gone()) outcome = own ? carry_out(request) : Outcome::kLocalAccess;
  } catch (const std::bad_alloc&) {  // before anything was accessed
    outcome = Outcome::kNoResources;
  }
  if (outcome != Outcome::kDone) {
    broken_ = true;
    page().closed[side_].store(1, std::memory_order_seq_cst);
  }
  return outcome;
}

Outcome ShmEnd::carry_out(const WorkRequest& request) {
  if (request.verb == Verb::kSend) return send(request);
  ShmView* view = nullptr;
  const Outcome found = find_view(request.remote.key, &view);
  if (found != Outcome::kDone) return gone() ? Outcome::kUnreachable : found;
  ShmTurn& turn = page().turn[side_];
  turn.enter(view->region.key);
  const Outcome outcome = gone()           ? Outcome::kUnreachable
                          : !view->valid() ? Outcome::kRemoteAccess
                                           : access(*view, request);
  turn.leave();
  if (outcome == Outcome::kRemoteAccess && !view->valid()) drop_view(request.remote.key);
  return outcome;
}

Outcome ShmEnd::access(const ShmView& view, const WorkRequest& request) {
  std::byte* target = nullptr;
  const Outcome outcome = view.find(request, &target);
  if (outcome != Outcome::kDone) return outcome;
  std::byte* const local = request.local.data();
  switch (request.verb) {
    case Verb::kRead:
      base::racy_load(local, target, request.local.bytes());
      break;
    case Verb::kWrite:
      base::racy_copy(target, local, request.local.bytes());  // its owner may store meanwhile
      break;
    case Verb::kCas: {
      uint64_t old = request.expected;
      base::word_at(target).compare_exchange_strong(old, request.operand, std::memory_order_seq_cst);
      std::memcpy(local, &old, sizeof old);
      break;
    }
    case Verb::kFaa: {
      const uint64_t old = base::word_at(target).fetch_add(request.operand, std::memory_order_seq_cst);
      std::memcpy(local, &old, sizeof old);
      break;
    }
    case Verb::kMaskedCas: {
      uint64_t old = base::word_at(target).load(std::memory_order_seq_cst), changed = 0;
      while (changes_word(request, old, &changed) &&
             !base::word_at(target).compare_exchange_weak(old, changed, std::memory_order_seq_cst)) {
      }
      std::memcpy(local, &old, sizeof old);
      break;
    }
    case Verb::kSend:
    case Verb::kFlush:
      break;
  }
  return Outcome::kDone;
}

Outcome ShmEnd::send(const WorkRequest& request) {
  const Outcome found = get_inbox();
  if (found != Outcome::kDone) return gone() ? Outcome::kUnreachable : found;
  return far_inbox_->deliver(number_, {request.local.data(), request.local.bytes()});
}

Outcome ShmEnd::find_view(uint64_t key, ShmView** view) {
  if (last_view_ == nullptr || last_view_->region.key != key) {
    auto found = views_.find(key);
    if (found == views_.end()) {
      ShmView fresh;
      const Outcome got = get_view(key, &fresh);
      if (got != Outcome::kDone) return got;
      found = views_.emplace(key, fresh).first;
    }
    last_view_ = &found->second;
  }
  *view = last_view_;
  return Outcome::kDone;
}

void ShmEnd::drop_view(uint64_t key) {
  const auto found = views_.find(key);
  BONSAI_CHECK(found != views_.end());
  unmap_backing(found->second.mapping);
  views_.erase(found);
  last_view_ = nullptr;
}

Outcome ShmEnd::get_view(uint64_t key, ShmView* view) {
  if (far_ != nullptr) return far_->regions().view(key, view) ? Outcome::kDone : Outcome::kRemoteAccess;
  ShmWire question, answer;
  std::vector<base::OsFile> files;
  question.say = ShmSay::kMap;
  question.key = key;
  const Outcome answered = ask(question, Outcome::kRemoteAccess, &answer, &files);
  if (answered != Outcome::kDone) return answered;
  if (files.size() != 1 || answer.place >= ShmRegions::kRegionsMax) return Outcome::kRemoteAccess;
  view->region = {key, answer.base, answer.bytes};
  view->rights = {answer.read != 0, answer.write != 0, answer.atomic != 0};
  view->word = reinterpret_cast<const std::atomic<uint64_t>*>(far_table_->bytes().data()) + answer.place;
  const bool writable = view->rights.write || view->rights.atomic;
  const Status mapped = map_backing(files[0], answer.offset, answer.bytes, writable, &view->mapping, &view->memory);
  return mapped.ok() ? Outcome::kDone : Outcome::kNoResources;
}

Outcome ShmEnd::get_inbox() {
  if (far_inbox_ != nullptr) return Outcome::kDone;
  if (far_ != nullptr) {
    far_inbox_ = far_->inbox();
    return far_inbox_ != nullptr ? Outcome::kDone : Outcome::kReceiverNotReady;
  }
  ShmWire question, answer;
  std::vector<base::OsFile> files;
  question.say = ShmSay::kInbox;
  std::unique_ptr<ShmInbox> inbox;
  const Outcome answered = ask(question, Outcome::kReceiverNotReady, &answer, &files);
  if (answered != Outcome::kDone) return answered;
  if (files.size() != 1) return Outcome::kReceiverNotReady;
  const Status adopted = ShmInbox::adopt(std::move(files[0]), answer.bytes, &inbox);
  if (!adopted.ok()) return adopted.IsInvalidArgument() ? Outcome::kReceiverNotReady : Outcome::kNoResources;
  far_inbox_ = std::move(inbox);
  return Outcome::kDone;
}

Outcome ShmEnd::ask(const ShmWire& question, Outcome refused, ShmWire* answer, std::vector<base::OsFile>* files) {
  {
    const std::lock_guard lock(mutex_);
    answered_.reset();
  }
  if (!socket_.send(question, {})) return Outcome::kUnreachable;
  // Blocks the whole thread, siblings included, because posting must not switch. This happens once per region.
  std::unique_lock lock(mutex_);
  static_cast<void>(base::wait_on(&answer_came_, &lock, kAnswerMsMax, [this] { return answered_ || gone_; }));
  if (!answered_.has_value()) return Outcome::kUnreachable;
  *answer = *answered_;
  *files = std::move(answered_files_);
  if (answer->ok == 0) return refused;
  return files_lost_ ? Outcome::kNoResources : Outcome::kDone;
}

bool ShmEnd::hear() {
  ShmWire message;
  std::vector<base::OsFile> files;
  for (;;) {
    const ShmSocket::Read read = socket_.receive(&message, &files);
    switch (read) {
      case ShmSocket::Read::kNothing:
        return true;
      case ShmSocket::Read::kEnd: {
        const std::lock_guard lock(mutex_);
        gone_.store(true, std::memory_order_release);
        answer_came_.notify_all();
        return false;
      }
      case ShmSocket::Read::kMessage:
      case ShmSocket::Read::kNoPlaces:
        break;
    }
    if (message.say == ShmSay::kMap || message.say == ShmSay::kInbox) {
      answer(message);
      continue;
    }
    const std::lock_guard lock(mutex_);
    answered_ = message;
    answered_files_ = std::move(files);
    files_lost_ = read == ShmSocket::Read::kNoPlaces;
    answer_came_.notify_all();
  }
}

void ShmEnd::answer(const ShmWire& question) {
  ShmWire answer;
  if (question.say == ShmSay::kInbox) {
    answer.say = ShmSay::kInboxIs;
    const std::shared_ptr<ShmInbox> inbox = own_->inbox();
    if (inbox == nullptr) return static_cast<void>(socket_.send(answer, {}));
    answer.ok = 1;
    answer.bytes = inbox->memory().bytes().size();
    return static_cast<void>(socket_.send(answer, {inbox->memory().fd()}));
  }
  answer.say = ShmSay::kMapped;
  bool sent = false;
  own_->regions().describe(question.key, [&](const ShmView& view, size_t place, const ShmBacking& backing) {
    if (!backing.file.is_open()) return;  // without rights
    answer.ok = 1;
    answer.base = view.region.base;
    answer.bytes = view.region.bytes;
    answer.offset = backing.offset;
    answer.place = place;
    answer.read = view.rights.read ? 1 : 0;
    answer.write = view.rights.write ? 1 : 0;
    answer.atomic = view.rights.atomic ? 1 : 0;
    sent = socket_.send(answer, {backing.file.fd()});
  });
  if (!sent) static_cast<void>(socket_.send(answer, {}));
}

}  // namespace bonsai::rdma
