#include "persist/large.h"

#include "base/check.h"
#include "base/crc.h"
#include "base/narrow.h"
#include "persist/sites.h"
#include "persist/words.h"

namespace bonsai::persist {

using scale::Addr;

Status LargeStore::write(std::string_view value, LargeRef* ref) {
  const Addr addr = space_.allocate(value.size(), Space::Use::kOrdinary, 0, Space::Where::kHigh);
  if (addr.is_nil()) {
    return Status::NoSpace("no room for a value of " + std::to_string(value.size()) +
                           " bytes; delete data or use a larger pool");
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

bool LargeStore::verify(const LargeRef& ref) const {
  const Addr addr = Addr::of_bits(ref.addr);
  const auto seed = base::low_bits<uint32_t>(place_seed(volume_, addr));
  return volume_.contains(addr, ref.value_bytes) && base::crc32c(volume_.local(addr), ref.value_bytes, seed) == ref.crc;
}

bool LargeStore::read(const LargeRef& ref, std::string* value) const {
  scale::ReadBatch(volume_).wait_for(Addr::of_bits(ref.addr), ref.value_bytes);
  if (!verify(ref)) return false;
  value->assign(reinterpret_cast<const char*>(volume_.local(Addr::of_bits(ref.addr))), ref.value_bytes);
  return true;
}

}  // namespace bonsai::persist
