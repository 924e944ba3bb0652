// SPDX-License-Identifier: Apache-2.0
// Assertions of invariants: on in every build, because a broken invariant must stop the program before it damages data.
#ifndef BONSAI_BASE_CHECK_H_
#define BONSAI_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace bonsai::base {

[[noreturn, gnu::cold, gnu::noinline]] inline void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, what);
  std::abort();
}

#ifdef BONSAI_STEPPED
// Whether a broken invariant may pass, because a test has switched off the rule that keeps it (testing/mutants.h).
inline bool (*broken_invariants_pass)() = nullptr;

inline void invariant_failed(const char* file, int line, const char* what) {
  if (broken_invariants_pass == nullptr || !broken_invariants_pass()) check_failed(file, line, what);
}
#else
[[noreturn, gnu::cold, gnu::noinline]] inline void invariant_failed(const char* file, int line, const char* what) {
  check_failed(file, line, what);
}
#endif

}  // namespace bonsai::base

// Asserts `condition`, always. For conditions that are cheap beside the work around them.
#define BONSAI_CHECK(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::bonsai::base::check_failed(__FILE__, __LINE__, #condition))

// Asserts in debug and sanitizer builds only: for hot paths.
#ifdef NDEBUG
#define BONSAI_DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#else
#define BONSAI_DCHECK(condition) BONSAI_CHECK(condition)
#endif

// Asserts one of the numbered invariants of a room's README, always. Requires: cheap beside the work around it.
#define BONSAI_INVARIANT(condition)                    \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::bonsai::base::invariant_failed(__FILE__, __LINE__, #condition))

// Asserts an invariant whose check visits a whole structure: in checked builds only (CMake option BONSAI_CHECKED;
// preset asan).
#ifdef BONSAI_CHECKED
#define BONSAI_SLOW_INVARIANT(condition) BONSAI_INVARIANT(condition)
#else
#define BONSAI_SLOW_INVARIANT(condition) static_cast<void>(sizeof(!(condition)))
#endif

#endif  // BONSAI_BASE_CHECK_H_
