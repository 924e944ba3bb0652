// tsl::hopscotch_map: open addressing by hopscotch hashing. One thread, volatile.
// Needs: header tsl/hopscotch_map.h
#include <tsl/hopscotch_map.h>

#include "bench/engines/engine.h"
#include "bench/engines/hash.h"

namespace bonsai::bench {
namespace {
template <class Kept>
using HopscotchMap = TableOf<tsl::hopscotch_map<Kept, Kept, MixingHash<Kept>>>;
}  // namespace

std::vector<EngineEntry> engines_of_hopscotch() {
  return {{"hopscotch", "tsl::hopscotch_map: hash, volatile, one thread",
           [] { return std::make_unique<HashEngine<HopscotchMap>>(); }, EngineGroup::kHash}};
}

}  // namespace bonsai::bench
