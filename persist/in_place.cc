// SPDX-License-Identifier: Apache-2.0
#include "persist/in_place.h"

#include <algorithm>
#include <vector>

#include "base/narrow.h"

namespace bonsai::persist {

bool overwrite_in_place(scale::Volume& volume, const Dnode& dnode, const Entry& entry, std::string_view value) {
  if (entry.value.size() != value.size() || entry.tombstone || entry.large) return false;
  const auto* key = reinterpret_cast<const std::byte*>(entry.key.bytes.data());
  for (const RunDesc& run : dnode.runs()) {
    const std::byte* begin = volume.hint(scale::Addr::of_bits(run.addr));
    if (key < begin || key >= begin + run.bytes || run.key_bytes == kVariableRun) continue;
    const uint64_t index = static_cast<uint64_t>(key - begin) / uniform_entry_bytes(run);
    thread_local std::vector<std::byte> bytes;
    bytes.resize(uniform_entry_bytes(run));
    const uint64_t seed = run_seed({volume.identity(), run.addr, run.birth});
    encode_uniform_entry({entry.key, value, false, false}, entry_seed(seed, base::checked_narrow<uint32_t>(index)),
                         bytes.data());
    const scale::Addr place = scale::Addr::of_bits(run.addr) + index * bytes.size();
    volume.copy(place, bytes.data(), bytes.size());
    volume.flush(place, bytes.size(), kSiteInPlace);
    return true;
  }
  return false;
}

}  // namespace bonsai::persist
