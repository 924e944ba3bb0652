// Test programs that run a second time on far media (base/nvm/far.h): BONSAI_TEST_MEDIUM = far, set by CTest for those
// that are registered with FAR (cmake/bonsai.cmake), and never by recompiling. Unset: each test on its own media.
#ifndef BONSAI_BASE_TESTING_FAR_H_
#define BONSAI_BASE_TESTING_FAR_H_

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace bonsai::testing {

[[nodiscard]] inline bool far_asked() {
  const char* word = std::getenv("BONSAI_TEST_MEDIUM");
  if (word == nullptr || *word == '\0') return false;
  if (std::string_view(word) == "far") return true;
  std::fprintf(stderr, "BONSAI_TEST_MEDIUM=%s: use far, or leave it out\n", word);
  std::exit(2);
}

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_FAR_H_
