// Drives a fuzz target without a fuzzing engine: seeded random inputs, grown from one another, for the seconds that the
// budget grants. The seed is printed; BONSAI_SEED replays it. Arguments are files to run instead: a crash's input.
//
// Not coverage-guided: it reaches what random and mutated bytes reach. A target's own test gives it good seeds by
// defining fuzz_seed_input.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/testing/budget.h"
#include "base/testing/figures.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);

// The i-th valid input to mutate; empty = there are no more. Optional.
extern "C" __attribute__((weak)) std::vector<uint8_t>* fuzz_seed_input(size_t i);

// How many seconds a full run takes; 5 without it. Optional.
extern "C" __attribute__((weak)) int fuzz_full_seconds();

namespace {

using Input = std::vector<uint8_t>;
using Random = std::mt19937_64;

constexpr size_t kInputBytesMax = 8192;
constexpr size_t kPoolInputsMax = 256;

uint64_t below(Random& random, uint64_t bound) { return bound == 0 ? 0 : random() % bound; }

Input random_input(Random& random) {
  Input input(below(random, 256));
  for (uint8_t& byte : input) byte = static_cast<uint8_t>(random());
  return input;
}

void mutate(Input& input, Random& random) {
  switch (below(random, 5)) {
    case 0:  // flip one bit
      if (!input.empty()) input[below(random, input.size())] ^= static_cast<uint8_t>(1u << below(random, 8));
      break;
    case 1:  // an interesting byte
      if (!input.empty()) input[below(random, input.size())] = "\x00\xff\x7f\x80\x01"[below(random, 5)];
      break;
    case 2:  // cut
      input.resize(below(random, input.size() + 1));
      break;
    case 3:  // insert
      if (input.size() < kInputBytesMax) {
        input.insert(input.begin() + static_cast<ptrdiff_t>(below(random, input.size() + 1)),
                     static_cast<uint8_t>(random()));
      }
      break;
    default:  // repeat a piece at the end
      if (!input.empty() && input.size() * 2 < kInputBytesMax) {
        const Input piece(input.begin() + static_cast<ptrdiff_t>(below(random, input.size())), input.end());
        input.insert(input.end(), piece.begin(), piece.end());
      }
  }
}

// Keeps the input on disk while it runs, so that a crash leaves it behind.
void run_one(const Input& input, const std::string& last_input_file) {
  std::ofstream(last_input_file, std::ios::binary)
      .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

int run_files(int count, char** files) {
  for (int i = 0; i < count; ++i) {
    std::ifstream stream(files[i], std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "cannot read %s\n", files[i]);
      return 2;
    }
    const Input input{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  return 0;
}

std::vector<Input> seed_pool() {
  std::vector<Input> pool;
  if (fuzz_seed_input == nullptr) return pool;
  while (pool.size() < kPoolInputsMax) {
    const Input* input = fuzz_seed_input(pool.size());
    if (input == nullptr || input->empty()) break;
    pool.push_back(*input);
  }
  return pool;
}

// Valid inputs half of the time, since most bugs are a step or two away from one.
Input choose_input(const std::vector<Input>& seeds, const std::vector<Input>& pool, Random& random) {
  if (!seeds.empty() && below(random, 2) == 0) return seeds[below(random, seeds.size())];
  return below(random, 8) == 0 ? random_input(random) : pool[below(random, pool.size())];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return run_files(argc - 1, argv + 1);
  const char* chosen = std::getenv("BONSAI_SEED");
  const uint64_t seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 0) : std::random_device()();
  const std::string last_input_file = std::string(argv[0]) + ".last-input";
  const int full_seconds = fuzz_full_seconds != nullptr ? fuzz_full_seconds() : 5;
  const int seconds = bonsai::testing::budget(1, full_seconds, 300);
  std::printf("BONSAI_SEED=%llu, %d s; after a crash the input is in %s: pass it as an argument\n",
              static_cast<unsigned long long>(seed), seconds, last_input_file.c_str());
  std::fflush(stdout);

  Random random(seed);
  const std::vector<Input> seeds = seed_pool();
  std::vector<Input> pool(1);  // mutants to mutate further
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  uint64_t runs = 0;
  while (std::chrono::steady_clock::now() < end) {
    Input input = choose_input(seeds, pool, random);
    for (uint64_t i = below(random, 8); i > 0; --i) mutate(input, random);
    run_one(input, last_input_file);
    ++runs;
    if (pool.size() < kPoolInputsMax) {
      pool.push_back(std::move(input));
    } else if (below(random, 64) == 0) {
      pool[below(random, pool.size())] = std::move(input);
    }
  }
  std::remove(last_input_file.c_str());
  std::printf("%llu inputs, no crash\n", static_cast<unsigned long long>(runs));
  bonsai::testing::add_figure("fuzz_seconds", static_cast<uint64_t>(seconds));
  return 0;
}
