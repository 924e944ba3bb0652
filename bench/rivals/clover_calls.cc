// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/clover_calls.h"

#include <cstring>
#include <utility>

#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"

namespace bonsai::bench::rivals::clover {

namespace {

constexpr size_t kAnswerAt = 576;  // after the longest call
static_assert(kAnswerAt >= sizeof(ReportCall));

}  // namespace

Status MetadataCaller::make(Connection* connection, size_t first_worker, std::unique_ptr<MetadataCaller>* caller) {
  std::unique_ptr<MetadataCaller> made(new MetadataCaller(connection, first_worker));
  BONSAI_RETURN_IF_ERROR(
      rdma::RegisteredMemory::make(connection->fabric(), kAnswerAt + sizeof(Answer), {.write = true}, &made->memory_));
  *caller = std::move(made);
  return Status::OK();
}

// Callers begin at different ones.
uint16_t MetadataCaller::next_worker() const {
  const size_t workers = connection_->memory_nodes() - first_worker_;
  return static_cast<uint16_t>(first_worker_ + (connection_->number() + tokens_) % workers);
}

template <class AnyCall>
Status MetadataCaller::ask(AnyCall* call, Answer* answer) {
  call->token = ++tokens_;
  call->answer = memory_->remote().at(kAnswerAt);
  std::memcpy(memory_->data(), call, sizeof *call);
  batch_.send(next_worker(), memory_->slice(0, sizeof *call));
  BONSAI_RETURN_IF_ERROR(batch_.run());
  return connection_->worker().await("clover.metadata", Connection::kWaitMs, [&] {
    base::racy_load(answer, memory_->data() + kAnswerAt, sizeof *answer);
    return answer->check == answer->check_of(call->token);
  });
}

Status MetadataCaller::call(Call call, Answer* answer) { return ask(&call, answer); }
Status MetadataCaller::call(ReportCall call, Answer* answer) { return ask(&call, answer); }

}  // namespace bonsai::bench::rivals::clover
