// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/nvm/medium.h"
#include "base/probe.h"
#include "rdma/sim/core.h"

namespace bonsai::rdma {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

base::Probe crash_lost{"sim.crash_lost_a_store"};
base::Probe crash_kept{"sim.crash_kept_a_volatile_store"};
base::Probe crash_tore{"sim.crash_tore_a_line"};

uint64_t load(const std::vector<std::byte>& bytes, size_t word) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + word * kWord, kWord);
  return value;
}

void store(std::vector<std::byte>* bytes, size_t word, uint64_t value) {
  std::memcpy(bytes->data() + word * kWord, &value, kWord);
}

}  // namespace

void SimNvm::State::written(size_t offset, size_t bytes, uint64_t connection) {
  BONSAI_CHECK(offset <= view.size() && bytes <= view.size() - offset);
  for (size_t word = offset / kWord; word * kWord < offset + bytes; ++word) {
    pending[word * kWord / base::kLineBytes].push_back({word, load(view, word), connection});
  }
}

// The first `count` stores of a line have reached the medium; stores of a line do so in order.
void SimNvm::State::settle(std::vector<Store>* stores, size_t count) {
  BONSAI_CHECK(count <= stores->size());
  for (size_t i = 0; i < count; ++i) store(&durable, (*stores)[i].word, (*stores)[i].value);
  stores->erase(stores->begin(), stores->begin() + static_cast<std::ptrdiff_t>(count));
}

void SimNvm::State::drained(uint64_t connection) {
  if (domain == RemoteDomain::kAdr) return;  // they are in the caches
  for (auto& [line, stores] : pending) {
    size_t count = stores.size();
    while (count > 0 && stores[count - 1].connection != connection) --count;
    settle(&stores, count);
  }
}

void SimNvm::State::flushed(size_t offset, size_t bytes) {
  if (bytes == 0) return;
  BONSAI_CHECK(offset < view.size() && bytes <= view.size() - offset);
  const size_t first = offset / base::kLineBytes * base::kLineBytes;
  const size_t end =
      std::min((offset + bytes + base::kLineBytes - 1) / base::kLineBytes * base::kLineBytes, view.size());
  for (size_t line = first / base::kLineBytes; line * base::kLineBytes < end; ++line) pending.erase(line);
  std::copy(view.begin() + static_cast<std::ptrdiff_t>(first), view.begin() + static_cast<std::ptrdiff_t>(end),
            durable.begin() + static_cast<std::ptrdiff_t>(first));
}

void SimNvm::State::crash(SimCore& core) {
  for (auto& [line, stores] : pending) {
    if (stores.empty()) continue;
    const size_t kept = core.dice.below(stores.size() + 1);
    (kept == 0 ? crash_lost : kept == stores.size() ? crash_kept : crash_tore).hit();
    core.note(SimStep::kCrash, line, kept);
    settle(&stores, kept);
  }
  pending.clear();
  view = durable;
}

SimNvm::SimNvm(std::shared_ptr<SimCore> core, size_t bytes, RemoteDomain domain)
    : core_(std::move(core)), state_(std::make_unique<State>(bytes, domain)) {
  BONSAI_CHECK(domain != RemoteDomain::kUnknown && bytes % base::kLineBytes == 0);
  core_->nvms.push_back(state_.get());
}

SimNvm::~SimNvm() { std::erase(core_->nvms, state_.get()); }

std::span<std::byte> SimNvm::view() { return state_->view; }

void SimNvm::flush(size_t offset, size_t bytes) {
  BONSAI_CHECK(offset <= state_->view.size() && bytes <= state_->view.size() - offset);
  state_->flushed(offset, bytes);
}

void SimNvm::crash() { state_->crash(*core_); }

}  // namespace bonsai::rdma
