// SPDX-License-Identifier: Apache-2.0
// checkpoint, salvage, grow, dump, load: copies of pools, and larger ones. The text form is documented in docs/dump.md.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "admin/command.h"
#include "admin/dump.h"
#include "admin/flags.h"
#include "admin/pool.h"
#include "admin/progress.h"
#include "admin/ranges.h"
#include "admin/stop_signals.h"

namespace bonsai::admin {
namespace {

// Options of a new pool that holds a copy: as large as the copy needs unless --bytes is given.
Status options_of_copy(Options* options) {
  Status status = options_from_flags(options);
  if (!flag_given("bytes")) options->pool_bytes = 0;
  return status;
}

}  // namespace

Status run_checkpoint(const std::vector<std::string>& operands, ExitCode*) {
  OpenPool pool;
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  if (Status status = open_pool_to_read(options, &pool); !status.ok()) return status;
  uint64_t records = 0;
  Status status = options_of_copy(&options);
  if (status.ok()) status = Checkpoint(pool.db.get(), options, operands[0], nullptr, &records);
  status = pool.close(status);
  return status.ok() ? print(operands[0] + ": " + count_of(records, "record") + "\n")
                     : with_remedy_of_copy(status, FLAGS_pool, operands[0]);
}

Status run_salvage(const std::vector<std::string>& operands, ExitCode* exit) {
  std::string path;
  Options options;
  if (Status status = pool_path(&path); !status.ok()) return status;
  if (Status status = options_of_copy(&options); !status.ok()) return status;
  SalvageReport report;
  Status status;
  {
    ProgressLine progress("salvaging");
    status = Salvage(path, options, operands[0], &report, [&progress](double done) { progress.show(done); });
  }
  if (status.IsCorruption()) return status;  // the usual remedy is this command
  if (!status.ok()) return with_remedy_of_copy(std::move(status), path, operands[0]);
  std::string text = operands[0] + ": " + count_of(report.records, "record") + "\n";
  if (!report.lost.empty()) *exit = kExitDamaged;
  if (report.missing != 0) return print(text + ranges_text(report.lost, report.missing, report.ranges));
  for (const Damage& lost : report.lost) {
    text += "LOST     " + lost.where + ": " + lost.what + "\n         keys: " + lost.key_range + "\n";
  }
  return print(text);
}

Status run_grow(const std::vector<std::string>&, ExitCode*) {
  Options options;
  if (!flag_given("bytes")) return Status::InvalidArgument("say how large each target is to be, e.g. --bytes=2G");
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  OpenPool pool;
  if (Status status = open_pool(options, &pool); !status.ok()) return status;
  const Stats before = pool.db->GetStats();
  if (Status status = pool.close(Status::OK()); !status.ok()) return status;
  options.grow_bytes = options.pool_bytes;
  if (Status status = open_pool(options, &pool); !status.ok()) return status;
  const Stats stats = pool.db->GetStats();
  if (stats.pool_bytes == before.pool_bytes && stats.pool_bytes / stats.targets > options.grow_bytes) {
    return pool.close(Status::InvalidArgument(FLAGS_pool + " has " + human_size(stats.pool_bytes) +
                                              " already, more than --bytes, and does not shrink; give " +
                                              "more, or copy it into a smaller pool: bonsai checkpoint --pool=" +
                                              FLAGS_pool + " --bytes=" + FLAGS_bytes + " NEW"));
  }
  return pool.close(
      print(FLAGS_pool + ": " + human_size(stats.pool_bytes) + ", of it data " + human_size(stats.data_bytes) + "\n"));
}

Status run_dump(const std::vector<std::string>&, ExitCode*) {
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  OpenPool pool;
  if (Status status = open_pool_to_read(options, &pool); !status.ok()) return status;
  uint64_t records = 0;
  Status printed = print(std::string(kDumpTitle) + std::string(key_format_name(pool.keys.format)) + "\n");
  Status status = pool.db->Scan({}, {}, [&](std::string_view key, std::string_view value) {
    const std::string shown = pool.keys.format == KeyFormat::kFixed8 ? pool.keys.show(key) : escape(key);
    printed = printed.ok() ? print(shown + "\t" + escape(value) + "\n") : printed;
    records += printed.ok() ? 1 : 0;
    return printed.ok();
  });
  if (status.ok()) status = printed;
  if (status.ok()) status = print("end " + std::to_string(records) + "\n");
  return with_remedy(pool.close(status), FLAGS_pool);
}

namespace {

// A new pool gets the key form of the dump. A dump that cannot be loaded makes no pool.
Status settle_keys(FILE* in, Options* options, KeyFormat* of_dump) {
  if (Status status = read_dump_title(in, of_dump); !status.ok()) return status;
  if (!flag_given("key")) options->key_format = *of_dump;
  return check_dump_keys(*of_dump, options->create_if_missing ? options->key_format : *of_dump);
}

// Closes the pool. If the dump is not loaded whole, a pool that this command has made is removed again.
Status end_load(OpenPool* pool, bool created, uint64_t records, const Options& options, Status loaded) {
  Status status = pool->close(std::move(loaded));
  if (status.ok()) return status;
  const std::string before = "; the " + count_of(records, "record") + " before " + (records == 1 ? "is " : "are ");
  if (!created || !Remove(FLAGS_pool, options).ok()) return with_text(status, before + "in the pool");
  return with_text(status, before + "gone with the new pool, which was removed again");
}

}  // namespace

Status run_load(const std::vector<std::string>& operands, ExitCode*) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(operands.empty() ? nullptr : std::fopen(operands[0].c_str(), "rb"),
                                                   [](FILE* opened) { return std::fclose(opened); });
  if (!operands.empty() && file == nullptr) {
    return Status::InvalidArgument(operands[0] + ": " + std::strerror(errno) + "; name a file that can be read");
  }
  FILE* const in = operands.empty() ? stdin : file.get();
  Options options;
  std::string path;
  KeyFormat of_dump = KeyFormat::kBytes;
  Status status = options_from_flags(&options);
  if (status.ok()) status = pool_path(&path);
  if (status.ok()) status = settle_keys(in, &options, &of_dump);
  if (!status.ok()) return status;
  watch_stop_signals();
  OpenPool pool;
  bool created = false;
  if (status = open_or_create_pool(options, &pool, &created); !status.ok()) return status;
  uint64_t records = 0;
  status = check_dump_keys(of_dump, pool.keys.format);
  if (status.ok()) status = load_dump(in, pool.db.get(), pool.keys, stop_signal, &records);
  status = with_remedy(end_load(&pool, created, records, options, std::move(status)), FLAGS_pool);
  return status.ok() ? print(FLAGS_pool + ": " + count_of(records, "record") + "\n") : status;
}

}  // namespace bonsai::admin
