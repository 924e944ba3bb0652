// SPDX-License-Identifier: Apache-2.0
// Deletion of a range: a batch of the keys that a scan has found. So readers, crashes and recovery know nothing new,
// and the bound is that of a batch. docs/design.md, section 5, says what a record for a whole range would take.
#include <string>

#include "base/status_macros.h"
#include "store/db_impl.h"
#include "store/options.h"

namespace bonsai::store {

// Adds a delete for each record of the range.
Status DbImpl::deletes_of_range(const ScanOptions& options, std::string_view from, WriteBatch* batch) {
  const uint64_t bytes_max = BatchBytesMax();
  uint64_t bytes = 0;
  const auto add = [&](std::string_view key, std::string_view) {
    bytes += key.size() + persist::kUpdateOverheadBytesMax;
    if (bytes > bytes_max) return false;
    batch->Delete(key);
    return true;
  };
  BONSAI_RETURN_IF_ERROR(Scan(options, from, add));
  if (bytes <= bytes_max) return Status::OK();
  return Status::InvalidArgument("the range has more records than are deleted at one moment: the first " +
                                 std::to_string(batch->Count()) + " take " + std::to_string(bytes_max) +
                                 " bytes of log, as many as a batch has; delete it in parts, by a limit of " +
                                 std::to_string(batch->Count()) + " or less, until nothing is left of it");
}

Status DbImpl::DeleteRange(const ScanOptions& options, std::string_view from, uint64_t* deleted) {
  if (deleted != nullptr) *deleted = 0;
  if (options.snapshot != nullptr) {
    return Status::InvalidArgument("a range is deleted as it is now, not as of a snapshot; pass none");
  }
  WriteBatch batch;
  BONSAI_RETURN_IF_ERROR(with_memory([&] { return deletes_of_range(options, from, &batch); }));
  if (batch.Count() == 0) return Status::OK();
  BONSAI_RETURN_IF_ERROR(Write(batch));
  if (deleted != nullptr) *deleted = batch.Count();
  return Status::OK();
}

}  // namespace bonsai::store
