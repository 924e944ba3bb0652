// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/page.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/crc.h"

namespace bonsai::scale::membership {
namespace {

constexpr uint64_t kSequenceMax = uint64_t{1} << 62;  // that is read; more can follow
constexpr uint64_t kMagic = 0x31524e574f534e42;       // "BNSOWNR1"

struct WireMember {
  uint64_t id[2];
  uint64_t role;
  char address[Member::kAddressBytesMax + 1];
};

struct WireSlot {
  uint64_t magic;
  uint64_t sequence;
  uint64_t pool[2];
  uint64_t epoch;
  uint64_t session[2];
  uint64_t lease_ns;
  char holder[Page::kHolderBytesMax + 1];
  uint64_t written_by;
  uint64_t version;
  uint64_t needed;
  uint64_t members;
  WireMember member[kMembersMax];
  uint64_t self;
  uint64_t equal;
  uint64_t zero;
  uint64_t check;  // CRC32C of all before and of the slot's number
};
static_assert(sizeof(WireMember) == 280 && sizeof(WireSlot) <= kSlotBytes);
static_assert(offsetof(WireSlot, check) == kSlotCheckedBytes);

uint64_t check_of(const WireSlot& wire, size_t slot) {
  return base::crc32c(&wire, offsetof(WireSlot, check), static_cast<uint32_t>(slot + 1));
}

// Whether the numbers are valid and none of them is near its end. Invalid numbers with a valid check come from another
// program.
bool is_sound_wire(const WireSlot& wire) {
  if (wire.pool[0] == 0 && wire.pool[1] == 0) return false;
  const bool never_owned = wire.session[0] == 0 && wire.session[1] == 0 && wire.lease_ns == 0;
  if (wire.epoch == 0 ? !never_owned : !lease_in_range(wire.lease_ns)) return false;
  if (std::max({wire.epoch, wire.written_by, wire.version}) > kEpochMax || wire.members > kMembersMax) return false;
  if (wire.holder[Page::kHolderBytesMax] != '\0') return false;
  const uint64_t copies = std::max<uint64_t>(wire.members, 1);
  if (wire.needed == 0 || wire.needed > copies || wire.self >= copies || wire.equal > 1) return false;
  return std::all_of(wire.member, wire.member + wire.members, [](const WireMember& member) {
    const bool ends = member.address[Member::kAddressBytesMax] == '\0';
    const bool named = member.id[0] != 0 || member.id[1] != 0;
    return ends && named && member.role >= 1 && member.role <= static_cast<uint64_t>(Role::kWitness);
  });
}

bool fits(const std::string& text, size_t bytes_max) {
  return text.size() <= bytes_max && text.find('\0') == std::string::npos;
}

// Sets everything but sequence and check. False: it does not fit.
bool to_wire(const Page& page, WireSlot* wire) {
  if (page.members > kMembersMax || !fits(page.holder, Page::kHolderBytesMax)) return false;
  *wire = WireSlot{};
  wire->magic = kMagic;
  std::copy(page.pool.begin(), page.pool.end(), wire->pool);
  wire->epoch = page.owner.epoch;
  std::copy(page.owner.session.bits.begin(), page.owner.session.bits.end(), wire->session);
  wire->lease_ns = page.owner.lease_ns;
  std::memcpy(wire->holder, page.holder.data(), page.holder.size());
  wire->written_by = page.written_by;
  wire->version = page.version;
  wire->needed = page.needed;
  wire->members = page.members;
  wire->self = page.self;
  wire->equal = page.equal ? 1 : 0;
  for (size_t i = 0; i < page.members; ++i) {
    const Member& from = page.member[i];
    if (!fits(from.address, Member::kAddressBytesMax)) return false;
    WireMember& to = wire->member[i];
    std::copy(from.id.begin(), from.id.end(), to.id);
    to.role = static_cast<uint64_t>(from.role);
    std::memcpy(to.address, from.address.data(), from.address.size());
  }
  return is_sound_wire(*wire);
}

Slot encode(const Page& page, uint64_t sequence, size_t slot) {
  WireSlot wire{};
  BONSAI_CHECK(to_wire(page, &wire));
  wire.sequence = sequence;
  wire.check = check_of(wire, slot);
  Slot bytes{};
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

// Whether the slot holds a whole page, of any pool.
bool read(const Slot& bytes, size_t slot, WireSlot* wire) {
  std::memcpy(wire, bytes.data(), sizeof *wire);
  if (wire->magic != kMagic || wire->sequence == 0 || wire->sequence > kSequenceMax) return false;
  return wire->check == check_of(*wire, slot) && is_sound_wire(*wire);
}

bool is_zeros(const Slot& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte each) { return each == std::byte{0}; });
}

Page decode(const WireSlot& wire) {
  Page page;
  std::copy(wire.pool, wire.pool + 2, page.pool.begin());
  page.owner.epoch = wire.epoch;
  std::copy(wire.session, wire.session + 2, page.owner.session.bits.begin());
  page.owner.lease_ns = wire.lease_ns;
  page.holder = wire.holder;
  page.written_by = wire.written_by;
  page.version = wire.version;
  page.needed = wire.needed;
  page.members = wire.members;
  page.self = wire.self;
  page.equal = wire.equal != 0;
  for (size_t i = 0; i < page.members; ++i) {
    const WireMember& from = wire.member[i];
    page.member[i] = {{from.id[0], from.id[1]}, static_cast<Role>(from.role), from.address};
  }
  return page;
}

}  // namespace

bool is_sound(const Page& page) {
  WireSlot wire;
  return to_wire(page, &wire);
}

Status find_page(const std::array<Slot, kSlots>& slots, const std::array<uint64_t, 2>& pool, FoundPage* found) {
  std::array<WireSlot, kSlots> wires;
  std::array<bool, kSlots> good;
  for (size_t i = 0; i < kSlots; ++i) good[i] = read(slots[i], i, &wires[i]);
  if (!good[0] && !good[1]) {
    // As long as one was never written, no page has counted.
    if (is_zeros(slots[0]) || is_zeros(slots[1])) return Status::NotFound("no owner of the pool was ever recorded");
    return Status::Corruption(
        "both copies of the owner's record are damaged, or written by another version, so another owner may be alive: "
        "run that version, or stop all programs that use the pool, then delete the record's file; the next opening "
        "waits for the longest lease");
  }
  const size_t newest = good[0] && (!good[1] || wires[0].sequence >= wires[1].sequence) ? 0 : 1;
  if (!std::equal(pool.begin(), pool.end(), wires[newest].pool)) {
    return Status::Corruption("the owner's record is that of another pool: the files were exchanged; restore them");
  }
  found->page = decode(wires[newest]);
  found->sequence = wires[newest].sequence;
  found->slot = newest;
  found->whole = good[0] && good[1] && wires[0].sequence == wires[1].sequence;
  return Status::OK();
}

PageWriter::Write PageWriter::begin(const Page& page) {
  BONSAI_CHECK(left_ == 0);
  page_ = page;
  ++sequence_;
  left_ = kSlots;
  return to(1 - newest_slot_);
}

PageWriter::Write PageWriter::to(size_t slot) {
  BONSAI_CHECK(slot < kSlots && sequence_ > 0);
  return {slot, encode(page_, sequence_, slot)};
}

std::optional<PageWriter::Write> PageWriter::written() {
  BONSAI_CHECK(left_ > 0);
  --left_;
  if (left_ == 0) return std::nullopt;
  return to(newest_slot_);
}

}  // namespace bonsai::scale::membership
