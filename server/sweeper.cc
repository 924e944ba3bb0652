// SPDX-License-Identifier: Apache-2.0
#include "server/sweeper.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/with_memory.h"
#include "server/expiry.h"

namespace bonsai::server {

Status Sweep::step() {
  if (rests()) return Status::OK();
  if (after_.empty()) {
    deadlines_ = state_.deadlines.load();
    found_ = rests_ = false;
  }
  ScanOptions options;
  options.limit = kStepRecords;
  options.from_exclusive = !after_.empty();
  std::vector<std::pair<std::string, std::string>> expired;
  std::string last;
  uint64_t records = 0, bytes = 0;
  Status status = state_.db->Scan(options, after_, [&](std::string_view key, std::string_view raw) {
    const Stored stored = parse_stored(raw);
    found_ = found_ || stored.deadline_ms != 0;
    if (has_expired(stored)) expired.emplace_back(key, raw);
    last = key;
    bytes += key.size() + raw.size();
    return ++records < kStepRecords && bytes < kStepBytes;
  });
  const bool ends = status.ok() && records < kStepRecords && bytes < kStepBytes;
  after_ = ends ? "" : last;  // also empty after an error before the first record: the walk begins anew
  if (ends) rests_ = !found_;
  for (const auto& [key, raw] : expired) {
    const Status removed = state_.db->DeleteIf(Condition::Equals(raw), key);
    if (removed.ok()) state_.counters.expired.fetch_add(1, std::memory_order_relaxed);
    if (!removed.ok() && !removed.IsConditionFailed() && status.ok()) status = removed;
  }
  return status;
}

Status Sweeper::start(State* state, uint32_t pause_ms, std::unique_ptr<Sweeper>* sweeper) {
  if (pause_ms == 0) return Status::OK();
  return base::with_memory([&] {
    sweeper->reset(new Sweeper(state, pause_ms));
    return base::Thread::start(
        "sweeper", [it = sweeper->get()] { it->run(); }, &(*sweeper)->thread_);
  });
}

void Sweeper::run() {
  while (!stop_.wait_for(pause_ms_)) {
    const Status status = base::with_memory([this] { return sweep_.step(); });
    if (!status.ok()) state_.note(status);
  }
}

Sweeper::~Sweeper() {
  stop_.signal();
  thread_.join();
}

}  // namespace bonsai::server
