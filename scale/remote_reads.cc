// SPDX-License-Identifier: Apache-2.0
// RemoteLink, reading: what is resident, and reads that are carried.
#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/sizes.h"
#include "base/status_macros.h"
#include "scale/remote_link.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kPageBytes = 4096;
// Of the READs of a ticket that are in flight together. Who answers them sends all at once, and what some queue on the
// way has no room for is lost and sent again after a time-out; Soft-RoCE between emulated guests does not get over
// that. A link of 12.5 GB/s and 5 us has 64 KiB in flight.
constexpr uint64_t kInFlightBytesMax = uint64_t{128} << 10;
constexpr uint64_t kReadBytesMax = kInFlightBytesMax;  // of one READ

constexpr size_t kSpareListsMax = 64;

uint64_t offset_in(const rdma::Region& region, const std::byte* at) {
  return reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(region.memory().data());
}
bool contains(const rdma::Region* region, const std::byte* at, uint64_t n) {
  if (region == nullptr) return false;
  const uint64_t offset = offset_in(*region, at), bytes = region->memory().size();  // far beyond, if it is below
  return offset <= bytes && n <= bytes - offset;
}

uint64_t to_pages(uint64_t bytes) { return base::round_up(bytes, kPageBytes); }

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

// What failed to be read before is open, and is read again.
Status RemoteLink::open_resident(size_t target, uint64_t offset, uint64_t n,
                                 std::vector<base::FarReads::Piece>* pieces) {
  Target& of = *targets_[target];
  const uint64_t end = std::min(to_pages(offset + n), static_cast<uint64_t>(of.mirror.size()));
  {
    const std::lock_guard copies_lock(of.copies_mutex);
    give_up_copies(&of, offset, n);
  }
  const std::lock_guard lock(of.residents_mutex);
  for (uint64_t at = offset / kPageBytes * kPageBytes; at < end;) {
    auto known = of.residents.upper_bound(at);
    const uint64_t gap_end = known != of.residents.end() ? std::min(end, known->first) : end;
    const bool inside = known != of.residents.begin() &&
                        at < std::prev(known)->first + std::prev(known)->second.region->memory().size();
    if (!inside) BONSAI_RETURN_IF_ERROR(open_gap(&of, at, gap_end - at));
    known = std::prev(of.residents.upper_bound(at));
    const std::span<std::byte> memory = known->second.region->memory();
    if (!known->second.read) pieces->push_back({known->first, memory.data(), memory.size()});
    at = known->first + to_pages(memory.size());
  }
  return Status::OK();
}

// Requires: residents_mutex; nothing of it is open.
Status RemoteLink::open_gap(Target* of, uint64_t offset, uint64_t n) {
  std::byte* const to = of->mirror.data() + offset;
  Resident opened;
  Status status;
  if (::mprotect(to, to_pages(n), PROT_READ | PROT_WRITE) != 0) status = Status::NoSpace("mprotect refuses");
  if (status.ok()) status = fabric_->register_region({to, n}, rdma::Rights::none(), &opened.region);
  if (!status.ok()) {
    return Status::NoSpace("no memory for what is resident of " + of->name.text + ": " + std::string(status.message()));
  }
  of->residents.emplace(offset, std::move(opened));
  return Status::OK();
}

void RemoteLink::close_resident(size_t target, std::span<const base::FarReads::Piece> pieces) {
  Target& of = *targets_[target];
  const std::lock_guard lock(of.residents_mutex);
  for (const base::FarReads::Piece& piece : pieces) of.residents.at(piece.offset).read = true;
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

// Which worker carries the calling thread's reads.
size_t RemoteLink::lane_of_caller() const {
  return lanes_.size() == 1 ? 0 : 1 + fabric_->caller() % (lanes_.size() - 1);
}

// Requires: the lane's mutex; the slice is at most kInFlightBytesMax.
void RemoteLink::add_read(Lane* lane, Reading* reading, rdma::Peer* peer, rdma::Remote from, const rdma::Slice& to) {
  std::vector<ReadList>& lists = reading->lists;
  if (lists.empty() || !lists.back().list->room() || lists.back().bytes + to.bytes() > kInFlightBytesMax) {
    if (lane->spare_lists.empty()) lane->spare_lists.push_back(std::make_unique<rdma::WorkList>());
    lists.push_back({std::move(lane->spare_lists.back()), 0});
    lane->spare_lists.pop_back();
  }
  lists.back().list->read(*peer, from, to);
  lists.back().bytes += to.bytes();
}

uint64_t RemoteLink::begin_reads(size_t target, std::span<const base::FarReads::Piece> pieces,
                                 std::shared_ptr<const void> holder) {
  const size_t number = lane_of_caller();
  Lane& lane = *lanes_[number];
  const std::lock_guard lock(lane.mutex);
  const Target& from = *targets_[target];
  const uint64_t ticket = ++lane.tickets * lanes_.size() + number;
  Reading& reading = lane.readings[ticket];
  reading.target = target;
  reading.holder = std::move(holder);
  if (from.connections.empty()) reading.refused = Status::Unavailable("the connection is closed");
  if (from.broken.load(std::memory_order_acquire)) reading.refused = Status::Unavailable("a connection has ended");
  if (!reading.refused.ok()) return ticket;
  rdma::Peer& peer = from.connections[number]->peer();
  const uint64_t unit_bytes = options_.read_unit_bytes;
  const rdma::Region* region = nullptr;  // of the last piece; most often the next one's, too
  for (const base::FarReads::Piece& piece : pieces) {
    for (uint64_t done = 0; done < piece.bytes;) {
      uint64_t n = std::min(piece.bytes - done, kReadBytesMax);
      if (unit_bytes != 0) n = std::min(n, unit_bytes - (piece.offset + done) % unit_bytes);
      std::byte* const at = piece.to + done;
      const rdma::Slice to = contains(region, at, n) ? region->slice(offset_in(*region, at), n) : slice_to(from, at, n);
      region = to.region();
      if (to.bytes() == n) {
        add_read(&lane, &reading, &peer, from.pool.region.at(piece.offset + done), to);
      } else {
        reading.refused = Status::Unavailable("there is no registered memory for it");
      }
      done += n;
    }
  }
  post_reads(lane, &reading);
  return ticket;
}

// Requires: the lane's mutex. What a device does not take now, or is too much at a time, is posted at a later look.
void RemoteLink::post_reads(const Lane& lane, Reading* reading) {
  uint64_t in_flight = 0;
  for (size_t i = 0; i < reading->posted; ++i) {
    if (reading->lists[i].list->pending()) in_flight += reading->lists[i].bytes;
  }
  for (; reading->posted < reading->lists.size(); ++reading->posted) {
    const ReadList& next = reading->lists[reading->posted];
    if (in_flight != 0 && in_flight + next.bytes > kInFlightBytesMax) return;
    if (!lane.worker->post(next.list.get()).ok()) return;
    in_flight += next.bytes;
  }
}

bool RemoteLink::reads_ended(uint64_t ticket, Status* status) {
  const size_t number = ticket % lanes_.size();
  Lane& lane = *lanes_[number];
  if (!lane.mutex.try_lock()) return false;
  const std::lock_guard lock(lane.mutex, std::adopt_lock);
  static_cast<void>(lane.worker->poll());
  drop_forgotten(&lane);
  const auto at = lane.readings.find(ticket);
  BONSAI_CHECK(at != lane.readings.end());
  Reading& reading = at->second;
  post_reads(lane, &reading);
  const auto pending = [](const ReadList& each) { return each.list->pending(); };
  if (reading.posted < reading.lists.size() || std::any_of(reading.lists.begin(), reading.lists.end(), pending))
    return false;
  *status = reading.refused;
  for (const ReadList& each : reading.lists) {
    if (status->ok() && each.list->size() != 0) *status = each.list->status();
  }
  if (!status->ok()) {
    Target& of = *targets_[reading.target];
    note_broken(&of, number, *status);
    *status = Status::Unavailable(of.name.text + " could not be read: " + std::string(status->message()));
  }
  end_reading(&lane, at);
  return true;
}

// Requires: the lane's mutex; nothing of it is in flight.
void RemoteLink::end_reading(Lane* lane, std::map<uint64_t, Reading>::iterator at) {
  for (ReadList& each : at->second.lists) {
    if (lane->spare_lists.size() == kSpareListsMax) break;
    each.list->clear();
    lane->spare_lists.push_back(std::move(each.list));
  }
  lane->readings.erase(at);
}

void RemoteLink::forget_reads(uint64_t ticket) {
  Lane& lane = *lanes_[ticket % lanes_.size()];
  const std::lock_guard lock(lane.mutex);
  const auto at = lane.readings.find(ticket);
  BONSAI_CHECK(at != lane.readings.end());
  at->second.lists.resize(at->second.posted);
  at->second.forgotten = true;
}

// Requires: the lane's mutex.
void RemoteLink::drop_forgotten(Lane* lane) {
  std::erase_if(lane->readings, [](const auto& each) {
    const Reading& reading = each.second;
    return reading.forgotten && std::none_of(reading.lists.begin(), reading.lists.end(),
                                             [](const ReadList& of) { return of.list->pending(); });
  });
}

}  // namespace bonsai::scale
