// SPDX-License-Identifier: Apache-2.0
#include "server/testing/resp.h"

#include <cstdlib>

#include "base/check.h"

namespace bonsai::server {
namespace {

bool take_line(std::string_view* bytes, std::string_view* line) {
  const size_t end = bytes->find("\r\n");
  if (end == std::string_view::npos) return false;
  *line = bytes->substr(0, end);
  bytes->remove_prefix(end + 2);
  return true;
}

bool take_elements(std::string_view* bytes, int64_t count, Value* value) {
  for (int64_t i = 0; i < count; ++i) {
    if (!take_reply(bytes, &value->elements.emplace_back())) return false;
  }
  return true;
}

bool take_whole(std::string_view* bytes, Value* value) {
  std::string_view line;
  if (!take_line(bytes, &line)) return false;
  BONSAI_CHECK(!line.empty());
  value->type = line[0];
  value->text = line.substr(1);
  const bool counted = std::string_view("$*%~=").find(line[0]) != std::string_view::npos;
  BONSAI_CHECK(counted || std::string_view("+-:_").find(line[0]) != std::string_view::npos);
  if (!counted) return true;
  const int64_t count = std::strtoll(value->text.c_str(), nullptr, 10);
  BONSAI_CHECK(std::to_string(count) == value->text && count >= -1);
  value->text.clear();
  value->null = count < 0;
  if (line[0] != '$' && line[0] != '=') return take_elements(bytes, line[0] == '%' ? 2 * count : count, value);
  if (count < 0) return true;
  const auto size = static_cast<size_t>(count);
  if (bytes->size() < size + 2) return false;
  BONSAI_CHECK(bytes->substr(size, 2) == "\r\n");
  value->text = bytes->substr(0, size);
  bytes->remove_prefix(size + 2);
  return true;
}

}  // namespace

std::string request(const std::vector<std::string>& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return bytes;
}

std::string Value::show() const {
  if (null || type == '_') return "null";
  if (type != '*' && type != '%' && type != '~') return type + text;
  std::string all;
  for (const Value& each : elements) all += (all.empty() ? "" : " ") + each.show();
  return type + ("[" + all + "]");
}

bool take_reply(std::string_view* bytes, Value* value) {
  std::string_view rest = *bytes;
  *value = Value();
  if (!take_whole(&rest, value)) return false;
  *bytes = rest;
  return true;
}

std::string show_replies(std::string_view bytes) {
  std::string all;
  for (Value value; !bytes.empty();) {
    BONSAI_CHECK(take_reply(&bytes, &value));
    all += (all.empty() ? "" : " ") + value.show();
  }
  return all;
}

}  // namespace bonsai::server
