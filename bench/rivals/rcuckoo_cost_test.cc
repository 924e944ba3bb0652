// SPDX-License-Identifier: Apache-2.0
// What inserts of the RCuckoo-like engine cost as its table fills, against the published simulation: 128 clients that
// know the whole table, one row a lock, one lock a list, A* search for the nearest five rows, keys that nobody else
// inserts. So each row of a path is a round trip.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/testing/budget.h"
#include "bench/rivals/testing/cuckoo_rig.h"
#include "bench/rivals/wire_bytes.h"

namespace bonsai::bench::rivals::rcuckoo {
namespace {

using bonsai::testing::budget;

// Between two fills, in percent.
struct Window {
  uint64_t first, end;
  uint64_t inserts = 0;
  rdma::Traffic before, after;
  std::vector<uint64_t> lists;  // of each insert

  [[nodiscard]] double per_insert(uint64_t n) const { return static_cast<double>(n) / static_cast<double>(inserts); }
  [[nodiscard]] double lists_mean() const {
    uint64_t sum = 0;
    for (const uint64_t n : lists) sum += n;
    return per_insert(sum);
  }
  [[nodiscard]] uint64_t lists_p99() {
    std::sort(lists.begin(), lists.end());
    return lists[lists.size() * 99 / 100];
  }
  [[nodiscard]] double messages() const { return per_insert((after - before).messages()); }
  [[nodiscard]] double wire_bytes() const { return per_insert(draft_wire_bytes(after - before)); }
};

struct Filling {
  std::vector<Window> windows;
  double ended_at = 0;
  uint64_t failed = 0, busy = 0, asked = 0;
};

Filling fill(uint64_t rows, size_t clients) {
  const TableOptions table{.rows = rows, .rows_per_lock = 1};
  const uint64_t entries = rows * kEntriesPerRow;
  Rig rig({.sim = false, .bytes = fixed_bytes(table), .fixed_bytes = fixed_bytes(table)});
  make_table(table, rig.nodes()[0]);
  RowCache cache(rows);
  const ClientOptions options{.table = table,
                              .search = {.kind = SearchOptions::Kind::kAStar, .moves_max = 50, .targets_max = 5},
                              .locks = {.locks_per_message = 1, .messages_per_list = 1},
                              .threshold_bytes = 512,
                              .cache = &cache,
                              .keys_are_new = true};
  Filling run;
  for (uint64_t percent = 10; percent <= 90; percent += 10)
    run.windows.push_back({percent, percent + 5, 0, {}, {}, {}});
  uint64_t stored = 0, begun = 0;
  rig.run({.coroutines = clients}, [&](const Seat& seat) {
    const auto client = client_of(seat.connection, options);
    while (stored < entries * 95 / 100 && run.failed < 100) {
      const uint64_t percent = stored * 100 / entries;
      const uint64_t before = client->lock_counters().lists;
      if (!client->insert(key(static_cast<uint32_t>(++begun)), key(1)).ok()) {
        ++run.failed;
        continue;
      }
      ++stored;
      for (Window& window : run.windows) {
        if (percent < window.first || percent >= window.end) continue;
        if (window.inserts++ == 0) window.before = seat.connection->worker().traffic();
        window.after = seat.connection->worker().traffic();
        window.lists.push_back(client->lock_counters().lists - before);
      }
    }
    run.busy += client->lock_counters().busy;
    run.asked += client->lock_counters().messages;
  });
  run.ended_at = static_cast<double>(stored) / static_cast<double>(entries);
  return run;
}

TEST(CuckooCost, InsertsTakeWhatIsPublished) {
  constexpr double kPublishedLists[] = {2.00, 2.03, 2.16, 2.37, 2.60, 2.79, 2.95, 3.28, 4.38};
  constexpr double kPublishedMessages[] = {4.0, 4.13, 4.63, 5.5, 6.4, 7.15, 7.75, 8.85, 12.4};
  constexpr uint64_t kPublishedP99[] = {2, 3, 3, 4, 4, 4, 5, 6, 15};
  const uint64_t parts =
      budget<uint64_t>(8, 1, 1);  // a small table gets few clients, to be as much in each other's way
  Filling filling = fill(107'520 / parts, 128 / parts);
  std::printf("ended at %.3f, %llu inserts failed, %.2f %% of lock messages in vain\n", filling.ended_at,
              static_cast<unsigned long long>(filling.failed),
              100 * static_cast<double>(filling.busy) / static_cast<double>(filling.asked));
  for (size_t i = 0; i < filling.windows.size(); ++i) {
    Window& window = filling.windows[i];
    std::printf("%llu %%: lists %.2f, p99 %llu, messages %.2f, wire bytes %.0f\n",
                static_cast<unsigned long long>(window.first), window.lists_mean(),
                static_cast<unsigned long long>(window.lists_p99()), window.messages(), window.wire_bytes());
    // Where paths are long theirs need more; why is not known (docs/lab/rcuckoo.md).
    const double apart = window.first < 80 ? .05 : .1;
    EXPECT_NEAR(window.lists_mean(), kPublishedLists[i], apart * kPublishedLists[i]) << window.first;
    EXPECT_NEAR(window.messages(), kPublishedMessages[i], apart * kPublishedMessages[i]) << window.first;
    EXPECT_LE(window.lists_p99(), kPublishedP99[i] + 1) << window.first;
  }
  EXPECT_NEAR(filling.windows[0].lists_mean(), kPublishedLists[0], .01);
  constexpr double kRaceMessages = 6;
  EXPECT_LT(filling.windows[3].messages(), kRaceMessages) << "40 % full";
  EXPECT_GT(filling.windows[4].messages(), kRaceMessages) << "50 % full: those of an insert cross";
  EXPECT_GT(filling.ended_at, .945);
}

}  // namespace
}  // namespace bonsai::bench::rivals::rcuckoo
