// SPDX-License-Identifier: Apache-2.0
#include "scale/pool_list.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <span>
#include <sstream>

#include "base/clock.h"
#include "base/nvm/descriptor.h"
#include "base/nvm/mapping.h"
#include "base/nvm/os_file.h"
#include "base/nvm/racy_copy.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/wire_status.h"
#include "rdma/credentials.h"
#include "rdma/fabric.h"
#include "rdma/registered_memory.h"
#include "scale/fabrics.h"
#include "scale/remote_links.h"
#include "scale/target_name.h"

namespace bonsai::scale {
namespace {

// An entry on the wire.
struct PoolEntry {
  uint64_t bytes = 0;
  uint64_t used_s = 0;
  std::array<char, kPoolNameBytesMax + 1> name{};  // ends with a zero byte, as does the next
  std::array<char, 176> owner{};
};
static_assert(sizeof(PoolEntry) < sizeof(PoolAnswer::text));

constexpr size_t kPoolsMax = 100'000;  // so many entries are taken from a node
constexpr size_t kLocksBytesMax = size_t{1} << 20;

// The process of this machine that has the file locked, as the kernel says; 0: none. It is not found out by locking,
// which would refuse an owner that comes at that moment.
uint64_t locked_by(const struct stat& file) {
  std::string locks;
  static_cast<void>(base::read_text("/proc/locks", kLocksBytesMax, &locks));
  std::istringstream lines(locks);
  for (std::string line; std::getline(lines, line);) {
    unsigned long long process = 0, inode = 0;
    unsigned major_number = 0, minor_number = 0;
    if (std::sscanf(line.c_str(), "%*u: FLOCK %*s %*s %llu %x:%x:%llu", &process, &major_number, &minor_number,
                    &inode) != 4) {
      continue;
    }
    if (inode == file.st_ino && major_number == major(file.st_dev) && minor_number == minor(file.st_dev)) {
      return process;
    }
  }
  return 0;
}

uint64_t changed_s(const struct stat& file) { return static_cast<uint64_t>(std::max<time_t>(file.st_mtime, 0)); }

uint64_t bytes_of(const std::string& path, const struct stat& file) {
  if (!S_ISCHR(file.st_mode)) return static_cast<uint64_t>(file.st_size);
  base::MappingOptions options;
  options.read_only = true;
  std::unique_ptr<base::Mapping> device;
  return base::Mapping::open(path, options, &device).ok() ? device->bytes() : 0;
}

uint64_t now_s() { return static_cast<uint64_t>(base::wall_seconds()); }

// Who has the pool: the owner in its record, who may be connected here; else a process of this machine that opened the
// file itself.
void find_owner(const std::string& folder, PoolOwners* owners, const struct stat& file, ListedPool* pool) {
  pool->owner = PoolOwner::recorded_holder(folder, pool->name);
  const uint64_t process = locked_by(file);
  if (pool->owner.empty() && process != 0) {
    pool->owner = "process " + std::to_string(process) + " of its machine";
    pool->used_s = now_s();
  }
  const std::shared_ptr<PoolOwner> known = owners != nullptr ? owners->find(pool->name) : nullptr;
  if (pool->owner.empty() || known == nullptr || known->holder() != pool->owner) return;
  pool->owner = known->text();
  if (const uint64_t ago_ns = known->unseen_ns(); ago_ns < now_s() * base::kNsPerSecond) {
    pool->used_s = std::max(pool->used_s, now_s() - ago_ns / base::kNsPerSecond);
  }
}

// A connection to a node, for listing alone.
class Lister {
 public:
  ~Lister() {
    peer_.reset();  // ends what is in flight
    if (worker_ != nullptr) static_cast<void>(worker_->poll());
  }

  Status connect(rdma::Fabric* fabric, const std::string& address, const rdma::Secret* secret, uint64_t limit_ms) {
    rdma::Rights rights;
    rights.write = true;  // the node writes its answers
    BONSAI_RETURN_IF_ERROR(rdma::RegisteredMemory::make(*fabric, sizeof(Exchange), rights, &memory_));
    BONSAI_RETURN_IF_ERROR(fabric->make_worker(&worker_));
    rdma::Hello own;
    own.node = static_cast<uint32_t>(base::fresh_seed() | 1);
    base::random_secret(std::as_writable_bytes(std::span(&own.session, 1)));
    return secret != nullptr ? secret->connect(worker_.get(), address, own, limit_ms, &peer_)
                             : worker_->connect(address, own, limit_ms, &peer_);
  }

  // Errors: NotFound (there is no further pool), Unavailable, those of the node.
  Status next(const std::string& after, uint64_t limit_ms, ListedPool* pool) {
    auto& exchange = *reinterpret_cast<Exchange*>(memory_->data());
    PoolRequest& request = exchange.request;
    request = {};
    request.op = PoolOp::kList;
    request.token = ++tokens_;
    request.answer = memory_->remote().at(offsetof(Exchange, answer));
    set_wire_text(&request.pool, after);
    list_.clear();
    list_.send(*peer_, memory_->slice(0, sizeof request));
    BONSAI_RETURN_IF_ERROR(worker_->run(&list_, limit_ms));
    const std::byte* const answered = memory_->data() + offsetof(Exchange, answer);
    BONSAI_RETURN_IF_ERROR(worker_->await("list.answer", limit_ms, [&] {
      const uint64_t token = base::word_at(answered + offsetof(PoolAnswer, token)).load(std::memory_order_acquire);
      return token == tokens_ || !peer_->usable();
    }));
    PoolAnswer answer;
    base::racy_load(&answer, answered, sizeof answer);
    if (answer.token != tokens_) return Status::Unavailable("the node left");
    if (answer.code != 0) return base::status_from_wire(static_cast<int32_t>(answer.code), wire_text(answer.text));
    PoolEntry entry;
    std::memcpy(&entry, answer.text.data(), sizeof entry);
    *pool = {wire_text(entry.name), entry.bytes, wire_text(entry.owner), entry.used_s};
    return Status::OK();
  }

 private:
  struct Exchange {
    PoolRequest request;
    PoolAnswer answer;
  };

  std::unique_ptr<rdma::Worker> worker_;
  std::unique_ptr<rdma::RegisteredMemory> memory_;
  rdma::WorkList list_;
  std::unique_ptr<rdma::Peer> peer_;
  uint64_t tokens_ = 0;
};

}  // namespace

Status next_pool(const std::string& folder, PoolOwners* owners, const std::string& after, ListedPool* pool) {
  struct stat file {};
  if (::stat(folder.c_str(), &file) != 0) {
    if (errno != ENOENT) return base::os_error("read", folder, errno);
    return Status::IoError("there is no folder " + folder + "; name one that holds pools, or a node");
  }
  if (!S_ISDIR(file.st_mode)) return Status::IoError(folder + " is no folder; name one that holds pools");
  std::string next;
  for (const std::string& name : base::names_in(folder)) {
    if (!is_pool_name(name) || name <= after || (!next.empty() && name >= next)) continue;
    struct stat found {};
    const std::string path = folder + "/" + name;
    if (::stat(path.c_str(), &found) != 0 || (!S_ISREG(found.st_mode) && !S_ISCHR(found.st_mode))) continue;
    next = name;
    file = found;
  }
  if (next.empty()) return Status::NotFound("there is no further pool");
  const std::string path = folder + "/" + next;
  *pool = {next, bytes_of(path, file), "", changed_s(file)};
  struct stat record {};
  if (::stat(PoolOwner::record_path(folder, next).c_str(), &record) == 0) {
    pool->used_s = std::max(pool->used_s, changed_s(record));
  }
  find_owner(folder, owners, file, pool);
  return Status::OK();
}

void put_entry(const ListedPool& pool, PoolAnswer* answer) {
  PoolEntry entry;
  entry.bytes = pool.bytes;
  entry.used_s = pool.used_s;
  set_wire_text(&entry.name, pool.name);
  set_wire_text(&entry.owner, pool.owner);
  answer->text.fill('\0');
  std::memcpy(answer->text.data(), &entry, sizeof entry);
}

namespace {

Status list_folder(const std::string& folder, const std::function<bool(const std::string& path)>& is_pool,
                   std::vector<ListedPool>* pools) {
  for (std::string after;;) {
    ListedPool pool;
    const Status status = next_pool(folder, nullptr, after, &pool);
    if (status.IsNotFound()) return Status::OK();
    BONSAI_RETURN_IF_ERROR(status);
    after = pool.name;
    if (is_pool(folder + "/" + pool.name)) pools->push_back(std::move(pool));
  }
}

Status list_node(rdma::Fabric* fabric, const std::string& address, const rdma::Secret* secret, uint64_t limit_ms,
                 std::vector<ListedPool>* pools) {
  Lister lister;
  BONSAI_RETURN_IF_ERROR(lister.connect(fabric, address, secret, limit_ms));
  for (std::string after; pools->size() < kPoolsMax; after = pools->back().name) {
    ListedPool pool;
    const Status status = lister.next(after, limit_ms, &pool);
    if (status.IsNotFound()) return Status::OK();
    BONSAI_RETURN_IF_ERROR(status);
    // An order that falls would go on for ever.
    if (!is_pool_name(pool.name) || pool.name <= after) {
      return Status::Unavailable("the node's list makes no sense; run the same version on both nodes");
    }
    pools->push_back(std::move(pool));
  }
  return Status::OK();
}

}  // namespace

Status list_pools(const std::string& place, const std::string& secret_file, uint64_t limit_ms,
                  const std::function<bool(const std::string& path)>& is_pool, std::vector<ListedPool>* pools) {
  pools->clear();
  if (place.empty()) return Status::InvalidArgument("no place is named; give a folder, shm://NODE or rdma://HOST:PORT");
  if (place.find("://") == std::string::npos) return list_folder(place, is_pool, pools);
  TargetName name;
  if (!parse_target_name(place + "/pool", &name).ok() || !name.is_remote()) {
    return Status::InvalidArgument("'" + place + "' is no node; give shm://NODE or rdma://HOST:PORT, or a folder");
  }
  std::shared_ptr<rdma::Fabric> fabric;
  BONSAI_RETURN_IF_ERROR(open_fabric(name.scheme, &fabric));
  rdma::Secret secret;
  bool has_secret = false;
  BONSAI_RETURN_IF_ERROR(load_secret(secret_file, &secret, &has_secret));
  const Status status = list_node(fabric.get(), name.node, has_secret ? &secret : nullptr, limit_ms, pools);
  if (status.ok()) return status;
  return base::status_from_wire(static_cast<int32_t>(status.code()), place + ": " + std::string(status.message()));
}

}  // namespace bonsai::scale
