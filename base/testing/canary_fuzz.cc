// SPDX-License-Identifier: Apache-2.0
// A target with a planted fault, after comparisons that random bytes do not pass: scripts/fuzz.py must find it before
// it accepts that other targets have none.
#include "base/check.h"
#include "base/testing/fuzz.h"

namespace bonsai::testing {
namespace {

void run(std::string_view input) {
  const bool planted = input.size() == 4 && input[0] == 'b' && input[1] == 'u' && input[2] == 'g' && input[3] == '!';
  BONSAI_CHECK(!planted);
}

std::vector<std::string> seeds() { return {"seed"}; }

const FuzzRegistration canary("canary", run, seeds);

}  // namespace
}  // namespace bonsai::testing
