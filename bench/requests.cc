#include "bench/requests.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/random.h"
#include "base/thread.h"
#include "bench/generators.h"

namespace bonsai::bench {
namespace {

// A zipfian number that no record has yet is drawn again; this many times, after which any loaded record will do.
constexpr int kRedrawsMax = 1000;

// The tables that all threads share, because they are slow to make.
struct Choosers {
  std::optional<ScrambledZipfian> zipfian;
  std::optional<LatestOffset> latest;
  std::optional<Zipfian> scan_lengths;

  Choosers(const Workload& workload, uint64_t records, uint64_t operations) {
    if (workload.requests == Distribution::kZipfian) {
      zipfian.emplace(zipfian_keys(records, operations, workload.share(OpKind::kInsert)));
    }
    if (workload.requests == Distribution::kLatest) latest.emplace(std::max<uint64_t>(records - 1, 1));
    if (workload.scan_lengths_zipfian && workload.share(OpKind::kScan) > 0) {
      scan_lengths.emplace(workload.scan_length_max - workload.scan_length_min + 1);
    }
  }
};

class Drawer {
 public:
  Drawer(const Workload& workload, const RecordShape& shape, uint64_t records, unsigned threads, unsigned thread,
         uint64_t seed, const Choosers& choosers)
      : workload_(workload),
        shape_(shape),
        records_(records),
        threads_(threads),
        thread_(thread),
        choosers_(choosers),
        random_(base::splitmix64(seed) + thread) {}

  void draw(uint64_t operations, RequestList* list) {
    list->requests.resize(operations);
    for (uint64_t i = 0; i < operations; ++i) list->requests[i] = next(i);
  }
  [[nodiscard]] uint64_t inserts() const { return inserts_; }

 private:
  double u() { return random_.unit(); }

  // Walks the kinds in YCSB's order: read, update, insert, scan, read-modify-write, then our delete.
  OpKind kind() {
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

  Request next(uint64_t turn) {
    Request request;
    request.kind = kind();
    if (request.kind == OpKind::kInsert) {
      request.source = KeySource::kNew;
      ++inserts_;
      return request;
    }
    choose_key(turn, &request);
    if (request.kind == OpKind::kScan) request.scan_length = scan_length();
    return request;
  }

  void choose_key(uint64_t turn, Request* request) {
    // The other threads are taken to have inserted as often as this one.
    const uint64_t end = records_ + inserts_ * threads_;
    if (workload_.requests == Distribution::kLatest) {
      request->source = KeySource::kBehindNewest;
      request->key = choosers_.latest->draw(u(), std::max<uint64_t>(end - 1, 1));
      return;
    }
    const uint64_t number = choose_number(turn, end);
    request->source = number < records_ ? KeySource::kReady : KeySource::kIfInserted;
    request->key = number < records_ ? shape_.id(number) : number;
  }

  uint64_t choose_number(uint64_t turn, uint64_t end) {
    if (workload_.requests == Distribution::kSequential) return (turn * threads_ + thread_) % records_;
    if (workload_.requests == Distribution::kUniform) return uniform(u(), 0, records_ - 1);
    for (int draws = 0; draws < kRedrawsMax; ++draws) {
      const uint64_t number = choosers_.zipfian->draw(u());
      if (number < end) return number;
    }
    return uniform(u(), 0, records_ - 1);
  }

  uint32_t scan_length() {
    if (choosers_.scan_lengths) {
      return workload_.scan_length_min + static_cast<uint32_t>(choosers_.scan_lengths->draw(u()));
    }
    return static_cast<uint32_t>(uniform(u(), workload_.scan_length_min, workload_.scan_length_max));
  }

  const Workload& workload_;
  const RecordShape& shape_;
  uint64_t records_;
  unsigned threads_;
  unsigned thread_;
  Choosers choosers_;
  base::Random random_;
  uint64_t inserts_ = 0;
};

// Writes the string keys that are known ahead. Integer keys are made from the id at replay, in one instruction.
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

// Calls work(thread) for every thread, each on a thread of its own.
template <class Work>
void in_parallel(unsigned threads, const Work& work) {
  std::vector<base::Thread> running;
  for (unsigned thread = 1; thread < threads; ++thread)
    running.emplace_back("bench.draw", [&, thread] { work(thread); });
  work(0);
}

uint64_t part_of(uint64_t total, unsigned threads, unsigned thread) {
  return total / threads + (thread < total % threads ? 1 : 0);
}

void find_key_max(const RecordShape& shape, RequestPlan* plan) {
  uint64_t id_max = 0;
  for (const RequestList& list : plan->threads) {
    for (size_t i = 0; i < list.requests.size(); ++i) {
      const Request& request = list.requests[i];
      id_max = std::max(id_max, request.key);
      const std::string_view key(list.keys.data() + i * list.key_stride, request.key_bytes);
      if (key > plan->key_max) plan->key_max = key;
    }
  }
  if (shape.key_form == KeyForm::kFixed8) {
    std::array<char, 8> room;
    plan->key_max = encode_key(shape, id_max, room.data());
  }
}

}  // namespace

RequestPlan draw_load(const RecordShape& shape, uint64_t records, unsigned threads) {
  RequestPlan plan;
  plan.threads.resize(threads);
  plan.operations = records;
  in_parallel(threads, [&](unsigned thread) {
    RequestList& list = plan.threads[thread];
    list.requests.resize(part_of(records, threads, thread));
    uint64_t number = thread;
    for (Request& request : list.requests) {
      request.kind = OpKind::kInsert;
      request.key = shape.id(number);
      number += threads;
    }
    spell_keys(shape, &list);
  });
  find_key_max(shape, &plan);
  return plan;
}

RequestPlan draw_requests(const Workload& workload, const RecordShape& shape, uint64_t records, uint64_t operations,
                          unsigned threads, uint64_t seed) {
  RequestPlan plan;
  plan.threads.resize(threads);
  plan.operations = operations;
  const Choosers choosers(workload, records, operations);
  std::vector<uint64_t> inserts(threads);
  in_parallel(threads, [&](unsigned thread) {
    Drawer drawer(workload, shape, records, threads, thread, seed, choosers);
    drawer.draw(part_of(operations, threads, thread), &plan.threads[thread]);
    spell_keys(shape, &plan.threads[thread]);
    inserts[thread] = drawer.inserts();
  });
  for (const uint64_t count : inserts) plan.inserts += count;
  return plan;
}

}  // namespace bonsai::bench
