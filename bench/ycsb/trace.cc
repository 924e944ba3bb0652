// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/trace.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace bonsai::bench {
namespace {

constexpr std::array<std::string_view, kOpKinds> kWords = {"READ", "UPDATE", "INSERT", "SCAN", "RMW", "DELETE"};
constexpr std::string_view kUser = "user";
constexpr size_t kChunkBytes = size_t{1} << 20;

// Takes the next word off `rest`; empty at its end.
std::string_view take_word(std::string_view* rest) {
  rest->remove_prefix(std::min(rest->find_first_not_of(" \t\r"), rest->size()));
  const std::string_view word = rest->substr(0, rest->find_first_of(" \t\r"));
  rest->remove_prefix(word.size());
  return word;
}

bool read_whole_number(std::string_view word, uint64_t* number) {
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, *number);
  return error == std::errc() && stop == end;
}

// Parses line by line, so that a file need not fit into memory.
class Parser {
 public:
  explicit Parser(const std::string& source) : source_(source) {}

  Status line(std::string_view text) {
    ++number_;
    if (text.size() > kTraceLineBytesMax) {
      return wrong("longer than " + std::to_string(kTraceLineBytesMax) + " bytes, so this is no trace",
                   "give a text file of requests such as READ 42");
    }
    std::string_view rest = text;
    const std::string_view word = take_word(&rest);
    if (word.empty() || word.front() == '#') return Status::OK();
    const auto known = std::find(kWords.begin(), kWords.end(), word);
    if (known == kWords.end()) {
      return wrong("unknown request '" + std::string(word) + "'", "write INSERT, READ, UPDATE, SCAN, DELETE or RMW");
    }
    Request request;
    request.kind = static_cast<OpKind>(known - kWords.begin());
    BONSAI_RETURN_IF_ERROR(read_key(take_word(&rest), &request));
    if (request.kind == OpKind::kScan) BONSAI_RETURN_IF_ERROR(read_length(take_word(&rest), &request));
    if (const std::string_view more = take_word(&rest); !more.empty()) {
      return wrong("'" + std::string(more) + "' follows the request", "write one request per line, as READ 42");
    }
    trace_.requests.push_back(request);
    ++trace_.operations_of[static_cast<size_t>(request.kind)];
    return Status::OK();
  }

  Status finish(Trace* trace) {
    if (trace_.requests.empty()) {
      return Status::InvalidArgument(source_ + ": holds no request; write lines such as READ 42");
    }
    *trace = std::move(trace_);
    return Status::OK();
  }

 private:
  Status read_key(std::string_view word, Request* request) const {
    std::string_view digits = word;
    if (digits.substr(0, kUser.size()) == kUser) digits.remove_prefix(kUser.size());
    if (read_whole_number(digits, &request->key)) return Status::OK();
    return wrong(word.empty() ? "the key is missing" : "'" + std::string(word) + "' is no key",
                 "give a number below 2^64, with or without 'user' before it");
  }

  Status read_length(std::string_view word, Request* request) const {
    uint64_t length = 0;
    if (!read_whole_number(word, &length) || length < 1 || length > kScanLengthMax) {
      return wrong(word.empty() ? "the number of records is missing" : "'" + std::string(word) + "' records",
                   "write SCAN key records, with 1 to " + std::to_string(kScanLengthMax) + " records");
    }
    request->scan_length = static_cast<uint32_t>(length);
    return Status::OK();
  }

  [[nodiscard]] Status wrong(const std::string& what, const std::string& remedy) const {
    return Status::InvalidArgument(source_ + ":" + std::to_string(number_) + ": " + what + "; " + remedy);
  }

  const std::string source_;
  uint64_t number_ = 0;
  Trace trace_;
};

// Resolves the numbers that were left open until replay, in the order of one thread.
class Resolver {
 public:
  Resolver(const RecordShape& shape, uint64_t records) : shape_(shape), records_(records), end_(records) {}

  uint64_t id_of(const Request& request) {
    switch (request.source) {
      case KeySource::kNew:
        return shape_.id(end_++);
      case KeySource::kBehindNewest:
        return shape_.id(end_ - 1 - std::min(request.key, end_ - 1));
      case KeySource::kIfInserted:
        return shape_.id(request.key < end_ ? request.key : request.key % records_);
      case KeySource::kReady:
        break;
    }
    return request.key;
  }

 private:
  const RecordShape& shape_;
  uint64_t records_;
  uint64_t end_;
};

void append_number(uint64_t number, std::string* text) {
  std::array<char, 20> digits;
  text->append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

void append_line(const Request& request, uint64_t id, std::string* text) {
  text->append(kWords[static_cast<size_t>(request.kind)]).push_back(' ');
  append_number(id, text);
  if (request.kind == OpKind::kScan) {
    text->push_back(' ');
    append_number(request.scan_length, text);
  }
  text->push_back('\n');
}

Status cannot_write(const std::string& path, const std::string& why) {
  return Status::IoError("cannot write " + path + ": " + why + "; give another --record");
}

}  // namespace

Status parse_trace(std::string_view text, const std::string& source, Trace* trace) {
  Parser parser(source);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    BONSAI_RETURN_IF_ERROR(parser.line(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.finish(trace);
}

Status read_trace(const std::string& path, Trace* trace) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status::IoError("cannot open " + path + ": " + std::strerror(errno) + "; check the path");
  Parser parser(path);
  std::string text;
  while (in) {
    const size_t kept = text.size();
    text.resize(kept + kChunkBytes);
    in.read(text.data() + kept, kChunkBytes);
    if (in.bad()) return Status::IoError("cannot read " + path + "; is it a regular file?");
    text.resize(kept + static_cast<size_t>(in.gcount()));
    size_t start = 0;
    for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
      BONSAI_RETURN_IF_ERROR(parser.line(std::string_view(text).substr(start, end - start)));
    }
    text.erase(0, start);
    if (text.size() > kTraceLineBytesMax) return parser.line(text);
  }
  BONSAI_RETURN_IF_ERROR(parser.line(text));
  return parser.finish(trace);
}

RequestPlan plan_of_trace(const Trace& trace, const RecordShape& shape, unsigned threads) {
  RequestPlan plan;
  plan.threads.resize(threads);
  plan.operations = trace.requests.size();
  for (unsigned thread = 0; thread < threads; ++thread) {
    RequestList& list = plan.threads[thread];
    list.operations = part_of(plan.operations, threads, thread);
    list.requests.reserve(list.operations);
    for (size_t i = thread; i < trace.requests.size(); i += threads) list.requests.push_back(trace.requests[i]);
    spell_keys(shape, &list);
  }
  std::vector<char> room(shape.key_bytes_max());
  for (const Request& request : trace.requests) {
    if (request.kind != OpKind::kInsert) continue;
    const std::string_view key = encode_key(shape, request.key, room.data());
    if (key > plan.key_max) plan.key_max = key;
  }
  return plan;
}

Status write_trace(const std::string& path, const RequestPlan& plan, const RecordShape& shape, uint64_t records) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return cannot_write(path, error.message());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out) return cannot_write(path, std::strerror(errno));
  Resolver resolver(shape, records);
  std::string text;
  for (uint64_t turn = 0; turn < plan.operations; ++turn) {
    const RequestList& list = plan.threads[turn % plan.threads.size()];
    BONSAI_CHECK(!list.live);
    const Request& request = list.requests[turn / plan.threads.size()];
    append_line(request, resolver.id_of(request), &text);
    if (text.size() < kChunkBytes) continue;
    out << text;
    text.clear();
  }
  out << text;
  out.close();
  return out ? Status::OK() : cannot_write(path, std::strerror(errno));
}

}  // namespace bonsai::bench
