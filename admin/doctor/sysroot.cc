// SPDX-License-Identifier: Apache-2.0
#include "admin/doctor/sysroot.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace bonsai::admin {
namespace {

constexpr size_t kReadBytesMax = size_t{16} << 20;

}  // namespace

bool SysRoot::exists(std::string_view path) const { return access(resolve(path).c_str(), F_OK) == 0; }

bool SysRoot::writable(std::string_view path) const { return access(resolve(path).c_str(), W_OK) == 0; }

std::optional<std::string> SysRoot::read(std::string_view path) const {
  std::ifstream in(resolve(path), std::ios::binary);
  if (!in) return std::nullopt;
  std::string text;
  std::string piece(4096, '\0');
  while (text.size() < kReadBytesMax) {  // the size of a file in /proc or /sys is only known by reading it
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece, 0, static_cast<size_t>(in.gcount()));
    if (!in) break;
  }
  if (in.bad()) return std::nullopt;
  text.erase(text.find_last_not_of(" \t\n") + 1);
  return text;
}

std::optional<uint64_t> SysRoot::read_number(std::string_view path) const {
  const std::optional<std::string> text = read(path);
  uint64_t number = 0;
  if (!text || text->empty()) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return number;
}

std::vector<std::string> SysRoot::lines(std::string_view path) const {
  std::istringstream in(read(path).value_or(""));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> SysRoot::list(std::string_view path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(resolve(path), error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<SysRoot::Space> SysRoot::space(std::string_view path) const {
  struct statvfs found;
  if (statvfs(resolve(path).c_str(), &found) != 0) return std::nullopt;
  return Space{uint64_t{found.f_blocks} * found.f_frsize, uint64_t{found.f_bavail} * found.f_frsize};
}

}  // namespace bonsai::admin
