// SPDX-License-Identifier: Apache-2.0
// Opening a store on a medium that is not real, for tests, benchmarks and studies. NOT part of the stable interface: it
// is not installed, has no counterpart in C, and may change in any version. Results measured through it name the medium
// (Stats::medium) and state that it is emulated.
#ifndef BONSAI_TESTING_H_
#define BONSAI_TESTING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bonsai/db.h"

namespace bonsai {

// The layer between NVM writes and the file or device that the path names.
enum class TestMedium : uint8_t {
  kNone = 0,      // none: the store writes as with DB::Open
  kShadow = 1,    // stores reach the pool file only by flush and fence, so SIGKILL acts as a power cut
  kEmulator = 2,  // modelled NVM latency and bandwidth (`emulator_preset`)
  kFar = 3,       // a target that is not mapped, as on another node: bytes arrive late, and only by reads
};

struct TestOptions {
  TestMedium medium = TestMedium::kNone;
  std::string emulator_preset = "optane";
  bool shadow_drops_flushes = false;  // canary: a shadow medium whose flushes do nothing
  uint64_t shadow_eviction_seed = 0;  // 0 = no early evictions
  uint64_t far_seed = 1;              // decides when the bytes of a far medium arrive

  // For the experiment "offloading" of bonsai-bench, which measures what the design saves. Puts overwrite records in
  // dnodes in place, without a log, so that a crash damages them; one thread only. InvalidArgument unless this call
  // creates the pool on the emulator medium and there are no background threads.
  bool updates_in_place = false;

  // For the experiments "pipelining", which compare what a get does while it waits for memory or NVM.
  // Intra-operation pipelining: while a single get waits for the bnode, it fetches the metadata that locates the key in
  // the dnode; where there is no metadata, each probe of a search also fetches both candidates for the next probe.
  bool gets_fetch_ahead = true;
  // Inter-operation pipelining where reads of NVM wait. True: a session runs each get in a coroutine, so that other
  // gets continue while it waits. False: a group of gets takes each step together. Empty: coroutines if there is no
  // uploaded metadata, because a search then waits several times and the waits of a group add up.
  std::optional<bool> gets_in_coroutines = {};
};

// DB::Open with such a medium. Errors: as DB::Open; InvalidArgument for impossible test options.
Status OpenForTest(const Options& options, const TestOptions& test, const std::string& path, std::unique_ptr<DB>* db);

}  // namespace bonsai

#endif  // BONSAI_TESTING_H_
