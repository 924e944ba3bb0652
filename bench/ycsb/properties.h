// SPDX-License-Identifier: Apache-2.0
// Java-style property files, as YCSB reads them: one `name=value` (or `name: value`, `name value`) per line, comments
// after # or !, a backslash at the end of a line continues it.
//
// Every property remembers where it was set, so that later errors about its value name the line.
#ifndef BONSAI_BENCH_YCSB_PROPERTIES_H_
#define BONSAI_BENCH_YCSB_PROPERTIES_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "bonsai/status.h"

namespace bonsai::bench {

inline constexpr size_t kPropertyFileBytesMax = size_t{1} << 20;

struct Property {
  std::string value;
  std::string where;  // "file:line"
};

class Properties {
 public:
  // Parses `text`, which came from `source` (a name for messages). A name that is set twice keeps its last value, as in
  // YCSB. Errors: InvalidArgument with source:line, the fault there, and the remedy; *this is then unchanged.
  Status parse(std::string_view text, const std::string& source);

  // Reads and parses a file. Errors: IoError (missing, unreadable), InvalidArgument (as parse, or too large).
  Status read_file(const std::string& path);

  // Sets one property from "name=value", which stood at `where`. Errors: InvalidArgument, as parse.
  Status set(std::string_view assignment, const std::string& where);

  // Takes over all properties of `other`, which win.
  void merge(const Properties& other);
  void remove(const std::string& name) { all_.erase(name); }

  // The property, or null when it is not set.
  [[nodiscard]] const Property* find(const std::string& name) const;

  [[nodiscard]] const std::map<std::string, Property>& all() const { return all_; }

 private:
  std::map<std::string, Property> all_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_YCSB_PROPERTIES_H_
