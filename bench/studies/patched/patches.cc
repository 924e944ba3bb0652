// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/patched/patches.h"

#include "base/clock.h"
#include "bench/studies/patched/in_place.h"

namespace bonsai::bench::patched {
namespace {
uint64_t updates_made = 0, updating_ns = 0;  // one thread's
}  // namespace

constinit Patches current;

size_t put_in_place(const store::Tiers& tiers, std::span<const index::Index::Put> puts) {
  if (!current.updates_in_place) return 0;
  const uint64_t begin_ns = base::now_ns();
  const auto guard = tiers.epochs->enter();
  const size_t done = overwrite(tiers, puts);
  updates_made += done;
  updating_ns += base::now_ns() - begin_ns;
  return done;
}

uint64_t in_place_updates() { return updates_made; }
uint64_t in_place_ns() { return updating_ns; }

Status open(const Patches& patches, const Options& options, const TestOptions& test, const std::string& path,
            std::unique_ptr<DB>* db) {
  const bool throw_away = test.medium == TestMedium::kEmulator && options.create_if_missing &&
                          options.error_if_exists && options.background_threads == 0;
  if (patches.updates_in_place && !throw_away) {
    return Status::InvalidArgument(
        "a crash damages records that are updated in place: they need a new pool (create_if_missing, error_if_exists) "
        "on the emulator medium and background_threads of 0");
  }
  current = patches;
  updates_made = updating_ns = 0;
  return OpenForTest(options, test, path, db);
}

}  // namespace bonsai::bench::patched
