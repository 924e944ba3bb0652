// SPDX-License-Identifier: Apache-2.0
// Commands over many keys, in key order. Each sees the store as of one moment, but SCAN, whose parts see one each.
// They run to their end before the thread serves other clients.
#include <algorithm>
#include <memory>
#include <utility>

#include "server/commands.h"
#include "server/glob.h"

namespace bonsai::server {
namespace {

constexpr int64_t kScanCountDefault = 10;
constexpr int64_t kScanCountMax = 10'000;  // a hint, as in Redis

// Keys, or keys and values, of a reply whose number is not known in advance.
class Rows {
 public:
  Rows(const Call& call, bool values)
      : bytes_max_(call.state.config.reply_bytes_max), values_(values), reply_(&text_, call.client.protocol) {}

  // Adds the record, but for an expired one. False: it would be too much.
  bool add(std::string_view key, std::string_view raw) {
    const Stored stored = parse_stored(raw);
    if (has_expired(stored)) return true;
    const std::string_view value = stored.value;
    if (text_.size() + key.size() + (values_ ? value.size() : 0) > bytes_max_) return full_ = true, false;
    reply_.bulk(key);
    if (values_) reply_.bulk(value);
    ++records_;
    return true;
  }
  [[nodiscard]] uint64_t records() const { return records_; }
  [[nodiscard]] bool full() const { return full_; }
  // The array, as a reply.
  [[nodiscard]] std::string array(int protocol) const {
    std::string all;
    Reply(&all, protocol).array(values_ ? 2 * records_ : records_);
    return all + text_;
  }

 private:
  const size_t bytes_max_;
  const bool values_;
  std::string text_;
  Reply reply_;
  size_t records_ = 0;
  bool full_ = false;
};

// Replies with the rows, or with what went wrong.
void reply_rows(const Call& call, const Rows& rows, const Status& status) {
  if (!status.ok()) return call.executor.error(&call.client, status);
  if (rows.full()) return call.executor.error(&call.client, kReplyTooLarge);
  call.client.out += rows.array(call.client.protocol);
}

// ---- SCAN

struct ScanArguments {
  std::string after;  // empty: from the beginning
  std::string_view pattern = "*";
  int64_t count = kScanCountDefault;
  bool strings = true;  // whether keys of strings are wanted, of which all keys are
};

// Returns the error; empty: none.
std::string parse_scan(const Call& call, ScanArguments* scan) {
  int64_t cursor = 0;
  if (!parse_integer(call.args[1], &cursor) || cursor < 0) return "ERR invalid cursor";
  if (cursor != 0 && !call.state.cursors.find(static_cast<uint64_t>(cursor), &scan->after)) {
    return "ERR invalid cursor: this server did not give it, or it is too old; begin again with 0";
  }
  for (size_t i = 2; i < call.args.size(); i += 2) {
    const std::string_view option = call.args[i];
    if (i + 1 == call.args.size()) return std::string(kSyntaxError);
    const std::string_view value = call.args[i + 1];
    if (same_word(option, "MATCH")) {
      scan->pattern = value;
    } else if (same_word(option, "COUNT")) {
      if (!parse_integer(value, &scan->count)) return std::string(kNoInteger);
      if (scan->count < 1) return std::string(kSyntaxError);
      scan->count = std::min(scan->count, kScanCountMax);
    } else if (same_word(option, "TYPE")) {
      scan->strings = same_word(value, "string");
    } else {
      return std::string(kSyntaxError);
    }
  }
  return "";
}

// ---- RANGE

// One end of a range, in the form of ZRANGEBYLEX.
struct End {
  std::string_view key;
  bool inclusive = true;
  bool open = false;  // no bound, which `least` says for which side
  bool least = false;
};

bool parse_end(std::string_view text, End* end) {
  if (text == "-" || text == "+") {
    end->open = true;
    end->least = text == "-";
    return true;
  }
  if (!text.starts_with('[') && !text.starts_with('(')) return false;
  end->inclusive = text[0] == '[';
  end->key = text.substr(1);
  return true;
}

struct RangeArguments {
  End from, to;                // ascending
  int64_t limit = -1;          // negative: none
  Snapshots::Shared snapshot;  // null: as of now
  bool reverse = false, counts = false;
};

std::string parse_range(const Call& call, RangeArguments* range) {
  if (!parse_end(call.args[1], &range->from) || !parse_end(call.args[2], &range->to)) {
    return "ERR an end of a range is [KEY, (KEY (which leaves KEY out), - or +";
  }
  for (size_t i = 3; i < call.args.size(); ++i) {
    if (same_word(call.args[i], "REV")) {
      range->reverse = true;
    } else if (same_word(call.args[i], "COUNT")) {
      range->counts = true;
    } else if (same_word(call.args[i], "LIMIT") && i + 1 < call.args.size()) {
      if (!parse_integer(call.args[++i], &range->limit) || range->limit < 0) return std::string(kNoInteger);
    } else if (same_word(call.args[i], "SNAPSHOT") && i + 1 < call.args.size()) {
      range->snapshot = call.state.snapshots.find(call.args[++i]);
      if (range->snapshot == nullptr) return no_snapshot(call.args[i]);
    } else {
      return std::string(kSyntaxError);
    }
  }
  if (range->reverse) std::swap(range->from, range->to);
  return "";
}

// The place after all keys of the range; empty: there is none.
std::string end_of(const RangeArguments& range) {
  if (range.to.open) return "";
  return std::string(range.to.key) + (range.to.inclusive ? std::string(1, '\0') : "");
}

// Whether no key can be in the range, which ends at `end`.
bool is_empty(const RangeArguments& range, std::string_view end) {
  return (range.from.open && !range.from.least) || (range.to.open && range.to.least) || range.limit == 0 ||
         (!range.to.open && end.empty());
}

std::string_view from_of(const RangeArguments& range) { return range.from.open ? "" : range.from.key; }

// Of an ascending scan from from_of(). `end` must live as long as they.
ScanOptions options_of(const RangeArguments& range, std::string_view end) {
  ScanOptions options;
  options.snapshot = range.snapshot.get();
  options.end = end;
  options.from_exclusive = !range.from.open && !range.from.inclusive;
  if (range.limit >= 0) options.limit = static_cast<uint64_t>(range.limit);
  return options;
}

Status visit_ascending(DB* db, const RangeArguments& range, ScanOptions options, Rows* rows) {
  const uint64_t limit = std::exchange(options.limit, UINT64_MAX);  // of what has not expired
  return db->Scan(options, from_of(range), [rows, limit](std::string_view key, std::string_view raw) {
    return rows->add(key, raw) && rows->records() < limit;
  });
}

Status visit_descending(DB* db, const RangeArguments& range, uint64_t limit, Rows* rows) {
  ReadOptions options;
  options.snapshot = range.snapshot.get();
  const std::unique_ptr<Iterator> iterator = db->NewIterator(options);
  if (iterator == nullptr) return Status::NoSpace("there is no memory for an iterator");
  if (range.to.open) {
    iterator->SeekToLast();
  } else if (range.to.inclusive) {
    iterator->SeekForPrev(range.to.key);
  } else {
    iterator->SeekBefore(range.to.key);
  }
  const auto inside = [&] {
    if (range.from.open) return true;
    return range.from.inclusive ? iterator->key() >= range.from.key : iterator->key() > range.from.key;
  };
  for (; rows->records() < limit && iterator->Valid() && inside(); iterator->Prev()) {
    if (!rows->add(iterator->key(), iterator->value())) break;
  }
  return iterator->status();
}

}  // namespace

void run_dbsize(const Call& call) {
  call.executor.settle(&call.client);
  uint64_t count = 0;
  const Status status = call.state.db->Count(ScanOptions(), "", &count);
  if (!status.ok()) return call.executor.error(&call.client, status);
  call.executor.reply(&call.client, [&](Reply& out) { out.integer(static_cast<int64_t>(count)); });
}

void run_keys(const Call& call) {
  call.executor.settle(&call.client);
  const std::string_view pattern = call.args[1];
  const std::string prefix = glob_prefix(pattern), end = after_prefix(prefix);
  ScanOptions options;
  options.end = end;
  Rows rows(call, false);
  const Status status = call.state.db->Scan(options, prefix, [&](std::string_view key, std::string_view raw) {
    return !glob_matches(pattern, key) || rows.add(key, raw);
  });
  reply_rows(call, rows, status);
}

void run_scan(const Call& call) {
  call.executor.settle(&call.client);
  ScanArguments scan;
  if (const std::string error = parse_scan(call, &scan); !error.empty()) {
    return call.executor.error(&call.client, error);
  }
  const std::string prefix = glob_prefix(scan.pattern), end = after_prefix(prefix);
  ScanOptions options;
  options.end = end;
  options.limit = static_cast<uint64_t>(scan.count);
  options.from_exclusive = scan.after >= prefix && !scan.after.empty();
  Rows rows(call, false);
  uint64_t visited = 0;
  std::string last;
  const std::string& from = options.from_exclusive ? scan.after : prefix;
  const Status status = call.state.db->Scan(options, from, [&](std::string_view key, std::string_view raw) {
    if (scan.strings && glob_matches(scan.pattern, key) && !rows.add(key, raw)) return false;
    last = key;
    return ++visited, true;
  });
  if (!status.ok()) return call.executor.error(&call.client, status);
  const bool more = rows.full() || visited == options.limit;
  const uint64_t cursor = more ? call.state.cursors.give(last) : 0;
  call.executor.reply(&call.client, [&](Reply& out) {
    out.array(2);
    out.bulk(std::to_string(cursor));
  });
  call.client.out += rows.array(call.client.protocol);
}

void run_range(const Call& call) {
  call.executor.settle(&call.client);
  RangeArguments range;
  if (const std::string error = parse_range(call, &range); !error.empty()) {
    return call.executor.error(&call.client, error);
  }
  const std::string end = end_of(range);
  const ScanOptions options = options_of(range, end);
  const bool empty = is_empty(range, end);
  if (range.counts) {
    uint64_t count = 0;
    const Status status = empty ? Status() : call.state.db->Count(options, from_of(range), &count);
    if (!status.ok()) return call.executor.error(&call.client, status);
    return call.executor.reply(&call.client, [&](Reply& out) { out.integer(static_cast<int64_t>(count)); });
  }
  Rows rows(call, true);
  Status status;
  if (!empty && !range.reverse) status = visit_ascending(call.state.db, range, options, &rows);
  if (!empty && range.reverse) status = visit_descending(call.state.db, range, options.limit, &rows);
  reply_rows(call, rows, status);
}

void run_delrange(const Call& call) {
  call.executor.settle(&call.client);
  RangeArguments range;
  if (const std::string error = parse_range(call, &range); !error.empty()) {
    return call.executor.error(&call.client, error);
  }
  if (range.reverse || range.counts || range.snapshot != nullptr) {
    return call.executor.error(&call.client, kSyntaxError);
  }
  const std::string end = end_of(range);
  uint64_t deleted = 0;
  if (!is_empty(range, end)) {
    const Status status = call.state.db->DeleteRange(options_of(range, end), from_of(range), &deleted);
    if (!status.ok()) return call.executor.error(&call.client, status);
  }
  call.executor.reply(&call.client, [deleted](Reply& out) { out.integer(static_cast<int64_t>(deleted)); });
}

}  // namespace bonsai::server
