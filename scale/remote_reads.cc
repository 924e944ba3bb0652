// RemoteLink, reading: what is resident, and reads that are carried.
#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "scale/remote_link.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kRequestBytesMax = uint64_t{1} << 20;  // of one READ

uint64_t to_pages(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

void RemoteLink::Target::drop_mirror() {
  residents.clear();
  if (!mirror.empty()) ::munmap(mirror.data(), to_pages(mirror.size()));
  mirror = {};
}

Status RemoteLink::make_mirror(size_t target) {
  Target& of = *targets_[target];
  const uint64_t bytes = of.pool.region.bytes;
  void* const at = ::mmap(nullptr, to_pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return Status::NoSpace("no addresses for the " + std::to_string(bytes) + " bytes of " + of.name.text +
                           "; raise the limit of address space (ulimit -v)");
  }
  of.mirror = {static_cast<std::byte*>(at), bytes};
  return Status::OK();
}

Status RemoteLink::fetch(size_t target, uint64_t offset, uint64_t n) {
  Target& of = *targets_[target];
  const uint64_t end = std::min(to_pages(offset + n), static_cast<uint64_t>(of.mirror.size()));
  const std::lock_guard lock(fetch_mutex_);
  for (uint64_t at = offset / kPageBytes * kPageBytes; at < end;) {
    uint64_t gap_end = end;
    {
      const std::lock_guard residents_lock(of.residents_mutex);
      const auto after = of.residents.upper_bound(at);
      if (after != of.residents.end()) gap_end = std::min(gap_end, after->first);
      if (after != of.residents.begin()) {
        const auto& [begin, known] = *std::prev(after);
        const uint64_t known_end = begin + known.region->memory().size();
        if (known.read && at < known_end) {
          at = known_end;
          continue;
        }
      }
    }
    BONSAI_RETURN_IF_ERROR(open_resident(target, at, gap_end - at));
    at = gap_end;
  }
  return Status::OK();
}

// Requires: fetch_mutex_; the range is not resident. One whose reading failed before is there, and is read again.
Status RemoteLink::open_resident(size_t target, uint64_t offset, uint64_t n) {
  Target& of = *targets_[target];
  std::byte* const to = of.mirror.data() + offset;
  Resident* resident = nullptr;
  {
    const std::lock_guard residents_lock(of.residents_mutex);
    resident = &of.residents[offset];
    if (resident->region == nullptr) {
      Status status;
      if (::mprotect(to, to_pages(n), PROT_READ | PROT_WRITE) != 0) status = Status::NoSpace("mprotect refuses");
      if (status.ok()) status = fabric_->register_region({to, n}, rdma::Rights::none(), &resident->region);
      if (!status.ok()) {
        of.residents.erase(offset);
        return Status::NoSpace("no memory for what is resident of " + of.name.text + ": " +
                               std::string(status.message()));
      }
    }
    n = resident->region->memory().size();
  }
  const base::FarReads::Piece piece{offset, to, n};
  const uint64_t ticket = begin_reads(target, {&piece, 1}, nullptr);
  Status status;
  for (base::BoundedWait wait("link.fetch", options_.limit_ms); !reads_ended(ticket, &status); wait.pause()) {
    if (!wait.expired()) continue;
    forget_reads(ticket);
    return Status::Unavailable(of.name.text + " could not be read: " + std::string(wait.status().message()));
  }
  if (!status.ok()) return status;
  const std::lock_guard residents_lock(of.residents_mutex);
  resident->read = true;
  return Status::OK();
}

bool RemoteLink::resident(size_t target, uint64_t offset, uint64_t n) const {
  const Target& of = *targets_[target];
  const std::lock_guard lock(of.residents_mutex);
  const auto after = of.residents.upper_bound(offset);
  if (after == of.residents.begin()) return false;
  const auto& [begin, known] = *std::prev(after);
  return known.read && offset + n <= begin + known.region->memory().size();
}

uint64_t RemoteLink::resident_bytes(size_t target) const {
  const Target& of = *targets_[target];
  const std::lock_guard lock(of.residents_mutex);
  uint64_t bytes = 0;
  for (const auto& [begin, known] : of.residents) bytes += known.region->memory().size();
  return bytes;
}

// [offset, offset + n), or as much of it as is in one region; none if it is not resident.
rdma::Slice RemoteLink::resident_slice(const Target& target, uint64_t offset, uint64_t n) const {
  const std::lock_guard lock(target.residents_mutex);
  const auto after = target.residents.upper_bound(offset);
  if (after == target.residents.begin()) return {};
  const auto& [begin, known] = *std::prev(after);
  const uint64_t known_end = begin + known.region->memory().size();
  return offset < known_end ? known.region->slice(offset - begin, std::min(n, known_end - offset)) : rdma::Slice();
}

rdma::Slice RemoteLink::slice_to(const Target& target, std::byte* to, uint64_t n) const {
  const bool is_mirror = to >= target.mirror.data() && to < target.mirror.data() + target.mirror.size();
  return is_mirror ? resident_slice(target, static_cast<uint64_t>(to - target.mirror.data()), n) : pool_->slice(to, n);
}

uint64_t RemoteLink::begin_reads(size_t target, std::span<const base::FarReads::Piece> pieces,
                                 std::shared_ptr<const void> holder) {
  const std::lock_guard lock(mutex_);
  const Target& from = *targets_[target];
  Reading& reading = readings_[++tickets_];
  reading.target = target;
  reading.holder = std::move(holder);
  for (const base::FarReads::Piece& piece : pieces) {
    for (uint64_t done = 0; done < piece.bytes && from.persist != nullptr;) {
      const uint64_t n = std::min(piece.bytes - done, kRequestBytesMax);
      const rdma::Slice to = slice_to(from, piece.to + done, n);
      if (to.bytes() != n) reading.refused = Status::Unavailable("there is no registered memory for it");
      if (reading.lists.empty() || !reading.lists.back()->room())
        reading.lists.push_back(std::make_unique<rdma::WorkList>());
      if (to.bytes() == n)
        reading.lists.back()->read(from.persist->peer(), from.pool.region.at(piece.offset + done), to);
      done += n;
    }
  }
  if (from.persist == nullptr) reading.refused = Status::Unavailable("the connection is closed");
  post_reads(&reading);
  return tickets_;
}

// Requires: mutex_. What a device does not take now is posted at a later look.
void RemoteLink::post_reads(Reading* reading) {
  while (reading->posted < reading->lists.size() && worker_->post(reading->lists[reading->posted].get()).ok()) {
    ++reading->posted;
  }
}

bool RemoteLink::reads_ended(uint64_t ticket, Status* status) {
  if (!mutex_.try_lock()) return false;
  const std::lock_guard lock(mutex_, std::adopt_lock);
  static_cast<void>(worker_->poll());
  drop_forgotten();
  const auto at = readings_.find(ticket);
  BONSAI_CHECK(at != readings_.end());
  Reading& reading = at->second;
  post_reads(&reading);
  const auto pending = [](const auto& list) { return list->pending(); };
  if (reading.posted < reading.lists.size() || std::any_of(reading.lists.begin(), reading.lists.end(), pending))
    return false;
  *status = reading.refused;
  for (const auto& list : reading.lists) {
    if (status->ok() && list->size() != 0) *status = list->status();
  }
  if (!status->ok()) {
    *status = Status::Unavailable(targets_[reading.target]->name.text +
                                  " could not be read: " + std::string(status->message()));
  }
  readings_.erase(at);
  return true;
}

void RemoteLink::forget_reads(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto at = readings_.find(ticket);
  BONSAI_CHECK(at != readings_.end());
  at->second.lists.resize(at->second.posted);
  at->second.forgotten = true;
}

// Requires: mutex_.
void RemoteLink::drop_forgotten() {
  std::erase_if(readings_, [](const auto& each) {
    const Reading& reading = each.second;
    return reading.forgotten &&
           std::none_of(reading.lists.begin(), reading.lists.end(), [](const auto& list) { return list->pending(); });
  });
}

}  // namespace bonsai::scale
