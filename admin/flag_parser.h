// SPDX-License-Identifier: Apache-2.0
// The flag front end of all programs: parses a command line; gflags holds the values. A command line thus accepts only
// the flags that its program lists, and neither errors nor help mention gflags. The description of a flag is
// "FORM|WHAT" or "WHAT": the form of its value, and its purpose. If FORM ends with "...", the flag may be repeated.
#ifndef BONSAI_ADMIN_FLAG_PARSER_H_
#define BONSAI_ADMIN_FLAG_PARSER_H_

#include <string>
#include <string_view>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::admin {

inline constexpr char kRepeated = '\n';  // between the values of a flag that was repeated

// Sets the flags named in `arguments`. `known` lists the flags that are accepted, spelled as messages show them.
//  - A flag is --name=value or --name value; a boolean is --name or --no-name. One dash is as good as two. In names, -
//    and _ are equal. The last value of a flag counts, but a flag that may be repeated keeps all.
//  - Other arguments are operands, and so are all after --. If `operands` is null, there can be none.
//  - *help is set if --help or -h is among the arguments. If `help` is null, it is an unknown flag.
// Requires: gflags has each flag of `known`.
// Errors: InvalidArgument (unknown flag, value missing or malformed, operand where there can be none), with the remedy.
Status parse_flags(const std::vector<std::string>& arguments, const std::vector<std::string_view>& known, bool* help,
                   std::vector<std::string>* operands);

// Whether the flag was given on the command line.
bool flag_given(const char* name);

// One line of help for a flag, e.g. "--bytes=SIZE    size of ...".
std::string flag_help(std::string_view name);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_FLAG_PARSER_H_
