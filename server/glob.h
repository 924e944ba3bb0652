// SPDX-License-Identifier: Apache-2.0
// Patterns of KEYS, SCAN and CONFIG GET, as in Redis: * ? [abc] [a-c] [^a] and \ before a character that stands for
// itself.
#ifndef BONSAI_SERVER_GLOB_H_
#define BONSAI_SERVER_GLOB_H_

#include <string>
#include <string_view>

namespace bonsai::server {

// Whether `text` matches. Time: at most the product of both lengths.
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view text);

// The bytes with which every text begins that matches.
[[nodiscard]] std::string glob_prefix(std::string_view pattern);

// The least text after all that begin with `prefix`; empty: there is none.
[[nodiscard]] std::string after_prefix(std::string_view prefix);

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_GLOB_H_
