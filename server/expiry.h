// SPDX-License-Identifier: Apache-2.0
// Values with a time to live, as the pool has them: a value, a trailer with the deadline and a mark. So a value and its
// deadline are written, replaced and renamed as one, also for a crash. A value that ends in the mark has a trailer,
// too. All others are stored as they are.
#ifndef BONSAI_SERVER_EXPIRY_H_
#define BONSAI_SERVER_EXPIRY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bonsai::server {

inline constexpr size_t kTrailerBytes = 16;

struct Stored {
  std::string_view value;
  uint64_t deadline_ms = 0;  // since 1970; 0: it does not expire
};
// Takes apart what the pool has.
Stored parse_stored(std::string_view raw);
// Whether the value cannot be stored as it is.
bool needs_trailer(std::string_view value, uint64_t deadline_ms);
// The value with a trailer.
std::string with_trailer(std::string_view value, uint64_t deadline_ms);

[[nodiscard]] uint64_t wall_ms();
inline bool has_expired(const Stored& stored) { return stored.deadline_ms != 0 && stored.deadline_ms <= wall_ms(); }

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_EXPIRY_H_
