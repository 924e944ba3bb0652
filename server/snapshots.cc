// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots.h"

#include <algorithm>
#include <utility>

#include "admin/text.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/with_memory.h"

namespace bonsai::server {
namespace {

Status check_name(std::string_view name) {
  if (!name.empty() && name.size() <= kSnapshotNameBytesMax) return Status::OK();
  return Status::InvalidArgument("the name of a snapshot has 1 to " + std::to_string(kSnapshotNameBytesMax) + " bytes");
}

}  // namespace

Status Snapshots::create(std::string_view name, uint64_t life_ms) {
  BONSAI_RETURN_IF_ERROR(check_name(name));
  return base::with_memory([&] {
    drop_expired();
    const std::lock_guard lock(mutex_);
    if (entries_.find(name) != entries_.end()) {
      return Status::InvalidArgument("there is a snapshot '" + admin::escape(name) +
                                     "'; end it by SNAPSHOT DROP, or choose another name");
    }
    if (entries_.size() >= count_max_) {
      return Status::Unavailable("there are " + std::to_string(entries_.size()) +
                                 " snapshots, and --snapshots_max of the server allows no more; end one by SNAPSHOT "
                                 "DROP, or wait until one expires");
    }
    Entry made;
    BONSAI_RETURN_IF_ERROR(db_.GetSnapshot(&made.snapshot));
    made.end_ns = base::now_ns() + life_ms * base::kNsPerMs;
    entries_.emplace(name, std::move(made));
    set_next_end();
    return Status::OK();
  });
}

Snapshots::Shared Snapshots::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found != entries_.end() && base::now_ns() < found->second.end_ns ? found->second.snapshot : nullptr;
}

bool Snapshots::drop(std::string_view name) {
  Entry ended;  // outside of the lock
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return false;
  ended = std::move(found->second);
  entries_.erase(found);
  set_next_end();
  return base::now_ns() < ended.end_ns;
}

void Snapshots::drop_expired() {
  const uint64_t now_ns = base::now_ns();
  if (now_ns < next_end_ns_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [now_ns](const auto& each) { return each.second.end_ns <= now_ns; });
  set_next_end();
}

std::vector<Snapshots::Row> Snapshots::list() const {
  const uint64_t now_ns = base::now_ns();
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  for (const auto& [name, entry] : entries_) {
    if (now_ns < entry.end_ns) rows.push_back({name, (entry.end_ns - now_ns + base::kNsPerMs - 1) / base::kNsPerMs});
  }
  return rows;
}

size_t Snapshots::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

// Requires: mutex_ is held.
void Snapshots::set_next_end() {
  uint64_t next_ns = UINT64_MAX;
  for (const auto& [name, entry] : entries_) next_ns = std::min(next_ns, entry.end_ns);
  next_end_ns_.store(next_ns, std::memory_order_relaxed);
}

}  // namespace bonsai::server
