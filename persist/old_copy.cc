// SPDX-License-Identifier: Apache-2.0
#include "persist/old_copy.h"

#include <utility>

#include "persist/words.h"

namespace bonsai::persist {
namespace {

using scale::Addr;

// The opening word of a target that can have marks.
std::optional<uint64_t> opening_of(const scale::Volume& volume, const Pool& pool, size_t target) {
  if (pool.superblocks.size() == 1 || pool.versions[target] < kFormatVersion) return std::nullopt;
  return load_word(volume, {target, kStateOpeningOffset});
}

constexpr uint64_t closed_with(uint32_t summary) {
  return static_cast<uint64_t>(RunState::kClean) | uint64_t{summary} << 8;
}

std::string put_back() { return "; put back copies of all targets that were made at one time"; }

}  // namespace

std::vector<Log::Marks> log_marks(const scale::Volume& volume, const Pool& pool) {
  std::vector<Log::Marks> marks;
  for (size_t i = 0; i < pool.superblocks.size(); ++i) {
    if (const std::optional<uint64_t> opening = opening_of(volume, pool, i)) {
      marks.push_back({{i, kStateBegunOffset}, {i, kStateOpenedOffset}, *opening});
    }
  }
  return marks;
}

Status note_marks(scale::Volume& volume, const Pool& pool, uint64_t sequence) {
  std::vector<StateWord> words;
  for (const Log::Marks& marks : log_marks(volume, pool)) {
    words.push_back({marks.begun, sequence, marks.tie});
    words.push_back({marks.opened, sequence, marks.tie});
  }
  return words.empty() ? Status::OK() : write_state_words(volume, words);
}

void check_marks(const scale::Volume& volume, const Pool& pool, const FoundState& found,
                 const std::function<void(Addr at, std::string what)>& older) {
  for (const Log::Marks& marks : log_marks(volume, pool)) {
    const uint64_t target = marks.begun.target();
    if (const auto begun = load_word(volume, marks.begun, marks.tie); begun && *begun < found.entered_max) {
      older(marks.begun, "this target is an older copy: the log goes on after it" + put_back());
    }
    if (const auto opened = load_word(volume, marks.opened, marks.tie); opened && *opened > found.sequence_max) {
      older(marks.opened, "the log is an older copy: this target goes on after it" + put_back());
    }
    if (target == pool.log_home()) continue;
    const Addr at(target, kStateRunOffset);
    const auto closed = load_word(volume, at, marks.tie);
    if (closed && *closed != closed_with(found.summary)) {
      older(at, "a target is an older copy: when the pool was closed it held something else" + put_back());
    }
  }
}

std::vector<StateWord> closing_marks(const scale::Volume& volume, const Pool& pool, uint32_t summary) {
  std::vector<StateWord> words;
  for (const Log::Marks& marks : log_marks(volume, pool)) {
    const uint64_t target = marks.begun.target();
    if (target != pool.log_home()) words.push_back({{target, kStateRunOffset}, closed_with(summary), marks.tie});
  }
  return words;
}

}  // namespace bonsai::persist
