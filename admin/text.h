// SPDX-License-Identifier: Apache-2.0
// Bytes and numbers in the form that people type and read.
#ifndef BONSAI_ADMIN_TEXT_H_
#define BONSAI_ADMIN_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "bonsai/options.h"
#include "bonsai/status.h"

namespace bonsai::admin {

// Printable ASCII as it is; backslash, tab, newline, return as \\ \t \n \r; every other byte as \xHH. Reversible.
std::string escape(std::string_view bytes);

// The reverse of escape(). Errors: InvalidArgument (an unknown or unfinished escape).
Status unescape(std::string_view text, std::string* bytes);

std::string to_hex(std::string_view bytes);
// Errors: InvalidArgument (odd length, not a hex digit).
Status from_hex(std::string_view hex, std::string* bytes);

// A whole decimal number. Errors: InvalidArgument, naming `what`.
Status parse_number(std::string_view text, std::string_view what, uint64_t* number);

// A size such as 65536, 64K, 512M, 1G, 2T, also 64KiB or 64KB; units are powers of 1024. Errors: InvalidArgument.
Status parse_size(std::string_view text, std::string_view what, uint64_t* bytes);

// E.g. "17 B", "64.0 KiB", "1.5 GiB".
std::string human_size(uint64_t bytes);

// E.g. "0 records", "1 record", "2 records". `one`: the word for one of them.
std::string count_of(uint64_t count, std::string_view one);

// A line of a table of two columns: a name and what it has.
std::string row(std::string_view name, const std::string& value);

// The text form of a pool's keys: byte strings unchanged, fixed8 as decimal numbers, both as hex on request.
struct KeyText {
  KeyFormat format = KeyFormat::kBytes;
  bool hex = false;

  // Errors: InvalidArgument. The store checks bounds of length.
  Status parse(std::string_view text, std::string* key) const;
  [[nodiscard]] std::string show(std::string_view key) const;
};

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_TEXT_H_
