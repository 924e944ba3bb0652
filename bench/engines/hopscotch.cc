// SPDX-License-Identifier: Apache-2.0
// tsl::hopscotch_map: open addressing by hopscotch hashing. One thread, volatile.
// Needs: header tsl/hopscotch_map.h
#include <tsl/hopscotch_map.h>

#include "bench/engines/engine.h"
#include "bench/engines/hash.h"

namespace bonsai::bench {
namespace {
template <class Key, class Value>
using HopscotchMap = TableOf<
    tsl::hopscotch_map<Key, Value, ChosenHash<Key>, std::equal_to<Key>, CountingAllocator<std::pair<Key, Value>>>>;
}  // namespace

const Registered<EngineEntry> kHopscotchEngines("hopscotch", []() -> std::vector<EngineEntry> {
  return {{"hopscotch", "tsl::hopscotch_map: hash, volatile, one thread",
           [] { return std::make_unique<HashEngine<HopscotchMap>>(); }, EngineGroup::kHash}};
});

}  // namespace bonsai::bench
