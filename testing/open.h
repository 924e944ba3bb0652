// SPDX-License-Identifier: Apache-2.0
// DB::Open for tests that run on other media, too (base/testing/far.h).
#ifndef BONSAI_TESTING_OPEN_H_
#define BONSAI_TESTING_OPEN_H_

#include <memory>
#include <string>

#include "base/testing/far.h"
#include "bonsai/testing.h"
#include "testing/served.h"

namespace bonsai::testing {

// Returns the name by which the other calls of the public interface reach the pool.
inline std::string asked_name(const std::string& path) { return shm_asked() ? served(path) : path; }

inline Status open_db(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
  TestOptions test;
  const bool volatile_one = options.medium == MediumChoice::kDram;
  if (far_asked() && !volatile_one) test.medium = TestMedium::kFar;
  return OpenForTest(options, test, volatile_one ? path : asked_name(path), db);
}

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_OPEN_H_
