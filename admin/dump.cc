// SPDX-License-Identifier: Apache-2.0
#include "admin/dump.h"

#include <cstdlib>
#include <memory>
#include <string>

namespace bonsai::admin {
namespace {

// One line without its end. False at the end of the file.
bool read_line(FILE* in, std::string* line) {
  char* text = nullptr;
  size_t room = 0;
  const ssize_t bytes = ::getline(&text, &room, in);
  const std::unique_ptr<char, void (*)(void*)> owned(text, std::free);
  if (bytes < 0) return false;
  line->assign(text, static_cast<size_t>(bytes));
  if (!line->empty() && line->back() == '\n') line->pop_back();
  return true;
}

// Reads a dump into a pool.
class Loader {
 public:
  Loader(FILE* in, DB* db, const KeyText& keys) : in_(in), db_(*db), keys_(keys) {}

  Status run() {
    if (Status status = title(); !status.ok()) return status;
    std::string line;
    while (next(&line)) {
      const size_t tab = line.find('\t');
      if (tab == std::string::npos) return end(line);
      Status status = put(std::string_view(line).substr(0, tab), std::string_view(line).substr(tab + 1));
      if (!status.ok()) return status;
    }
    return bad("the dump ends early, its last line is missing");
  }
  [[nodiscard]] uint64_t records() const { return records_; }

 private:
  bool next(std::string* line) {
    ++line_;
    return read_line(in_, line);
  }

  [[nodiscard]] Status bad(const std::string& what) const {
    return Status::InvalidArgument("line " + std::to_string(line_) + ": " + what + "; the " + std::to_string(records_) +
                                   " records before are in the pool");
  }

  Status title() {
    std::string line;
    if (!next(&line) || !line.starts_with(kDumpTitle)) return bad("this is not a dump, which begins \"bonsai-dump 1\"");
    const std::string keys = line.substr(kDumpTitle.size());
    if (keys == key_format_name(keys_.format)) return Status::OK();
    return bad("the dump has keys of the form " + escape(keys) + ", the pool " +
               std::string(key_format_name(keys_.format)) + ": load it into a pool made with --key=" + escape(keys));
  }

  Status put(std::string_view key_text, std::string_view value_text) {
    std::string key, value;
    Status status = keys_.format == KeyFormat::kFixed8 ? keys_.parse(key_text, &key) : unescape(key_text, &key);
    if (status.ok()) status = unescape(value_text, &value);
    if (!status.ok()) return bad(std::string(status.message()));
    status = db_.Put(key, value);
    if (status.IsInvalidArgument()) return bad(std::string(status.message()));
    if (status.ok()) ++records_;
    return status;
  }

  Status end(const std::string& line) {
    const std::string wanted = "end " + std::to_string(records_);
    if (line != wanted) return bad("expected a record or \"" + wanted + "\"");
    std::string more;
    return next(&more) ? bad("something follows the last line") : Status::OK();
  }

  FILE* const in_;
  DB& db_;
  const KeyText keys_;
  uint64_t line_ = 0;
  uint64_t records_ = 0;
};

}  // namespace

std::string_view key_format_name(KeyFormat format) { return format == KeyFormat::kFixed8 ? "fixed8" : "bytes"; }

Status load_dump(FILE* in, DB* db, const KeyText& keys, uint64_t* records) {
  Loader loader(in, db, keys);
  Status status = loader.run();
  *records = loader.records();
  return status;
}

}  // namespace bonsai::admin
