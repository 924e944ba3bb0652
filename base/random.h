// SPDX-License-Identifier: Apache-2.0
// Random numbers: small, fast, the same on every machine for the same seed. For secrets there is random_secret().
#ifndef BONSAI_BASE_RANDOM_H_
#define BONSAI_BASE_RANDOM_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace bonsai::base {

// One step of splitmix64: mixes 64 bits well, and derives many seeds from one.
[[nodiscard]] constexpr uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// xoshiro256** (Blackman and Vigna): about 1 ns per number, period 2^256 - 1.
// Thread-safety: one owner. Every seed, 0 included, gives a good sequence of its own. Satisfies
// std::uniform_random_bit_generator.
class Random {
 public:
  using result_type = uint64_t;

  explicit constexpr Random(uint64_t seed) {
    for (uint64_t& word : state_) word = seed = splitmix64(seed);
  }

  constexpr uint64_t next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, n), for n = 0: 0. The bias is below n / 2^64.
  constexpr uint64_t below(uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(next()) * n) >> 64);
  }

  // Uniform in [0, 1).
  constexpr double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // True with probability `numerator` / `denominator`.
  constexpr bool chance(uint64_t numerator, uint64_t denominator) { return below(denominator) < numerator; }

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return UINT64_MAX; }
  constexpr uint64_t operator()() { return next(); }

 private:
  uint64_t state_[4]{};
};

// When set, this thread is in a simulation, and its random numbers are a function of a seed. Only a scheduler in
// virtual time sets it, while it runs, as it sets the clock (base/clock.h).
inline constinit thread_local Random* simulated_random = nullptr;

// A seed that no other call, thread or process is likely to get; in a simulation, that no other call gets.
[[nodiscard]] uint64_t fresh_seed();

// Fills `bytes` from the operating system's generator: nobody can guess them. In a simulation everybody can.
void random_secret(std::span<std::byte> bytes);

namespace random_internal {
inline constinit thread_local Random of_thread{1};
}  // namespace random_internal

// The calling thread's generator, for random choices that need no seed of their own.
[[nodiscard]] inline Random& thread_random() {
  return simulated_random != nullptr ? *simulated_random : random_internal::of_thread;
}

// The seed of a randomised test: the environment's BONSAI_SEED (decimal, or hexadecimal after 0x) if it holds a number,
// else `fallback`. Tests print it, so that a failure can be replayed.
[[nodiscard]] uint64_t seed_from_env_or(uint64_t fallback);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_RANDOM_H_
