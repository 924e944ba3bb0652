// SPDX-License-Identifier: Apache-2.0
// Any bytes as the file in which a node keeps the owner's record and the in-sync page.
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/crc.h"
#include "base/testing/fuzz.h"
#include "scale/membership/page.h"
#include "scale/membership/testing/pages.h"

namespace bonsai::scale::membership {
namespace {

using bonsai::testing::FuzzInput;
using bonsai::testing::FuzzRegistration;

// The checks are computed anew if the first byte is odd, so that other bytes reach the code after them.
void run_page(std::string_view input) {
  FuzzInput bytes(input);
  const bool resealed = (bytes.take<uint8_t>() & 1) != 0;
  std::array<Slot, kSlots> slots{};
  for (size_t i = 0; i < kSlots; ++i) {
    const std::string_view taken = bytes.take_bytes(kSlotCheckedBytes + 8);
    if (!taken.empty()) std::memcpy(slots[i].data(), taken.data(), taken.size());
    const uint64_t check = base::crc32c(slots[i].data(), kSlotCheckedBytes, static_cast<uint32_t>(i + 1));
    if (resealed) std::memcpy(slots[i].data() + kSlotCheckedBytes, &check, sizeof check);
  }
  const std::array<uint64_t, 2> pool = testing::make_page(1).pool;
  FoundPage found;
  const Status status = find_page(slots, pool, &found);
  if (!status.ok()) {
    BONSAI_CHECK(status.IsNotFound() || status.IsCorruption());
    BONSAI_CHECK(!status.message().empty());
    return;
  }
  // A page that was read can be used: it can be written again and its owner can be queried.
  const Page page = found.page;
  PageWriter writer(found);
  for (std::optional<PageWriter::Write> write = writer.begin(page); write; write = writer.written()) {
    slots[write->slot] = write->bytes;
  }
  BONSAI_CHECK(find_page(slots, pool, &found).ok() && found.page == page && found.whole);
  const OwnerRegister reg(page.owner, 5);
  BONSAI_CHECK(reg.lease_until_ns() <= 5 + kLeaseNsMax);
}

std::vector<std::string> seeds_of_pages() {
  std::vector<std::string> seeds = {std::string()};
  for (uint64_t n = 1; n <= 3; ++n) {
    std::array<Slot, kSlots> slots{};
    PageWriter writer;
    for (std::optional<PageWriter::Write> write = writer.begin(testing::make_page(n)); write;
         write = writer.written()) {
      slots[write->slot] = write->bytes;
    }
    std::string seed(1, '\1');
    for (const Slot& slot : slots) seed.append(reinterpret_cast<const char*>(slot.data()), kSlotCheckedBytes + 8);
    seeds.push_back(seed);
  }
  return seeds;
}

const FuzzRegistration owner_page("owner_page", run_page, seeds_of_pages);

}  // namespace
}  // namespace bonsai::scale::membership
