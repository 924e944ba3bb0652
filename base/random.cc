// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "base/check.h"

namespace bonsai::base {

uint64_t fresh_seed() {
  if (simulated_random != nullptr) return simulated_random->next();
  static std::atomic<uint64_t> calls{0};
  const auto wall = std::chrono::system_clock::now().time_since_epoch().count();
  const auto steady = std::chrono::steady_clock::now().time_since_epoch().count();
  uint64_t seed = splitmix64(static_cast<uint64_t>(wall));
  seed = splitmix64(seed ^ static_cast<uint64_t>(steady));
  seed = splitmix64(seed ^ static_cast<uint64_t>(getpid()));
  return splitmix64(seed ^ calls.fetch_add(1, std::memory_order_relaxed));
}

void random_secret(std::span<std::byte> bytes) {
  if (simulated_random != nullptr) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(simulated_random->next());
    return;
  }
  while (!bytes.empty()) {
    const ssize_t n = getrandom(bytes.data(), bytes.size(), 0);
    BONSAI_CHECK(n > 0 || errno == EINTR);
    if (n > 0) bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

uint64_t seed_from_env_or(uint64_t fallback) {
  const char* text = std::getenv("BONSAI_SEED");
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const uint64_t seed = std::strtoull(text, &end, 0);
  return *end == '\0' ? seed : fallback;
}

}  // namespace bonsai::base
