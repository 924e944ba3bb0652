// SPDX-License-Identifier: Apache-2.0
#include "admin/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <string_view>

#include "bonsai/options.h"

namespace bonsai::admin {
namespace {

constexpr double kMiBytes = 1 << 20;
constexpr uint64_t kBlockBytes = 256;

// docs/format.md, Run, and Large reference.
constexpr uint64_t kUniformHead = 4, kVariableHead = 14, kLargeRef = 16, kLargeMin = 4096;

// A range has so many records after a load in random order, or as many as fit into its bytes. In pools of many millions
// it has up to three times as many, and then costs less.
constexpr double kRangeRecords = 340, kRangeBytes = 65'536;
constexpr double kRangeHeader = 256 + 128 + 4;  // header, half a block of rounding, the run's check
constexpr double kDataFixed = 131'072;          // extents of headers are claimed as a whole

constexpr double kRoomLoaded = 1.25, kRoomUpdated = 1.75;  // a fifth is free; superseded entries take three quarters
constexpr double kLogShare = .1, kTables = .02;            // of the pool
constexpr double kLogInUse = .875;
constexpr double kEntryWrites = 4;  // an entry is appended, and written again by compaction

constexpr double kDramFixed = 4.5 * kMiBytes, kDramRecord = 2, kDramRecordDiffering = 6, kDramRange = 1'024;
constexpr double kDramRangeUpdates = 32'768;  // a table of 512 slots, and its nodes

Status between(std::string_view flag, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return Status::OK();
  return Status::InvalidArgument(std::string(flag) + " is " + std::to_string(value) + "; give a number from " +
                                 std::to_string(least) + " to " + std::to_string(most));
}

Status check(const Workload& workload) {
  Status status = between("--records", workload.records, 1, kPlanRecordsMax);
  if (status.ok()) status = between("--key_bytes", workload.key_bytes, 1, kKeyBytesMax);
  if (status.ok()) status = between("--value_bytes", workload.value_bytes, 0, kValueBytesMax);
  if (status.ok()) status = between("--updates_per_second", workload.updates_per_second, 0, kPlanUpdatesMax);
  if (status.ok()) status = between("--targets", workload.targets, 1, kPlanNodesMax);
  if (status.ok()) status = between("--members", workload.members, 1, kPlanNodesMax);
  return status;
}

// docs/format.md, Record: check, tag, lengths, token and generation of two bytes each.
double log_record_of(uint64_t key_bytes, uint64_t value_bytes) {
  const auto length = [](uint64_t bytes) { return bytes == 8 ? 0 : (std::bit_width(bytes | 1) + 6U) / 7; };
  return static_cast<double>((4 + 1 + length(key_bytes) + length(value_bytes) + 3 + key_bytes + value_bytes + 7) / 8 *
                             8);
}

}  // namespace

Status make_plan(const Workload& workload, Plan* plan) {
  if (Status status = check(workload); !status.ok()) return status;
  *plan = Plan();
  const bool large = workload.value_bytes >= kLargeMin;
  const uint64_t in_run = large ? kLargeRef : workload.value_bytes;
  const uint64_t apart = large ? (workload.value_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes : 0;
  const auto row = static_cast<double>((large || workload.sizes_differ ? kVariableHead : kUniformHead) +
                                       workload.key_bytes + in_run);
  const auto records = static_cast<double>(workload.records),
             updates = static_cast<double>(workload.updates_per_second);
  const auto targets = static_cast<double>(workload.targets);
  const double ranges = std::ceil(records / std::max(1.0, std::min(kRangeRecords, kRangeBytes / row)));

  plan->entry = row + static_cast<double>(apart);
  plan->records = records * plan->entry + ranges * kRangeHeader + kDataFixed;
  plan->data = plan->records * (workload.updates_per_second == 0 ? kRoomLoaded : kRoomUpdated);
  plan->target = std::ceil(plan->data / (1 - kLogShare - kTables) / targets / kMiBytes) * kMiBytes;
  plan->log = plan->target * targets * kLogShare;

  const bool variable = large || workload.sizes_differ;
  plan->dram_settled = kDramFixed + records * (variable ? kDramRecordDiffering : kDramRecord) + ranges * kDramRange;
  plan->dram_most = plan->dram_settled + ranges * kDramRangeUpdates;

  plan->log_record = log_record_of(workload.key_bytes, in_run);
  plan->log_seconds = updates == 0 ? 0 : kLogInUse * plan->log / (updates * plan->log_record);
  plan->update = plan->log_record + kEntryWrites * row + static_cast<double>(apart);
  plan->nvm_per_second = updates * plan->update * static_cast<double>(workload.members);
  plan->network_per_get = plan->entry;
  return Status::OK();
}

}  // namespace bonsai::admin
