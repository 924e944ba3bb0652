// SPDX-License-Identifier: Apache-2.0
#include "admin/pool.h"

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "admin/flags.h"
#include "admin/log_sink.h"
#include "admin/progress.h"

namespace bonsai::admin {
namespace {

template <typename E, size_t N>
Status parse_choice(const char* flag, const std::string& text, const std::array<std::pair<const char*, E>, N>& choices,
                    E* choice) {
  std::string known;
  for (const auto& [name, value] : choices) {
    if (text == name) {
      *choice = value;
      return Status::OK();
    }
    known += std::string(known.empty() ? "" : ", ") + name;
  }
  return Status::InvalidArgument("--" + std::string(flag) + " is '" + escape(text) + "'; give one of: " + known);
}

constexpr std::array<std::pair<const char*, KeyFormat>, 2> kKeyFormats = {
    {{"bytes", KeyFormat::kBytes}, {"fixed8", KeyFormat::kFixed8}}};
constexpr std::array<std::pair<const char*, LayoutChoice>, 3> kLayouts = {
    {{"none", LayoutChoice::kNone}, {"software", LayoutChoice::kSoftware}, {"hardware", LayoutChoice::kHardware}}};
constexpr std::array<std::pair<const char*, Durability>, 2> kDurabilities = {
    {{"durable", Durability::kDurable}, {"buffered", Durability::kBuffered}}};
constexpr std::array<std::pair<const char*, PersistenceDomain>, 3> kDomains = {
    {{"auto", PersistenceDomain::kAuto}, {"adr", PersistenceDomain::kAdr}, {"eadr", PersistenceDomain::kEadr}}};
constexpr std::array<std::pair<const char*, TestMedium>, 3> kMedia = {
    {{"auto", TestMedium::kNone}, {"shadow", TestMedium::kShadow}, {"emulator", TestMedium::kEmulator}}};

}  // namespace

Status options_from_flags(Options* options) {
  Status status = parse_choice("key", FLAGS_key, kKeyFormats, &options->key_format);
  if (status.ok()) status = parse_choice("durability", FLAGS_durability, kDurabilities, &options->durability);
  if (status.ok()) status = parse_choice("domain", FLAGS_domain, kDomains, &options->persistence_domain);
  if (status.ok()) status = parse_size(FLAGS_bytes, "--bytes", &options->pool_bytes);
  if (status.ok()) status = parse_size(FLAGS_log_bytes, "--log_bytes", &options->log_bytes);
  if (status.ok()) status = parse_choice("layout", FLAGS_layout, kLayouts, &options->layout);
  if (status.ok() && (options->layout != LayoutChoice::kNone || flag_given("unit"))) {
    status = parse_size(FLAGS_unit, "--unit", &options->stripe_unit_bytes);
  }
  options->create_if_missing = FLAGS_create;
  options->any_key_format = !flag_given("key");
  options->fabric_secret_file = FLAGS_secret_file;
  options->fabric_wait_ms_max = FLAGS_fabric_wait_ms_max;
  options->fabric_workers = FLAGS_fabric_workers;
  options->take_over = FLAGS_take_over;
  options->allow_missing = FLAGS_allow_missing;
  options->log_sink = log_line;
  return status;
}

Status pool_path(std::string* path) {
  *path = FLAGS_pool;
  if (!path->empty()) return Status::OK();
  return Status::InvalidArgument("no pool was named; add --pool=PATH, e.g. --pool=/dev/shm/bonsai.pool");
}

Status OpenPool::close(Status work) {
  Status closed = db->Close();
  db.reset();
  return work.ok() ? closed : work;
}

namespace {

// The warning that this existing pool has another size than the requested one; empty: it has that size.
std::string unmet(const OpenPool& pool) {
  const Stats stats = pool.db->GetStats();
  uint64_t bytes = 0;
  constexpr uint64_t kRoundingMax = 4096;  // a size is rounded up to whole pages
  if (!flag_given("bytes") || !parse_size(FLAGS_bytes, "--bytes", &bytes).ok()) return "";
  bytes = (bytes + kRoundingMax - 1) / kRoundingMax * kRoundingMax;
  if (stats.pool_bytes == bytes * stats.targets) return "";
  return FLAGS_pool + " was there already and stays as it is, of " + human_size(stats.pool_bytes) +
         ": --bytes counts for a new pool; to enlarge it: bonsai grow --pool=" + FLAGS_pool + " --bytes=" + FLAGS_bytes;
}

}  // namespace

Status open_or_create_pool(const Options& options, OpenPool* pool, bool* created) {
  *created = false;
  Options opening = options;
  opening.create_if_missing = false;
  const Status opened = open_pool(opening, pool);
  if (opened.ok()) {
    if (!options.create_if_missing) return opened;
    if (const std::string text = unmet(*pool); !text.empty()) log_line('W', text);
    return opened;
  }
  // Missing, or left by a creation that was interrupted.
  if (!options.create_if_missing || !(opened.IsIoError() || opened.IsNotSupported())) return opened;
  Options creating = options;
  creating.error_if_exists = true;
  const Status made = open_pool(creating, pool);
  *created = made.ok();
  return says(made, "exists already") ? opened : made;
}

Status open_pool_to_read(Options options, OpenPool* pool) {
  options.create_if_missing = false;
  options.read_only = FLAGS_medium == "auto";
  const Status opened = open_pool(options, pool);
  if (!opened.IsNotSupported() || !options.read_only) return opened;
  options.read_only = false;
  return open_pool(options, pool);
}

Status open_pool(const Options& options, OpenPool* pool) {
  std::string path;
  TestOptions test;
  Status status = parse_choice("medium", FLAGS_medium, kMedia, &test.medium);
  if (status.ok()) status = pool_path(&path);
  if (!status.ok()) return status;
  {
    ProgressLine progress("recovering");
    Options reporting = options;
    reporting.open_progress = [&progress](double done) { progress.show(done); };
    status = OpenForTest(reporting, test, path, &pool->db);
  }
  if (!status.ok()) return with_remedy(std::move(status), path);
  pool->keys = {pool->db->GetStats().key_format, FLAGS_hex};
  return Status::OK();
}

Status of_missing(const std::string& path) {
  for (const std::string& target : targets_of(path)) {
    std::error_code error;
    if (is_remote(target) ||
        std::filesystem::symlink_status(target, error).type() != std::filesystem::file_type::not_found)
      continue;
    return Status::IoError("there is no pool " + target + "; check the path, or see what is there: ls -l " +
                           std::filesystem::absolute(target, error).parent_path().string());
  }
  return Status::OK();
}

Status with_remedy_of_copy(Status status, const std::string& from, const std::string& to) {
  for (const std::string& target : targets_of(from)) {
    if (says(status, target + " ") || says(status, target + ":")) return with_remedy(std::move(status), from);
  }
  return with_remedy(std::move(status), to);
}

}  // namespace bonsai::admin
