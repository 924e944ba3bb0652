// Assertions of invariants: on in every build, because a broken invariant must stop the program before it harms data.
#ifndef BONSAI_BASE_CHECK_H_
#define BONSAI_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace bonsai::base {

[[noreturn]] inline void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, what);
  std::abort();
}

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

#endif  // BONSAI_BASE_CHECK_H_
