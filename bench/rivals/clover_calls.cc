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

Status MetadataCaller::make(Connection* connection, std::unique_ptr<MetadataCaller>* caller) {
  std::unique_ptr<MetadataCaller> made(new MetadataCaller(connection));
  BONSAI_RETURN_IF_ERROR(
      rdma::RegisteredMemory::make(connection->fabric(), kAnswerAt + sizeof(Answer), {.write = true}, &made->memory_));
  *caller = std::move(made);
  return Status::OK();
}

template <class AnyCall>
Status MetadataCaller::ask(AnyCall* call, Answer* answer) {
  call->token = ++tokens_;
  call->answer = memory_->remote().at(kAnswerAt);
  std::memcpy(memory_->data(), call, sizeof *call);
  batch_.send(static_cast<uint16_t>(connection_->memory_nodes() - 1), memory_->slice(0, sizeof *call));
  BONSAI_RETURN_IF_ERROR(batch_.run());
  return connection_->worker().await("clover.metadata", Connection::kWaitMs, [&] {
    base::racy_load(answer, memory_->data() + kAnswerAt, sizeof *answer);
    return answer->check == answer->check_of(call->token);
  });
}

Status MetadataCaller::call(Call call, Answer* answer) { return ask(&call, answer); }
Status MetadataCaller::call(ReportCall call, Answer* answer) { return ask(&call, answer); }

}  // namespace bonsai::bench::rivals::clover
