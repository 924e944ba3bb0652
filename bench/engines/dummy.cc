// SPDX-License-Identifier: Apache-2.0
// Engines that store nothing: one that answers at once, so that a run of it measures the harness, and one that takes a
// fixed time, so that it shows whether the harness measures that.
#include "base/clock.h"
#include "bench/engines/engine.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kDummyDelayNs = base::kNsPerUs;

class DummyEngine final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override {
    return {.threads = true, .durability = false, .scan = true, .many = true, .keeps_data = false};
  }
  Status open(const EngineOptions&) override { return Status::OK(); }
  Status close() override { return Status::OK(); }
  Status insert(std::string_view, std::string_view) override { return Status::OK(); }
  Status read(std::string_view, std::string*) override { return Status::OK(); }
  Status remove(std::string_view) override { return Status::OK(); }
  Status scan(std::string_view, uint32_t, const ScanVisit&) override { return Status::OK(); }
};

// Processor time is used up, as a store would.
class DelayedDummyEngine final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {.threads = true, .keeps_data = false}; }
  Status open(const EngineOptions&) override { return Status::OK(); }
  Status close() override { return Status::OK(); }
  Status insert(std::string_view, std::string_view) override { return delayed(); }
  Status read(std::string_view, std::string*) override { return delayed(); }
  Status remove(std::string_view) override { return delayed(); }

 private:
  static Status delayed() {
    const uint64_t end_ns = base::now_ns() + kDummyDelayNs;
    while (base::now_ns() < end_ns) {
    }
    return Status::OK();
  }
};

}  // namespace

const Registered<EngineEntry> kDummyEngines("dummy", []() -> std::vector<EngineEntry> {
  return {{"dummy", "stores nothing; shows what the harness itself costs",
           [] { return std::make_unique<DummyEngine>(); }, EngineGroup::kHarness},
          {"dummy_delayed", "stores nothing and takes 1 us; shows whether the harness measures that",
           [] { return std::make_unique<DelayedDummyEngine>(); }, EngineGroup::kHarness}};
});

}  // namespace bonsai::bench
