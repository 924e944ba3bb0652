// SPDX-License-Identifier: Apache-2.0
// Whether a test runs under a sanitizer, which slows it down several times, has shadow memory, and keeps what was
// freed.
#ifndef BONSAI_BASE_TESTING_SANITIZED_H_
#define BONSAI_BASE_TESTING_SANITIZED_H_

namespace bonsai::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_TESTING_SANITIZED_H_
