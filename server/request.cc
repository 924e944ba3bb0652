// SPDX-License-Identifier: Apache-2.0
#include "server/request.h"

#include <charconv>

#include "base/check.h"

namespace bonsai::server {
namespace {

constexpr size_t kLengthLineBytesMax = 32;  // of "*N" and "$N"
constexpr size_t kSpansKept = 64;           // memory for more arguments is given back

bool parse_length(std::string_view digits, int64_t* length) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *length);
  return error == std::errc() && end == digits.data() + digits.size();
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string shown(char c) { return c >= ' ' && c <= '~' ? std::string(1, c) : "?"; }

}  // namespace

RequestParser::Result RequestParser::broken(std::string error) {
  error_ = "Protocol error: " + std::move(error);
  return Result::kBroken;
}

void RequestParser::next() {
  at_ = searched_ = 0;
  wanted_ = 1;
  arguments_left_ = argument_bytes_ = -1;
  found_.clear();
  if (found_.capacity() > kSpansKept) found_.shrink_to_fit();
}

// The line at `at_`, without its end; then `at_` is after it.
RequestParser::Result RequestParser::parse_line(std::string_view bytes, std::string_view* line, size_t bytes_max) {
  searched_ = searched_ < at_ ? at_ : searched_;
  const size_t end = bytes.find('\n', searched_);
  if (end == std::string_view::npos) {
    searched_ = bytes.size();
    wanted_ = bytes.size() + 1;
    return bytes.size() - at_ > bytes_max ? Result::kBroken : Result::kMore;
  }
  if (end - at_ > bytes_max) return Result::kBroken;
  *line = bytes.substr(at_, end - at_);
  if (line->ends_with('\r')) line->remove_suffix(1);
  at_ = end + 1;
  return Result::kRequest;
}

RequestParser::Result RequestParser::parse_inline(std::string_view bytes) {
  std::string_view line;
  const Result result = parse_line(bytes, &line, kInlineBytesMax);
  if (result == Result::kBroken) return broken("too big inline request");
  if (result == Result::kMore) return result;
  if (line.find_first_of("\"'") != std::string_view::npos) {
    return broken("quotes in an inline request are not supported; send an array of bulk strings, as clients do");
  }
  for (size_t i = 0; i < line.size();) {
    if (is_blank(line[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < line.size() && !is_blank(line[i])) ++i;
    found_.emplace_back(static_cast<uint32_t>(begin), static_cast<uint32_t>(i - begin));
  }
  return Result::kRequest;
}

RequestParser::Result RequestParser::parse_argument(std::string_view bytes, const RequestLimits& limits) {
  if (argument_bytes_ < 0) {
    if (at_ < bytes.size() && bytes[at_] != '$') return broken("expected '$', got '" + shown(bytes[at_]) + "'");
    std::string_view line;
    const Result result = parse_line(bytes, &line, kLengthLineBytesMax);
    if (result == Result::kBroken) return broken("too big bulk count string");
    if (result == Result::kMore) return result;
    int64_t length = -1;
    if (!parse_length(line.substr(1), &length) || length < 0 ||
        static_cast<uint64_t>(length) > limits.argument_bytes_max) {
      return broken("invalid bulk length (this server takes 0 to " + std::to_string(limits.argument_bytes_max) + ")");
    }
    argument_bytes_ = length;
  }
  const size_t end = at_ + static_cast<size_t>(argument_bytes_);
  if (end + 2 > limits.request_bytes_max) {
    return broken("request too big (this server takes " + std::to_string(limits.request_bytes_max) + " bytes)");
  }
  wanted_ = end + 2;
  if (bytes.size() < wanted_) return Result::kMore;
  if (bytes.substr(end, 2) != "\r\n") return broken("expected CRLF after a bulk string");
  found_.emplace_back(static_cast<uint32_t>(at_), static_cast<uint32_t>(argument_bytes_));
  at_ = end + 2;
  argument_bytes_ = -1;
  --arguments_left_;
  return Result::kRequest;
}

RequestParser::Result RequestParser::parse(std::string_view bytes, const RequestLimits& limits) {
  BONSAI_CHECK(at_ <= bytes.size() && limits.request_bytes_max <= kRequestBytesLimit);
  if (arguments_left_ < 0) {
    if (bytes.empty()) return Result::kMore;
    if (bytes[0] != '*') return parse_inline(bytes);
    std::string_view line;
    const Result result = parse_line(bytes, &line, kLengthLineBytesMax);
    if (result == Result::kBroken) return broken("too big mbulk count string");
    if (result == Result::kMore) return result;
    int64_t count = 0;
    if (!parse_length(line.substr(1), &count) || (count > 0 && static_cast<uint64_t>(count) > limits.arguments_max)) {
      return broken("invalid multibulk length (this server takes up to " + std::to_string(limits.arguments_max) + ")");
    }
    arguments_left_ = count < 0 ? 0 : count;
  }
  while (arguments_left_ > 0) {
    const Result result = parse_argument(bytes, limits);
    if (result != Result::kRequest) return result;
  }
  return Result::kRequest;
}

void RequestParser::arguments(std::string_view bytes, std::vector<std::string_view>* arguments) const {
  arguments->clear();
  for (const auto& [place, length] : found_) arguments->push_back(bytes.substr(place, length));
}

}  // namespace bonsai::server
