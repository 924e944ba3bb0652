// Opening a store on a medium that is not real, for tests, benchmarks and studies. NOT part of the stable interface: it
// is not installed, has no counterpart in C, and may change in any version. Results that were measured through it carry
// the name of the medium (Stats::medium) and say that it is emulated.
#ifndef BONSAI_TESTING_H_
#define BONSAI_TESTING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bonsai/db.h"

namespace bonsai {

// What NVM writes go through, on top of the file or device that the path names.
enum class TestMedium : uint8_t {
  kNone = 0,      // nothing: the store writes as DB::Open would
  kShadow = 1,    // stores reach the pool file only by flush and fence, so SIGKILL acts as a power cut
  kEmulator = 2,  // modelled NVM latency and bandwidth (`emulator_preset`)
  kFar = 3,       // a target that is not mapped, as on another node: bytes come late, through reads alone
};

struct TestOptions {
  TestMedium medium = TestMedium::kNone;
  std::string emulator_preset = "optane";
  bool shadow_drops_flushes = false;  // canary: a shadow medium whose flushes do nothing
  uint64_t shadow_eviction_seed = 0;  // 0 = no early evictions
  uint64_t far_seed = 1;              // when bytes of a far medium come

  // The experiment "offloading" of bonsai-bench measures with it what the design saves. Puts of records that are in
  // dnodes overwrite them there, without a log, so that a crash damages them; one thread only. Refused
  // (InvalidArgument) but for a pool that this call makes on the emulator medium, and without background threads.
  bool updates_in_place = false;

  // The experiments "pipelining" compare with these what a get does while it waits for memory or NVM.
  // A single get fetches what says where in a dnode a key is while it waits for the bnode above (intra-operation
  // pipelining).
  bool gets_fetch_ahead = true;
  // Where reads of NVM wait, a session carries out each get in a coroutine, which lets the others go on while it waits,
  // and not as part of a group that takes each step together (both inter-operation pipelining). Empty: where there is
  // no uploaded metadata, so that a search waits several times, and the waits of a group add up.
  std::optional<bool> gets_in_coroutines = {};
};

// DB::Open with such a medium. Errors: those of DB::Open; InvalidArgument for test options that cannot be.
Status OpenForTest(const Options& options, const TestOptions& test, const std::string& path, std::unique_ptr<DB>* db);

}  // namespace bonsai

#endif  // BONSAI_TESTING_H_
