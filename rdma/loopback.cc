#include "rdma/loopback.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace bonsai::rdma {
namespace {

// A node's registered memory. An access holds the lock shared for as long as it touches the memory, so that a region
// that is gone is not touched.
class RegionTable {
 public:
  uint64_t add(std::span<std::byte> memory, Rights rights) {
    const std::unique_lock lock(mutex_);
    uint64_t key = 0;
    do key = base::fresh_seed();
    while (entries_.count(key) != 0);
    entries_[key] = {memory, rights};
    return key;
  }
  void remove(uint64_t key) {
    const std::unique_lock lock(mutex_);
    entries_.erase(key);
  }
  // Calls access(address) with the target bytes if the request may have them.
  template <class Access>
  Outcome with(const WorkRequest& request, Access access) const {
    const std::shared_lock lock(mutex_);
    const auto found = entries_.find(request.remote.key);
    if (found == entries_.end()) return Outcome::kRemoteAccess;
    const auto& [memory, rights] = found->second;
    const uint64_t offset = request.remote.address - reinterpret_cast<uintptr_t>(memory.data());
    if (offset > memory.size() || request.local.bytes() > memory.size() - offset) return Outcome::kRemoteAccess;
    if (!allowed(request.verb, rights)) return Outcome::kRemoteAccess;
    const bool atomic = request.verb == Verb::kCas || request.verb == Verb::kFaa;
    if (atomic && request.remote.address % sizeof(uint64_t) != 0) return Outcome::kMisaligned;
    access(memory.data() + offset);
    return Outcome::kDone;
  }

 private:
  struct Entry {
    std::span<std::byte> memory;
    Rights rights;
  };
  static bool allowed(Verb verb, Rights rights) {
    return verb == Verb::kRead ? rights.read : verb == Verb::kWrite ? rights.write : rights.atomic;
  }

  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Entry> entries_;
};

class LoopbackRegion final : public Region {
 public:
  LoopbackRegion(std::shared_ptr<RegionTable> table, std::span<std::byte> memory, Rights rights)
      : LoopbackRegion(table, memory, rights, table->add(memory, rights)) {}
  ~LoopbackRegion() override { table_->remove(remote().key); }

  [[nodiscard]] bool is_of(const RegionTable* table) const { return table_.get() == table; }

 private:
  LoopbackRegion(std::shared_ptr<RegionTable> table, std::span<std::byte> memory, Rights rights, uint64_t key)
      : Region(memory, rights, {key, reinterpret_cast<uintptr_t>(memory.data()), memory.size()}),
        table_(std::move(table)) {}

  std::shared_ptr<RegionTable> table_;
};

// A worker's receive ring and what arrived in it; written by senders.
class Inbox {
 public:
  Status set_ring(Slice memory, size_t message_bytes_max) {
    const std::lock_guard lock(mutex_);
    if (message_bytes_max == 0 || memory.bytes() < message_bytes_max || !free_.empty() || ring_.bytes() != 0) {
      return Status::InvalidArgument("a receive ring is set once and holds at least one message");
    }
    ring_ = memory;
    slot_bytes_ = message_bytes_max;
    for (size_t slot = 0; slot < memory.bytes() / message_bytes_max; ++slot) free_.push_back(slot);
    return Status::OK();
  }
  Outcome deliver(uint32_t from, Slice message) {
    const std::lock_guard lock(mutex_);
    if (ring_.bytes() != 0 && message.bytes() > slot_bytes_) return Outcome::kMessageTooLong;
    if (free_.empty()) return Outcome::kReceiverNotReady;
    const size_t slot = free_.front();
    free_.pop_front();
    std::memcpy(ring_.data() + slot * slot_bytes_, message.data(), message.bytes());
    arrived_.push_back({slot, message.bytes(), from});
    return Outcome::kDone;
  }
  bool take(Worker* worker, Message* message) {
    Message taken;
    {
      const std::lock_guard lock(mutex_);
      if (arrived_.empty()) return false;
      const Arrival next = arrived_.front();
      arrived_.pop_front();
      taken = Message(worker, next.slot, next.from, {ring_.data() + next.slot * slot_bytes_, next.bytes});
    }
    *message = std::move(taken);  // gives back the buffer of the former one
    return true;
  }
  void release(size_t slot) {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }
  // The ring's memory is not touched any more.
  void close() {
    const std::lock_guard lock(mutex_);
    free_.clear();
    arrived_.clear();
  }

 private:
  struct Arrival {
    size_t slot, bytes;
    uint32_t from;
  };
  std::mutex mutex_;
  Slice ring_;
  size_t slot_bytes_ = 0;
  std::deque<size_t> free_;
  std::deque<Arrival> arrived_;
};

// What the two ends of a connection share.
struct Link {
  std::atomic<bool> usable{true};
};

class LoopbackPeer final : public Peer {
 public:
  LoopbackPeer(const Hello& own, const Hello& other, std::shared_ptr<Link> link, std::shared_ptr<RegionTable> regions,
               std::shared_ptr<Inbox> inbox)
      : Peer(other), own_(own), link_(std::move(link)), regions_(std::move(regions)), inbox_(std::move(inbox)) {}
  ~LoopbackPeer() override { link_->usable.store(false); }

  [[nodiscard]] bool usable() const override { return !broken_ && link_->usable.load(); }

  // Carries out one request of a node whose regions are `local`. A failure breaks the connection.
  Outcome perform(const WorkRequest& request, const RegionTable* local) {
    if (broken_) return Outcome::kFlushed;
    Outcome outcome = Outcome::kUnreachable;
    if (link_->usable.load()) {
      const auto* region = static_cast<const LoopbackRegion*>(request.local.region());
      outcome = region->is_of(local) ? carry_out(request) : Outcome::kLocalAccess;
    }
    if (outcome != Outcome::kDone) {
      broken_ = true;
      link_->usable.store(false);
    }
    return outcome;
  }

 private:
  Outcome carry_out(const WorkRequest& request) {
    if (request.verb == Verb::kSend) return inbox_->deliver(own_.node, request.local);
    std::byte* const local = request.local.data();
    return regions_->with(request, [&](std::byte* target) {
      switch (request.verb) {
        case Verb::kRead:
          base::racy_load(local, target, request.local.bytes());
          break;
        case Verb::kWrite:
          base::racy_store(target, local, request.local.bytes());
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
        case Verb::kSend:
        case Verb::kFlush:
          BONSAI_CHECK(false);
      }
    });
  }

  const Hello own_;
  bool broken_ = false;
  std::shared_ptr<Link> link_;
  std::shared_ptr<RegionTable> regions_;
  std::shared_ptr<Inbox> inbox_;
};

// A worker that others may connect to.
struct Listener {
  Hello own;
  Admit admit;
  std::shared_ptr<RegionTable> regions;
  std::shared_ptr<Inbox> inbox;
  std::mutex mutex;
  std::deque<std::unique_ptr<Peer>> waiting;  // for accept()
};

}  // namespace

struct LoopbackNetwork::State {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Listener>> listeners;
};

namespace {

class LoopbackWorker final : public Worker {
 public:
  static constexpr size_t kListsPendingMax = 256;

  LoopbackWorker(LoopbackNetwork::State& network, std::shared_ptr<RegionTable> regions)
      : network_(network), regions_(std::move(regions)) {}
  ~LoopbackWorker() override {
    static_cast<void>(poll());
    inbox_->close();
    if (listener_ == nullptr) return;
    const std::lock_guard lock(network_.mutex);
    network_.listeners.erase(address_);
  }

  Status listen(const std::string& address, const Hello& own, Admit admit) override {
    if (address.empty() || listener_ != nullptr) {
      return Status::InvalidArgument("a worker listens once, at an address that is not empty");
    }
    const std::lock_guard lock(network_.mutex);
    if (network_.listeners.count(address) != 0) {
      return Status::Busy(address + " has a listener already; choose another address");
    }
    listener_ = std::make_shared<Listener>();
    listener_->own = own;
    listener_->admit = std::move(admit);
    listener_->regions = regions_;
    listener_->inbox = inbox_;
    network_.listeners[address] = listener_;
    address_ = address;
    return Status::OK();
  }

  Status connect(const std::string& address, const Hello& own, uint64_t limit_ms,
                 std::unique_ptr<Peer>* peer) override {
    std::shared_ptr<Listener> listener;
    for (base::BoundedWait wait("fabric.connect", limit_ms);; wait.pause()) {
      listener = find(address);
      if (listener != nullptr) break;
      if (wait.expired()) return Status::Unavailable("nobody listens at " + address + "; start that node");
    }
    if (own.version != listener->own.version) {
      return Status::NotSupported(address + " speaks fabric protocol " + std::to_string(listener->own.version) +
                                  " and not " + std::to_string(own.version) + "; run the same version on both nodes");
    }
    Hello answer = listener->own;
    if (listener->admit) BONSAI_RETURN_IF_ERROR(listener->admit(own, &answer));
    const auto link = std::make_shared<Link>();
    auto far_end = std::make_unique<LoopbackPeer>(answer, own, link, regions_, inbox_);
    {
      const std::lock_guard lock(listener->mutex);
      listener->waiting.push_back(std::move(far_end));
    }
    *peer = std::make_unique<LoopbackPeer>(own, answer, link, listener->regions, listener->inbox);
    return Status::OK();
  }

  size_t poll() override {
    const size_t completed = started_.size();
    for (WorkList* list : started_) list->set_pending(0);
    started_.clear();
    return completed;
  }

  Status set_receive_ring(Slice memory, size_t message_bytes_max) override {
    return inbox_->set_ring(memory, message_bytes_max);
  }

 protected:
  Status start(WorkList* list) override {
    if (started_.size() == kListsPendingMax) {
      return Status::Unavailable(std::to_string(kListsPendingMax) + " work lists are pending; wait for one first");
    }
    list->set_pending(list->peers());
    for (size_t i = 0; i < list->size(); ++i) {
      WorkRequest& request = list->request(i);
      auto* peer = static_cast<LoopbackPeer*>(request.peer);
      request.outcome = peer->perform(request, regions_.get());
    }
    started_.push_back(list);
    return Status::OK();
  }
  bool try_accept(std::unique_ptr<Peer>* peer) override {
    if (listener_ == nullptr) return false;
    const std::lock_guard lock(listener_->mutex);
    if (listener_->waiting.empty()) return false;
    *peer = std::move(listener_->waiting.front());
    listener_->waiting.pop_front();
    return true;
  }
  bool try_receive(Message* message) override { return inbox_->take(this, message); }
  void release_buffer(size_t slot) override { inbox_->release(slot); }

 private:
  std::shared_ptr<Listener> find(const std::string& address) {
    const std::lock_guard lock(network_.mutex);
    const auto found = network_.listeners.find(address);
    return found == network_.listeners.end() ? nullptr : found->second;
  }

  LoopbackNetwork::State& network_;
  std::shared_ptr<RegionTable> regions_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::shared_ptr<Listener> listener_;
  std::string address_;
  std::vector<WorkList*> started_;  // carried out, not yet seen by poll()
};

class LoopbackFabric final : public Fabric {
 public:
  explicit LoopbackFabric(LoopbackNetwork::State& network) : network_(network) {
    capabilities_.text = "loopback, in process";
    capabilities_.atomics_with_cpu = true;
    capabilities_.inline_bytes_max = SIZE_MAX;
    capabilities_.message_bytes_max = SIZE_MAX;
    capabilities_.lists_pending_max = LoopbackWorker::kListsPendingMax;
  }

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }

  Status register_region(std::span<std::byte> memory, Rights rights, std::unique_ptr<Region>* region) override {
    if (memory.empty()) return Status::InvalidArgument("a region of no bytes cannot be registered; give it memory");
    if (rights.atomic && reinterpret_cast<uintptr_t>(memory.data()) % sizeof(uint64_t) != 0) {
      return Status::InvalidArgument("a region with atomics begins off a multiple of 8; align its memory");
    }
    *region = std::make_unique<LoopbackRegion>(regions_, memory, rights);
    return Status::OK();
  }

  Status make_worker(std::unique_ptr<Worker>* worker) override {
    *worker = std::make_unique<LoopbackWorker>(network_, regions_);
    return Status::OK();
  }

 private:
  LoopbackNetwork::State& network_;
  std::shared_ptr<RegionTable> regions_ = std::make_shared<RegionTable>();
  Capabilities capabilities_;
};

}  // namespace

LoopbackNetwork::LoopbackNetwork() : state_(std::make_unique<State>()) {}
LoopbackNetwork::~LoopbackNetwork() = default;

std::unique_ptr<Fabric> LoopbackNetwork::make_fabric() { return std::make_unique<LoopbackFabric>(*state_); }

}  // namespace bonsai::rdma
