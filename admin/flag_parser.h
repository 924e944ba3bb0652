// SPDX-License-Identifier: Apache-2.0
// The command line of a program: gflags holds the values; the words are read here, so that a command accepts only the
// flags that mean something to it and errors and help say nothing of gflags. The description of a flag is
// "FORM|WHAT": the form of its value, and what it is for.
#ifndef BONSAI_ADMIN_FLAG_PARSER_H_
#define BONSAI_ADMIN_FLAG_PARSER_H_

#include <string>
#include <string_view>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::admin {

struct Operands {
  std::vector<std::string> words;  // what is neither a flag nor the value of one
  bool help = false;               // --help or -h was among them
};

// Sets the flags named in `arguments`; `known` lists those that the command has. A flag is --name=value or
// --name value; a boolean is --name or --no-name; words may be joined by - or _; after -- nothing is a flag.
// Errors: InvalidArgument (unknown flag, value missing or malformed), listing the known flags.
Status parse_flags(const std::vector<std::string>& arguments, const std::vector<std::string_view>& known,
                   Operands* operands);

// Whether the flag was given on the command line.
bool flag_given(const char* name);

// One line of help for a flag, e.g. "--bytes=SIZE    size of ...".
std::string flag_help(std::string_view name);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_FLAG_PARSER_H_
