// SPDX-License-Identifier: Apache-2.0
// create, put, increment, get, exists, del, scan, count, delete-range: the commands that read and write records.
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "admin/command.h"
#include "admin/flag_parser.h"
#include "admin/flags.h"
#include "admin/pool.h"

namespace bonsai::admin {
namespace {

// Reads a file or, for "-", standard input; stops just past the largest size of a value, and the store then refuses it.
Status read_value_file(const std::string& path, std::string* value) {
  const std::unique_ptr<FILE, int (*)(FILE*)> opened(path == "-" ? nullptr : std::fopen(path.c_str(), "rb"),
                                                     [](FILE* file) { return std::fclose(file); });
  FILE* in = path == "-" ? stdin : opened.get();
  if (in == nullptr) {
    return Status::InvalidArgument("--value_file " + path + ": " + std::strerror(errno) +
                                   "; name a file that can be read");
  }
  value->resize(kValueBytesMax + 1);
  value->resize(std::fread(value->data(), 1, value->size(), in));
  if (std::ferror(in) == 0) return Status::OK();
  return Status::IoError("--value_file " + path + ": " + std::strerror(errno));
}

Status read_value(const std::vector<std::string>& operands, std::string* value) {
  const bool from_file = !FLAGS_value_file.empty();
  if (from_file == (operands.size() == 2)) {
    return Status::InvalidArgument("give the value either as the second operand or by --value_file, not both or none");
  }
  if (from_file) return read_value_file(FLAGS_value_file, value);
  if (FLAGS_hex) return from_hex(operands[1], value);
  *value = operands[1];
  return Status::OK();
}

// The condition that the flags name, if any. `equal` must live as long as it.
Status read_condition(std::string* equal, std::optional<Condition>* condition) {
  const bool equals = flag_given("if_equals");  // also with a value of no bytes
  const int named = (FLAGS_if_absent ? 1 : 0) + (FLAGS_if_present ? 1 : 0) + (equals ? 1 : 0);
  if (named > 1) return Status::InvalidArgument("give one of --if_absent, --if_present and --if_equals");
  if (FLAGS_if_absent) *condition = Condition::Absent();
  if (FLAGS_if_present) *condition = Condition::Present();
  if (!equals) return Status::OK();
  *equal = FLAGS_if_equals;
  if (FLAGS_hex) {
    if (Status status = from_hex(FLAGS_if_equals, equal); !status.ok()) return status;
  }
  *condition = Condition::Equals(*equal);
  return Status::OK();
}

// A condition that does not hold is an answer, not an error: nothing on stderr.
Status as_answer(const Status& status, ExitCode* exit) {
  if (!status.IsConditionFailed()) return status;
  *exit = kExitNotFound;
  return Status::OK();
}

// Refuses to create a pool over an existing file, with this program's message. Devices exist before their pools, so the
// store checks those.
Status refuse_existing(const std::string& path) {
  for (const std::string& target : targets_of(path)) {
    std::error_code error;
    const std::filesystem::file_status found = std::filesystem::status(target, error);
    if (std::filesystem::is_directory(found)) return with_remedy(Status::IoError(target + " is not a file"), path);
    if (std::filesystem::is_regular_file(found)) {
      return Status::InvalidArgument(target + " exists already; name a new file (a pool is removed by: bonsai remove " +
                                     "--pool=" + path + ")");
    }
  }
  return Status::OK();
}

// Opens the pool, runs `work(pool)` and closes.
template <typename Work>
Status with_pool(Work&& work) {
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  OpenPool pool;
  bool created = false;
  if (Status status = open_or_create_pool(options, &pool, &created); !status.ok()) return status;
  return with_remedy(pool.close(work(pool)), FLAGS_pool);
}

// As with_pool(), for a command that only reads.
template <typename Work>
Status with_pool_to_read(Work&& work) {
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  OpenPool pool;
  if (Status status = open_pool_to_read(std::move(options), &pool); !status.ok()) return status;
  return with_remedy(pool.close(work(pool)), FLAGS_pool);
}

// The same for the range of records that --from or --after, --end and --limit name: calls work(pool, options, from).
enum class Access : uint8_t { kRead, kChange };
template <typename Work>
Status with_range(Access access, Work&& work) {
  if (!FLAGS_from.empty() && !FLAGS_after.empty()) {
    return Status::InvalidArgument("give --from, which begins at its key, or --after, which begins after it, not both");
  }
  const auto in_range = [&](OpenPool& pool) {
    std::string from, end;
    const std::string& begin = FLAGS_after.empty() ? FLAGS_from : FLAGS_after;
    Status status = begin.empty() ? Status::OK() : pool.keys.parse(begin, &from);
    if (status.ok() && !FLAGS_end.empty()) status = pool.keys.parse(FLAGS_end, &end);
    if (!status.ok()) return status;
    return work(pool, ScanOptions{nullptr, FLAGS_limit, end, !FLAGS_after.empty()}, from);
  };
  return access == Access::kRead ? with_pool_to_read(in_range) : with_pool(in_range);
}

}  // namespace

Status run_create(const std::vector<std::string>&, ExitCode*) {
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  std::string path;
  if (Status status = pool_path(&path); !status.ok()) return status;
  if (Status status = refuse_existing(path); !status.ok()) return status;
  options.create_if_missing = options.error_if_exists = true;
  options.any_key_format = false;
  OpenPool pool;
  if (Status status = open_pool(options, &pool); !status.ok()) return status;
  const Stats stats = pool.db->GetStats();
  const std::string text = FLAGS_pool + ": " + human_size(stats.pool_bytes) + " on " + stats.medium + ", " + FLAGS_key +
                           " keys, log " + human_size(stats.log_bytes) + "\n";
  return pool.close(print(text));
}

Status run_put(const std::vector<std::string>& operands, ExitCode* exit) {
  std::string value;
  if (Status status = read_value(operands, &value); !status.ok()) return status;
  std::string equal;
  std::optional<Condition> condition;
  if (Status status = read_condition(&equal, &condition); !status.ok()) return status;
  const Status status = with_pool([&](OpenPool& pool) {
    std::string key;
    Status parsed = pool.keys.parse(operands[0], &key);
    if (!parsed.ok()) return parsed;
    return condition ? pool.db->PutIf(*condition, key, value) : pool.db->Put(key, value);
  });
  return as_answer(status, exit);
}

Status run_increment(const std::vector<std::string>& operands, ExitCode*) {
  int64_t by = 1, sum = 0;
  if (operands.size() == 2) {
    const std::string& text = operands[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), by);
    if (error != std::errc() || end != text.data() + text.size()) {
      return Status::InvalidArgument("'" + text + "' is no number of 64 bits; give one such as 1, or -1 after --");
    }
  }
  const Status status = with_pool([&](OpenPool& pool) {
    std::string key;
    Status parsed = pool.keys.parse(operands[0], &key);
    return parsed.ok() ? pool.db->Increment(key, by, &sum) : parsed;
  });
  return status.ok() ? print(std::to_string(sum) + "\n") : status;
}

Status run_get(const std::vector<std::string>& operands, ExitCode* exit) {
  std::string value;
  Status status = with_pool_to_read([&](OpenPool& pool) {
    std::string key;
    Status parsed = pool.keys.parse(operands[0], &key);
    return parsed.ok() ? pool.db->Get(key, &value) : parsed;
  });
  if (status.IsNotFound()) {  // an answer, not an error: nothing on stderr
    *exit = kExitNotFound;
    return Status::OK();
  }
  return status.ok() ? print((FLAGS_hex ? to_hex(value) : value) + "\n") : status;
}

Status run_del(const std::vector<std::string>& operands, ExitCode* exit) {
  std::string equal;
  std::optional<Condition> condition;
  if (Status status = read_condition(&equal, &condition); !status.ok()) return status;
  const Status status = with_pool([&](OpenPool& pool) {
    std::string key;
    Status parsed = pool.keys.parse(operands[0], &key);
    if (!parsed.ok()) return parsed;
    return condition ? pool.db->DeleteIf(*condition, key) : pool.db->Delete(key);
  });
  return as_answer(status, exit);
}

Status run_exists(const std::vector<std::string>& operands, ExitCode* exit) {
  const Status status = with_pool_to_read([&](OpenPool& pool) {
    std::string key;
    Status parsed = pool.keys.parse(operands[0], &key);
    return parsed.ok() ? pool.db->Exists(key) : parsed;
  });
  if (!status.IsNotFound()) return status;
  *exit = kExitNotFound;
  return Status::OK();
}

Status run_scan(const std::vector<std::string>&, ExitCode*) {
  return with_range(Access::kRead, [](OpenPool& pool, const ScanOptions& options, const std::string& from) {
    Status printed;
    const Status status = pool.db->Scan(options, from, [&](std::string_view key, std::string_view value) {
      printed = print(pool.keys.show(key) + "\t" + (FLAGS_hex ? to_hex(value) : escape(value)) + "\n");
      return printed.ok();
    });
    return status.ok() ? printed : status;
  });
}

Status run_count(const std::vector<std::string>&, ExitCode*) {
  return with_range(Access::kRead, [](OpenPool& pool, const ScanOptions& options, const std::string& from) {
    uint64_t count = 0;
    Status status = pool.db->Count(options, from, &count);
    return status.ok() ? print(std::to_string(count) + "\n") : status;
  });
}

Status run_delete_range(const std::vector<std::string>&, ExitCode*) {
  if (!flag_given("from") && !flag_given("after") && !flag_given("end")) {
    return Status::InvalidArgument("no range was named; give --from or --after, and --end; all records: --from=");
  }
  return with_range(Access::kChange, [](OpenPool& pool, const ScanOptions& options, const std::string& from) {
    uint64_t deleted = 0;
    Status status = pool.db->DeleteRange(options, from, &deleted);
    return status.ok() ? print(std::to_string(deleted) + "\n") : status;
  });
}

}  // namespace bonsai::admin
