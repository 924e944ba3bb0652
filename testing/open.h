// DB::Open for tests that run on far media, too (base/testing/far.h).
#ifndef BONSAI_TESTING_OPEN_H_
#define BONSAI_TESTING_OPEN_H_

#include <memory>
#include <string>

#include "base/testing/far.h"
#include "bonsai/testing.h"

namespace bonsai::testing {

inline Status open_db(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
  TestOptions test;
  if (far_asked() && options.medium != MediumChoice::kDram) test.medium = TestMedium::kFar;
  return OpenForTest(options, test, path, db);
}

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_OPEN_H_
