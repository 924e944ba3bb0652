// SPDX-License-Identifier: Apache-2.0
#include "persist/opening.h"

#include <array>
#include <optional>

#include "base/random.h"
#include "base/status_macros.h"
#include "persist/analysis.h"
#include "persist/words.h"

namespace bonsai::persist {

using scale::Addr;

namespace {

std::optional<uint64_t> opening_of(const scale::Volume& volume, const Pool& pool, size_t target, uint64_t offset) {
  if (pool.versions[target] < kFormatVersion) return 0;
  return load_word(volume, {target, offset});
}

Status other_time(const std::string& a, uint64_t opening_of_a, const std::string& b, uint64_t opening_of_b) {
  const std::string remedy =
      "; name the targets as they were last used together, or put back copies of all targets that were made at one "
      "time";
  if (opening_count(opening_of_a) == opening_count(opening_of_b)) {
    return Status::InvalidArgument(a + " and " + b + " were used apart from each other since their pool was last " +
                                   "opened with both" + remedy);
  }
  const bool a_is_older = opening_count(opening_of_a) < opening_count(opening_of_b);
  return Status::InvalidArgument((a_is_older ? a : b) + " is of an older state of the pool than " +
                                 (a_is_older ? b : a) + ", a copy from before the pool was last opened" + remedy);
}

}  // namespace

Status check_openings(const scale::Volume& volume, const std::vector<std::string>& paths, Pool* pool) {
  pool->openings_damaged.clear();
  const size_t targets = pool->superblocks.size(), home = pool->log_home();
  if (targets == 1) return Status::OK();
  const std::optional<uint64_t> last = opening_of(volume, *pool, home, kStateOpeningOffset);
  const std::optional<uint64_t> next = opening_of(volume, *pool, home, kStateNextOpeningOffset);
  for (size_t i = 0; i < targets; ++i) {
    const std::optional<uint64_t> own = opening_of(volume, *pool, i, kStateOpeningOffset);
    if (!own) pool->openings_damaged.emplace_back(i, kStateOpeningOffset);
    if (!own || i == home || own == last || own == next) continue;
    if (last && next) return other_time(paths[i], *own, paths[home], *last);
    if (last) pool->openings_damaged.emplace_back(home, kStateNextOpeningOffset);
  }
  if (!next && pool->openings_damaged.empty()) {
    pool->repairs.push_back({place_text("next opening", {home, kStateNextOpeningOffset}),
                             "the word fails its check; all targets agree on the last one", ""});
  }
  return Status::OK();
}

Status declare_openings(scale::Volume& volume, const Pool& pool) {
  std::vector<StateWord> words;
  for (size_t i = 0; i < pool.versions.size(); ++i) {
    if (pool.versions[i] >= kFormatVersion) continue;
    for (const uint64_t offset : {kStateOpeningOffset, kStateNextOpeningOffset}) words.push_back({{i, offset}, 0});
  }
  return words.empty() ? Status::OK() : write_state_words(volume, words);
}

Status note_opening(scale::Volume& volume, const Pool& pool) {
  if (pool.superblocks.size() == 1) return Status::OK();
  constexpr uint64_t kRandomMask = (uint64_t{1} << kOpeningRandomBits) - 1;
  const Addr last = pool.state(kStateOpeningOffset), next = pool.state(kStateNextOpeningOffset);
  const uint64_t before = load_word(volume, last).value_or(0);
  const uint64_t id =
      ((opening_count(before) + 1) << kOpeningRandomBits | (base::fresh_seed() & kRandomMask)) & kCheckedWordMax;
  std::vector<StateWord> others;
  for (uint64_t i = 0; i < pool.superblocks.size(); ++i) {
    if (i != last.target()) others.push_back({{i, kStateOpeningOffset}, id});
  }
  // First settles what an interrupted opening has left, which may not be durable.
  std::vector<StateWord> settled(pool.superblocks.size());
  for (uint64_t i = 0; i < settled.size(); ++i) settled[i] = {{i, kStateOpeningOffset}, before};
  BONSAI_RETURN_IF_ERROR(write_state_words(volume, settled));
  BONSAI_RETURN_IF_ERROR(write_state_words(volume, std::array{StateWord{next, id}}));
  BONSAI_RETURN_IF_ERROR(write_state_words(volume, others));
  return write_state_words(volume, std::array{StateWord{last, id}});
}

}  // namespace bonsai::persist
