// SPDX-License-Identifier: Apache-2.0
// Test programs that run once more on other media: BONSAI_TEST_MEDIUM = far (base/nvm/far.h), shm (a node serves pools,
// testing/open.h, or media, scale/testing/served_medium.h) or striped (each pool is striped over several files,
// testing/open.h), set by CTest for those that are registered with MEDIA (cmake/bonsai.cmake), and never by
// recompiling. Unset: each test on its own media.
#ifndef BONSAI_BASE_TESTING_FAR_H_
#define BONSAI_BASE_TESTING_FAR_H_

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace bonsai::testing {

namespace detail {
inline std::string_view asked_medium() {
  const char* word = std::getenv("BONSAI_TEST_MEDIUM");
  if (word == nullptr || *word == '\0') return "";
  const std::string_view asked = word;
  if (asked == "far" || asked == "shm" || asked == "striped") return asked;
  std::fprintf(stderr, "BONSAI_TEST_MEDIUM=%s: use far, shm or striped, or leave it out\n", word);
  std::exit(2);
}
}  // namespace detail

[[nodiscard]] inline bool far_asked() { return detail::asked_medium() == "far"; }
[[nodiscard]] inline bool shm_asked() { return detail::asked_medium() == "shm"; }
[[nodiscard]] inline bool striped_asked() { return detail::asked_medium() == "striped"; }
// True if the bytes are on another node: fences send stores there, and reads fetch from there.
[[nodiscard]] inline bool other_side_asked() { return far_asked() || shm_asked(); }

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_FAR_H_
