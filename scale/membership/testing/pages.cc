// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/testing/pages.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace bonsai::scale::membership::testing {
namespace {

using Slots = std::array<Slot, kSlots>;

constexpr size_t kSectorBytes = 512;
constexpr uint64_t kPages = 5;

class PageExplorer {
 public:
  Pages run() {
    for (uint64_t n = 1; n <= kPages && pages_.wrong.empty(); ++n) write(make_page(n), n == 1 ? nullptr : &counted_);
    return pages_;
  }

 private:
  // Writes the page after `before` (null: none), and looks at every state on the way.
  void write(const Page& page, const Page* before) {
    for (std::optional<PageWriter::Write> write = writer_.begin(page); write; write = writer_.written()) {
      const Slot old = slots_[write->slot];
      each_torn(old, write->bytes, [&](const Slot& torn) {
        slots_[write->slot] = torn;
        crash(page, before);
      });
      slots_[write->slot] = write->bytes;
    }
    counted_ = page;
    damage();
  }

  static void each_torn(const Slot& old, const Slot& wanted, const std::function<void(const Slot&)>& visit) {
    for (size_t bytes = 0; bytes <= kSlotBytes; bytes += bytes < 320 ? 8 : 128) {
      Slot torn = old;
      std::copy_n(wanted.begin(), bytes, torn.begin());
      visit(torn);
    }
    for (size_t at = 0; at < kSlotBytes; at += kSectorBytes) {
      Slot torn = wanted;
      std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(at), kSectorBytes,
                  torn.begin() + static_cast<std::ptrdiff_t>(at));
      visit(torn);
    }
  }

  // After a crash amid writing `page` there is that page or the one before; then the copies are made equal, with a
  // crash in that, which brings nothing else.
  void crash(const Page& page, const Page* before) {
    FoundPage found;
    if (!looks(slots_, page, before, &found) || found.whole) return;
    const Page kept = found.page;
    PageWriter writer(found);
    Slots slots = slots_;
    for (std::optional<PageWriter::Write> write = writer.begin(kept); write; write = writer.written()) {
      const Slot old = slots[write->slot];
      for (const size_t bytes : {size_t{0}, size_t{16}, size_t{64}, kSectorBytes}) {
        slots[write->slot] = old;
        std::copy_n(write->bytes.begin(), bytes, slots[write->slot].begin());
        FoundPage again;
        looks(slots, kept, nullptr, &again, "amid making the copies equal, ");
      }
      slots[write->slot] = write->bytes;
    }
    if (looks(slots, kept, nullptr, &found) && !found.whole) pages_.wrong = "copies that were made equal are not";
  }

  bool looks(const Slots& slots, const Page& one, const Page* other, FoundPage* found, const char* when = "") {
    ++pages_.images;
    const Status status = find_page(slots, one.pool, found);
    if (status.IsNotFound() && other == nullptr && counted_.version == 0) return false;  // none has counted yet
    if (!status.ok()) {
      pages_.wrong = when + status.ToString();
    } else if (!(found->page == one) && (other == nullptr || !(found->page == *other))) {
      pages_.wrong = std::string(when) + "a page was found that was not the last one";
    }
    return status.ok();
  }

  // Damage to one slot does not bring another page back.
  void damage() {
    for (size_t slot = 0; slot < kSlots; ++slot) {
      for (size_t bit = 0; bit < 8 * 512; bit += 37) {
        Slots slots = slots_;
        slots[slot][bit / 8] ^= std::byte{1} << bit % 8;
        FoundPage found;
        looks(slots, counted_, nullptr, &found, "after damage, ");
      }
      Slots slots = slots_;
      slots[slot] = {};
      FoundPage found;
      looks(slots, counted_, nullptr, &found, "after a slot was zeroed, ");
      slots = slots_;
      std::swap(slots[0], slots[1]);
      ++pages_.images;
      if (find_page(slots, counted_.pool, &found).ok()) pages_.wrong = "a slot is taken for the other one";
    }
    FoundPage found;
    const std::array<uint64_t, 2> other_pool = {1, 2};
    if (find_page(slots_, other_pool, &found).ok()) pages_.wrong = "another pool's page is taken for this one's";
  }

  Pages pages_;
  Slots slots_{};
  PageWriter writer_;
  Page counted_;
};

}  // namespace

Page make_page(uint64_t n) {
  Page page;
  page.pool = {77, 78};
  page.owner = {n, {{n * 3, n * 5}}, kLeaseNsMin + n};
  page.holder = "host" + std::to_string(n) + ", process 7, since 2026-11-28";
  page.written_by = n;
  page.version = n * 7;
  page.members = n % kMembersMax + 1;
  page.needed = (page.members + 1) / 2;
  page.self = n % page.members;
  page.equal = n % 2 == 0;
  for (size_t i = 0; i < page.members; ++i) {
    page.member[i] = {{n, i}, static_cast<Role>(i % 3 + 1), "node" + std::to_string(n * i) + ":7470/pool"};
  }
  return page;
}

Pages explore_pages() { return PageExplorer().run(); }

}  // namespace bonsai::scale::membership::testing
