// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/experiments/synthesis_reference.h"

#include <algorithm>
#include <vector>

namespace bonsai::bench {

namespace {

struct Published {
  bool strings;
  char letter;
  size_t threads;
  SynthesisRates rates;
};

// Sherman, PACTree over far memory, DINOMO, BonsaiKV.
const std::vector<Published>& published() {
  static const std::vector<Published> kPublished = {
      {false, 'l', 1, {{.59, .28, .25, 2.04}}},     {false, 'l', 6, {{.83, .62, .62, 9.83}}},
      {false, 'l', 12, {{1.24, 1.08, 1.13, 12.2}}}, {false, 'l', 18, {{2.02, 2.13, 1.25, 19.8}}},
      {false, 'l', 24, {{2.94, 2.56, 1.78, 25.1}}}, {false, 'l', 30, {{3.55, 2.98, 1.98, 28.4}}},
      {false, 'l', 36, {{4.30, 3.27, 2.35, 30.0}}}, {false, 'a', 1, {{.23, .32, .19, 1.65}}},
      {false, 'a', 6, {{1.44, .95, .56, 7.78}}},    {false, 'a', 12, {{2.18, 1.94, .94, 10.2}}},
      {false, 'a', 18, {{3.17, 2.97, 1.28, 13.7}}}, {false, 'a', 24, {{4.18, 3.42, 1.62, 15.8}}},
      {false, 'a', 30, {{5.04, 3.98, 2.07, 16.3}}}, {false, 'a', 36, {{5.73, 4.27, 2.34, 18.5}}},
      {false, 'c', 1, {{.34, .26, .27, 1.12}}},     {false, 'c', 6, {{1.97, .93, .61, 3.27}}},
      {false, 'c', 12, {{4.02, 3.04, 1.27, 6.82}}}, {false, 'c', 18, {{5.31, 5.03, 1.46, 8.04}}},
      {false, 'c', 24, {{6.24, 5.95, 1.82, 13.1}}}, {false, 'c', 30, {{8.32, 7.01, 2.23, 14.7}}},
      {false, 'c', 36, {{8.95, 7.47, 2.60, 15.0}}}, {false, 'd', 36, {{7.96, 6.87, 2.72, 14.9}}},
      {false, 'e', 1, {{.08, .03, {}, .35}}},       {false, 'e', 36, {{.62, .55, {}, .71}}},
      {true, 'l', 36, {{.94, .92, .86, 1.21}}},     {true, 'a', 36, {{2.91, 3.04, 2.55, 3.92}}},
      {true, 'c', 36, {{4.79, 4.73, 4.53, 6.64}}},  {true, 'd', 36, {{4.75, 4.84, 4.52, 6.53}}},
      {true, 'e', 36, {{.31, .33, {}, .48}}}};
  return kPublished;
}

}  // namespace

std::string workload_name(char letter) {
  if (letter == 'l') return "Load";
  return {static_cast<char>(letter - 'a' + 'A')};
}

const std::array<std::string_view, SynthesisRates::kSystems>& SynthesisRates::names() {
  static constexpr std::array<std::string_view, kSystems> kNames = {"Sherman", "PACTree + far memory", "DINOMO",
                                                                    "BonsaiKV"};
  return kNames;
}

std::optional<double> SynthesisRates::of(std::string_view system) const {
  constexpr std::array<std::string_view, kSystems> kOurs = {"Sherman-like", "PACTree-paging-like", "Clover-like",
                                                            "Bonsai"};
  const auto* const found = std::find(kOurs.begin(), kOurs.end(), system);
  return found == kOurs.end() ? std::nullopt : mops[static_cast<size_t>(found - kOurs.begin())];
}

const SynthesisRates* synthesis_rates(bool strings, char letter, size_t threads) {
  for (const Published& one : published()) {
    if (one.strings == strings && one.letter == letter && one.threads == threads) return &one.rates;
  }
  return nullptr;
}

}  // namespace bonsai::bench
