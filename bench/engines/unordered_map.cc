// SPDX-License-Identifier: Apache-2.0
// std::unordered_map: the hash map that everybody has. One thread, volatile.
#include <unordered_map>

#include "bench/engines/engine.h"
#include "bench/engines/hash.h"

namespace bonsai::bench {
namespace {
template <class Key, class Value>
using UnorderedMap =
    TableOf<std::unordered_map<Key, Value, ChosenHash<Key>, std::equal_to<Key>, CountedPairs<Key, Value>>>;
}  // namespace

const Registered<EngineEntry> kUnorderedMapEngines("unordered_map", []() -> std::vector<EngineEntry> {
  return {{"unordered_map", "std::unordered_map: hash, volatile, one thread",
           [] { return std::make_unique<HashEngine<UnorderedMap>>(); }, EngineGroup::kHash}};
});

}  // namespace bonsai::bench
