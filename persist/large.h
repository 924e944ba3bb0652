// SPDX-License-Identifier: Apache-2.0
// Large values: each is stored apart in the data area, is written once and never copied; log and dnodes refer to it.
//
// Invariant: a large value is durable before any record or dnode that refers to it.
// Thread-safety: all methods.
#ifndef BONSAI_PERSIST_LARGE_H_
#define BONSAI_PERSIST_LARGE_H_

#include <cstring>
#include <string>
#include <string_view>

#include "base/epoch.h"
#include "bonsai/status.h"
#include "persist/format.h"
#include "persist/run.h"
#include "persist/space.h"
#include "scale/read_batch.h"
#include "scale/volume.h"

namespace bonsai::persist {

inline LargeRef large_ref(std::string_view bytes) {
  LargeRef ref;
  std::memcpy(&ref, bytes.data(), sizeof ref);
  return ref;
}
inline std::string_view bytes_of(const LargeRef& ref) { return {reinterpret_cast<const char*>(&ref), sizeof ref}; }

class LargeStore {
 public:
  LargeStore(scale::Volume& volume, Space& space) : volume_(volume), space_(space) {}

  // Writes a value durably. Errors: NoSpace, IoError (the volume has failed).
  Status write(std::string_view value, LargeRef* ref);
  // Replaces *value by the value. kDamaged: it fails its checksum or bounds, and *value is unchanged.
  [[nodiscard]] Trouble read(const LargeRef& ref, std::string* value) const;
  [[nodiscard]] Trouble verify(const LargeRef& ref) const;
  // Compares what the members of its target's group hold of it, and repairs what is damaged (scale/mend.h). False: none
  // has it whole, or it has no group.
  [[nodiscard]] bool mend(const LargeRef& ref) const;
  // Frees the space. Requires: no durable record or dnode that counts refers to it, and no reader.
  void free(const LargeRef& ref) { space_.free(scale::Addr::of_bits(ref.addr), ref.value_bytes); }
  // Frees the space once no reader is left. Requires: new readers do not find the reference.
  void retire(const LargeRef& ref, base::EpochDomain& epochs);

 private:
  [[nodiscard]] bool is_sound(const LargeRef& ref, const std::byte* bytes) const;
  [[nodiscard]] Trouble bring(const LargeRef& ref, scale::ReadBatch* reads, const std::byte** bytes) const;

  scale::Volume& volume_;
  Space& space_;
};

}  // namespace bonsai::persist

#endif  // BONSAI_PERSIST_LARGE_H_
