// A fuzz target that must fail: its planted bug proves that fuzz_main.cc mutates its way to one.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);
extern "C" std::vector<uint8_t>* fuzz_seed_input(size_t i);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 4 && data[0] == 'b' && data[1] == 'u' && data[2] == 'g' && data[3] > 0x7f) {
    std::puts("found the planted bug");
    std::exit(1);
  }
  return 0;
}

extern "C" std::vector<uint8_t>* fuzz_seed_input(size_t i) {
  static std::vector<uint8_t> seed{'b', 'u', 'g', '!'};
  return i == 0 ? &seed : nullptr;
}
