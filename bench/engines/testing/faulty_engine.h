// SPDX-License-Identifier: Apache-2.0
// An engine with one fault that a test switches on. Every check of engines must find it.
#ifndef BONSAI_BENCH_ENGINES_TESTING_FAULTY_ENGINE_H_
#define BONSAI_BENCH_ENGINES_TESTING_FAULTY_ENGINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "bench/engines/engine.h"

namespace bonsai::bench {

enum class Fault {
  kNone,
  kLosesKeys,
  kMixesValues,
  kShortValues,
  kKeepsOldValues,
  kScanSkips,
  kScanEndsEarly,
  kScanBackwards,
  kScanTwice,  // the first record
  kRefuses,
  kForgetsRemovals,
  kManyAreOne,  // of writes that are submitted together only the last one is carried out
};

// An ordered map under a lock.
class FaultyEngine final : public Engine {
 public:
  explicit FaultyEngine(Fault fault) : fault_(fault) {}
  [[nodiscard]] Capabilities capabilities() const override { return {.threads = true, .scan = true, .many = true}; }
  Status open(const EngineOptions&) override { return Status::OK(); }
  Status close() override { return Status::OK(); }
  Status insert(std::string_view key, std::string_view value) override {
    std::lock_guard lock(mutex_);
    if (fault_ == Fault::kRefuses && map_.size() >= 100) return Status::NoSpace("the store is full");
    if (fault_ == Fault::kKeepsOldValues && map_.find(key) != map_.end()) return Status::OK();
    map_.insert_or_assign(std::string(key), std::string(value));
    return Status::OK();
  }
  Status read(std::string_view key, std::string* value) override {
    std::lock_guard lock(mutex_);
    const auto at = map_.find(key);
    if (at == map_.end() || fault_ == Fault::kLosesKeys) return Status::NotFound();
    *value = fault_ == Fault::kMixesValues ? map_.begin()->second : at->second;
    if (fault_ == Fault::kShortValues) value->pop_back();
    return Status::OK();
  }
  void write_many(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                  std::span<Status> statuses) override {
    const size_t skipped = fault_ == Fault::kManyAreOne && !keys.empty() ? keys.size() - 1 : 0;
    for (size_t i = 0; i < keys.size(); ++i) statuses[i] = i < skipped ? Status::OK() : insert(keys[i], values[i]);
  }
  Status remove(std::string_view key) override {
    std::lock_guard lock(mutex_);
    if (const auto at = map_.find(key); at != map_.end() && fault_ != Fault::kForgetsRemovals) map_.erase(at);
    return Status::OK();
  }
  Status scan(std::string_view from, uint32_t limit, const ScanVisit& visit) override {
    std::lock_guard lock(mutex_);
    auto at = map_.lower_bound(from);
    if (fault_ == Fault::kScanSkips && at != map_.end()) ++at;
    if (fault_ == Fault::kScanEndsEarly) limit /= 2;
    if (fault_ == Fault::kScanTwice && limit > 0 && at != map_.end()) visit(at->first, at->second);
    for (uint32_t n = 0; n < limit && at != map_.end(); ++n) {
      if (!visit(at->first, at->second)) break;
      if (fault_ != Fault::kScanBackwards) {
        ++at;
      } else if (at-- == map_.begin()) {
        break;
      }
    }
    return Status::OK();
  }

 private:
  const Fault fault_;
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> map_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_TESTING_FAULTY_ENGINE_H_
