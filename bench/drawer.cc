#include "bench/drawer.h"

#include <algorithm>

namespace bonsai::bench {
namespace {

// A number that no record has yet is drawn again; this many times, after which any loaded record will do.
constexpr int kRedrawsMax = 1000;

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

Request Drawer::next() {
  if (loads_) return next_of_load();
  Request request;
  request.kind = kind();
  if (request.kind == OpKind::kInsert) {
    request.source = KeySource::kNew;
    ++inserts_;
  } else {
    choose_key(&request);
    if (request.kind == OpKind::kScan) request.scan_length = scan_length();
  }
  ++turn_;
  return request;
}

Request Drawer::next_of_load() {
  Request request;
  request.kind = OpKind::kInsert;
  request.key = shape_.id(turn_++ * part_.threads + part_.thread);
  return request;
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

void Drawer::choose_key(Request* request) {
  // The other threads are taken to have inserted as often as this one.
  const uint64_t end = part_.records + inserts_ * part_.threads;
  if (choosers_.latest || choosers_.exponential) {
    request->source = KeySource::kBehindNewest;
    request->key = choose_behind(end - 1);
    return;
  }
  const uint64_t number = choose_number(end);
  request->source = number < part_.records ? KeySource::kReady : KeySource::kIfInserted;
  request->key = number < part_.records ? shape_.id(number) : number;
}

uint64_t Drawer::choose_behind(uint64_t newest) {
  if (choosers_.latest) return choosers_.latest->draw(u(), std::max<uint64_t>(newest, 1));
  for (int draws = 0; draws < kRedrawsMax; ++draws) {
    const uint64_t offset = choosers_.exponential->draw(u());
    if (offset <= newest) return offset;
  }
  return uniform(u(), 0, newest);
}

uint64_t Drawer::choose_number(uint64_t end) {
  if (choosers_.zipfian) {
    for (int draws = 0; draws < kRedrawsMax; ++draws) {
      const uint64_t number = choosers_.zipfian->draw(u());
      if (number < end) return number;
    }
  }
  if (choosers_.plain_zipf) return choosers_.plain_zipf->draw([this] { return u(); });
  if (choosers_.hotspot) {
    const double which = u();
    return choosers_.hotspot->draw(which, u());
  }
  if (workload_.requests == Distribution::kSequential) {
    return (turn_ * part_.threads + part_.thread) % part_.records;
  }
  return uniform(u(), 0, part_.records - 1);
}

uint32_t Drawer::scan_length() {
  if (choosers_.scan_lengths) {
    return workload_.scan_length_min + static_cast<uint32_t>(choosers_.scan_lengths->draw(u()));
  }
  return static_cast<uint32_t>(uniform(u(), workload_.scan_length_min, workload_.scan_length_max));
}

}  // namespace bonsai::bench
