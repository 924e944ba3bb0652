// SPDX-License-Identifier: Apache-2.0
// The experiment's alternative to offloading: updates that overwrite their entries in dnodes (persist/in_place.h).
#include "persist/in_place.h"

#include <algorithm>
#include <array>
#include <bitset>

#include "base/check.h"
#include "base/clock.h"
#include "index/index.h"

namespace bonsai::index {

using base::Key;

// As get_many() finds entries: each step is taken for all keys before the next.
size_t Index::put_in_place(std::span<Put> puts) {
  const uint64_t begin_ns = base::now_ns();
  constexpr size_t kMax = kPutManyMax;
  BONSAI_CHECK(puts.size() <= kMax);
  std::array<Key, kMax> keys;
  std::array<uint64_t, kMax> hashes;
  std::array<Bnode*, kMax> bnodes;
  std::array<persist::DnodeSearch, kMax> searches;
  std::bitset<kMax> searching;
  const size_t n = puts.size();
  for (size_t i = 0; i < n; ++i) keys[i] = puts[i].key;
  current_bnodes({keys.data(), n}, Fetch::kUpdatesAndDnode, hashes, bnodes);
  for (size_t i = 0; i < n; ++i) {
    const persist::Dnode* dnode = bnodes[i]->base().dnode();
    if (bnodes[i]->slots() != nullptr || dnode == nullptr || puts[i].tombstone || puts[i].large) continue;
    searches[i].start(dnodes_.volume(), *dnode, keys[i], hashes[i]);
    searching.set(i);
  }
  persist::RunReader reader(dnodes_.volume());
  for (size_t i = 0; i < n; ++i) {
    if (searching[i]) searches[i].issue(&reader);
  }
  if (!reader.wait().ok()) return 0;
  size_t done = 0;
  for (; done < n && searching[done]; ++done) {
    persist::Entry entry;
    if (searches[done].finish(&entry, &reader) != persist::Find::kFound) break;
    const persist::Dnode& dnode = *bnodes[done]->base().dnode();
    if (!persist::overwrite_in_place(dnodes_.volume(), dnode, entry, puts[done].value)) break;
  }
  if (done != 0 && !dnodes_.volume().fence(persist::kSiteInPlaceFence)) return 0;
  replacer_.count_in_place(done, base::now_ns() - begin_ns);
  return done;
}

}  // namespace bonsai::index
