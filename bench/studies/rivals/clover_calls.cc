// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/clover_calls.h"

#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"

namespace bonsai::bench::rivals::clover {

namespace {

constexpr size_t kAnswersAt = 576;  // after the longest call
static_assert(kAnswersAt >= sizeof(ReportCall));

void raise(std::atomic<uint64_t>* word, uint64_t to) {
  uint64_t now = word->load(std::memory_order_relaxed);
  while (now < to && !word->compare_exchange_weak(now, to, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace

void EpochView::learn(uint64_t epoch, uint64_t asked_ns) {
  raise(&epoch_, epoch);
  raise(&asked_ns_, asked_ns);
}

std::optional<uint64_t> EpochView::recent() const {
  const uint64_t asked_ns = asked_ns_.load(std::memory_order_acquire);
  if (asked_ns == 0 || base::now_ns() - asked_ns >= epoch_ns_) return std::nullopt;
  return epoch();
}

Status MetadataCaller::make(Connection* connection, size_t first_worker, EpochView* epochs,
                            std::unique_ptr<MetadataCaller>* caller) {
  std::unique_ptr<MetadataCaller> made(new MetadataCaller(connection, first_worker, epochs));
  const size_t bytes = kAnswersAt + made->workers() * sizeof(Answer);
  BONSAI_RETURN_IF_ERROR(rdma::RegisteredMemory::make(connection->fabric(), bytes, {.write = true}, &made->memory_));
  *caller = std::move(made);
  return Status::OK();
}

template <class AnyCall>
Status MetadataCaller::ask(AnyCall* call, Answer* answer) {
  call->token = ++tokens_;
  const size_t worker = (connection_->number() + tokens_) % workers();  // callers begin at different ones
  const size_t answer_at = kAnswersAt + worker * sizeof *answer;
  call->answer = memory_->remote().at(answer_at);
  std::memcpy(memory_->data(), call, sizeof *call);
  batch_.send(static_cast<uint16_t>(first_worker_ + worker), memory_->slice(0, sizeof *call));
  const uint64_t asked_ns = base::now_ns();
  BONSAI_RETURN_IF_ERROR(batch_.run());
  BONSAI_RETURN_IF_ERROR(connection_->worker().await("clover.metadata", Connection::kWaitMs, [&] {
    base::racy_load(answer, memory_->data() + answer_at, sizeof *answer);
    return answer->check == answer->check_of(call->token);
  }));
  epochs_.learn(answer->epoch, asked_ns);
  return Status::OK();
}

Status MetadataCaller::call(Call call, Answer* answer) { return ask(&call, answer); }
Status MetadataCaller::call(ReportCall call, Answer* answer) { return ask(&call, answer); }

}  // namespace bonsai::bench::rivals::clover
