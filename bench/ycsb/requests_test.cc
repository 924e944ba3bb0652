// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/requests.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace bonsai::bench {
namespace {

constexpr uint64_t kRecords = 10'000;
constexpr uint64_t kOperations = 200'000;

Workload workload_of(std::array<double, kOpKinds> shares, Distribution requests) {
  Workload workload;
  workload.shares = shares;
  workload.requests = requests;
  workload.scan_length_max = 100;
  return workload;
}

std::map<OpKind, uint64_t> count_kinds(const RequestPlan& plan) {
  std::map<OpKind, uint64_t> kinds;
  for (const RequestList& list : plan.threads) {
    for (const Request& request : list.requests) ++kinds[request.kind];
  }
  return kinds;
}

TEST(DrawLoad, NamesEveryRecordOnce) {
  for (const unsigned threads : {1U, 3U}) {
    const RecordShape shape;
    const RequestPlan plan = draw_load(shape, 1000, threads);
    ASSERT_EQ(plan.threads.size(), threads);
    std::set<uint64_t> ids;
    for (const RequestList& list : plan.threads) {
      for (const Request& request : list.requests) {
        EXPECT_EQ(request.kind, OpKind::kInsert);
        ids.insert(request.key);
      }
    }
    EXPECT_EQ(ids.size(), 1000U);
    EXPECT_TRUE(ids.count(fnv64(0)) && ids.count(fnv64(999)));
    char room[8];
    EXPECT_EQ(plan.key_max, encode_key(shape, *ids.rbegin(), room));
  }
}

TEST(DrawLoad, SpellsStringKeysAsYcsb) {
  RecordShape shape{KeyForm::kString, true, 1, 8};
  const RequestPlan hashed = draw_load(shape, 3, 1);
  const RequestList& list = hashed.threads[0];
  EXPECT_EQ(std::string(list.keys.data(), list.requests[0].key_bytes), "user6284781860667377211");
  EXPECT_EQ(hashed.key_max, "user8517097267634966620");

  shape.hashed = false;
  shape.zero_padding = 6;
  const RequestPlan ordered = draw_load(shape, 12, 1);
  EXPECT_EQ(ordered.key_max, "user000011");
}

TEST(DrawRequests, MixesKindsAsTheirShares) {
  const std::array<double, kOpKinds> shares = {0.4, 0.2, 0.05, 0.15, 0.1, 0.1};
  for (const unsigned threads : {1U, 2U}) {
    const RequestPlan plan =
        draw_requests(workload_of(shares, Distribution::kUniform), RecordShape(), kRecords, kOperations, threads, 1);
    auto kinds = count_kinds(plan);
    for (size_t kind = 0; kind < kOpKinds; ++kind) {
      EXPECT_NEAR(static_cast<double>(kinds[static_cast<OpKind>(kind)]) / kOperations, shares[kind], 0.005);
    }
    EXPECT_EQ(plan.inserts_max, kinds[OpKind::kInsert]);
    EXPECT_EQ(plan.operations, kOperations);
  }
}

TEST(DrawRequests, DealsOperationsEvenly) {
  const RequestPlan plan = draw_requests(workload_of({1}, Distribution::kUniform), RecordShape(), kRecords, 11, 4, 1);
  EXPECT_EQ(plan.threads[0].requests.size(), 3U);
  EXPECT_EQ(plan.threads[2].requests.size(), 3U);
  EXPECT_EQ(plan.threads[3].requests.size(), 2U);
}

TEST(DrawRequests, SameSeedSameRequestsAndThreadsDiffer) {
  const Workload workload = workload_of({0.5, 0.5}, Distribution::kZipfian);
  auto keys = [&](uint64_t seed, unsigned thread) {
    std::vector<uint64_t> drawn;
    const RequestPlan plan = draw_requests(workload, RecordShape(), kRecords, 2000, 2, seed);
    for (const Request& request : plan.threads[thread].requests) drawn.push_back(request.key);
    return drawn;
  };
  EXPECT_EQ(keys(1, 0), keys(1, 0));
  EXPECT_NE(keys(1, 0), keys(2, 0));
  EXPECT_NE(keys(1, 0), keys(1, 1));
}

TEST(DrawRequests, ZipfianReadsOnlyLoadedRecordsWhenNothingIsInserted) {
  RecordShape shape;
  shape.hashed = false;
  const RequestPlan plan = draw_requests(workload_of({1}, Distribution::kZipfian), shape, kRecords, kOperations, 1, 1);
  std::map<uint64_t, uint64_t> counts;
  for (const Request& request : plan.threads[0].requests) {
    ASSERT_EQ(request.source, KeySource::kReady);
    ASSERT_LT(request.key, kRecords);
    ++counts[request.key];
  }
  const uint64_t hottest = fnv64(0) % zipfian_keys(kRecords, kOperations, 0);
  EXPECT_NEAR(static_cast<double>(counts[hottest]) / kOperations, 0.0378, 0.003);
}

TEST(DrawRequests, ZipfianReachesInsertedRecordsLater) {
  RecordShape shape;
  shape.hashed = false;
  const RequestPlan plan =
      draw_requests(workload_of({0.5, 0, 0.5}, Distribution::kZipfian), shape, kRecords, kOperations, 1, 1);
  uint64_t inserted = 0;
  uint64_t beyond = 0;
  for (const Request& request : plan.threads[0].requests) {
    if (request.source == KeySource::kNew) ++inserted;
    if (request.source != KeySource::kIfInserted) continue;
    ++beyond;
    ASSERT_GE(request.key, kRecords);
    ASSERT_LT(request.key, kRecords + inserted);
  }
  EXPECT_GT(beyond, kOperations / 10);
}

TEST(DrawRequests, LatestPrefersTheNewest) {
  const RequestPlan plan =
      draw_requests(workload_of({0.95, 0, 0.05}, Distribution::kLatest), RecordShape(), kRecords, kOperations, 1, 1);
  uint64_t reads = 0;
  uint64_t newest = 0;
  for (const Request& request : plan.threads[0].requests) {
    if (request.kind != OpKind::kRead) continue;
    ASSERT_EQ(request.source, KeySource::kBehindNewest);
    ASSERT_LT(request.key, kRecords + plan.inserts_max);
    ++reads;
    newest += request.key == 0;
  }
  EXPECT_NEAR(static_cast<double>(newest) / static_cast<double>(reads), 1 / zeta(0, 2 * kRecords, 0), 0.01);
}

TEST(DrawRequests, ScanLengthsStayInTheirBounds) {
  Workload workload = workload_of({0, 0, 0, 1}, Distribution::kUniform);
  workload.scan_length_min = 10;
  for (const bool zipfian : {false, true}) {
    workload.scan_lengths_zipfian = zipfian;
    const RequestPlan plan = draw_requests(workload, RecordShape(), kRecords, 20'000, 1, 1);
    double sum = 0;
    std::set<uint32_t> lengths;
    for (const Request& request : plan.threads[0].requests) {
      sum += request.scan_length;
      lengths.insert(request.scan_length);
    }
    EXPECT_EQ(*lengths.begin(), 10U);
    EXPECT_LE(*lengths.rbegin(), 100U);
    if (zipfian) {
      EXPECT_LT(sum / 20'000, 40);
    } else {
      EXPECT_NEAR(sum / 20'000, 55, 1);
      EXPECT_EQ(lengths.size(), 91U);
    }
  }
}

TEST(DrawRequests, SequentialWalksAllRecordsOverAllThreads) {
  RecordShape shape;
  shape.hashed = false;
  const RequestPlan plan = draw_requests(workload_of({1}, Distribution::kSequential), shape, 100, 100, 2, 1);
  std::set<uint64_t> keys;
  for (const RequestList& list : plan.threads) {
    for (const Request& request : list.requests) keys.insert(request.key);
  }
  EXPECT_EQ(keys.size(), 100U);
}

constexpr Distribution kDrawn[] = {Distribution::kUniform,    Distribution::kZipfian, Distribution::kLatest,
                                   Distribution::kSequential, Distribution::kHotspot, Distribution::kExponential,
                                   Distribution::kPlainZipf};

TEST(DrawRequests, LiveDrawsWhatWouldBeReplayed) {
  for (const Distribution requests : kDrawn) {
    const Workload workload = workload_of({0.4, 0.2, 0.1, 0.2, 0.05, 0.05}, requests);
    const RequestPlan ahead = draw_requests(workload, RecordShape(), kRecords, 5001, 2, 7);
    RequestPlan live = draw_requests(workload, RecordShape(), kRecords, 5001, 2, 7, DrawMode::kLive);
    EXPECT_EQ(live.operations, ahead.operations);
    EXPECT_GE(live.inserts_max, ahead.inserts_max);
    for (size_t thread = 0; thread < 2; ++thread) {
      ASSERT_EQ(live.threads[thread].operations, ahead.threads[thread].requests.size());
      for (const Request& request : ahead.threads[thread].requests) {
        ASSERT_EQ(live.threads[thread].live->next(), request) << distribution_name(requests);
      }
    }
  }
}

TEST(DrawLoad, LiveDrawsWhatWouldBeReplayed) {
  const RecordShape shape{KeyForm::kString, true, 1, 8};
  const RequestPlan ahead = draw_load(shape, 1001, 3);
  RequestPlan live = draw_load(shape, 1001, 3, DrawMode::kLive);
  EXPECT_EQ(live.key_max, ahead.key_max);
  for (size_t thread = 0; thread < 3; ++thread) {
    ASSERT_EQ(live.threads[thread].operations, ahead.threads[thread].requests.size());
    for (const Request& request : ahead.threads[thread].requests) {
      EXPECT_EQ(live.threads[thread].live->next().key, request.key);
    }
  }
}

TEST(DrawRequests, HotspotSharesAsAsked) {
  RecordShape shape;
  shape.hashed = false;
  Workload workload = workload_of({1}, Distribution::kHotspot);
  workload.hotspot_data = 0.1;
  workload.hotspot_requests = 0.7;
  const RequestPlan plan = draw_requests(workload, shape, kRecords, kOperations, 1, 1);
  uint64_t hot = 0;
  std::set<uint64_t> keys;
  for (const Request& request : plan.threads[0].requests) {
    hot += request.key < kRecords / 10;
    keys.insert(request.key);
  }
  EXPECT_NEAR(static_cast<double>(hot) / kOperations, 0.7, 0.005);
  EXPECT_GT(keys.size(), kRecords * 9 / 10);
  EXPECT_LT(*keys.rbegin(), kRecords);
}

TEST(DrawRequests, ExponentialLooksNearTheNewest) {
  Workload workload = workload_of({0.9, 0, 0.1}, Distribution::kExponential);
  workload.exponential_percentile = 90;
  workload.exponential_frac = 0.1;
  const RequestPlan plan = draw_requests(workload, RecordShape(), kRecords, kOperations, 1, 1);
  uint64_t reads = 0;
  uint64_t near = 0;
  for (const Request& request : plan.threads[0].requests) {
    if (request.kind != OpKind::kRead) continue;
    ASSERT_EQ(request.source, KeySource::kBehindNewest);
    ASSERT_LT(request.key, kRecords + plan.inserts_max);
    ++reads;
    near += request.key < kRecords / 10;
  }
  EXPECT_NEAR(static_cast<double>(near) / static_cast<double>(reads), 0.9, 0.005);
}

TEST(DrawRequests, PlainZipfIsHotterThanYcsbs) {
  RecordShape shape;
  shape.hashed = false;
  const RequestPlan plan =
      draw_requests(workload_of({1}, Distribution::kPlainZipf), shape, kRecords, kOperations, 1, 1);
  uint64_t first = 0;
  for (const Request& request : plan.threads[0].requests) {
    ASSERT_LT(request.key, kRecords);
    first += request.key == 0;
  }
  EXPECT_NEAR(static_cast<double>(first) / kOperations, 1 / zeta(0, kRecords, 0), 0.003);
}

TEST(DrawRequests, WorksOnTheSmallestStore) {
  for (const Distribution requests : kDrawn) {
    const RequestPlan plan = draw_requests(workload_of({0.5, 0, 0.5}, requests), RecordShape(), 1, 1000, 1, 1);
    EXPECT_EQ(plan.threads[0].requests.size(), 1000U);
  }
}

}  // namespace
}  // namespace bonsai::bench
