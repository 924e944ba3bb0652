// SPDX-License-Identifier: Apache-2.0
#include "server/expiry.h"

#include <bit>
#include <cstring>

#include "base/clock.h"

namespace bonsai::server {
namespace {

// Random bytes: other programs of the pool write them at the end of a value by intent only.
constexpr std::string_view kMark("\x9f\x03\xc4\x5b\xe1\x7a\x00\xd8", 8);
static_assert(kMark.size() + sizeof(uint64_t) == kTrailerBytes);
static_assert(std::endian::native == std::endian::little);  // of the deadline in the pool

}  // namespace

Stored parse_stored(std::string_view raw) {
  if (!raw.ends_with(kMark) || raw.size() < kTrailerBytes) return {raw};
  Stored stored{raw.substr(0, raw.size() - kTrailerBytes)};
  std::memcpy(&stored.deadline_ms, raw.data() + stored.value.size(), sizeof stored.deadline_ms);
  return stored;
}

bool needs_trailer(std::string_view value, uint64_t deadline_ms) { return deadline_ms != 0 || value.ends_with(kMark); }

std::string with_trailer(std::string_view value, uint64_t deadline_ms) {
  char deadline[sizeof deadline_ms];
  std::memcpy(deadline, &deadline_ms, sizeof deadline);
  std::string raw;
  raw.reserve(value.size() + kTrailerBytes);
  raw.append(value).append(deadline, sizeof deadline).append(kMark);
  return raw;
}

uint64_t wall_ms() { return static_cast<uint64_t>(base::wall_seconds() * 1e3); }

}  // namespace bonsai::server
