// std::unordered_map: the hash map that everybody has. One thread, volatile.
#include <unordered_map>

#include "bench/engine_hash.h"
#include "bench/engines.h"

namespace bonsai::bench {
namespace {
template <class Kept>
using UnorderedMap = TableOf<std::unordered_map<Kept, Kept, MixingHash<Kept>>>;
}  // namespace

std::unique_ptr<Engine> make_unordered_map_engine() { return std::make_unique<HashEngine<UnorderedMap>>(); }

}  // namespace bonsai::bench
