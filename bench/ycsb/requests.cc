// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/requests.h"

#include <algorithm>
#include <array>

#include "base/thread.h"

namespace bonsai::bench {
namespace {

// Calls work(thread) for every thread, on as many threads as the system gives.
template <class Work>
void in_parallel(unsigned threads, const Work& work) {
  base::for_each_on(threads, threads, [&](size_t thread) { work(static_cast<unsigned>(thread)); });
}

// Makes the list out of the drawer, or leaves the drawer in it.
void fill_list(Drawer drawer, const RecordShape& shape, DrawMode mode, RequestList* list) {
  if (mode == DrawMode::kLive) {
    list->live.emplace(std::move(drawer));
    return;
  }
  list->requests.resize(list->operations);
  for (Request& request : list->requests) request = drawer.next();
  spell_keys(shape, list);
}

// The greatest key of the records that `drawer` would load.
std::string key_max_of(Drawer drawer, const RecordShape& shape, uint64_t records) {
  std::vector<char> room(shape.key_bytes_max());
  std::string key_max;
  for (uint64_t i = 0; i < records; ++i) {
    const std::string_view key = encode_key(shape, drawer.next().key, room.data());
    if (key > key_max) key_max = key;
  }
  return key_max;
}

}  // namespace

uint64_t part_of(uint64_t total, unsigned threads, unsigned thread) {
  return total / threads + (thread < total % threads ? 1 : 0);
}

void spell_keys(const RecordShape& shape, RequestList* list) {
  if (shape.key_form == KeyForm::kFixed8) return;
  list->key_stride = shape.key_bytes_max();
  list->keys.resize(list->requests.size() * list->key_stride);
  for (size_t i = 0; i < list->requests.size(); ++i) {
    Request& request = list->requests[i];
    if (request.source != KeySource::kReady) continue;
    const std::string_view key = encode_key(shape, request.key, list->keys.data() + i * list->key_stride);
    request.key_bytes = static_cast<uint16_t>(key.size());
  }
}

RequestPlan draw_load(const RecordShape& shape, uint64_t records, unsigned threads, DrawMode mode) {
  RequestPlan plan;
  plan.threads.resize(threads);
  plan.operations = records;
  std::vector<std::string> key_max(threads);
  in_parallel(threads, [&](unsigned thread) {
    RequestList& list = plan.threads[thread];
    list.operations = part_of(records, threads, thread);
    const Drawer drawer(shape, {records, threads, thread});
    key_max[thread] = key_max_of(drawer, shape, list.operations);
    fill_list(drawer, shape, mode, &list);
  });
  plan.key_max = *std::max_element(key_max.begin(), key_max.end());
  return plan;
}

RequestPlan draw_requests(const Workload& workload, const RecordShape& shape, uint64_t records, uint64_t operations,
                          unsigned threads, uint64_t seed, DrawMode mode) {
  RequestPlan plan;
  plan.threads.resize(threads);
  plan.operations = operations;
  const Choosers choosers(workload, records, operations);
  std::vector<uint64_t> inserts(threads);
  in_parallel(threads, [&](unsigned thread) {
    RequestList& list = plan.threads[thread];
    list.operations = part_of(operations, threads, thread);
    fill_list(Drawer(workload, shape, {records, threads, thread}, seed, choosers), shape, mode, &list);
    inserts[thread] =
        static_cast<uint64_t>(std::count_if(list.requests.begin(), list.requests.end(),
                                            [](const Request& request) { return request.source == KeySource::kNew; }));
  });
  for (const uint64_t count : inserts) plan.inserts_max += count;
  if (mode == DrawMode::kLive && workload.share(OpKind::kInsert) > 0) plan.inserts_max = operations;
  return plan;
}

}  // namespace bonsai::bench
