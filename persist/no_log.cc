// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"
#include "persist/log.h"

namespace bonsai::persist {

using scale::Addr;

namespace {

class NoLog final : public Log {
 public:
  explicit NoLog(Config config) : Log(std::move(config)) {
    // All segments count as free for callers that check how full the log is, and none is ever used up.
    for (uint32_t i = 0; i < table_.size(); ++i) {
      table_[i].live.store(kNeverDead, std::memory_order_relaxed);
      give_free(i);
    }
  }

  Result append(const Update&, Use, uint32_t* segment) override {
    *segment = mine();
    return Result::kOk;
  }
  Result append_placed(const Update&, Use, Placing* placing, uint32_t* segment) override {
    if (placing->place()) *segment = mine();
    return Result::kOk;
  }
  Result append_batch(std::span<const Update>, Use, uint32_t* segment) override {
    *segment = mine();
    return Result::kOk;
  }
  Result append_shares(std::span<const Update>, std::span<const uint32_t> segments, uint32_t* segment) override {
    for (const uint32_t each : segments) give_free(each);
    *segment = mine();
    return Result::kOk;
  }
  Status close_epoch() override { return Status::OK(); }
  Status note_ends() override { return Status::OK(); }
  Status seal_all() override { return Status::OK(); }

  static constexpr size_t kSegments = 64;

 private:
  static constexpr int64_t kNeverDead = INT64_MAX / 2;
  static constexpr uint32_t kSegmentsPerLine = base::kLineBytes / sizeof(Segment);

  // Threads count in lines of their own.
  static uint32_t mine() { return base::thread_ordinal() * kSegmentsPerLine % kSegments; }
};

}  // namespace

std::unique_ptr<Log> make_no_log(Log::Config config) {
  config.segments.assign(NoLog::kSegments, Addr());
  config.buffered = false;
  return std::make_unique<NoLog>(std::move(config));
}

}  // namespace bonsai::persist
