#include "persist/in_place.h"

#include <algorithm>
#include <vector>

namespace bonsai::persist {

bool overwrite_in_place(scale::Volume& volume, const Dnode& dnode, const Entry& entry, std::string_view value) {
  if (entry.value.size() != value.size() || entry.tombstone || entry.large) return false;
  const auto* key = reinterpret_cast<const std::byte*>(entry.key.bytes.data());
  for (const RunDesc& run : dnode.runs()) {
    const std::byte* begin = volume.local(scale::Addr::of_bits(run.addr));
    if (key < begin || key >= begin + run.bytes || run.key_bytes == kVariableRun) continue;
    const uint64_t index = static_cast<uint64_t>(key - begin) / uniform_entry_bytes(run);
    const Entry renewed{entry.key, value, false, false};
    thread_local std::vector<std::byte> bytes;
    encode_run({&renewed, 1}, run.addr + index, &bytes);  // a run of one has the check of this place
    const scale::Addr place = scale::Addr::of_bits(run.addr) + index * bytes.size();
    volume.copy(place, bytes.data(), bytes.size());
    volume.flush(place, bytes.size(), kSiteInPlace);
    return true;
  }
  return false;
}

}  // namespace bonsai::persist
