// SPDX-License-Identifier: Apache-2.0
// Opening a store on a medium that is not real, for tests, benchmarks and studies. NOT part of the stable interface: it
// is not installed, has no counterpart in C, and may change in any version. Results measured through it name the medium
// (Stats::medium) and state that it is emulated.
#ifndef BONSAI_TESTING_H_
#define BONSAI_TESTING_H_

#include <cstdint>
#include <memory>
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
};

// DB::Open with such a medium. Errors: as DB::Open; InvalidArgument for impossible test options.
Status OpenForTest(const Options& options, const TestOptions& test, const std::string& path, std::unique_ptr<DB>* db);

}  // namespace bonsai

#endif  // BONSAI_TESTING_H_
