// The engine that does nothing, so that a run of it measures the harness.
#include "bench/engines/engine.h"

namespace bonsai::bench {
namespace {

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

}  // namespace

std::vector<EngineEntry> engines_of_dummy() {
  return {{"dummy", "stores nothing; shows what the harness itself costs",
           [] { return std::make_unique<DummyEngine>(); }, EngineGroup::kHarness}};
}

}  // namespace bonsai::bench
