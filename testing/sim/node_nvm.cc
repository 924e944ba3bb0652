// SPDX-License-Identifier: Apache-2.0
#include "testing/sim/node_nvm.h"

#include "base/coro/scheduler.h"
#include "base/probe.h"

namespace bonsai::testing::sim {
namespace {

base::Probe lost{"world.local_power_cut_with_stores_in_flight"};
base::Probe fence_after_cut{"world.local_fence_after_power_cut"};
base::Probe fence_failed{"world.local_fence_failed"};

constexpr uint64_t kImagesMax = 24;  // of which one is chosen

uint64_t running_coroutine() {
  return base::Scheduler::current() == nullptr ? 0 : 1 + base::Scheduler::token().coroutine;
}

}  // namespace

struct NodeNvm::Memory {
  Memory(std::span<const std::byte> image, PersistenceDomain domain) : recorder(image, domain, running_coroutine) {}
  base::RecorderMedium recorder;
  bool frozen = false;
  std::string_view fails_at;  // the site of the next fence that fails
  uint64_t fences_left = 0;   // before `happens`
  std::function<void()> happens;
};

class NodeNvm::Opened final : public base::HookedMedium {
 public:
  explicit Opened(std::shared_ptr<Memory> memory)
      : HookedMedium(memory->recorder.view(), memory->recorder.bytes()), memory_(std::move(memory)) {}

  void store8(std::byte* dst, uint64_t value) override {
    base::Scheduler::yield();
    memory_->recorder.store8(dst, value);
  }
  void copy(std::byte* dst, const void* src, size_t n) override {
    base::Scheduler::yield();
    memory_->recorder.copy(dst, src, n);
  }
  void nt_copy(std::byte* dst, const void* src, size_t n, const base::Site& site) override {
    base::Scheduler::yield();
    memory_->recorder.nt_copy(dst, src, n, site);
  }
  void flush(const std::byte* dst, size_t n, const base::Site& site) override {
    base::Scheduler::yield();
    memory_->recorder.flush(dst, n, site);
  }
  bool fence(const base::Site& site) override {
    base::Scheduler::yield();
    if (memory_->fences_left != 0 && --memory_->fences_left == 0) memory_->happens();
    if (memory_->frozen) {
      fence_after_cut.hit();
      return false;
    }
    if (memory_->fails_at == site.name) {
      memory_->fails_at = {};
      memory_->recorder.fail_fence(1);
    }
    const bool kept = memory_->recorder.fence(site);
    if (!kept) fence_failed.hit();
    base::Scheduler::yield();
    return kept;
  }

 private:
  const std::shared_ptr<Memory> memory_;
};

NodeNvm::NodeNvm(uint64_t bytes, PersistenceDomain domain)
    : domain_(domain), memory_(std::make_shared<Memory>(std::vector<std::byte>(bytes), domain)) {}

std::unique_ptr<base::HookedMedium> NodeNvm::open() { return std::make_unique<Opened>(memory_); }

void NodeNvm::fail_fence(uint64_t n) { memory_->recorder.fail_fence(n); }

void NodeNvm::fail_fence_at(std::string_view site) { memory_->fails_at = site; }

void NodeNvm::before_fence(uint64_t n, std::function<void()> happens) {
  memory_->fences_left = n;
  memory_->happens = std::move(happens);
}

void NodeNvm::power_cut(base::Random& dice) {
  base::RecorderMedium& recorder = memory_->recorder;
  if (recorder.pending_words() != 0) lost.hit();
  std::vector<std::byte> left;
  uint64_t seen = 0;
  recorder.each_crash_image(kImagesMax, dice, [&](std::span<const std::byte> image) {
    if (dice.below(++seen) == 0) left.assign(image.begin(), image.end());
  });
  memory_->frozen = true;
  memory_ = std::make_shared<Memory>(left, domain_);
}

std::span<const std::byte> NodeNvm::durable() const { return memory_->recorder.durable_image(); }

std::span<const std::byte> NodeNvm::view() const { return {memory_->recorder.view(), memory_->recorder.bytes()}; }

}  // namespace bonsai::testing::sim
