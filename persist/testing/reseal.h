// SPDX-License-Identifier: Apache-2.0
// Damage that checksums do not notice: checks are computed anew over changed bytes. So bytes that the checks keep out
// in practice, such as random ones, reach the code after them.
#ifndef BONSAI_PERSIST_TESTING_RESEAL_H_
#define BONSAI_PERSIST_TESTING_RESEAL_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/crc.h"
#include "base/narrow.h"
#include "persist/format.h"
#include "persist/run.h"

namespace bonsai::persist::testing {

// The checks of a run at `bytes`, entry by entry and as a whole. Requires: well_formed(desc); desc.bytes are there.
inline void reseal_run(std::byte* bytes, const RunDesc& desc, uint64_t identity) {
  const RunView view(bytes, desc, identity);
  const uint64_t seed = run_seed({identity, desc.addr, desc.birth});
  for (uint32_t i = 0; i < desc.count; ++i) {
    const uint64_t offset = view.entry_offset(i);
    uint64_t bytes_of = uniform_entry_bytes(desc);
    if (!view.uniform()) {
      if (offset + kVariableHeadBytes > desc.bytes) continue;
      uint32_t meta;
      uint16_t key_bytes;
      std::memcpy(&meta, bytes + offset + 4, sizeof meta);
      std::memcpy(&key_bytes, bytes + offset + 8, sizeof key_bytes);
      bytes_of = kVariableHeadBytes + key_bytes + uint64_t{meta & kEntryValueMask};
    }
    if (offset + bytes_of > desc.bytes) continue;
    const uint32_t crc = base::crc32c(bytes + offset + 4, bytes_of - 4, entry_seed(seed, i));
    std::memcpy(bytes + offset, &crc, sizeof crc);
  }
  const uint64_t checked_bytes = desc.bytes - kRunTrailerBytes;
  const uint32_t crc = base::crc32c(bytes, checked_bytes, base::low_bits<uint32_t>(seed));
  std::memcpy(bytes + checked_bytes, &crc, sizeof crc);
}

// Check and mark of a header; a mark of an odd word becomes that of a live one, as written ones are.
inline void reseal_header(DnodeHeader* header, uint64_t slot_seed) {
  const bool live = header->mark % 2 == 1;
  header->crc = header->computed_crc(slot_seed);
  header->mark = live ? header->live_mark(slot_seed) : header->retired_mark(slot_seed);
}

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_RESEAL_H_
