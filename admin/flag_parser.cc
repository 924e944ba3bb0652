// SPDX-License-Identifier: Apache-2.0
#include "admin/flag_parser.h"

#include <gflags/gflags.h>

#include <algorithm>

#include "admin/text.h"

namespace bonsai::admin {
namespace {

using Names = std::vector<std::string_view>;

// The name that gflags has for a flag.
std::string canonical(std::string_view name) {
  std::string with_underscores(name);
  std::replace(with_underscores.begin(), with_underscores.end(), '-', '_');
  return with_underscores;
}

gflags::CommandLineFlagInfo info_of(std::string_view name) {
  return gflags::GetCommandLineFlagInfoOrDie(canonical(name).c_str());
}

bool is_bool(std::string_view name) { return info_of(name).type == "bool"; }

// The form of the value, and the purpose. The text before the last bar of a description is the form.
struct Description {
  std::string form, purpose;
};

Description take_apart(const std::string& text) {
  const size_t bar = text.rfind('|');
  if (bar == std::string::npos) return {"", text};
  return {text.substr(0, bar), text.substr(bar + 1)};
}

std::string spell(std::string_view name) { return (name.size() == 1 ? "-" : "--") + std::string(name); }

std::string spell(std::string_view name, std::string_view value) {
  return spell(name).append(name.size() == 1 ? " " : "=").append(value);
}

// How the flag is written: with the form of its value, or else with its default.
std::string example_of(std::string_view name) {
  const gflags::CommandLineFlagInfo info = info_of(name);
  const std::string form = take_apart(info.description).form;
  if (form.empty() && !info.default_value.empty()) return ", for example " + spell(name, info.default_value);
  return ": " + spell(name, form.empty() ? "..." : form);
}

Status without_value(std::string_view name) {
  return Status::InvalidArgument(spell(name) + " needs a value" + example_of(name));
}

// One argument that is a flag, as it was typed.
struct Typed {
  std::string name;
  std::string value;
  bool has_value = false;
};

// Reads one command line; see parse_flags().
class CommandLine {
 public:
  CommandLine(const std::vector<std::string>& arguments, const Names& known, bool* help,
              std::vector<std::string>* operands)
      : arguments_(arguments), known_(known), help_(help), operands_(operands) {}

  Status parse() {
    while (next_ < arguments_.size()) {
      const std::string& argument = arguments_[next_++];
      if (argument == "--" && operands_ != nullptr) {
        operands_->insert(operands_->end(), arguments_.begin() + static_cast<ptrdiff_t>(next_), arguments_.end());
        return Status::OK();
      }
      if (Status status = parse_one(argument); !status.ok()) return status;
    }
    return Status::OK();
  }

 private:
  Status parse_one(const std::string& argument) {
    const size_t dashes = std::min(argument.find_first_not_of('-'), argument.size());
    if (dashes == 0 || dashes > 2 || dashes == argument.size()) return take_operand(argument, dashes);
    const size_t equals = argument.find('=');
    const bool has_value = equals != std::string::npos;
    const Typed typed{argument.substr(dashes, has_value ? equals - dashes : equals),
                      has_value ? argument.substr(equals + 1) : "", has_value};
    if (help_ != nullptr && !has_value && (typed.name == "help" || typed.name == "h")) {
      *help_ = true;
      return Status::OK();
    }
    if (const std::string_view* name = find(typed.name)) return take_flag(*name, typed);
    if (const std::string_view* name = has_value ? nullptr : find_negated(typed.name)) return set(*name, "false");
    return unknown(argument, dashes);
  }

  Status take_operand(const std::string& argument, size_t dashes) {
    if (operands_ == nullptr) {
      return Status::InvalidArgument("'" + escape(argument) + "' is no flag; write --name=value (--help shows them)");
    }
    if (dashes > 1) return unknown(argument, dashes);
    operands_->push_back(argument);
    return Status::OK();
  }

  Status take_flag(std::string_view name, const Typed& typed) {
    if (typed.has_value) return set(name, typed.value);
    if (is_bool(name)) return set(name, "true");
    return next_ < arguments_.size() ? set(name, arguments_[next_++]) : without_value(name);
  }

  static Status set(std::string_view name, std::string value) {
    const gflags::CommandLineFlagInfo info = info_of(name);
    if (take_apart(info.description).form.ends_with("...")) {
      if (value.empty() || value.find(kRepeated) != std::string::npos) return without_value(name);
      if (!info.is_default) value = info.current_value + kRepeated + value;
    }
    const bool is_text = info.type == "string";
    const bool is_negative = !is_text && value.find('-') != std::string::npos;  // " -1" is 2^64 - 1 to gflags
    if (!is_negative && !gflags::SetCommandLineOption(info.name.c_str(), value.c_str()).empty()) return Status::OK();
    return Status::InvalidArgument(spell(name, escape(value)) + " is no value for it; give " +
                                   (is_bool(name) ? "true or false" : "a whole number") + example_of(name));
  }

  [[nodiscard]] Status unknown(const std::string& argument, size_t dashes) const {
    std::string list;
    for (const std::string_view name : known_) list += spell(name) + " ";
    const bool may_be_operand = operands_ != nullptr && dashes == 1;
    return Status::InvalidArgument("unknown flag '" + escape(argument) + "'; known here: " + list + "--help" +
                                   (may_be_operand ? "; put -- before a word that starts with -" : ""));
  }

  // The flag with this name; null: none is known.
  [[nodiscard]] const std::string_view* find(std::string_view name) const {
    const std::string wanted = canonical(name);
    const auto found =
        std::find_if(known_.begin(), known_.end(), [&](std::string_view each) { return canonical(each) == wanted; });
    return found == known_.end() ? nullptr : &*found;
  }

  // The boolean that --no-name or --noname sets to false; null: none is known.
  [[nodiscard]] const std::string_view* find_negated(std::string_view name) const {
    for (const std::string_view prefix : {"no-", "no_", "no"}) {
      if (!name.starts_with(prefix)) continue;
      const std::string_view* positive = find(name.substr(prefix.size()));
      if (positive != nullptr && is_bool(*positive)) return positive;
    }
    return nullptr;
  }

  const std::vector<std::string>& arguments_;
  const Names& known_;
  bool* const help_;
  std::vector<std::string>* const operands_;
  size_t next_ = 0;  // the argument to be read next
};

}  // namespace

Status parse_flags(const std::vector<std::string>& arguments, const Names& known, bool* help,
                   std::vector<std::string>* operands) {
  return CommandLine(arguments, known, help, operands).parse();
}

bool flag_given(const char* name) { return !gflags::GetCommandLineFlagInfoOrDie(name).is_default; }

std::string flag_help(std::string_view name) {
  const auto [form, purpose] = take_apart(info_of(name).description);
  std::string line = "  " + (form.empty() ? spell(name) : spell(name, form));
  line.resize(std::max(line.size() + 2, size_t{30}), ' ');
  return line + purpose + "\n";
}

}  // namespace bonsai::admin
