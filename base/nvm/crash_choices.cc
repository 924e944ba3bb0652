// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/crash_choices.h"

#include <algorithm>
#include <array>
#include <utility>

namespace bonsai::base {
namespace {

using Kept = std::vector<size_t>;
using Emit = std::function<void(const Kept&)>;

bool are_at_most(const std::vector<ChoiceUnit>& units, uint64_t choices_max) {
  double choices = 1;
  for (const ChoiceUnit& unit : units) choices *= static_cast<double>(unit.stores) + 1;
  return choices <= static_cast<double>(choices_max);
}

void emit_all(const std::vector<ChoiceUnit>& units, const Emit& emit) {
  Kept kept(units.size(), 0);
  for (;;) {
    emit(kept);
    size_t i = 0;
    while (i < units.size() && kept[i] == units[i].stores) kept[i++] = 0;
    if (i == units.size()) return;
    ++kept[i];
  }
}

// The units of each line, as half-open ranges.
std::vector<std::pair<size_t, size_t>> lines_of_units(const std::vector<ChoiceUnit>& units) {
  std::vector<std::pair<size_t, size_t>> lines;
  for (size_t i = 0; i < units.size(); ++i) {
    if (i == 0 || units[i].line != units[i - 1].line) lines.emplace_back(i, i);
    lines.back().second = i + 1;
  }
  return lines;
}

// Half of the random choices are uniform. The other half keep or lose whole units, with a bias to keep or to lose.
Kept random_choice(const std::vector<ChoiceUnit>& units, Random& random) {
  constexpr std::array<uint64_t, 3> kWholeInEight = {1, 4, 7};
  const bool even = random.chance(1, 2);
  const uint64_t whole = kWholeInEight[random.below(kWholeInEight.size())];
  Kept kept(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    kept[i] = even ? random.below(units[i].stores + 1) : random.chance(whole, 8) ? units[i].stores : 0;
  }
  return kept;
}

}  // namespace

bool each_crash_choice(const std::vector<ChoiceUnit>& units, uint64_t choices_max, Random& random, const Emit& emit) {
  if (are_at_most(units, choices_max)) {
    emit_all(units, emit);
    return true;
  }
  const Kept none(units.size(), 0);
  Kept all(units.size());
  for (size_t i = 0; i < units.size(); ++i) all[i] = units[i].stores;
  emit(none);
  emit(all);
  uint64_t emitted = 2;

  auto lines = lines_of_units(units);
  if (2 + 2 * lines.size() > choices_max) std::shuffle(lines.begin(), lines.end(), random);
  for (const auto& [begin, end] : lines) {
    if (emitted + 2 > choices_max) break;
    Kept alone = none, missing = all;
    for (size_t i = begin; i < end; ++i) std::swap(alone[i], missing[i]);
    emit(alone);
    emit(missing);
    emitted += 2;
  }
  for (; emitted < choices_max; ++emitted) emit(random_choice(units, random));
  return false;
}

}  // namespace bonsai::base
