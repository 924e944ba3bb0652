// SPDX-License-Identifier: Apache-2.0
// Whether one target of a link still takes writes and reads, and why not.
//
// A target only gets worse: it takes writes and reads; reads only, after a write that was not confirmed; nothing, after
// one of its connections has ended. The first reason stays.
//
// Thread-safety: all methods.
#ifndef BONSAI_SCALE_TARGET_STATE_H_
#define BONSAI_SCALE_TARGET_STATE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "bonsai/status.h"

namespace bonsai::scale {

class TargetState {
 public:
  // `name`: the target as users name it.
  explicit TargetState(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool takes_writes() const { return stage() == Stage::kServing; }
  [[nodiscard]] bool takes_reads() const { return stage() != Stage::kLost; }
  // OK, or Unavailable: what happened first, and what to do.
  [[nodiscard]] Status status() const;

  // A write may not be durable: the target takes no more writes.
  void fail_write(const Status& why);
  // A connection has ended: the target takes nothing any more.
  void lose(const Status& why);

 private:
  enum class Stage : uint8_t { kServing, kReadOnly, kLost };
  [[nodiscard]] Stage stage() const { return stage_.load(std::memory_order_acquire); }
  void worsen(Stage stage, std::string_view what, const Status& why);

  const std::string name_;
  std::atomic<Stage> stage_{Stage::kServing};
  mutable std::mutex mutex_;  // of the reason
  Status status_;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_TARGET_STATE_H_
