// SPDX-License-Identifier: Apache-2.0
#include "server/reply.h"

#include <charconv>

namespace bonsai::server {
namespace {

void append_number(std::string* out, int64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  out->append(digits, static_cast<size_t>(end.ptr - digits));
}

}  // namespace

void Reply::head(char type, size_t count) {
  out_ += type;
  append_number(&out_, static_cast<int64_t>(count));
  out_ += "\r\n";
}

void Reply::simple(std::string_view text) { out_.append("+").append(text).append("\r\n"); }

void Reply::error(std::string_view text) {
  out_ += '-';
  for (const char c : text) out_ += c == '\r' || c == '\n' ? ' ' : c;
  out_ += "\r\n";
}

void Reply::integer(int64_t value) {
  out_ += ':';
  append_number(&out_, value);
  out_ += "\r\n";
}

void Reply::bulk(std::string_view bytes) {
  head('$', bytes.size());
  out_.append(bytes).append("\r\n");
}

void Reply::text(std::string_view bytes) {
  if (protocol_ != 3) return bulk(bytes);
  head('=', bytes.size() + 4);
  out_.append("txt:").append(bytes).append("\r\n");
}

std::string error_text(const Status& status) {
  if (status.IsNoSpace()) return "OOM command not allowed: " + std::string(status.message());
  return "ERR " + status.ToString();
}

}  // namespace bonsai::server
