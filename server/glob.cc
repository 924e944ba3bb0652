// SPDX-License-Identifier: Apache-2.0
#include "server/glob.h"

#include <algorithm>
#include <cstddef>

namespace bonsai::server {
namespace {

// The bytes of the pattern's element at `at`, which is no star.
size_t element_bytes(std::string_view pattern, size_t at) {
  if (pattern[at] == '\\') return at + 1 < pattern.size() ? 2 : 1;
  if (pattern[at] != '[') return 1;
  size_t i = at + 1;
  if (i < pattern.size() && pattern[i] == '^') ++i;
  for (; i < pattern.size() && pattern[i] != ']'; ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
  }
  return (i < pattern.size() ? i + 1 : i) - at;
}

// `inside`: what is between the brackets.
bool class_has(std::string_view inside, char c) {
  const auto byte = [](char each) { return static_cast<unsigned char>(each); };
  const bool negated = inside.starts_with('^');
  if (negated) inside.remove_prefix(1);
  bool found = false;
  for (size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] == '\\' && i + 1 < inside.size()) {
      found |= inside[++i] == c;
    } else if (i + 2 < inside.size() && inside[i + 1] == '-') {
      const auto [low, high] = std::minmax({byte(inside[i]), byte(inside[i + 2])});
      found |= byte(c) >= low && byte(c) <= high;
      i += 2;
    } else {
      found |= inside[i] == c;
    }
  }
  return found != negated;
}

bool element_has(std::string_view element, char c) {
  if (element[0] == '?') return true;
  if (element[0] == '\\' && element.size() == 2) return element[1] == c;
  if (element[0] != '[') return element[0] == c;
  element.remove_prefix(1);
  if (element.ends_with(']')) element.remove_suffix(1);
  return class_has(element, c);
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, after_star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      star_text = t;
      continue;
    }
    if (p < pattern.size()) {
      const size_t bytes = element_bytes(pattern, p);
      if (element_has(pattern.substr(p, bytes), text[t])) {
        p += bytes;
        ++t;
        continue;
      }
    }
    if (after_star == std::string_view::npos) return false;
    p = after_star;  // the last star takes one byte more
    t = ++star_text;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string glob_prefix(std::string_view pattern) {
  std::string prefix;
  for (size_t i = 0; i < pattern.size() && pattern[i] != '*' && pattern[i] != '?' && pattern[i] != '['; ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    prefix += pattern[i];
  }
  return prefix;
}

std::string after_prefix(std::string_view prefix) {
  std::string after(prefix);
  while (!after.empty() && after.back() == '\xff') after.pop_back();
  if (!after.empty()) ++after.back();
  return after;
}

}  // namespace bonsai::server
