// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "bench/engines/engine.h"

namespace bonsai::bench {

// The build lists the files that define engines_of_NAME() (CMakeLists.txt).
#define BONSAI_BENCH_ENGINES_OF(name) std::vector<EngineEntry> engines_of_##name();
#include "engine_files.inc"
#undef BONSAI_BENCH_ENGINES_OF

const std::vector<EngineEntry>& engine_list() {
  static const std::vector<EngineEntry> kEngines = [] {
    std::vector<EngineEntry> all;
    const auto add = [&all](std::vector<EngineEntry> entries) {
      std::move(entries.begin(), entries.end(), std::back_inserter(all));
    };
#define BONSAI_BENCH_ENGINES_OF(name) add(engines_of_##name());
#include "engine_files.inc"
#undef BONSAI_BENCH_ENGINES_OF
    std::sort(all.begin(), all.end(), [](const EngineEntry& a, const EngineEntry& b) {
      return a.group != b.group ? a.group < b.group : a.name < b.name;
    });
    return all;
  }();
  return kEngines;
}

const EngineEntry* find_engine(std::string_view name) {
  for (const EngineEntry& entry : engine_list()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace bonsai::bench
