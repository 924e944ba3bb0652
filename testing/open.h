// SPDX-License-Identifier: Apache-2.0
// DB::Open for tests that run on other media, too (base/testing/far.h).
#ifndef BONSAI_TESTING_OPEN_H_
#define BONSAI_TESTING_OPEN_H_

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "base/testing/far.h"
#include "base/units.h"
#include "bonsai/testing.h"
#include "testing/served.h"

namespace bonsai::testing {

// Striped: a pool of one file is one of three with as many bytes together. One of several files keeps these; roles are
// for what they are.
[[nodiscard]] inline bool is_striped(const std::string& path) {
  return striped_asked() && path.find('?') == std::string::npos;
}
[[nodiscard]] inline bool is_divided(const std::string& path) {
  return is_striped(path) && path.find(',') == std::string::npos;
}

// The pool's files, as a name.
inline std::string file_names(const std::string& path) {
  return is_divided(path) ? path + "," + path + ".1," + path + ".2" : path;
}
// Returns the name by which the other calls of the public interface reach the pool.
inline std::string asked_name(const std::string& path) { return shm_asked() ? served(path) : file_names(path); }

// The options with which open_db() opens a pool.
inline Options asked_options(const Options& options, const std::string& path) {
  if (!is_striped(path)) return options;
  constexpr uint64_t kSmallUnitsBytes = 32 * base::kMiB;  // larger pools have too many small units to be mapped
  const auto part = [&path](uint64_t bytes) {
    const bool divided = is_divided(path) && bytes >= kPoolBytesMin && bytes <= kPoolBytesMax;
    return divided ? std::max(kPoolBytesMin, bytes / 3 / base::kPageBytes * base::kPageBytes) : bytes;
  };
  Options own = options;
  own.pool_bytes = part(options.pool_bytes);
  own.grow_bytes = part(options.grow_bytes);
  if (options.create_if_missing && !std::filesystem::exists(path.substr(0, path.find(',')))) {
    own.layout = LayoutChoice::kSoftware;
    own.stripe_unit_bytes = own.pool_bytes <= kSmallUnitsBytes ? base::kPageBytes : kStripeUnitDefault;
  }
  return own;
}

inline Status open_db(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
  TestOptions test;
  if (options.medium == MediumChoice::kDram) return OpenForTest(options, test, path, db);
  if (far_asked()) test.medium = TestMedium::kFar;
  return OpenForTest(asked_options(options, path), test, asked_name(path), db);
}

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_OPEN_H_
