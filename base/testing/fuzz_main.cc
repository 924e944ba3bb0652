// SPDX-License-Identifier: Apache-2.0
// The program `fuzz`: libFuzzer (which has main) over the target that BONSAI_FUZZ_TARGET names. scripts/fuzz.py runs
// it.
//   fuzz --targets          prints the names of all targets
//   fuzz --seeds FOLDER     writes the target's seeds
//   fuzz FILE...            runs these inputs; the other arguments are libFuzzer's
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "base/testing/fuzz.h"

namespace {

const bonsai::testing::FuzzTarget* chosen = nullptr;

void print_targets() {
  for (const auto& target : bonsai::testing::fuzz_targets()) std::puts(target.name);
}

void write_seeds(const std::string& folder) {
  const std::vector<std::string> seeds = chosen->seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream(folder + "/seed-" + std::to_string(i), std::ios::binary) << seeds[i];
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  const std::string_view first = *count > 1 ? (*arguments)[1] : "";
  if (first == "--targets") {
    print_targets();
    std::exit(0);
  }
  const char* name = std::getenv("BONSAI_FUZZ_TARGET");
  chosen = bonsai::testing::find_fuzz_target(name == nullptr ? "" : name);
  if (chosen == nullptr) {
    std::fprintf(stderr, "BONSAI_FUZZ_TARGET=%s: there are (--targets)\n", name == nullptr ? "" : name);
    print_targets();
    std::exit(2);
  }
  if (first == "--seeds" && *count > 2) {
    write_seeds((*arguments)[2]);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  chosen->run({reinterpret_cast<const char*>(data), bytes});
  return 0;
}
