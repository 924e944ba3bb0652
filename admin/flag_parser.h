// SPDX-License-Identifier: Apache-2.0
// Parses the command line of a program; gflags holds the values. A command thus accepts only its own flags, and neither
// errors nor help mention gflags. The description of a flag is "FORM|WHAT": the form of its value, and its purpose.
#ifndef BONSAI_ADMIN_FLAG_PARSER_H_
#define BONSAI_ADMIN_FLAG_PARSER_H_

#include <string>
#include <string_view>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::admin {

struct Operands {
  std::vector<std::string> words;  // arguments that are neither a flag nor the value of one
  bool help = false;               // --help or -h was among them
};

// Sets the flags named in `arguments`; `known` lists the command's flags. A flag is --name=value or --name value; a
// boolean is --name or --no-name. In names, - and _ are equal. Arguments after -- are not flags.
// Errors: InvalidArgument (unknown flag, value missing or malformed), listing the known flags.
Status parse_flags(const std::vector<std::string>& arguments, const std::vector<std::string_view>& known,
                   Operands* operands);

// Whether the flag was given on the command line.
bool flag_given(const char* name);

// One line of help for a flag, e.g. "--bytes=SIZE    size of ...".
std::string flag_help(std::string_view name);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_FLAG_PARSER_H_
