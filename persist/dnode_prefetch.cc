// SPDX-License-Identifier: Apache-2.0
#include "persist/dnode_prefetch.h"

#include <algorithm>
#include <array>

#include "base/narrow.h"
#include "base/units.h"

namespace bonsai::persist {

using base::Key;

namespace {

constexpr size_t kRunBytes = 1280;  // a scan sees to the rest

}  // namespace

void DnodePrefetch::runs(const Dnode& dnode, const scale::Volume& volume) {
  const bool knows_oldest = !dnode.oldest_run(volume).empty();
  for (const Dnode::Run& run : dnode.places().subspan(knows_oldest ? 1 : 0)) {
    const std::byte* bytes = volume.hint(scale::Addr::of_bits(run.addr));
    lines(bytes, kRunBytes / Dnode::kLine);
    const size_t end = run.variable() ? 0 : size_t{run.count} * run.entry_bytes();
    const size_t offset = reinterpret_cast<uintptr_t>(bytes) % base::kPageBytes;
    for (size_t at = base::kPageBytes - offset; at < end; at += base::kPageBytes) __builtin_prefetch(bytes + at);
  }
}

void DnodePrefetch::part(const Dnode& dnode, const RunView& run, const Dnode::Part& part, uint64_t records) {
  constexpr uint64_t kEntriesMax = 64;
  uint64_t all = 0;
  for (const Dnode::Run& each : dnode.places()) all += each.count;
  const uint64_t share = std::min(records, kEntriesMax) * run.count() / all + 1;
  run.prefetch(part.lo, std::min(part.hi + base::checked_narrow<uint32_t>(share), run.count()));
}

uint64_t DnodePrefetch::scan(const Dnode& dnode, const scale::Volume& volume, const Key& key, uint64_t records) {
  if (!dnode.uploaded()) return UINT64_MAX;
  const std::array<Dnode::Part, kRunsMax> parts = dnode.parts_with(key, true);
  uint64_t entries = 0;
  for (size_t i = 0; i < dnode.places().size(); ++i) {
    const std::byte* bytes = volume.hint(scale::Addr::of_bits(dnode.places()[i].addr));
    const RunView run = dnode.run_view(i, bytes, volume.identity());
    part(dnode, run, parts[i], records);
    entries += run.count() - (parts[i].lo + parts[i].hi) / 2;
  }
  return entries;
}

}  // namespace bonsai::persist
