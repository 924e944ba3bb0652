// SPDX-License-Identifier: Apache-2.0
#include "server/transaction.h"

#include <algorithm>

#include "base/clock.h"
#include "base/status_macros.h"
#include "server/state.h"

namespace bonsai::server {
namespace {

constexpr uint64_t kPartBytes = 64;  // what a command, an argument, or a key takes besides its bytes

// A snapshot that counts as a watcher as long as it is there.
class Watcher {
 public:
  explicit Watcher(State* state) : state_(*state), number_(state->watchers.fetch_add(1) + 1) {}
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher() { state_.watchers.fetch_sub(1); }

  Status begin() {
    if (number_ <= kWatchersMax) return state_.db->GetSnapshot(&since_);
    return Status::Unavailable(std::to_string(kWatchersMax) + " clients watch keys at the moment; try again later");
  }
  [[nodiscard]] const Snapshot* since() const { return since_.get(); }

 private:
  State& state_;
  const uint64_t number_;
  std::shared_ptr<const Snapshot> since_;
};

}  // namespace

void Transaction::break_off() {
  broken_ = true;
  queued_.clear();
  bytes_ = 0;
}

bool Transaction::queue(const Command& command, std::span<const std::string_view> args, uint64_t bytes_max) {
  uint64_t bytes = kPartBytes;
  for (const std::string_view each : args) bytes += each.size() + kPartBytes;
  if (bytes > bytes_max - std::min(bytes_, bytes_max)) return false;
  if (broken_) return true;  // it will not be carried out
  queued_.push_back({&command, {args.begin(), args.end()}});
  bytes_ += bytes;
  return true;
}

void Transaction::overtake() {
  watch_ = Watch();
  watch_.overtaken = true;
}

// The keys of before count from now on, if they are as they were then. So one moment is enough.
Status Transaction::watch(State* state, std::span<const std::string_view> keys) {
  uint64_t bytes = watch_.bytes;
  for (const std::string_view each : keys) bytes += each.size() + kPartBytes;
  if (bytes > state->config.transaction_bytes_max) {
    return Status::InvalidArgument("the watched keys take more than --transaction_bytes_max of the server");
  }
  const auto watcher = std::make_shared<Watcher>(state);
  BONSAI_RETURN_IF_ERROR(watcher->begin());
  const std::shared_ptr<const Snapshot> now(watcher, watcher->since());
  WriteBatch check;  // without updates
  for (const std::string& each : watch_.keys) check.Require(each, Condition::Unchanged(*watch_.since));
  for (const std::string_view each : keys) check.Require(each, Condition::Unchanged(*now));
  const Status status = state->db->Write(check);
  if (!status.ok() && !status.IsConditionFailed()) return status;
  if (status.IsConditionFailed() || watch_.overtaken) {
    overtake();
    return Status::OK();
  }
  watch_.keys.insert(watch_.keys.end(), keys.begin(), keys.end());
  watch_.since = now;
  watch_.bytes = bytes;
  watch_.begun_ns = base::now_ns();
  return Status::OK();
}

void Transaction::end_watch_before(uint64_t ns) {
  if (watch_.since != nullptr && watch_.begun_ns < ns) overtake();
}

}  // namespace bonsai::server
