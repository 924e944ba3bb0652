// SPDX-License-Identifier: Apache-2.0
// A kind of JSON file in a directory of results that has a section of its own in report.html. Its members `name` and
// `title` are in the table of contents. A file adds its kind by a variable `const Registered<PagePart>`.
#ifndef BONSAI_BENCH_PAGES_PAGE_PART_H_
#define BONSAI_BENCH_PAGES_PAGE_PART_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/registered.h"

namespace bonsai::bench {

struct PagePart {
  // Whether the file is of this kind. The other functions require that it is.
  bool (*is_mine)(const nlohmann::ordered_json& json);
  std::string (*section)(const nlohmann::ordered_json& json);
  // Where its section is among all sections; equals are in the order of the names of the files.
  size_t (*place)(const nlohmann::ordered_json& json);
  // The title of its chapter. Sections of one chapter are beside each other.
  std::string (*chapter)(const nlohmann::ordered_json& json);
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_PAGES_PAGE_PART_H_
