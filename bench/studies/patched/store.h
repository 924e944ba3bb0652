// SPDX-License-Identifier: Apache-2.0
// The patched store: the copy of the store in libbonsai-clusters.so, which differs from the product's where an
// experiment asks for it. Its DB is used as any other.
#ifndef BONSAI_BENCH_STUDIES_PATCHED_STORE_H_
#define BONSAI_BENCH_STUDIES_PATCHED_STORE_H_

#include <memory>
#include <optional>
#include <string>

#include "bonsai/db.h"
#include "bonsai/testing.h"

namespace bonsai::bench::patched {

// Where the patched store differs. By default nowhere.
struct Patches {
  // Intra-operation pipelining: while a single get waits for the bnode, it fetches the metadata that locates the key in
  // the dnode; where there is no metadata, each probe of a search also fetches both candidates for the next probe.
  // False: neither.
  bool gets_fetch_ahead = true;
  // Inter-operation pipelining where reads of NVM wait. True: a session runs each get in a coroutine, so that other
  // gets continue while it waits. False: a group of gets takes each step together. Empty: as the product.
  std::optional<bool> gets_in_coroutines = {};
  // Puts overwrite records in dnodes in place, without a log, so that a crash damages them; one thread only. They count
  // as offloaded, and their time as that of offloading.
  bool updates_in_place = false;
};

// OpenForTest() of the patched store. The patches hold for all stores that were opened so, until the next call.
// Requires: no other store that was opened so is in use. Errors: as OpenForTest();
// InvalidArgument for updates in place unless this call creates the pool on the emulator medium and there are no
// background threads.
Status open(const Patches& patches, const Options& options, const TestOptions& test, const std::string& path,
            std::unique_ptr<DB>* db);

}  // namespace bonsai::bench::patched

#endif  // BONSAI_BENCH_STUDIES_PATCHED_STORE_H_
