// SPDX-License-Identifier: Apache-2.0
#include "admin/dump.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "bonsai/bulk_load.h"

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

Status bad_line(uint64_t line, const std::string& what) {
  return Status::InvalidArgument("line " + std::to_string(line) + ": " + what);
}

// Reads a dump into a pool.
class Loader {
 public:
  Loader(FILE* in, DB* db, const KeyText& keys, int (*stop_signal)())
      : in_(in), load_(db), keys_(keys), stop_signal_(stop_signal) {}

  // Of several errors it returns that of the first line.
  Status run() {
    Status read = read_lines();
    if (const Status put = load_.Finish(); !put.ok()) {
      line_ = kFirstRecordLine + load_.Records();
      return put.IsInvalidArgument() ? bad(std::string(put.message())) : put;
    }
    return read;
  }
  // Those before the first that failed: what is in the pool.
  [[nodiscard]] uint64_t records() const { return load_.Records(); }

 private:
  static constexpr uint64_t kFirstRecordLine = 2;

  Status read_lines() {
    std::string line;
    while (next(&line)) {
      const size_t tab = line.find('\t');
      if (tab == std::string::npos) return end(line);
      Status status = put(std::string_view(line).substr(0, tab), std::string_view(line).substr(tab + 1));
      if (!status.ok()) return status;
    }
    if (const int signal = stop_signal_(); signal != 0) {
      return Status::Unavailable("line " + std::to_string(line_) + ": stopped by the signal " + ::sigabbrev_np(signal));
    }
    return bad("the dump ends early, its last line is missing");
  }

  bool next(std::string* line) {
    ++line_;
    return stop_signal_() == 0 && read_line(in_, line);
  }

  [[nodiscard]] Status bad(const std::string& what) const { return bad_line(line_, what); }

  Status put(std::string_view key_text, std::string_view value_text) {
    std::string key, value;
    Status status = keys_.format == KeyFormat::kFixed8 ? keys_.parse(key_text, &key) : unescape(key_text, &key);
    if (status.ok()) status = unescape(value_text, &value);
    if (!status.ok()) return bad(std::string(status.message()));
    ++records_;
    return load_.Put(key, value);
  }

  Status end(const std::string& line) {
    const std::string wanted = "end " + std::to_string(records_);
    if (line != wanted) return bad("expected a record or \"" + wanted + "\"");
    std::string more;
    return next(&more) ? bad("something follows the last line") : Status::OK();
  }

  FILE* const in_;
  BulkLoad load_;
  const KeyText keys_;
  int (*const stop_signal_)();
  uint64_t line_ = 1;     // the first was read
  uint64_t records_ = 0;  // that were read
};

}  // namespace

std::string_view key_format_name(KeyFormat format) { return format == KeyFormat::kFixed8 ? "fixed8" : "bytes"; }

Status read_dump_title(FILE* in, KeyFormat* format) {
  std::string line;
  if (!read_line(in, &line) || !line.starts_with(kDumpTitle)) {
    return bad_line(1, "this is not a dump, which begins \"bonsai-dump 1\"");
  }
  const std::string keys = line.substr(kDumpTitle.size());
  for (const KeyFormat known : {KeyFormat::kBytes, KeyFormat::kFixed8}) {
    if (keys != key_format_name(known)) continue;
    *format = known;
    return Status::OK();
  }
  return bad_line(1, "the dump has keys of the form '" + escape(keys) + "', which is none; it is bytes or fixed8");
}

Status check_dump_keys(KeyFormat of_dump, KeyFormat of_pool) {
  if (of_dump == of_pool) return Status::OK();
  const std::string keys(key_format_name(of_dump));
  return bad_line(1, "the dump has keys of the form " + keys + ", the pool " + std::string(key_format_name(of_pool)) +
                         ": load it into a pool made with --key=" + keys);
}

Status load_dump(FILE* in, DB* db, const KeyText& keys, int (*stop_signal)(), uint64_t* records) {
  Loader loader(in, db, keys, stop_signal);
  Status status = loader.run();
  *records = loader.records();
  return status;
}

}  // namespace bonsai::admin
