// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/experiments/synthesis_reference.h"

#include <algorithm>

#include "bench/studies/published/published.h"

namespace bonsai::bench {

namespace {

constexpr std::array<std::string_view, SynthesisRates::kSystems> kNames = {"Sherman", "PACTree + far memory", "DINOMO",
                                                                           "BonsaiKV"};

}  // namespace

std::string workload_name(char letter) {
  if (letter == 'l') return "Load";
  return {static_cast<char>(letter - 'a' + 'A')};
}

const std::array<std::string_view, SynthesisRates::kSystems>& SynthesisRates::names() { return kNames; }

std::optional<double> SynthesisRates::of(std::string_view system) const {
  constexpr std::array<std::string_view, kSystems> kOurs = {"Sherman-like", "PACTree-paging-like", "Clover-like",
                                                            "Bonsai"};
  const auto* const found = std::find(kOurs.begin(), kOurs.end(), system);
  return found == kOurs.end() ? std::nullopt : mops[static_cast<size_t>(found - kOurs.begin())];
}

std::optional<SynthesisRates> synthesis_rates(bool strings, char letter, size_t threads) {
  if (letter == 'b') return {};  // no B is published
  const PublishedTable& table =
      published_table("synthesis, " + workload_name(letter) + (strings ? ", strings" : ", integers"));
  for (const auto& row : table.rows) {
    if (row.front() != static_cast<double>(threads)) continue;
    SynthesisRates rates;
    for (size_t system = 0; system < SynthesisRates::kSystems; ++system) {
      rates.mops[system] = table.at(*row.front(), kNames[system]);
    }
    return rates;
  }
  return {};
}

}  // namespace bonsai::bench
