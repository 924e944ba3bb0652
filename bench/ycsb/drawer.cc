// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/drawer.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace bonsai::bench {
namespace {

// A number that no record has yet is drawn again; this many times, after which any loaded record will do.
constexpr int kRedrawsMax = 1000;

// The draw that follows a refused one.
double after(double u) { return base::Random(std::bit_cast<uint64_t>(u)).unit(); }

}  // namespace

Choosers::Choosers(const Workload& workload, uint64_t records, uint64_t operations) {
  switch (workload.requests) {
    case Distribution::kZipfian:
      zipfian.emplace(zipfian_keys(records, operations, workload.share(OpKind::kInsert)));
      break;
    case Distribution::kLatest:
      latest.emplace(std::max<uint64_t>(records - 1, 1));
      break;
    case Distribution::kExponential:
      exponential.emplace(workload.exponential_percentile, static_cast<double>(records) * workload.exponential_frac);
      break;
    case Distribution::kPlainZipf:
      plain_zipf.emplace(records, workload.plain_zipf_alpha);
      break;
    case Distribution::kHotspot:
      hotspot = Hotspot::of(records, workload.hotspot_data, workload.hotspot_requests);
      break;
    case Distribution::kUniform:
    case Distribution::kSequential:
    case Distribution::kTrace:
      break;
  }
  if (workload.scan_lengths_zipfian && workload.share(OpKind::kScan) > 0) {
    scan_lengths.emplace(workload.scan_length_max - workload.scan_length_min + 1);
  }
}

Drawer::Drawer(const RecordShape& shape, const DrawerPart& part)
    : loads_(true), shape_(shape), part_(part), random_(0) {}

Drawer::Drawer(const Workload& workload, const RecordShape& shape, const DrawerPart& part, uint64_t seed,
               const Choosers& choosers)
    : loads_(false),
      shape_(shape),
      part_(part),
      workload_(workload),
      choosers_(choosers),
      random_(base::splitmix64(seed) + part.thread) {}

void Drawer::draw_some() {
  loads_ ? draw_load() : draw_requests();
  turn_ += kTogether;
  at_ = 0;
}

void Drawer::draw_load() {
  for (size_t i = 0; i < kTogether; ++i) {
    drawn_[i] = Request();
    drawn_[i].kind = OpKind::kInsert;
    drawn_[i].key = shape_.id((turn_ + i) * part_.threads + part_.thread);
  }
}

void Drawer::draw_requests() {
  std::array<double, kTogether> key_u{};
  std::array<double, kTogether> length_u{};
  std::array<uint64_t, kTogether> numbers;
  std::array<uint64_t, kTogether> ids;
  numbers.fill(UINT64_MAX);
  for (size_t i = 0; i < kTogether; ++i) {
    drawn_[i] = Request();
    drawn_[i].kind = kind();
    key_u[i] = u();
    if (drawn_[i].kind == OpKind::kScan) length_u[i] = u();
  }
  if (choosers_.zipfian) {
    for (size_t i = 0; i < kTogether; ++i) numbers[i] = choosers_.zipfian->rank(key_u[i]);
    for (size_t i = 0; i < kTogether; ++i) numbers[i] = choosers_.zipfian->scramble(numbers[i]);
    for (size_t i = 0; i < kTogether; ++i) ids[i] = shape_.id(numbers[i]);
  }
  for (size_t i = 0; i < kTogether; ++i) {
    Request& request = drawn_[i];
    if (request.kind == OpKind::kInsert) {
      request.source = KeySource::kNew;
      ++inserts_;
      continue;
    }
    if (numbers[i] < part_.records) {
      request.key = ids[i];
    } else {
      choose_key(key_u[i], turn_ + i, numbers[i], &request);
    }
    if (request.kind == OpKind::kScan) request.scan_length = scan_length(length_u[i]);
  }
}

// Walks the kinds in YCSB's order: read, update, insert, scan, read-modify-write, then our delete.
OpKind Drawer::kind() {
  double left = u();
  size_t last = 0;
  for (size_t kind = 0; kind < kOpKinds; ++kind) {
    if (workload_.shares[kind] <= 0) continue;
    if (left < workload_.shares[kind]) return static_cast<OpKind>(kind);
    left -= workload_.shares[kind];
    last = kind;
  }
  return static_cast<OpKind>(last);
}

void Drawer::choose_key(double u, uint64_t turn, uint64_t number, Request* request) {
  // The other threads are taken to have inserted as often as this one.
  const uint64_t end = part_.records + inserts_ * part_.threads;
  if (choosers_.latest || choosers_.exponential) {
    request->source = KeySource::kBehindNewest;
    request->key = choose_behind(u, end - 1);
    return;
  }
  number = choose_number(u, turn, number, end);
  request->source = number < part_.records ? KeySource::kReady : KeySource::kIfInserted;
  request->key = number < part_.records ? shape_.id(number) : number;
}

uint64_t Drawer::choose_behind(double u, uint64_t newest) {
  if (choosers_.latest) return choosers_.latest->draw(u, std::max<uint64_t>(newest, 1));
  for (int draws = 0; draws < kRedrawsMax; ++draws, u = after(u)) {
    const uint64_t offset = choosers_.exponential->draw(u);
    if (offset <= newest) return offset;
  }
  return uniform(u, 0, newest);
}

// `number` is the draw of the zipfian chooser for `u`.
uint64_t Drawer::choose_number(double u, uint64_t turn, uint64_t number, uint64_t end) {
  switch (workload_.requests) {
    case Distribution::kZipfian:
      for (int draws = 0; draws < kRedrawsMax; ++draws, number = choosers_.zipfian->draw(u)) {
        if (number < end) return number;
        u = after(u);
      }
      break;
    case Distribution::kPlainZipf:
      return choosers_.plain_zipf->draw(
          [u, first = true]() mutable { return std::exchange(first, false) ? u : u = after(u); });
    case Distribution::kHotspot:
      return choosers_.hotspot->draw(u, after(u));
    case Distribution::kSequential:
      return (turn * part_.threads + part_.thread) % part_.records;
    default:
      break;
  }
  return uniform(u, 0, part_.records - 1);
}

uint32_t Drawer::scan_length(double u) {
  if (choosers_.scan_lengths) {
    return workload_.scan_length_min + static_cast<uint32_t>(choosers_.scan_lengths->draw(u));
  }
  return static_cast<uint32_t>(uniform(u, workload_.scan_length_min, workload_.scan_length_max));
}

}  // namespace bonsai::bench
