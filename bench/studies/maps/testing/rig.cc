// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/maps/testing/rig.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/coro/scheduler.h"
#include "base/random.h"
#include "base/step.h"
#include "base/thread.h"
#include "testing/linearizability.h"
#include "testing/recorder.h"
#include "testing/snapshot_check.h"

namespace bonsai::bench::maps {
namespace {

using bonsai::testing::Cell;
using bonsai::testing::kAbsent;
using bonsai::testing::kGarbled;
using bonsai::testing::OpKind;
using bonsai::testing::Recorder;
using bonsai::testing::Verdict;

constexpr uint64_t kSwitchesMax = 200'000;
constexpr uint32_t kStays[] = {0, 128, 230, 248};  // chances in 256 to go on at a step

uint64_t steps_of_run = 0;

// Hops along links that are only read are counted by table_test.cc.
void on_step(const char* name) {
  if (*name == 'h') return;
  ++steps_of_run;
  base::Scheduler::yield();
}

// Keys are 1, 2, ...; scans cover a sub-range of them.
class Client {
 public:
  Client(Map* map, Recorder* recorder, const Mix& mix, uint32_t number, uint64_t seed, bool owns_keys)
      : map_(map),
        lane_(recorder->lane(number)),
        mix_(mix),
        number_(number),
        owns_keys_(owns_keys),
        random_(base::splitmix64(seed) + number) {}

  void update() {
    uint64_t key = 1 + random_.below(mix_.keys);
    if (owns_keys_) key -= (key - 1 + mix_.clients - number_) % mix_.clients;
    if (key == 0 || key > mix_.keys) key = number_ + 1;
    random_.below(mix_.puts + mix_.removes) < mix_.puts ? put(key) : remove(key);
  }

  void act() {
    const uint64_t dice = random_.below(100);
    if (dice < mix_.puts + mix_.removes) return update();
    if (dice < mix_.puts + mix_.removes + mix_.scans) {
      const uint64_t from = 1 + random_.below(mix_.keys);
      return scan(from, from + random_.below(mix_.keys - from + 1));
    }
    get(1 + random_.below(mix_.keys));
  }

  void perform(const std::string& operations) {
    for (size_t i = 0; i < operations.size(); ++i) {
      if (operations[i] == 's') {
        scan(1, mix_.keys);
        continue;
      }
      const char what = operations[i++];
      const uint64_t key = static_cast<uint64_t>(operations[i] - '0');
      what == 'p' ? put(key) : what == 'r' ? remove(key) : get(key);
    }
  }

 private:
  void put(uint64_t key) {
    const uint64_t value = uint64_t{number_ + 1} << 32 | ++written_;
    const uint64_t operation = lane_.begin_update(OpKind::kPut, Cell{key, value});
    map_->put(key, value);
    lane_.end_update(operation);
  }

  void remove(uint64_t key) {
    const uint64_t operation = lane_.begin_update(OpKind::kDelete, Cell{key, kAbsent});
    map_->remove(key);
    lane_.end_update(operation);
  }

  void get(uint64_t key) {
    uint64_t value = kAbsent;
    const uint64_t invoke = lane_.begin_read();
    if (!map_->get(key, &value)) value = kAbsent;
    lane_.end_read(OpKind::kGet, invoke, Cell{key, value});
  }

  void scan(uint64_t from, uint64_t to) {
    std::vector<Record> records;
    const uint64_t invoke = lane_.begin_read();
    map_->scan(from, to, SIZE_MAX, &records);
    std::vector<Cell> cells;
    auto record = records.begin();
    for (uint64_t key = from; key <= to; ++key) {
      cells.push_back({key, record != records.end() && record->key == key ? (record++)->value : kAbsent});
    }
    if (record != records.end()) cells[0].value = kGarbled;  // unordered, or of another range
    lane_.end_read(OpKind::kScan, invoke, cells);
  }

  Map* const map_;
  Recorder::Lane lane_;
  const Mix mix_;
  const uint32_t number_;
  const bool owns_keys_;
  base::Random random_;
  uint64_t written_ = 0;
};

std::unique_ptr<Recorder> recorder_for(const Mix& mix) {
  return Recorder::in_memory({.lanes = mix.clients + 1,
                              .operations_max = mix.operations + mix.before_max + 1,
                              .cells_max = (mix.operations + mix.before_max + 1) * mix.keys});
}

}  // namespace

Verdict run_schedule(const MakeMap& make, const Mix& mix, uint64_t seed, uint64_t* steps) {
  static thread_local std::vector<std::unique_ptr<base::Scheduler>> schedulers;
  if (schedulers.empty()) {
    for (const uint32_t stay : kStays) {
      schedulers.push_back(
          std::make_unique<base::Scheduler>(base::Scheduler::Options{.pick = base::Scheduler::Pick::kSeeded,
                                                                     .stay_per_256 = stay,
                                                                     .stack_bytes = size_t{128} << 10,
                                                                     .switches_max = kSwitchesMax}));
    }
  }
  base::Scheduler& chosen = *schedulers[seed % schedulers.size()];
  const std::unique_ptr<Recorder> recorder = recorder_for(mix);
  const std::unique_ptr<Map> map = make();
  Client before(map.get(), recorder.get(), mix, mix.clients, seed, false);
  for (uint64_t left = base::splitmix64(seed) % (mix.before_max + 1); left > 0; --left) before.update();
  steps_of_run = 0;
  base::step_hook.store(&on_step);
  chosen.reset(seed);
  std::vector<Client> clients;
  for (uint32_t i = 0; i < mix.clients; ++i) clients.emplace_back(map.get(), recorder.get(), mix, i, seed, false);
  for (uint32_t i = 0; i < mix.clients; ++i) {
    chosen.spawn(
        [&clients, &mix, i] {
          if (!mix.program.empty()) return clients[i].perform(mix.program[i]);
          for (uint64_t turn = 0; turn < mix.operations; ++turn) clients[i].act();
        },
        "client");
  }
  const Status status = chosen.run();
  base::step_hook.store(nullptr);
  if (steps != nullptr) *steps += steps_of_run;
  // Coroutines that wait for ever hold guards: the process must not go on.
  EXPECT_TRUE(status.ok()) << status.ToString() << " BONSAI_SEED=" << seed;
  if (!status.ok()) std::abort();
  if (map->scans_are_atomic()) return bonsai::testing::check_whole(recorder->history());
  return bonsai::testing::check_registers(recorder->history());
}

Verdict run_threads(const MakeMap& make, const Mix& mix, uint64_t seed) {
  const std::unique_ptr<Recorder> recorder = recorder_for(mix);
  const std::unique_ptr<Map> map = make();
  {
    std::vector<base::Thread> threads;
    for (uint32_t i = 0; i < mix.clients; ++i) {
      threads.emplace_back("client", [&, i] {
        Client client(map.get(), recorder.get(), mix, i, seed, true);
        for (uint64_t turn = 0; turn < mix.operations; ++turn) client.act();
      });
    }
  }
  const bonsai::testing::History history = recorder->history();
  if (Verdict verdict = bonsai::testing::check_registers(history); !verdict.ok) return verdict;
  return map->scans_are_atomic() ? bonsai::testing::check_snapshots(history) : Verdict();
}

}  // namespace bonsai::bench::maps
