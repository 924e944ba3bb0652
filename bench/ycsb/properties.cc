// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/properties.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/status_macros.h"

namespace bonsai::bench {
namespace {

constexpr std::string_view kBlanks = " \t\f\r";

std::string_view trim_front(std::string_view text) {
  const size_t start = text.find_first_not_of(kBlanks);
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

std::string_view trim(std::string_view text) {
  text = trim_front(text);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Takes the next physical line off `rest`.
std::string_view take_line(std::string_view* rest) {
  const size_t end = rest->find('\n');
  std::string_view line = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

bool continues(std::string_view line) {
  size_t backslashes = 0;
  while (backslashes < line.size() && line[line.size() - 1 - backslashes] == '\\') ++backslashes;
  return backslashes % 2 == 1;
}

bool name_is_plain(std::string_view name) {
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
         std::string_view::npos;
}

// Splits one logical line at the first '=', ':' or blank, as java.util.Properties does.
Status split(std::string_view line, const std::string& where, std::string* name, Property* property) {
  const size_t name_end = line.find_first_of("=: \t\f");
  const std::string_view raw_name = line.substr(0, name_end);
  if (raw_name.empty()) {
    return Status::InvalidArgument(where + ": a value without a name; write name=value, or # before a comment");
  }
  if (!name_is_plain(raw_name)) {
    return Status::InvalidArgument(where + ": '" + std::string(raw_name) +
                                   "' is no property name (letters, digits, '.', '_' and '-'); write name=value");
  }
  std::string_view value;
  if (name_end != std::string_view::npos) {
    value = trim_front(line.substr(name_end));
    if (!value.empty() && (value.front() == '=' || value.front() == ':')) value.remove_prefix(1);
    value = trim(value);
  }
  if (value.empty()) {
    return Status::InvalidArgument(where + ": '" + std::string(raw_name) + "' has no value; write " +
                                   std::string(raw_name) + "=value, or remove the line");
  }
  *name = raw_name;
  *property = {std::string(value), where};
  return Status::OK();
}

}  // namespace

Status Properties::parse(std::string_view text, const std::string& source) {
  std::map<std::string, Property> parsed = all_;
  size_t line_number = 0;
  while (!text.empty()) {
    const std::string where = source + ":" + std::to_string(++line_number);
    std::string logical(trim_front(take_line(&text)));
    if (logical.empty() || logical[0] == '#' || logical[0] == '!') continue;
    if (logical.find('\0') != std::string::npos) {
      return Status::InvalidArgument(where + ": holds a zero byte; give a text file of name=value lines");
    }
    while (continues(logical)) {
      if (text.empty()) {
        return Status::InvalidArgument(where + ": the last line ends in '\\'; remove the backslash");
      }
      logical.pop_back();
      logical += trim_front(take_line(&text));
      ++line_number;
    }
    std::string name;
    Property property;
    BONSAI_RETURN_IF_ERROR(split(trim(logical), where, &name, &property));
    parsed[name] = std::move(property);
  }
  all_ = std::move(parsed);
  return Status::OK();
}

Status Properties::set(std::string_view assignment, const std::string& where) {
  if (assignment.find('=') == std::string_view::npos) {
    return Status::InvalidArgument(where + ": '" + std::string(assignment) + "' is no property; write name=value");
  }
  if (assignment.find('\0') != std::string_view::npos) {
    return Status::InvalidArgument(where + ": holds a zero byte; write name=value");
  }
  std::string name;
  Property property;
  BONSAI_RETURN_IF_ERROR(split(trim(assignment), where, &name, &property));
  all_[name] = std::move(property);
  return Status::OK();
}

void Properties::merge(const Properties& other) {
  for (const auto& [name, property] : other.all_) all_[name] = property;
}

Status Properties::read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status::IoError("cannot open " + path + ": " + std::strerror(errno) + "; check the path");
  std::string text(kPropertyFileBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return Status::IoError("cannot read " + path + "; is it a regular file?");
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kPropertyFileBytesMax) {
    return Status::InvalidArgument(path + ": larger than 1 MiB, so it is no property file; give a YCSB workload file");
  }
  return parse(text, path);
}

const Property* Properties::find(const std::string& name) const {
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

}  // namespace bonsai::bench
