// SPDX-License-Identifier: Apache-2.0
// Damage to the image of a pool: what media, sparse restores and mistakes of people do to bytes.
#ifndef BONSAI_TESTING_DAMAGE_H_
#define BONSAI_TESTING_DAMAGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace bonsai::testing {

using Image = std::vector<std::byte>;

// The material of a damage to one target, besides the image itself.
struct DamageSources {
  std::vector<const Image*> earlier;                  // states of the same pool, of the same size
  const Image* other = nullptr;                       // a pool of another identity and the same geometry
  std::vector<std::pair<uint64_t, uint64_t>> places;  // begin, bytes: one of them is hit, at a random word
  std::vector<std::pair<uint64_t, uint64_t>> wholes;  // segments and extents
};

struct DamageKind {
  enum class How { kFlip, kGarbage, kZeros, kOnes, kCopy, kSwap, kShift, kEarlier, kOther, kTruncate };
  const char* name;
  How how;
  uint64_t bytes;      // 0: of a whole segment or extent
  uint64_t count = 1;  // bits that are flipped; by how many bytes it is shifted
};

inline constexpr DamageKind kDamageKinds[] = {
    {"flip of a bit", DamageKind::How::kFlip, 8},
    {"flip of 5 bits in a line", DamageKind::How::kFlip, 64, 5},
    {"a byte", DamageKind::How::kGarbage, 1},
    {"garbage of a line", DamageKind::How::kGarbage, 64},
    {"zeros, 8 bytes", DamageKind::How::kZeros, 8},
    {"zeros, a line", DamageKind::How::kZeros, 64},
    {"zeros, a block", DamageKind::How::kZeros, 256},
    {"zeros, a page", DamageKind::How::kZeros, 4096},
    {"zeros, a segment or extent", DamageKind::How::kZeros, 0},
    {"ones, a line", DamageKind::How::kOnes, 64},
    {"ones, a page", DamageKind::How::kOnes, 4096},
    {"copy of 8 bytes", DamageKind::How::kCopy, 8},
    {"copy of a line", DamageKind::How::kCopy, 64},
    {"copy of a block", DamageKind::How::kCopy, 256},
    {"copy of a page", DamageKind::How::kCopy, 4096},
    {"swap of lines", DamageKind::How::kSwap, 64},
    {"swap of blocks", DamageKind::How::kSwap, 256},
    {"swap of pages", DamageKind::How::kSwap, 4096},
    {"shift of a block by 8", DamageKind::How::kShift, 256, 8},
    {"shift of a page by 8", DamageKind::How::kShift, 4096, 8},
    {"shift of a page by 64", DamageKind::How::kShift, 4096, 64},
    {"earlier line", DamageKind::How::kEarlier, 64},
    {"earlier block", DamageKind::How::kEarlier, 256},
    {"earlier page", DamageKind::How::kEarlier, 4096},
    {"earlier segment or extent", DamageKind::How::kEarlier, 0},
    {"another pool's line", DamageKind::How::kOther, 64},
    {"another pool's block", DamageKind::How::kOther, 256},
    {"another pool's page", DamageKind::How::kOther, 4096},
    {"another pool's segment or extent", DamageKind::How::kOther, 0},
    {"truncation", DamageKind::How::kTruncate, 4096},
};

// Does one damage of a kind to `image`. False if it has changed nothing: the source had the same bytes, or there is
// none. *where describes the damage.
inline bool do_damage(const DamageKind& kind, const DamageSources& sources, base::Random& random, Image* image,
                      std::string* where) {
  const auto pick = [&](const auto& list) { return list[random.below(list.size())]; };
  const auto place = [&]() -> std::pair<uint64_t, uint64_t> {
    if (kind.bytes == 0) return pick(sources.wholes);
    const auto [begin, bytes] = pick(sources.places);
    const uint64_t unit = std::max<uint64_t>(kind.bytes, 1);
    const uint64_t at = (begin + random.below(bytes)) / unit * unit;
    return {at, std::min<uint64_t>(kind.bytes, image->size() - at)};
  };
  const auto [at, bytes] = place();
  std::byte* const to = image->data() + at;
  const Image before(to, to + bytes);
  *where = std::string(kind.name) + " at " + std::to_string(at) + ", " + std::to_string(bytes) + " bytes";
  const auto take = [to, n = bytes](const std::byte* from) { std::memmove(to, from, n); };
  switch (kind.how) {
    case DamageKind::How::kFlip:
      for (uint64_t i = 0; i < kind.count; ++i) to[random.below(bytes)] ^= std::byte(1U << random.below(8));
      break;
    case DamageKind::How::kGarbage:
      for (uint64_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(random.next());
      break;
    case DamageKind::How::kZeros:
      std::memset(to, 0, bytes);
      break;
    case DamageKind::How::kOnes:
      std::memset(to, 0xff, bytes);
      break;
    case DamageKind::How::kCopy:
      take(image->data() + place().first / bytes * bytes);
      break;
    case DamageKind::How::kSwap: {
      std::byte* const other = image->data() + place().first;
      take(other);
      std::memcpy(other, before.data(), bytes);
      break;
    }
    case DamageKind::How::kShift:
      std::memmove(to + kind.count, before.data(), bytes - std::min(bytes, kind.count));
      break;
    case DamageKind::How::kEarlier:
      if (sources.earlier.empty()) return false;
      take(pick(sources.earlier)->data() + at);
      break;
    case DamageKind::How::kOther:
      take(sources.other->data() + at);
      break;
    case DamageKind::How::kTruncate:
      image->resize(std::max<uint64_t>(at, kind.bytes));
      return true;
  }
  return std::memcmp(to, before.data(), bytes) != 0;
}

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_DAMAGE_H_
