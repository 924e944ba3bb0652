// The program's flags: gflags holds the values; the command line is read here, so that a command accepts only the flags
// that mean something to it and errors and help say nothing of gflags.
#ifndef BONSAI_ADMIN_FLAGS_H_
#define BONSAI_ADMIN_FLAGS_H_

#include <gflags/gflags_declare.h>

#include <string>
#include <string_view>
#include <vector>

#include "bonsai/status.h"

DECLARE_string(pool);
DECLARE_bool(create);
DECLARE_string(bytes);
DECLARE_string(log_bytes);
DECLARE_string(key);
DECLARE_string(durability);
DECLARE_string(domain);
DECLARE_string(medium);
DECLARE_bool(hex);
DECLARE_bool(json);
DECLARE_string(from);
DECLARE_string(after);
DECLARE_string(end);
DECLARE_uint64(limit);
DECLARE_string(value_file);
DECLARE_string(root);

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

#endif  // BONSAI_ADMIN_FLAGS_H_
