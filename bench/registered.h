// SPDX-License-Identifier: Apache-2.0
// Lists of the program to which files add entries by themselves: engines, commands, experiments, parts of the report. A
// list has the entries of all files that are linked, so that no file names the others. A library whose files add
// entries is linked whole: bonsai_room(... REGISTERS).
#ifndef BONSAI_BENCH_REGISTERED_H_
#define BONSAI_BENCH_REGISTERED_H_

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace bonsai::bench {

// The entries of one file, as a variable at namespace scope.
// Thread-safety: all() may be called by any thread once main() runs.
template <class Entry>
class Registered {
 public:
  using Make = std::vector<Entry> (*)();

  // `make` is called by all(), never before main(). Requires: `name` is a literal that no other file gives.
  Registered(std::string_view name, Make make) noexcept : name_(name), make_(make), next_(first()) { first() = this; }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  // The entries of all files. The files are in the order of their names, whatever the order of linking.
  [[nodiscard]] static const std::vector<Entry>& all() {
    static const std::vector<Entry> kAll = collect();
    return kAll;
  }

 private:
  static const Registered*& first() noexcept {
    static const Registered* head = nullptr;
    return head;
  }
  static std::vector<Entry> collect() {
    std::vector<const Registered*> files;
    for (const Registered* each = first(); each != nullptr; each = each->next_) files.push_back(each);
    std::sort(files.begin(), files.end(), [](const Registered* a, const Registered* b) { return a->name_ < b->name_; });
    std::vector<Entry> all;
    for (const Registered* file : files) {
      std::vector<Entry> entries = file->make_();
      std::move(entries.begin(), entries.end(), std::back_inserter(all));
    }
    return all;
  }

  const std::string_view name_;
  const Make make_;
  const Registered* const next_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_REGISTERED_H_
