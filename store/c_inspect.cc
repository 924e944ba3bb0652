// SPDX-License-Identifier: Apache-2.0
// The C interface's view into a store and its pool: version, codes, statistics, check, groups, medium.
#include "bonsai/groups.h"
#include "bonsai/stats_fields.h"
#include "store/c_types.h"

namespace bonsai::c {
namespace {

static_assert(BONSAI_OK == static_cast<int>(Status::Code::kOk));
static_assert(BONSAI_NOT_FOUND == static_cast<int>(Status::Code::kNotFound));
static_assert(BONSAI_INVALID_ARGUMENT == static_cast<int>(Status::Code::kInvalidArgument));
static_assert(BONSAI_NO_SPACE == static_cast<int>(Status::Code::kNoSpace));
static_assert(BONSAI_CORRUPTION == static_cast<int>(Status::Code::kCorruption));
static_assert(BONSAI_IO_ERROR == static_cast<int>(Status::Code::kIoError));
static_assert(BONSAI_UNAVAILABLE == static_cast<int>(Status::Code::kUnavailable));
static_assert(BONSAI_BUSY == static_cast<int>(Status::Code::kBusy));
static_assert(BONSAI_NOT_SUPPORTED == static_cast<int>(Status::Code::kNotSupported));
static_assert(BONSAI_CONDITION_FAILED == static_cast<int>(Status::Code::kConditionFailed));

static_assert(BONSAI_KEY_FIXED8 == static_cast<int>(KeyFormat::kFixed8));
static_assert(BONSAI_BUFFERED == static_cast<int>(Durability::kBuffered));
static_assert(BONSAI_PERSISTENCE_DOMAIN_ADR == static_cast<int>(PersistenceDomain::kAdr));
static_assert(BONSAI_PERSISTENCE_DOMAIN_EADR == static_cast<int>(PersistenceDomain::kEadr));
static_assert(BONSAI_MEDIUM_DRAM == static_cast<int>(MediumChoice::kDram));

static_assert(BONSAI_KEY_BYTES_MIN == kKeyBytesMin && BONSAI_KEY_BYTES_MAX == kKeyBytesMax);
static_assert(BONSAI_VALUE_BYTES_MAX == kValueBytesMax && BONSAI_POOL_BYTES_MIN == kPoolBytesMin);

struct ReportField {
  std::string_view name;
  uint64_t CheckReport::*member;
};

constexpr ReportField kReportFields[] = {
    {"targets", &CheckReport::targets},
    {"dnodes", &CheckReport::dnodes},
    {"records", &CheckReport::records},
    {"log_records", &CheckReport::log_records},
    {"large_values", &CheckReport::large_values},
    {"data_bytes", &CheckReport::data_bytes},
    {"data_bytes_used", &CheckReport::data_bytes_used},
};

// Looks `name` up in a table of {name, member} and reads that member of `object`.
template <typename Table, typename Object>
int find_field(const Table& table, const Object& object, const char* name, uint64_t* value) noexcept {
  if (name == nullptr) return BONSAI_NOT_FOUND;
  for (const auto& field : table) {
    if (field.name != name) continue;
    *value = object.*field.member;
    return BONSAI_OK;
  }
  return BONSAI_NOT_FOUND;
}

const char* text_of(const std::vector<Damage>& list, size_t index, std::string Damage::*text) noexcept {
  return index < list.size() ? (list[index].*text).c_str() : nullptr;
}

// A copy for the caller to free.
Status put_text(const std::string& from, char** text) {
  *text = copy_out(from);
  return *text == nullptr ? Status::NoSpace("out of memory") : Status::OK();
}

std::string groups_text(const std::vector<GroupInfo>& groups) {
  std::string text;
  for (const GroupInfo& group : groups) text += GroupText(group);
  return text;
}

Status missing_path() { return Status::InvalidArgument("the path is NULL; pass the path of a pool"); }

}  // namespace
}  // namespace bonsai::c

using bonsai::kStatsFields;
using bonsai::c::guarded;

extern "C" {

const char* bonsai_version(void) { return BONSAI_VERSION_STRING; }
int bonsai_version_number(void) { return BONSAI_VERSION_NUMBER; }

const char* bonsai_code_name(int code) {
  return bonsai::Status::CodeName(static_cast<bonsai::Status::Code>(code)).data();  // names are string literals
}

void bonsai_free(void* pointer) { std::free(pointer); }

void bonsai_fixed8_encode(uint64_t number, char key[8]) {
  for (int i = 7; i >= 0; --i, number >>= 8) key[i] = static_cast<char>(number & 0xff);
}

uint64_t bonsai_fixed8_decode(const char key[8]) {
  uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | static_cast<unsigned char>(key[i]);
  return number;
}

bonsai_stats_t* bonsai_stats_create(const bonsai_t* db) {
  bonsai_stats_t* stats = nullptr;
  guarded(nullptr, [&] {
    stats = new bonsai_stats_t{db->db->GetStats()};
    return bonsai::Status::OK();
  });
  return stats;
}

void bonsai_stats_destroy(bonsai_stats_t* stats) { delete stats; }
size_t bonsai_stats_count(const bonsai_stats_t*) { return std::size(kStatsFields); }
const char* bonsai_stats_name(const bonsai_stats_t*, size_t index) {
  return index < std::size(kStatsFields) ? kStatsFields[index].name.data() : nullptr;
}
uint64_t bonsai_stats_value(const bonsai_stats_t* stats, size_t index) {
  return index < std::size(kStatsFields) ? stats->stats.*kStatsFields[index].member : 0;
}
int bonsai_stats_find(const bonsai_stats_t* stats, const char* name, uint64_t* value) {
  return bonsai::c::find_field(kStatsFields, stats->stats, name, value);
}
const char* bonsai_stats_medium(const bonsai_stats_t* stats) { return stats->stats.medium.c_str(); }
unsigned char bonsai_stats_emulated(const bonsai_stats_t* stats) { return stats->stats.emulated ? 1 : 0; }
int bonsai_stats_key_format(const bonsai_stats_t* stats) { return static_cast<int>(stats->stats.key_format); }
int bonsai_stats_layout(const bonsai_stats_t* stats) { return static_cast<int>(stats->stats.layout); }

int bonsai_check(const char* path, bonsai_progress progress, void* arg, bonsai_check_report_t** report, char** errptr) {
  *report = nullptr;
  return guarded(errptr, [&]() -> bonsai::Status {
    if (path == nullptr) return bonsai::c::missing_path();
    auto fresh = std::make_unique<bonsai_check_report_t>();
    bonsai::Status status = bonsai::Check(path, &fresh->report, bonsai::c::progress_function(progress, arg));
    if (status.ok()) *report = fresh.release();
    return status;
  });
}

void bonsai_check_report_destroy(bonsai_check_report_t* report) { delete report; }
size_t bonsai_check_report_damages(const bonsai_check_report_t* report) { return report->report.damages.size(); }
const char* bonsai_check_report_where(const bonsai_check_report_t* report, size_t index) {
  return bonsai::c::text_of(report->report.damages, index, &bonsai::Damage::where);
}
const char* bonsai_check_report_what(const bonsai_check_report_t* report, size_t index) {
  return bonsai::c::text_of(report->report.damages, index, &bonsai::Damage::what);
}
const char* bonsai_check_report_key_range(const bonsai_check_report_t* report, size_t index) {
  return bonsai::c::text_of(report->report.damages, index, &bonsai::Damage::key_range);
}
size_t bonsai_check_report_repairs(const bonsai_check_report_t* report) { return report->report.repairs.size(); }
const char* bonsai_check_report_repair_where(const bonsai_check_report_t* report, size_t index) {
  return bonsai::c::text_of(report->report.repairs, index, &bonsai::Damage::where);
}
const char* bonsai_check_report_repair_what(const bonsai_check_report_t* report, size_t index) {
  return bonsai::c::text_of(report->report.repairs, index, &bonsai::Damage::what);
}
unsigned char bonsai_check_report_clean(const bonsai_check_report_t* report) { return report->report.clean ? 1 : 0; }
int bonsai_check_report_find(const bonsai_check_report_t* report, const char* name, uint64_t* value) {
  return bonsai::c::find_field(bonsai::c::kReportFields, report->report, name, value);
}

int bonsai_checkpoint(bonsai_t* db, const bonsai_options_t* options, const char* to, const bonsai_snapshot_t* snapshot,
                      uint64_t* records, char** errptr) {
  return guarded(errptr, [&]() -> bonsai::Status {
    bonsai::Options how;
    bonsai::Status status = bonsai::c::options_for(options, to, &how);
    if (!status.ok()) return status;
    return bonsai::Checkpoint(db->db.get(), how, to, snapshot == nullptr ? nullptr : snapshot->snapshot.get(), records);
  });
}

int bonsai_salvage(const char* from, const bonsai_options_t* options, const char* to, bonsai_progress progress,
                   void* arg, bonsai_check_report_t** report, char** errptr) {
  *report = nullptr;
  return guarded(errptr, [&]() -> bonsai::Status {
    if (from == nullptr) return bonsai::c::missing_path();
    bonsai::Options how;
    bonsai::Status status = bonsai::c::options_for(options, to, &how);
    if (!status.ok()) return status;
    auto fresh = std::make_unique<bonsai_check_report_t>();
    bonsai::SalvageReport salvaged;
    status = bonsai::Salvage(from, how, to, &salvaged, bonsai::c::progress_function(progress, arg));
    if (!status.ok()) return status;
    fresh->report.records = salvaged.records;
    fresh->report.damages = std::move(salvaged.lost);
    *report = fresh.release();
    return status;
  });
}

int bonsai_describe_groups(const bonsai_t* db, char** text, char** errptr) {
  *text = nullptr;
  return guarded(errptr, [&] { return bonsai::c::put_text(bonsai::c::groups_text(bonsai::GetGroups(*db->db)), text); });
}

int bonsai_describe_pool_groups(const char* path, char** text, char** errptr) {
  *text = nullptr;
  return guarded(errptr, [&]() -> bonsai::Status {
    if (path == nullptr) return bonsai::c::missing_path();
    std::vector<bonsai::GroupInfo> groups;
    bonsai::Status status = bonsai::GetGroups(path, &groups);
    return status.ok() ? bonsai::c::put_text(bonsai::c::groups_text(groups), text) : status;
  });
}

int bonsai_scrub_groups(bonsai_t* db, char** errptr) {
  return guarded(errptr, [&] { return bonsai::ScrubGroups(*db->db); });
}

int bonsai_describe_medium(const char* path, char** text, char** errptr) {
  *text = nullptr;
  return guarded(errptr, [&]() -> bonsai::Status {
    if (path == nullptr) return bonsai::c::missing_path();
    std::string description;
    bonsai::Status status = bonsai::DescribeMedium(path, &description);
    return status.ok() ? bonsai::c::put_text(description, text) : status;
  });
}

}  // extern "C"
