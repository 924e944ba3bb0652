// SPDX-License-Identifier: Apache-2.0
#include "admin/flag_parser.h"

#include <gflags/gflags.h>

#include <algorithm>

#include "admin/text.h"

namespace bonsai::admin {
namespace {

gflags::CommandLineFlagInfo info_of(std::string_view name) {
  return gflags::GetCommandLineFlagInfoOrDie(std::string(name).c_str());
}

bool is_bool(std::string_view name) { return info_of(name).type == "bool"; }

std::string list_of(const std::vector<std::string_view>& known) {
  std::string list;
  for (const std::string_view name : known) list.append(list.empty() ? "--" : " --").append(name);
  return list.empty() ? "none but --help" : list + " --help";
}

// The parts of a flag as typed.
struct Typed {
  std::string name;
  std::string value;
  bool has_value = false;
};

Typed take_apart(const std::string& argument) {
  Typed typed;
  const size_t equals = argument.find('=');
  typed.name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::replace(typed.name.begin(), typed.name.end(), '-', '_');
  typed.has_value = equals != std::string::npos;
  if (typed.has_value) typed.value = argument.substr(equals + 1);
  return typed;
}

// Turns --no-hex into hex=false.
void resolve_negation(const std::vector<std::string_view>& known, Typed* typed) {
  for (const std::string_view prefix : {"no_", "no"}) {
    if (typed->has_value || !typed->name.starts_with(prefix)) continue;
    const std::string positive = typed->name.substr(prefix.size());
    if (std::find(known.begin(), known.end(), positive) == known.end() || !is_bool(positive)) continue;
    *typed = {positive, "false", true};
    return;
  }
}

Status set(const Typed& typed) {
  if (!gflags::SetCommandLineOption(typed.name.c_str(), typed.value.c_str()).empty()) return Status::OK();
  const char* wanted = is_bool(typed.name) ? "true or false" : "a whole number";
  return Status::InvalidArgument("--" + typed.name + " is '" + escape(typed.value) + "'; give " + wanted);
}

}  // namespace

Status parse_flags(const std::vector<std::string>& arguments, const std::vector<std::string_view>& known,
                   Operands* operands) {
  bool flags_ended = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (flags_ended || !argument.starts_with("-") || argument == "-") {
      operands->words.push_back(argument);
      continue;
    }
    if (argument == "--") {
      flags_ended = true;
      continue;
    }
    if (argument == "-h" || argument == "--help") {
      operands->help = true;
      continue;
    }
    if (!argument.starts_with("--")) {
      return Status::InvalidArgument("'" + escape(argument) +
                                     "' is not a flag: flags start with --; put -- before a word that starts with -");
    }
    Typed typed = take_apart(argument);
    resolve_negation(known, &typed);
    if (std::find(known.begin(), known.end(), typed.name) == known.end()) {
      return Status::InvalidArgument("unknown flag '" + escape(argument) + "'; known here: " + list_of(known));
    }
    if (!typed.has_value) {
      if (!is_bool(typed.name) && i + 1 == arguments.size()) {
        return Status::InvalidArgument("--" + typed.name + " needs a value: --" + typed.name + "=...");
      }
      typed.value = is_bool(typed.name) ? "true" : arguments[++i];
    }
    if (Status status = set(typed); !status.ok()) return status;
  }
  return Status::OK();
}

bool flag_given(const char* name) { return !gflags::GetCommandLineFlagInfoOrDie(name).is_default; }

std::string flag_help(std::string_view name) {
  const gflags::CommandLineFlagInfo info = info_of(name);
  const size_t bar = info.description.rfind('|');  // the text before the last bar is the form of the value
  std::string form = info.description.substr(0, bar);
  std::string line = "  --" + std::string(name) + (form.empty() ? "" : "=" + form);
  line.resize(std::max(line.size() + 2, size_t{30}), ' ');
  return line + info.description.substr(bar + 1) + "\n";
}

}  // namespace bonsai::admin
