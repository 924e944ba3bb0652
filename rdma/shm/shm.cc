// SPDX-License-Identifier: Apache-2.0
#include "rdma/shm/shm.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/wire_status.h"
#include "base/with_memory.h"
#include "rdma/provider.h"
#include "rdma/shm/link.h"

namespace bonsai::rdma {
namespace {

constexpr size_t kListsPendingMax = 256;
constexpr size_t kGreetingMax = 64;  // connections to one worker whose greeting has not come yet
constexpr size_t kWaitingMax = 256;  // connections to one worker that are not accepted yet

class ShmRegion final : public Region {
 public:
  ShmRegion(std::shared_ptr<ShmRegions> regions, std::span<std::byte> memory, Rights rights, uint64_t key)
      : Region(memory, rights, {key, reinterpret_cast<uintptr_t>(memory.data()), memory.size()}),
        regions_(std::move(regions)) {}
  ~ShmRegion() override { regions_->remove(remote().key); }
  [[nodiscard]] bool is_of(const ShmRegions* regions) const { return regions_.get() == regions; }

 private:
  std::shared_ptr<ShmRegions> regions_;
};

// Lists that a worker has carried out and its poll() has not returned yet.
struct ShmStarted {
  struct Started {
    WorkList* list;
    uint64_t due_ns;  // by the model; 0 = at once
    size_t peers;     // how many peers of the list are not closed
  };

  // The peer is closed: lists that name no other peer become complete at the next poll().
  void end(const Peer* peer) {
    for (Started& each : lists) {
      bool named = false;
      for (size_t i = 0; i < each.list->size(); ++i) {
        Peer*& asked = each.list->request(i).peer;
        if (asked != peer) continue;
        named = true;
        asked = nullptr;  // a later peer may get the same address, and close before the list is polled
      }
      if (!named) continue;
      BONSAI_CHECK(each.peers > 0);
      if (--each.peers == 0) each.due_ns = 0;
    }
    std::stable_partition(lists.begin(), lists.end(), [](const Started& each) { return each.due_ns == 0; });
  }

  std::deque<Started> lists;
};

class ShmPeer final : public Peer {
 public:
  ShmPeer(const Hello& other, std::shared_ptr<ShmEnd> end) : Peer(other), end_(std::move(end)) { end_->open(); }
  ~ShmPeer() override {
    end_->close();
    if (started_ != nullptr) started_->end(this);
  }
  [[nodiscard]] bool usable() const override { return end_->usable(); }
  [[nodiscard]] ShmEnd& end() { return *end_; }
  void set_started(ShmStarted* started) {
    BONSAI_CHECK(started_ == nullptr);  // a peer has one worker
    started_ = started;
  }

 private:
  std::shared_ptr<ShmEnd> end_;
  ShmStarted* started_ = nullptr;  // of its worker, once accepted
};

// A listening worker.
struct ShmListener {
  // Errors: those of admit_peer(), Busy (too many wait).
  Status admit_one(const Hello& other, std::string from, Hello* answer) {
    *answer = own;
    BONSAI_RETURN_IF_ERROR(admit_peer(admit, {other, address, std::move(from)}, answer));
    const Hello admitted = *answer;
    answer->credentials = {};  // of a refusal
    const std::lock_guard lock(mutex);
    if (waiting.size() < kWaitingMax) {
      *answer = admitted;
      return Status::OK();
    }
    return Status::Busy(std::to_string(kWaitingMax) + " connections wait to be accepted there; try again later");
  }
  void push(std::unique_ptr<Peer> peer) {
    const std::lock_guard lock(mutex);
    waiting.push_back(std::move(peer));
  }

  std::string address;
  Hello own;
  Admit admit;
  std::shared_ptr<ShmWorkerState> state;
  std::mutex mutex;
  std::deque<std::unique_ptr<Peer>> waiting;  // for accept()
  ShmSocket socket;                           // between processes
  base::OsFile address_lock;
  base::OsFile spare;  // a reserve descriptor: closed to accept and refuse a connection when no other is left
  std::deque<int>
      greeting;  // under the mutex: sockets of processes that have connected and not been admitted, oldest first
};

}  // namespace

class ShmState {
 public:
  explicit ShmState(const ShmOptions& chosen) : options(chosen) {}
  [[nodiscard]] std::string path(const std::string& address) const { return options.folder + "/" + address; }

  const ShmOptions options;
  std::shared_ptr<ShmService> service;  // between processes; made before the first fabric
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<ShmListener>> listeners;  // of this process
};

namespace {

// `why`: the answer of the Admit, if it was asked.
void refuse(const ShmSocket& socket, const Status& status, const Hello& why = {}) {
  ShmWire answer;
  answer.hello.credentials = why.credentials;
  answer.say = ShmSay::kAnswer;
  answer.status = static_cast<int32_t>(status.code());
  const std::string_view text = status.message().substr(0, answer.text.size() - 1);
  std::copy(text.begin(), text.end(), answer.text.begin());
  static_cast<void>(socket.send(answer, {}));
}

// The other end's process, as the kernel knows it.
std::string process_of(const ShmSocket& socket) {
  ucred found{};
  socklen_t bytes = sizeof found;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &found, &bytes) != 0) return "an unknown process";
  return "process " + std::to_string(found.pid) + " of user " + std::to_string(found.uid);
}

Status too_many_files() {
  return Status::NoSpace("the node is at its limit of open files; raise it there (ulimit -n)");
}

// Serves the first message on a connection that another process made. *own: the answer of the Admit.
Status greet(const std::shared_ptr<ShmListener>& listener, const std::shared_ptr<ShmService>& service,
             const ShmWire& hello, std::vector<base::OsFile>* files, ShmSocket* socket, Hello* own) {
  if (hello.say != ShmSay::kHello || files->size() != 1) return Status::InvalidArgument("no greeting; connect anew");
  std::unique_ptr<SharedMemory> far_table;
  BONSAI_RETURN_IF_ERROR(SharedMemory::adopt(std::move((*files)[0]), ShmRegions::kTableBytes, false, &far_table));
  ShmWire answer;
  answer.say = ShmSay::kAnswer;
  BONSAI_RETURN_IF_ERROR(listener->admit_one(hello.hello, process_of(*socket), own));
  answer.hello = *own;
  *own = {};
  std::unique_ptr<SharedMemory> page;
  BONSAI_RETURN_IF_ERROR(SharedMemory::make(sizeof(ShmPage), &page));
  const base::OsFile table = listener->state->regions().table().read_only_file();
  if (!table.is_open()) return too_many_files();
  answer.ok = 1;
  const std::shared_ptr<SharedMemory> shared = std::move(page);
  const auto end = std::make_shared<ShmEnd>(answer.hello.node, 1, shared, listener->state, std::move(*socket),
                                            std::move(far_table), service);
  auto peer = std::make_unique<ShmPeer>(hello.hello, end);
  listener->push(std::move(peer));
  // The answer is sent last: the other process may use the connection at once, and the receiver of its first request
  // then needs the connection for its answer.
  end->say(answer, {shared->fd(), table.fd()});
  return Status::OK();
}

base::OsFile spare_of(const ShmSocket& socket) { return base::duplicate(socket.fd()); }

// Reads a greeting. Returns whether to watch the socket further.
bool hear_greeting(const std::shared_ptr<ShmListener>& listener, const std::shared_ptr<ShmService>& service,
                   ShmSocket* socket) {
  ShmWire hello;
  std::vector<base::OsFile> files;
  const int fd = socket->fd();
  const ShmSocket::Read read = socket->receive(&hello, &files);
  if (read == ShmSocket::Read::kNothing) return true;
  {
    const std::lock_guard lock(listener->mutex);
    std::erase(listener->greeting, fd);
  }
  if (read == ShmSocket::Read::kEnd) return false;
  Hello own;
  const Status status = read == ShmSocket::Read::kNoPlaces
                            ? too_many_files()
                            : base::with_memory([&] { return greet(listener, service, hello, &files, socket, &own); });
  if (!status.ok() && socket->fd() == fd) refuse(*socket, status, own);
  return socket->fd() != fd;  // true: the connection's end is now watched under this number
}

// Called by the service when another process connects. The number of connections without a greeting is bounded: the
// oldest one is closed to make room.
bool accept_all(const std::shared_ptr<ShmListener>& listener, const std::shared_ptr<ShmService>& service) {
  for (;;) {
    auto socket = std::make_shared<ShmSocket>(listener->socket.accept());
    if (socket->fd() < 0 && (errno == EMFILE || errno == ENFILE) && listener->spare.is_open()) {
      // Without a descriptor the connection would stay in the queue for ever, and this thread would spin.
      listener->spare = base::OsFile();
      const ShmSocket refused = listener->socket.accept();
      if (refused.fd() < 0) return true;
      refuse(refused, too_many_files());
      socket.reset();
    }
    if (!listener->spare.is_open()) listener->spare = spare_of(listener->socket);
    if (socket == nullptr) continue;
    if (socket->fd() < 0) {
      if (errno != EAGAIN && errno != EINTR) base::sleep_ms(1);  // the connection waits on: this thread must not spin
      return true;
    }
    int oldest = -1;
    {
      const std::lock_guard lock(listener->mutex);
      listener->greeting.push_back(socket->fd());
      if (listener->greeting.size() > kGreetingMax) {
        oldest = listener->greeting.front();
        listener->greeting.pop_front();
      }
      BONSAI_CHECK(listener->greeting.size() <= kGreetingMax);
    }
    if (oldest >= 0) service->unwatch(oldest);
    // Weak pointers: peers that are not admitted yet must not keep the listener or the service alive.
    service->watch(socket->fd(), [weak = std::weak_ptr(listener), weak_service = std::weak_ptr(service), socket] {
      const auto there = weak.lock();
      const auto serving = weak_service.lock();
      return there != nullptr && serving != nullptr && hear_greeting(there, serving, socket.get());
    });
  }
}

}  // namespace

class ShmWorker final : public Worker {
 public:
  ShmWorker(std::shared_ptr<ShmState> network, std::shared_ptr<ShmRegions> regions)
      : network_(std::move(network)),
        regions_(std::move(regions)),
        state_(std::make_shared<ShmWorkerState>(regions_)) {}
  ~ShmWorker() override {
    for (const auto& started : started_.lists) started.list->set_pending(0);
    if (const auto inbox = state_->inbox()) inbox->close();
    if (listener_ == nullptr) return;
    if (network_->service != nullptr && listener_->socket.fd() >= 0) {
      network_->service->unwatch(listener_->socket.fd());
      end_greetings();
      ::unlink(network_->path(address_).c_str());
      // Closed now, although a new connection may keep the listener alive for a while: another worker may listen here
      // at once.
      listener_->socket = ShmSocket();
      listener_->address_lock = base::OsFile();
    }
    std::shared_ptr<ShmListener> mine;
    {
      const std::lock_guard lock(network_->mutex);
      network_->listeners.erase(address_);
      mine = std::move(listener_);
    }
    decltype(mine->waiting) refused;  // destroyed without the lock: peers take the service's lock
    const std::lock_guard lock(mine->mutex);
    refused.swap(mine->waiting);
  }

  Status listen(const std::string& address, const Hello& own, Admit admit) override {
    if (address.empty() || address.find('/') != std::string::npos || listener_ != nullptr) {
      return Status::InvalidArgument("a worker listens once, at an address that is a file name");
    }
    auto listener = std::make_shared<ShmListener>();
    listener->address = address;
    listener->own = own;
    listener->admit = std::move(admit);
    listener->state = state_;
    {
      const std::lock_guard lock(network_->mutex);
      if (network_->listeners.count(address) != 0) {
        return Status::Busy(address + " has a listener already; choose another address");
      }
      if (network_->service != nullptr) {
        BONSAI_RETURN_IF_ERROR(ShmSocket::listen(network_->path(address), &listener->socket, &listener->address_lock));
        listener->spare = spare_of(listener->socket);
      }
      network_->listeners[address] = listener;
    }
    listener_ = listener;
    address_ = address;
    if (network_->service != nullptr) {
      network_->service->watch(listener->socket.fd(),
                               [weak = std::weak_ptr(listener), weak_service = std::weak_ptr(network_->service)] {
                                 const auto there = weak.lock();
                                 const auto serving = weak_service.lock();
                                 return there != nullptr && serving != nullptr && accept_all(there, serving);
                               });
    }
    return Status::OK();
  }

  Status greet(const std::string& address, const Hello& own, uint64_t limit_ms, std::unique_ptr<Peer>* peer,
               Challenge* challenge) override {
    ShmSocket socket;
    for (base::BoundedWait wait("fabric.connect", limit_ms);; wait.pause()) {
      if (const auto listener = find(address)) return connect_here(listener, own, peer, challenge);
      if (network_->service != nullptr) {
        const Status reached = ShmSocket::connect(network_->path(address), &socket);
        if (reached.ok()) break;
        if (!reached.IsUnavailable()) return reached;
      }
      if (wait.expired()) return Status::Unavailable("nobody listens at " + address + "; start that node");
    }
    challenge->listener = address;
    return connect_there(std::move(socket), own, limit_ms, peer, challenge);
  }

  size_t poll() override {
    size_t completed = 0;
    auto& started = started_.lists;
    while (!started.empty() && (started.front().due_ns == 0 || started.front().due_ns <= base::now_ns())) {
      started.front().list->set_pending(0);
      started.pop_front();
      ++completed;
    }
    return completed;
  }

  Status set_receive_ring(Slice memory, size_t message_bytes_max) override {
    if (message_bytes_max == 0 || memory.bytes() < message_bytes_max || ring_.bytes() != 0) {
      return Status::InvalidArgument("a receive ring is set once and holds at least one message");
    }
    std::unique_ptr<ShmInbox> inbox;
    BONSAI_RETURN_IF_ERROR(ShmInbox::make(memory.bytes() / message_bytes_max, message_bytes_max, &inbox));
    ring_ = memory;
    slot_bytes_ = message_bytes_max;
    state_->set_inbox(std::move(inbox));
    return Status::OK();
  }

 protected:
  Status start(WorkList* list) override {
    if (started_.lists.size() == kListsPendingMax) {
      return Status::Busy(std::to_string(kListsPendingMax) + " work lists are pending; wait for one first");
    }
    const size_t peers = list->peers();
    started_.lists.push_back({list, 0, peers});  // before anything is done, as it takes memory
    list->set_pending(peers);
    uint64_t bytes = 0;
    for (size_t i = 0; i < list->size(); ++i) {
      WorkRequest& request = list->request(i);
      BONSAI_CHECK(request.verb != Verb::kFlush);  // Capabilities::remote_flush
      const bool own = static_cast<const ShmRegion*>(request.local.region())->is_of(regions_.get());
      request.outcome = static_cast<ShmPeer*>(request.peer)->end().perform(request, own);
      bytes += request.local.bytes();
    }
    started_.lists.back().due_ns = due(bytes);
    BONSAI_CHECK(started_.lists.size() <= kListsPendingMax);
    return Status::OK();
  }
  bool try_accept(std::unique_ptr<Peer>* peer) override {
    if (listener_ == nullptr) return false;
    const std::lock_guard lock(listener_->mutex);
    if (listener_->waiting.empty()) return false;
    *peer = std::move(listener_->waiting.front());
    listener_->waiting.pop_front();
    static_cast<ShmPeer&>(**peer).set_started(&started_);
    return true;
  }
  bool try_receive(Message* message) override {
    const std::shared_ptr<ShmInbox> inbox = state_->inbox();
    ShmInbox::Arrival arrival{};
    if (inbox == nullptr || !inbox->take({ring_.data(), ring_.bytes()}, &arrival)) return false;
    BONSAI_CHECK((arrival.slot + 1) * slot_bytes_ <= ring_.bytes() && arrival.bytes <= slot_bytes_);
    *message = Message(this, arrival.slot, arrival.from, {ring_.data() + arrival.slot * slot_bytes_, arrival.bytes});
    return true;
  }
  void release_buffer(size_t slot) override { state_->inbox()->release(slot); }

 private:
  // Closes connections that are not admitted yet. Afterwards only this worker holds the listener.
  void end_greetings() {
    std::deque<int> greeting;
    {
      const std::lock_guard lock(listener_->mutex);
      greeting.swap(listener_->greeting);
    }
    for (const int fd : greeting) network_->service->unwatch(fd);
  }

  [[nodiscard]] uint64_t due(uint64_t bytes) {
    const ShmOptions& model = network_->options;
    if (model.latency_ns == 0 && model.bytes_per_second == 0) return 0;
    sent_ns_ = std::max(sent_ns_, base::now_ns());
    if (model.bytes_per_second != 0) sent_ns_ += bytes * base::kNsPerSecond / model.bytes_per_second;
    return sent_ns_ + model.latency_ns;
  }

  std::shared_ptr<ShmListener> find(const std::string& address) {
    const std::lock_guard lock(network_->mutex);
    const auto found = network_->listeners.find(address);
    return found == network_->listeners.end() ? nullptr : found->second;
  }

  Status connect_here(const std::shared_ptr<ShmListener>& listener, const Hello& own, std::unique_ptr<Peer>* peer,
                      Challenge* challenge) {
    Hello answer;
    const Status admitted = listener->admit_one(own, "this process", &answer);
    if (!admitted.ok()) {
      *challenge = challenge_of(answer, listener->address);
      return admitted;
    }
    std::unique_ptr<SharedMemory> made;
    BONSAI_RETURN_IF_ERROR(SharedMemory::make(sizeof(ShmPage), &made));
    const std::shared_ptr<SharedMemory> page = std::move(made);
    listener->push(
        std::make_unique<ShmPeer>(own, std::make_shared<ShmEnd>(answer.node, 1, page, listener->state, state_)));
    keep(answer, std::make_shared<ShmEnd>(own.node, 0, page, state_, listener->state), peer);
    return Status::OK();
  }

  void keep(const Hello& other, std::shared_ptr<ShmEnd> end, std::unique_ptr<Peer>* peer) {
    auto made = std::make_unique<ShmPeer>(other, std::move(end));
    made->set_started(&started_);
    *peer = std::move(made);
  }

  Status connect_there(ShmSocket socket, const Hello& own, uint64_t limit_ms, std::unique_ptr<Peer>* peer,
                       Challenge* challenge) {
    ShmWire hello, answer;
    std::vector<base::OsFile> files;
    hello.say = ShmSay::kHello;
    hello.hello = own;
    const base::OsFile table = regions_->table().read_only_file();
    if (!table.is_open()) return base::os_error("share", "the table of regions", errno);
    ShmSocket::Read read = ShmSocket::Read::kNothing;
    if (!socket.send(hello, {table.fd()})) {  // the other node is gone, or has refused before it was greeted
      read = socket.receive(&answer, &files);
      if (read == ShmSocket::Read::kNothing) read = ShmSocket::Read::kEnd;
    }
    for (base::BoundedWait wait("fabric.connect", limit_ms); read == ShmSocket::Read::kNothing; wait.pause()) {
      read = socket.receive(&answer, &files);
      if (read == ShmSocket::Read::kNothing && wait.expired()) return wait.status();
    }
    if (read == ShmSocket::Read::kEnd)
      return Status::Unavailable("the other node left while it was being connected to");
    if (read == ShmSocket::Read::kNoPlaces) return base::os_error("receive", "the other node's memory", EMFILE);
    if (answer.ok == 0) {
      *challenge = challenge_of(answer.hello, challenge->listener);
      return base::status_from_wire(answer.status, answer.text.data());
    }
    if (files.size() != 2) return Status::InvalidArgument("an invalid response to a connection; run the same version");
    std::unique_ptr<SharedMemory> page, table_there;
    BONSAI_RETURN_IF_ERROR(SharedMemory::adopt(std::move(files[0]), sizeof(ShmPage), true, &page));
    BONSAI_RETURN_IF_ERROR(SharedMemory::adopt(std::move(files[1]), ShmRegions::kTableBytes, false, &table_there));
    keep(answer.hello,
         std::make_shared<ShmEnd>(own.node, 0, std::move(page), state_, std::move(socket), std::move(table_there),
                                  network_->service),
         peer);
    return Status::OK();
  }

  const std::shared_ptr<ShmState> network_;
  const std::shared_ptr<ShmRegions> regions_;
  const std::shared_ptr<ShmWorkerState> state_;
  std::shared_ptr<ShmListener> listener_;
  std::string address_;
  Slice ring_;
  size_t slot_bytes_ = 0;
  ShmStarted started_;
  uint64_t sent_ns_ = 0;  // the model: when all posted bytes have been sent
};

namespace {

class ShmFabric final : public Fabric {
 public:
  ShmFabric(std::shared_ptr<ShmState> network, std::shared_ptr<ShmRegions> regions)
      : network_(std::move(network)), regions_(std::move(regions)) {
    const ShmOptions& options = network_->options;
    capabilities_.text = options.folder.empty() ? "shm, in process" : "shm, between processes";
    if (options.latency_ns != 0)
      capabilities_.text += ", modelled latency " + std::to_string(options.latency_ns) + " ns";
    if (options.bytes_per_second != 0) {
      capabilities_.text += ", modelled bandwidth " + std::to_string(options.bytes_per_second) + " bytes/s";
    }
    capabilities_.atomics_with_cpu = true;
    capabilities_.masked_cas = true;
    capabilities_.closing_ends_access = false;  // a process that is stopped keeps its mapping
    capabilities_.inline_bytes_max = SIZE_MAX;
    capabilities_.message_bytes_max = SIZE_MAX;
    capabilities_.lists_pending_max = kListsPendingMax;
  }

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }

  Status register_region(std::span<std::byte> memory, Rights rights, std::unique_ptr<Region>* region) override {
    return add(memory, rights, kNoFile, region);
  }
  Status register_file(std::span<std::byte> memory, Rights rights, int file, std::unique_ptr<Region>* region) override {
    return add(memory, rights, file, region);
  }

  Status make_worker(std::unique_ptr<Worker>* worker) override {
    *worker = std::make_unique<ShmWorker>(network_, regions_);
    return Status::OK();
  }

 private:
  static constexpr int kNoFile = -1;

  Status add(std::span<std::byte> memory, Rights rights, int file, std::unique_ptr<Region>* region) {
    BONSAI_RETURN_IF_ERROR(check_registration(memory, rights));
    uint64_t key = 0;
    BONSAI_RETURN_IF_ERROR(regions_->add(memory, rights, file, &key));
    *region = std::make_unique<ShmRegion>(regions_, memory, rights, key);
    return Status::OK();
  }

  const std::shared_ptr<ShmState> network_;
  const std::shared_ptr<ShmRegions> regions_;
  Capabilities capabilities_;
};

}  // namespace

ShmNetwork::ShmNetwork(const ShmOptions& options) : state_(std::make_shared<ShmState>(options)) {}
ShmNetwork::~ShmNetwork() = default;

Status ShmNetwork::make_fabric(std::unique_ptr<Fabric>* fabric) {
  const bool between_processes = !state_->options.folder.empty();
  {
    const std::lock_guard lock(state_->mutex);
    if (between_processes && state_->service == nullptr) {
      BONSAI_RETURN_IF_ERROR(ShmService::make(&state_->service));
    }
  }
  std::shared_ptr<ShmRegions> regions;
  BONSAI_RETURN_IF_ERROR(ShmRegions::make(between_processes, &regions));
  *fabric = std::make_unique<ShmFabric>(state_, regions);
  return Status::OK();
}

std::unique_ptr<Fabric> ShmNetwork::make_fabric() {
  std::unique_ptr<Fabric> fabric;
  BONSAI_CHECK(make_fabric(&fabric).ok());
  return fabric;
}

}  // namespace bonsai::rdma
