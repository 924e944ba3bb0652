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

namespace bonsai::admin {
namespace {

// Options of a new pool that holds a copy: as large as the old one unless --bytes is given.
Status options_of_copy(const std::string& path, Options* options) {
  Status status = options_from_flags(options);
  if (!status.ok() || flag_given("bytes")) return status;
  for (const std::string& target : targets_of(path)) {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(target.c_str(), "rb"), std::fclose);
    if (file == nullptr || std::fseek(file.get(), 0, SEEK_END) != 0) continue;
    options->pool_bytes = std::max<uint64_t>(options->pool_bytes, static_cast<uint64_t>(std::ftell(file.get())));
  }
  return status;
}

}  // namespace

Status run_checkpoint(const std::vector<std::string>& operands, ExitCode*) {
  OpenPool pool;
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  if (Status status = open_pool(options, &pool); !status.ok()) return status;
  uint64_t records = 0;
  Status status = options_of_copy(FLAGS_pool, &options);
  if (status.ok()) status = Checkpoint(pool.db.get(), options, operands[0], nullptr, &records);
  status = pool.close(status);
  return status.ok() ? print(operands[0] + ": " + std::to_string(records) + " records\n")
                     : with_remedy(status, operands[0]);
}

Status run_salvage(const std::vector<std::string>& operands, ExitCode* exit) {
  std::string path;
  Options options;
  if (Status status = pool_path(&path); !status.ok()) return status;
  if (Status status = options_of_copy(path, &options); !status.ok()) return status;
  SalvageReport report;
  Status status;
  {
    ProgressLine progress("salvaging");
    status = Salvage(path, options, operands[0], &report, [&progress](double done) { progress.show(done); });
  }
  if (status.IsCorruption()) return status;
  if (!status.ok()) return with_remedy(std::move(status), operands[0]);
  std::string text = operands[0] + ": " + std::to_string(report.records) + " records\n";
  for (const Damage& lost : report.lost) {
    text += "LOST     " + lost.where + ": " + lost.what + "\n         keys: " + lost.key_range + "\n";
  }
  if (!report.lost.empty()) *exit = kExitDamaged;
  return print(text);
}

Status run_grow(const std::vector<std::string>&, ExitCode*) {
  Options options;
  if (!flag_given("bytes")) return Status::InvalidArgument("say how large each target is to be, e.g. --bytes=2G");
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  options.grow_bytes = options.pool_bytes;
  OpenPool pool;
  if (Status status = open_pool(options, &pool); !status.ok()) return status;
  const Stats stats = pool.db->GetStats();
  return pool.close(
      print(FLAGS_pool + ": " + human_size(stats.pool_bytes) + ", of it data " + human_size(stats.data_bytes) + "\n"));
}

Status run_dump(const std::vector<std::string>&, ExitCode*) {
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  OpenPool pool;
  if (Status status = open_pool(options, &pool); !status.ok()) return status;
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

Status run_load(const std::vector<std::string>& operands, ExitCode*) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(operands.empty() ? nullptr : std::fopen(operands[0].c_str(), "rb"),
                                                   [](FILE* opened) { return std::fclose(opened); });
  if (!operands.empty() && file == nullptr) {
    return Status::InvalidArgument(operands[0] + ": " + std::strerror(errno) + "; name a file that can be read");
  }
  Options options;
  if (Status status = options_from_flags(&options); !status.ok()) return status;
  OpenPool pool;
  if (Status status = open_pool(options, &pool); !status.ok()) return status;
  uint64_t records = 0;
  Status status = load_dump(operands.empty() ? stdin : file.get(), pool.db.get(), pool.keys, &records);
  status = with_remedy(pool.close(std::move(status)), FLAGS_pool);
  return status.ok() ? print(FLAGS_pool + ": " + std::to_string(records) + " records\n") : status;
}

}  // namespace bonsai::admin
