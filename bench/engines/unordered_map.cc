// std::unordered_map: the hash map that everybody has. One thread, volatile.
#include <unordered_map>

#include "bench/engines/engine.h"
#include "bench/engines/hash.h"

namespace bonsai::bench {
namespace {
template <class Kept>
using UnorderedMap = TableOf<std::unordered_map<Kept, Kept, MixingHash<Kept>>>;
}  // namespace

std::vector<EngineEntry> engines_of_unordered_map() {
  return {{"unordered_map", "std::unordered_map: hash, volatile, one thread",
           [] { return std::make_unique<HashEngine<UnorderedMap>>(); }, EngineGroup::kHash}};
}

}  // namespace bonsai::bench
