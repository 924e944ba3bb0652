// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/fabric/probe.h"

#include <algorithm>

#include "base/clock.h"
#include "base/status_macros.h"
#include "bench/results/histogram.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kProbeLimitMs = 30'000;
constexpr uint64_t kFastNs = 2'000;       // quicker doorbells than this are timed now and then,
constexpr uint64_t kTimedEveryFast = 16;  // or reading the clock would be what is measured
constexpr uint64_t kPingsPerOrder = 50;
constexpr uint64_t kLineBytes = 64;

}  // namespace

// A doorbell in flight.
struct FabricProbe::Flight {
  rdma::WorkList list;
  uint64_t begin_ns = 0;
  bool timed = false;
};

Status FabricProbe::connect(FabricEnd* end, const std::string& address, Context context, uint64_t limit_ms,
                            std::unique_ptr<FabricProbe>* probe) {
  std::unique_ptr<FabricProbe> made(new FabricProbe(end, std::move(context)));
  BONSAI_RETURN_IF_ERROR(end->worker().connect(address, {.node = 2}, limit_ms, &made->peer_));
  end->set_word(FabricEnd::kCreditAt, 0);  // of the probe before
  BONSAI_RETURN_IF_ERROR(made->tell({.kind = OrderKind::kGreet, .region = end->remote()}));
  FabricOrder answer;
  BONSAI_RETURN_IF_ERROR(made->take_answer(&answer));
  made->far_ = answer.region;
  if (made->far_.bytes != FabricEnd::kBytes) {
    return Status::NotSupported("what listens at " + address + " is no bonsai-bench of this version; start " +
                                "bonsai-bench fabric --serve there");
  }
  *probe = std::move(made);
  return Status::OK();
}

FabricProbe::~FabricProbe() { end_.close(&peer_); }

// ---- waiting

Status FabricProbe::until(const char* name, const std::function<bool()>& ready) {
  if (!context_.pump) return end_.worker().await(name, kProbeLimitMs, ready);
  return end_.worker().await(name, kProbeLimitMs, [&] {
    context_.pump();
    return ready();
  });
}

Status FabricProbe::wait(const rdma::WorkList& list) {
  if (!context_.pump) return end_.worker().wait(list, kProbeLimitMs);
  BONSAI_RETURN_IF_ERROR(until("fabric.completion", [&] { return !list.pending(); }));
  return list.status();
}

// Before messages are sent: waits until the far side has buffers for them.
Status FabricProbe::count_sends(uint64_t messages) {
  sent_ += messages;
  const auto fit = [this] { return sent_ - end_.word(FabricEnd::kCreditAt) <= FabricEnd::kSlots; };
  return fit() ? Status::OK() : until("fabric.credit", fit);
}

Status FabricProbe::tell(const FabricOrder& order) {
  BONSAI_RETURN_IF_ERROR(count_sends(1));
  return end_.tell(*peer_, order, kProbeLimitMs);
}

Status FabricProbe::take_answer(FabricOrder* answer) {
  rdma::Message message;
  BONSAI_RETURN_IF_ERROR(until("fabric.answer", [&] { return end_.worker().receive(0, &message).ok(); }));
  if (FabricEnd::read_order(message, answer) && answer->kind == OrderKind::kAnswer) return Status::OK();
  return Status::NotSupported("the far side is no bonsai-bench of this version");
}

// ---- cells

Status FabricProbe::measure(const FabricCell& cell, uint64_t duration_ns, FabricSample* sample) {
  if (peer_ == nullptr) return Status::Unavailable("the connection was closed after an error");
  std::vector<Flight> flights(cell.depth);
  const Status status = measure_open(cell, duration_ns, &flights, sample);
  if (!status.ok()) end_.close(&peer_);
  return status;
}

Status FabricProbe::measure_open(const FabricCell& cell, uint64_t duration_ns, std::vector<Flight>* flights,
                                 FabricSample* sample) {
  const bool sends = cell.verb == rdma::Verb::kSend;
  if (sends) BONSAI_RETURN_IF_ERROR(tell({.kind = OrderKind::kBusy}));
  FabricSample first;
  BONSAI_RETURN_IF_ERROR(stream(cell, duration_ns / 10, 1, flights, &first));
  const bool fast = first.p50_us * base::kNsPerUs < kFastNs;
  BONSAI_RETURN_IF_ERROR(stream(cell, duration_ns, fast ? kTimedEveryFast : 1, flights, sample));
  const bool answered = cell.alone() && (sends || cell.verb == rdma::Verb::kWrite);
  if (answered && !sends) BONSAI_RETURN_IF_ERROR(tell({.kind = OrderKind::kBusy}));
  if (answered) BONSAI_RETURN_IF_ERROR(ping_pong(cell, duration_ns, &(*flights)[0].list, sample));
  return sends || answered ? tell({.kind = OrderKind::kIdle}) : Status::OK();
}

Status FabricProbe::stream(const FabricCell& cell, uint64_t duration_ns, uint64_t timed_every,
                           std::vector<Flight>* flights, FabricSample* sample) {
  Histogram times;
  uint64_t posted = 0, done = 0;
  const uint64_t begin_ns = context_.now_ns();
  bool over = false;
  while (!over || done < posted) {
    for (; !over && posted - done < cell.depth; ++posted) {
      Flight& flight = (*flights)[posted % cell.depth];
      flight.timed = posted % timed_every == 0;
      if (flight.timed) {
        flight.begin_ns = context_.now_ns();
        over = flight.begin_ns - begin_ns >= duration_ns && posted > 0;
        if (over) break;
      }
      BONSAI_RETURN_IF_ERROR(launch(cell, posted % cell.depth, &flight.list));
    }
    if (done == posted) break;
    const Flight& oldest = (*flights)[done++ % cell.depth];
    BONSAI_RETURN_IF_ERROR(wait(oldest.list));
    if (oldest.timed) times.record(context_.now_ns() - oldest.begin_ns);
  }
  const double seconds = static_cast<double>(context_.now_ns() - begin_ns) / base::kNsPerSecond;
  sample->p50_us = static_cast<double>(times.percentile(50)) / base::kNsPerUs;
  sample->p99_us = static_cast<double>(times.percentile(99)) / base::kNsPerUs;
  sample->messages_per_s = static_cast<double>(done * cell.batch) / seconds;
  return Status::OK();
}

// Posts the requests of the cell; requests that are in flight at once use different bytes.
Status FabricProbe::launch(const FabricCell& cell, size_t place, rdma::WorkList* list) {
  list->clear();
  const uint64_t stride = std::max(cell.bytes, kLineBytes);
  if (cell.verb == rdma::Verb::kSend) {
    end_.set_word(FabricEnd::kOutAt, static_cast<uint64_t>(OrderKind::kData));
    BONSAI_RETURN_IF_ERROR(count_sends(cell.batch));
  }
  for (uint64_t i = 0; i < cell.batch; ++i) {
    const uint64_t at = (place * cell.batch + i) * stride % (FabricEnd::kDataBytes - stride);
    switch (cell.verb) {
      case rdma::Verb::kRead:
        list->read(*peer_, far_.at(at), end_.slice(at, cell.bytes));
        break;
      case rdma::Verb::kWrite:
        list->write(*peer_, end_.slice(FabricEnd::kOutAt, cell.bytes), far_.at(at));
        break;
      case rdma::Verb::kCas:
        list->cas(*peer_, far_.at(at), 0, 0, end_.slice(at, cell.bytes));
        break;
      case rdma::Verb::kFaa:
        list->faa(*peer_, far_.at(at), 1, end_.slice(at, cell.bytes));
        break;
      default:
        list->send(*peer_, end_.slice(FabricEnd::kOutAt, cell.bytes));
        break;
    }
  }
  return end_.worker().post(list);
}

// ---- ping-pong

Status FabricProbe::ping_pong(const FabricCell& cell, uint64_t duration_ns, rdma::WorkList* list,
                              FabricSample* sample) {
  Histogram times;
  const uint64_t end_ns = context_.now_ns() + duration_ns;
  while (times.count() == 0 || context_.now_ns() < end_ns) {
    if (cell.verb == rdma::Verb::kWrite) {
      BONSAI_RETURN_IF_ERROR(
          tell({.kind = OrderKind::kPing, .bytes = cell.bytes, .count = kPingsPerOrder, .first = round_ + 1}));
    }
    for (uint64_t i = 0; i < kPingsPerOrder; ++i) {
      const uint64_t begin_ns = context_.now_ns();
      BONSAI_RETURN_IF_ERROR(cell.verb == rdma::Verb::kWrite ? ping(cell, list) : echo(cell, list));
      times.record(context_.now_ns() - begin_ns);
      BONSAI_RETURN_IF_ERROR(wait(*list));
    }
  }
  sample->one_way_us = static_cast<double>(times.percentile(50)) / 2 / base::kNsPerUs;
  return Status::OK();
}

// The last word shows that a ping has arrived, as in perftest; what comes before is not looked at.
Status FabricProbe::ping(const FabricCell& cell, rdma::WorkList* list) {
  const uint64_t last_word = cell.bytes - sizeof(uint64_t);
  end_.set_word(FabricEnd::kOutAt + last_word, ++round_);
  list->clear();
  list->write(*peer_, end_.slice(FabricEnd::kOutAt, cell.bytes), far_.at(FabricEnd::kPingAt));
  BONSAI_RETURN_IF_ERROR(end_.worker().post(list));
  return until("fabric.ping", [&] { return end_.word(FabricEnd::kPingAt + last_word) == round_; });
}

Status FabricProbe::echo(const FabricCell& cell, rdma::WorkList* list) {
  end_.set_word(FabricEnd::kOutAt, static_cast<uint64_t>(OrderKind::kEcho));
  list->clear();
  list->send(*peer_, end_.slice(FabricEnd::kOutAt, cell.bytes));
  BONSAI_RETURN_IF_ERROR(count_sends(1));
  BONSAI_RETURN_IF_ERROR(end_.worker().post(list));
  rdma::Message message;
  if (!context_.pump) return end_.worker().receive(kProbeLimitMs, &message);
  return until("fabric.echo", [&] { return end_.worker().receive(0, &message).ok(); });
}

// ---- perftest

Status FabricProbe::start_perftest(const PerftestOrder& order) {
  FabricOrder answer;
  BONSAI_RETURN_IF_ERROR(tell({.kind = OrderKind::kPerftest, .perftest = order}));
  BONSAI_RETURN_IF_ERROR(take_answer(&answer));
  if (answer.count == 1) return Status::OK();
  return Status::NotSupported("the far side cannot run " + perftest_program(order.cell) +
                              " (scripts/setup.sh testbed installs perftest)");
}

}  // namespace bonsai::bench
