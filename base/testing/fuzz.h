// SPDX-License-Identifier: Apache-2.0
// Fuzz targets: parsers of bytes from outside, each one function that takes any bytes. Three programs share
// them:
//
//   fuzz              libFuzzer, guided by coverage, under AddressSanitizer; scripts/fuzz.py runs it
//   fuzz_replay_test  an ordinary test of every build: seeds, kept inputs and inputs that once crashed
//   fuzz --seeds DIR  writes the seeds of a target, where a fuzzer begins
//
// A target is a file X_fuzz.cc beside the code that it tests, registered with bonsai_fuzz() of cmake/fuzz.cmake.
#ifndef BONSAI_BASE_TESTING_FUZZ_H_
#define BONSAI_BASE_TESTING_FUZZ_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace bonsai::testing {

struct FuzzTarget {
  const char* name;
  // Must return, without a crash, a broken BONSAI_CHECK, a leak, more than a few ms or any trace in the next call.
  void (*run)(std::string_view input);
  // Inputs that reach deep into the code, as a start.
  std::vector<std::string> (*seeds)();
};

// The targets of this program, in no order.
inline std::vector<FuzzTarget>& fuzz_targets() {
  static std::vector<FuzzTarget> targets;
  return targets;
}

// The target of this name, or null.
inline const FuzzTarget* find_fuzz_target(std::string_view name) {
  const auto& all = fuzz_targets();
  const auto found = std::find_if(all.begin(), all.end(), [name](const FuzzTarget& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

// Registers a target. Define one object at namespace scope per target.
struct FuzzRegistration {
  FuzzRegistration(const char* name, void (*run)(std::string_view), std::vector<std::string> (*seeds)()) {
    fuzz_targets().push_back({name, run, seeds});
  }
};

// Reads values from an input, one after the other. After its end it returns zeros.
class FuzzInput {
 public:
  explicit FuzzInput(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::string_view taken = take_bytes(sizeof value);
    if (!taken.empty()) std::memcpy(static_cast<void*>(&value), taken.data(), taken.size());
    return value;
  }
  // At most `bytes` bytes.
  std::string_view take_bytes(size_t bytes) {
    const std::string_view taken = bytes_.substr(0, bytes);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  [[nodiscard]] std::string_view rest() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

// The reverse: makes an input from values.
template <class T>
std::string fuzz_bytes(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
template <class Byte, size_t kExtent>
requires(sizeof(Byte) == 1) std::string fuzz_bytes(const std::span<Byte, kExtent>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_FUZZ_H_
