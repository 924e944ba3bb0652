// tsl::hopscotch_map: open addressing by hopscotch hashing. One thread, volatile.
#include <tsl/hopscotch_map.h>

#include "bench/engine_hash.h"
#include "bench/engines.h"

namespace bonsai::bench {
namespace {
template <class Kept>
using HopscotchMap = TableOf<tsl::hopscotch_map<Kept, Kept, MixingHash<Kept>>>;
}  // namespace

std::unique_ptr<Engine> make_hopscotch_engine() { return std::make_unique<HashEngine<HopscotchMap>>(); }

}  // namespace bonsai::bench
