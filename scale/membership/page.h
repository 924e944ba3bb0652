// SPDX-License-Identifier: Apache-2.0
// A node's data about a pool, in a file next to the pool that only its daemon writes: the owner's record and the
// in-sync page. docs/nodes.md says why it is not in the pool.
//
// The file has two slots. A page is written to both, one after the other, each made durable before the next step, and
// counts only when both are. So
//   - a crash at any moment leaves the page before or the page that was being written, whole;
//   - damage to one slot never brings an older page back.
// All integers are little-endian. The check of a slot includes its place and the pool.
//
// Pure: no file. Thread-safety: values; PageWriter has one user at a time.
#ifndef BONSAI_SCALE_MEMBERSHIP_PAGE_H_
#define BONSAI_SCALE_MEMBERSHIP_PAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bonsai/status.h"
#include "scale/membership/lease.h"
#include "scale/membership/owner_register.h"

namespace bonsai::scale::membership {

enum class Role : uint64_t {
  kJoining = 1,  // it gets all updates and does not have all that came before
  kInSync = 2,   // it holds everything that was acknowledged
  kOut = 3,      // it missed an update
  kWitness = 4,  // no member: it keeps pages, and no bytes; the last in the list
};

struct Member {
  static constexpr size_t kAddressBytesMax = 255;

  std::array<uint64_t, 2> id{};  // of the group, and of the member's pool in it; not zeros
  Role role = Role::kInSync;
  std::string address;

  bool operator==(const Member&) const = default;
};

struct Page {
  static constexpr size_t kHolderBytesMax = 127;

  std::array<uint64_t, 2> pool{};  // identity of the pool (persist's pool_id)
  OwnerRecord owner;
  std::string holder;  // the owner as users read it: host, process, since when
  // The in-sync page, written by the owner of epoch `written_by`. Of two pages the one with the higher epoch is newer,
  // then the one with the higher version: an earlier owner's last page may have reached some members only.
  uint64_t written_by = 0;
  uint64_t version = 0;
  uint64_t needed = 1;  // so many members at least hold what is acknowledged (replicas_min)
  size_t members = 0;   // with the witness, at most kMembersMax; 0: the pool is a target alone
  size_t self = 0;      // which of the members this pool is
  bool equal = false;   // nothing was written since all bytes of those in sync were equal
  std::array<Member, kMembersMax> member;

  bool operator==(const Page&) const = default;
};

// Whether a page, which another machine may have sent, can be written: texts and numbers are within their bounds.
[[nodiscard]] bool is_sound(const Page& page);

inline constexpr size_t kSlotBytes = 4096;
inline constexpr size_t kSlots = 2;
inline constexpr size_t kSlotCheckedBytes = 2488;  // of a slot; its check, of 8 bytes, follows, then zeros
using Slot = std::array<std::byte, kSlotBytes>;

// The content of the two slots.
struct FoundPage {
  Page page;
  uint64_t sequence = 0;  // of its writing
  size_t slot = 0;        // one that holds it
  bool whole = false;     // both hold it; if not, it is to be written again before anything is answered
};

// Errors: NotFound (no page was ever complete: the pool is new, or the file was lost, so the node waits out the longest
// lease), Corruption (both slots are damaged, or they are of another pool; the message says what to do).
Status find_page(const std::array<Slot, kSlots>& slots, const std::array<uint64_t, 2>& pool, FoundPage* found);

// The order of the writes.
class PageWriter {
 public:
  // Nothing was written yet.
  PageWriter() = default;
  explicit PageWriter(const FoundPage& found) : sequence_(found.sequence), newest_slot_(found.slot) {}

  struct Write {
    size_t slot;
    Slot bytes;
  };
  // Begins to write a page: the first write. Requires: no other page is being written; is_sound(page).
  Write begin(const Page& page);
  // The last write is durable. The next one; none: the page counts from now on.
  std::optional<Write> written();
  [[nodiscard]] bool is_writing() const { return left_ > 0; }

 private:
  [[nodiscard]] Write to(size_t slot);

  uint64_t sequence_ = 0;
  size_t newest_slot_ = 1;  // it is overwritten last
  size_t left_ = 0;         // writes of this page that are not durable
  Page page_;
};

}  // namespace bonsai::scale::membership

#endif  // BONSAI_SCALE_MEMBERSHIP_PAGE_H_
