// SPDX-License-Identifier: Apache-2.0
#include "persist/large.h"

#include "base/check.h"
#include "base/crc.h"
#include "base/narrow.h"
#include "persist/sites.h"
#include "persist/words.h"
#include "scale/mend.h"

namespace bonsai::persist {

using scale::Addr;

Status LargeStore::write(std::string_view value, LargeRef* ref) {
  const Addr addr = space_.allocate(value.size(), Space::Use::kOrdinary, 0, Space::Where::kHigh);
  if (addr.is_nil()) {
    return Status::NoSpace("no room for a value of " + std::to_string(value.size()) +
                           " bytes; enlarge the pool (bonsai grow) or delete data");
  }
  BONSAI_INVARIANT(!value.empty() && volume_.contains(addr, round_up(value.size(), 8)));
  const size_t whole = value.size() / 8 * 8;
  volume_.nt_copy(addr, value.data(), whole, kSiteLarge);
  if (whole < value.size()) {
    uint64_t tail = 0;
    std::memcpy(&tail, value.data() + whole, value.size() - whole);
    volume_.nt_copy(addr + whole, &tail, sizeof tail, kSiteLargeTail);
  }
  if (!volume_.fence(kSiteLargeFence)) return volume_.health();
  const auto seed = base::low_bits<uint32_t>(place_seed(volume_, addr));
  *ref = {addr.bits(), base::checked_narrow<uint32_t>(value.size()), base::crc32c(value.data(), value.size(), seed)};
  return Status::OK();
}

bool LargeStore::is_sound(const LargeRef& ref, const std::byte* bytes) const {
  const auto seed = base::low_bits<uint32_t>(place_seed(volume_, Addr::of_bits(ref.addr)));
  return base::crc32c(bytes, ref.value_bytes, seed) == ref.crc;
}

bool LargeStore::mend(const LargeRef& ref) const {
  const Addr addr = Addr::of_bits(ref.addr);
  if (!volume_.contains(addr, ref.value_bytes)) return false;
  scale::ReadBatch reads(volume_);
  const auto passes = [&](const std::byte* of) { return is_sound(ref, of); };
  bool is_known = true;
  return scale::mended(volume_, addr, ref.value_bytes, passes, &reads, &is_known) != nullptr;
}

// Its bytes, verified, as long as `reads`.
Trouble LargeStore::bring(const LargeRef& ref, scale::ReadBatch* reads, const std::byte** bytes) const {
  const Addr addr = Addr::of_bits(ref.addr);
  if (!volume_.contains(addr, ref.value_bytes)) return Trouble::kDamaged;
  *bytes = reads->issue(addr, ref.value_bytes);
  if (!reads->wait().ok()) return Trouble::kUnavailable;
  const auto passes = [&](const std::byte* of) { return is_sound(ref, of); };
  if (passes(*bytes)) return Trouble::kNone;
  bool is_known = true;
  *bytes = scale::mended(volume_, addr, ref.value_bytes, passes, reads, &is_known);
  return *bytes != nullptr ? Trouble::kNone : is_known ? Trouble::kDamaged : Trouble::kUnavailable;
}

Trouble LargeStore::verify(const LargeRef& ref) const {
  scale::ReadBatch reads(volume_);
  const std::byte* unused = nullptr;
  return bring(ref, &reads, &unused);
}

Trouble LargeStore::read(const LargeRef& ref, std::string* value) const {
  scale::ReadBatch reads(volume_);
  const std::byte* bytes = nullptr;
  const Trouble trouble = bring(ref, &reads, &bytes);
  if (trouble == Trouble::kNone) value->assign(reinterpret_cast<const char*>(bytes), ref.value_bytes);
  return trouble;
}

void LargeStore::retire(const LargeRef& ref, base::EpochDomain& epochs) {
  epochs.retire(
      new LargeRef(ref),
      [](void* object, void* store) {
        const std::unique_ptr<LargeRef> owned(static_cast<LargeRef*>(object));
        static_cast<LargeStore*>(store)->free(*owned);
      },
      this, sizeof(LargeRef));  // of DRAM
}

}  // namespace bonsai::persist
