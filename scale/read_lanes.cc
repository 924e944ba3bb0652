// SPDX-License-Identifier: Apache-2.0
#include "scale/read_lanes.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/probe.h"

namespace bonsai::scale {
namespace {

// The most bytes that the READs of a ticket have in flight together. The node that answers sends all at once. Bytes for
// which a queue on the way has no room are lost, and sent again after a time-out; Soft-RoCE between emulated guests
// does not recover from that. A link of 12.5 GB/s and 5 us has 64 KiB in flight.
constexpr uint64_t kInFlightBytesMax = uint64_t{128} << 10;
constexpr uint64_t kReadBytesMax = kInFlightBytesMax;  // of one READ

constexpr size_t kSpareListsMax = 64;

base::Probe read_again{"link.read_again"};
base::Probe withdrawn{"link.read_withdrawn"};

uint64_t offset_in(const rdma::Region& region, const std::byte* at) {
  return reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(region.memory().data());
}
bool contains(const rdma::Region* region, const std::byte* at, uint64_t n) {
  if (region == nullptr) return false;
  const uint64_t offset = offset_in(*region, at), bytes = region->memory().size();  // far beyond, if it is below
  return offset <= bytes && n <= bytes - offset;
}

}  // namespace

// The lane of the calling thread's reads.
size_t ReadLanes::lane_of_caller() const { return lanes_.size() == 1 ? 0 : 1 + fabric_.caller() % (lanes_.size() - 1); }

rdma::Slice ReadLanes::slice_to(const LinkTarget& target, std::byte* to, uint64_t n) const {
  if (target.mirror == nullptr || !target.mirror->contains(to)) return pool_->slice(to, n);
  return target.mirror->slice(static_cast<uint64_t>(to - target.mirror->addresses().data()), n);
}

uint64_t ReadLanes::begin(Members members, std::span<const Piece> pieces, std::shared_ptr<const void> holder) {
  const size_t number = lane_of_caller();
  const std::lock_guard lock(lanes_[number]->mutex);
  LaneReads& reads = reads_[number];
  const uint64_t ticket = ++reads.tickets * lanes_.size() + number;
  Reading& reading = reads.readings[ticket];
  reading.members = members;
  reading.target = members.front();
  for (const Piece& piece : pieces) reading.bytes += piece.bytes;
  reading.target->reads_in_flight += reading.bytes;
  reading.holder = std::move(holder);
  add_all(number, &reading, pieces);
  post(*lanes_[number], &reading);
  return ticket;
}

void ReadLanes::move_to(LinkTarget* target, Reading* reading) {
  if (target == reading->target) return;
  reading->target->reads_in_flight -= reading->bytes;
  reading->target = target;
  reading->target->reads_in_flight += reading->bytes;
}

// Chooses the member that the reading goes to, unless some of it is on its way from one.
void ReadLanes::choose(size_t lane, Reading* reading) {
  const auto has_ended = [](const List& each) { return each.list->size() != 0 && !each.list->pending(); };
  for (size_t i = 0; i < reading->lists.size(); ++i) {
    if (i >= reading->posted || !has_ended(reading->lists[i]) || !reading->lists[i].list->status().ok()) return;
  }
  LinkTarget* best = nullptr;
  uint64_t least = UINT64_MAX;
  for (LinkTarget* const member : reading->members) {
    if (!member->state.takes_reads() || !member->connections[lane]->is_open()) continue;
    const uint64_t others = member->reads_in_flight - (member == reading->target ? reading->bytes : 0);
    if (others >= least) continue;
    best = member;
    least = others;
  }
  if (best != nullptr) return move_to(best, reading);
  // Nobody takes reads now: one that may come back is waited for.
  const auto comes_back = [](const LinkTarget* member) { return member->state.is_apart(); };
  const auto other = std::find_if(reading->members.begin(), reading->members.end(), comes_back);
  if (!comes_back(reading->target) && other != reading->members.end()) move_to(*other, reading);
}

// Fills the reading's lists. Without a connection the pieces wait for one. Requires: the lane's mutex.
void ReadLanes::add_all(size_t lane, Reading* reading, std::span<const Piece> pieces) {
  if (reading->members.size() > 1) choose(lane, reading);
  LinkTarget& target = *reading->target;
  if (!target.state.takes_reads() || !target.connections[lane]->is_open()) [[unlikely]] {
    reading->apart.assign(pieces.begin(), pieces.end());
    return;
  }
  Connection& connection = *target.connections[lane];
  reading->opening = connection.openings();
  const rdma::Region* last = nullptr;
  for (const Piece& piece : pieces) add(&reads_[lane], reading, &connection, piece, &last);
}

// Requires: the lane's mutex. *last: the region of the piece before, most often this one's, too.
void ReadLanes::add(LaneReads* reads, Reading* reading, Connection* connection, const Piece& piece,
                    const rdma::Region** last) {
  for (uint64_t done = 0; done < piece.bytes;) {
    const uint64_t n = std::min(piece.bytes - done, kReadBytesMax);
    std::byte* const at = piece.to + done;
    const rdma::Slice to =
        contains(*last, at, n) ? (*last)->slice(offset_in(**last, at), n) : slice_to(*reading->target, at, n);
    *last = to.region();
    if (to.bytes() == n) {
      add_read(reads, reading, connection, piece.offset + done, to);
    } else {
      reading->refused = Status::Unavailable(
          "there is no registered memory for it; raise the limits of descriptors and locked memory (ulimit -n, -l)");
    }
    done += n;
  }
}

// Adds to the last list that is not posted yet. Requires: the lane's mutex; the slice is at most kInFlightBytesMax.
void ReadLanes::add_read(LaneReads* reads, Reading* reading, Connection* connection, uint64_t from,
                         const rdma::Slice& to) {
  std::vector<List>& lists = reading->lists;
  const bool all_posted = lists.size() == reading->posted;
  if (all_posted || !lists.back().list->room() || lists.back().bytes + to.bytes() > kInFlightBytesMax) {
    if (reads->spare_lists.empty()) reads->spare_lists.push_back(std::make_unique<rdma::WorkList>());
    lists.push_back({std::move(reads->spare_lists.back()), 0, connection->region().base});
    reads->spare_lists.pop_back();
  }
  lists.back().list->read(connection->peer(), connection->region().at(from), to);
  lists.back().bytes += to.bytes();
}

// Posts the next lists. Requires: the lane's mutex. Lists that the device does not take now, or that exceed the bound,
// are posted by a later call.
void ReadLanes::post(const Lane& lane, Reading* reading) {
  uint64_t in_flight = 0;
  for (size_t i = 0; i < reading->posted; ++i) {
    if (reading->lists[i].list->pending()) in_flight += reading->lists[i].bytes;
  }
  for (; reading->posted < reading->lists.size(); ++reading->posted) {
    const List& next = reading->lists[reading->posted];
    if (in_flight != 0 && in_flight + next.bytes > kInFlightBytesMax) return;
    if (!lane.worker->post(next.list.get()).ok()) return;
    in_flight += next.bytes;
  }
}

bool ReadLanes::ended(uint64_t ticket, Status* status) {
  const size_t number = ticket % lanes_.size();
  LinkTarget* apart = nullptr;
  {
    Lane& lane = *lanes_[number];
    if (!lane.mutex.try_lock()) return false;
    const std::lock_guard lock(lane.mutex, std::adopt_lock);
    LaneReads& reads = reads_[number];
    static_cast<void>(lane.worker->poll());
    drop_forgotten(&reads);
    const auto at = reads.readings.find(ticket);
    BONSAI_CHECK(at != reads.readings.end());
    Reading& reading = at->second;
    if (reading.posted < reading.lists.size()) [[unlikely]]
      withdraw(number, &reading);
    if (!reading.apart.empty()) [[unlikely]]
      add_all(number, &reading, std::exchange(reading.apart, {}));
    post(lane, &reading);
    const auto pending = [](const List& each) { return each.list->pending(); };
    if (reading.posted < reading.lists.size() || std::any_of(reading.lists.begin(), reading.lists.end(), pending))
      return false;
    *status = reading.refused;
    for (const List& each : reading.lists) {
      if (status->ok() && each.list->size() != 0) *status = each.list->status();
    }
    const bool is_whole = status->ok() && reading.apart.empty();
    if (is_whole || !goes_on(number, &reading, status)) [[likely]] {
      end(&reads, at);
      return true;
    }
    apart = reading.target;
  }
  connector_.reconnect(apart, /*gives_up=*/!apart->is_member());
  return false;
}

// Whether a reading that has failed waits for a connection. If not, *status is its result. Requires: the lane's mutex;
// nothing of it is in flight.
bool ReadLanes::goes_on(size_t lane, Reading* reading, Status* status) {
  LinkTarget& target = *reading->target;
  if (!status->ok()) target.note_broken(lane, *status);
  bool waits = reading->refused.ok();
  // The node may have refused what it does not name so any more.
  if (!status->ok() && !status->IsUnavailable()) waits = waits && !std::exchange(reading->was_refused, true);
  const TargetState::State state = target.state.state();
  if (state == TargetState::State::kEnded) waits = false;
  if (state == TargetState::State::kOut) waits = waits && reading->members.size() > 1;
  if (state == TargetState::State::kLost) waits = waits && !std::exchange(reading->was_lost, true);
  if (waits) {
    for (size_t i = reading->lists.size(); i > 0; --i) {
      if (!reading->lists[i - 1].list->status().ok()) put_off(reading, i - 1);
    }
    return true;
  }
  if (status->ok()) *status = target.state.status();
  *status = Status::Unavailable(target.state.name() + " could not be read: " + std::string(status->message()));
  return false;
}

// The pieces of the list wait for a connection. Requires: it is not pending.
void ReadLanes::put_off(Reading* reading, size_t list) {
  const rdma::WorkList& requests = *reading->lists[list].list;
  const uint64_t base = reading->lists[list].base;
  (list < reading->posted ? read_again : withdrawn).hit();
  for (size_t i = 0; i < requests.size(); ++i) {
    const rdma::WorkRequest& request = requests[i];
    reading->apart.push_back({request.remote.address - base, request.local.data(), request.local.bytes()});
  }
  reading->lists.erase(reading->lists.begin() + static_cast<std::ptrdiff_t>(list));
  if (list < reading->posted) --reading->posted;
}

// Lists that are not posted yet name a connection, which may have ended. Requires: the lane's mutex.
void ReadLanes::withdraw(size_t lane, Reading* reading) {
  const auto& connections = reading->target->connections;
  const bool stands =
      lane < connections.size() && connections[lane]->is_open() && connections[lane]->openings() == reading->opening;
  while (!stands && reading->lists.size() > reading->posted) put_off(reading, reading->lists.size() - 1);
}

// Requires: the lane's mutex; nothing of it is in flight.
void ReadLanes::end(LaneReads* reads, std::map<uint64_t, Reading>::iterator at) {
  at->second.target->reads_in_flight -= at->second.bytes;
  for (List& each : at->second.lists) {
    if (reads->spare_lists.size() == kSpareListsMax) break;
    each.list->clear();
    reads->spare_lists.push_back(std::move(each.list));
  }
  reads->readings.erase(at);
}

void ReadLanes::forget(uint64_t ticket) {
  const size_t number = ticket % lanes_.size();
  const std::lock_guard lock(lanes_[number]->mutex);
  std::map<uint64_t, Reading>& readings = reads_[number].readings;
  const auto at = readings.find(ticket);
  BONSAI_CHECK(at != readings.end());
  at->second.lists.resize(at->second.posted);
  at->second.apart.clear();
  at->second.forgotten = true;
}

void ReadLanes::settle() {
  for (size_t number = 0; number < lanes_.size(); ++number) {
    Lane& lane = *lanes_[number];
    if (!lane.mutex.try_lock()) continue;
    const std::lock_guard lock(lane.mutex, std::adopt_lock);
    static_cast<void>(lane.worker->poll());
    drop_forgotten(&reads_[number]);
  }
}

// Requires: the lane's mutex.
void ReadLanes::drop_forgotten(LaneReads* reads) {
  std::erase_if(reads->readings, [](const auto& each) {
    const Reading& reading = each.second;
    const auto pending = [](const List& of) { return of.list->pending(); };
    if (!reading.forgotten || std::any_of(reading.lists.begin(), reading.lists.end(), pending)) return false;
    reading.target->reads_in_flight -= reading.bytes;
    return true;
  });
}

}  // namespace bonsai::scale
