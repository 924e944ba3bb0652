// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/patched/in_place.h"

#include <array>
#include <bitset>
#include <vector>

#include "base/check.h"
#include "base/narrow.h"
#include "index/prefetch.h"
#include "persist/dnode_search.h"
#include "persist/run_reader.h"

namespace bonsai::bench::patched {
namespace {

using index::Bnode;
using index::Index;

constexpr base::Site kSite{"patched.in_place"};
constexpr base::Site kFenceSite{"patched.in_place.fence"};

// Writes `value` and a new check to the place of `entry`, which a search of `dnode` has found, and flushes both; the
// caller fences. False if `value` does not fit there: another size, or a variable run.
bool overwrite(scale::Volume& volume, const persist::Dnode& dnode, const persist::Entry& entry,
               std::string_view value) {
  if (entry.value.size() != value.size() || entry.tombstone || entry.large) return false;
  const auto* key = reinterpret_cast<const std::byte*>(entry.key.bytes.data());
  for (const persist::RunDesc& run : dnode.runs()) {
    const std::byte* begin = volume.hint(scale::Addr::of_bits(run.addr));
    if (key < begin || key >= begin + run.bytes || run.key_bytes == persist::kVariableRun) continue;
    const uint64_t index = static_cast<uint64_t>(key - begin) / persist::uniform_entry_bytes(run);
    thread_local std::vector<std::byte> bytes;
    bytes.resize(persist::uniform_entry_bytes(run));
    const uint64_t seed = persist::run_seed({volume.identity(), run.addr, run.birth});
    persist::encode_uniform_entry({entry.key, value, false, false},
                                  persist::entry_seed(seed, base::checked_narrow<uint32_t>(index)), bytes.data());
    const scale::Addr place = scale::Addr::of_bits(run.addr) + index * bytes.size();
    volume.copy(place, bytes.data(), bytes.size());
    volume.flush(place, bytes.size(), kSite);
    return true;
  }
  return false;
}

}  // namespace

// As get_many() finds entries: each step is taken for all keys before the next.
size_t overwrite(const store::Tiers& tiers, std::span<const Index::Put> puts) {
  constexpr size_t kMax = Index::kPutManyMax;
  BONSAI_CHECK(puts.size() <= kMax);
  scale::Volume& volume = *tiers.volume;
  std::array<base::Key, kMax> keys;
  std::array<uint64_t, kMax> hashes;
  std::array<Bnode*, kMax> bnodes;
  std::array<persist::DnodeSearch, kMax> searches;
  std::bitset<kMax> searching;
  const size_t n = puts.size();
  for (size_t i = 0; i < n; ++i) {
    keys[i] = puts[i].key;
    hashes[i] = keys[i].hash();
  }
  tiers.index->tree().find_many({keys.data(), n}, {bnodes.data(), n});
  for (size_t i = 0; i < n; ++i) index::Prefetch::to_get(*bnodes[i], hashes[i]);
  for (size_t i = 0; i < n; ++i) {
    const persist::Dnode* dnode = bnodes[i]->base().dnode();
    const bool updated = bnodes[i]->slots() != nullptr || bnodes[i]->layer() != nullptr;
    if (updated || dnode == nullptr || puts[i].tombstone || puts[i].large) continue;
    searches[i].start(volume, *dnode, keys[i], hashes[i]);
    searching.set(i);
  }
  persist::RunReader reader(volume);
  for (size_t i = 0; i < n; ++i) {
    if (searching[i]) searches[i].issue(&reader);
  }
  if (!reader.wait().ok()) return 0;
  size_t done = 0;
  for (; done < n && searching[done]; ++done) {
    persist::Entry entry;
    if (searches[done].finish(&entry, &reader) != persist::Find::kFound) break;
    if (!overwrite(volume, *bnodes[done]->base().dnode(), entry, puts[done].value)) break;
  }
  return done != 0 && !volume.fence(kFenceSite) ? 0 : done;
}

}  // namespace bonsai::bench::patched
