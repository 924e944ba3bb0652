// SPDX-License-Identifier: Apache-2.0
// Calls of compute nodes to the metadata server of the Clover-like engine, byte by byte. A call has 192 bytes, one that
// reports updates 560; the answer has 192.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_CLOVER_CALLS_H_
#define BONSAI_BENCH_STUDIES_RIVALS_CLOVER_CALLS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/crc.h"
#include "base/random.h"
#include "bench/studies/rivals/clover_layout.h"
#include "bench/studies/rivals/connection.h"
#include "rdma/registered_memory.h"

namespace bonsai::bench::rivals::clover {

enum class Ask : uint64_t {
  kFind,     // where the key is
  kInsert,   // takes `link` for the key's first version, unless the key exists
  kBuffers,  // buffers for new versions
};

struct Call {
  Ask ask = Ask::kFind;
  uint64_t hash = 0;  // of the key
  uint64_t link = 0;
  uint64_t token = 0;
  rdma::Remote answer = {};
  std::array<std::byte, 144> padding{};
};
inline constexpr size_t kCallMessageBytes = sizeof(Call);
static_assert(kCallMessageBytes == 192);

// `newer` was linked to `older`.
struct Report {
  uint64_t hash = 0;
  uint64_t older = 0, newer = 0;
  uint64_t shortcut = 0;  // where it is; the server knows
};
inline constexpr size_t kReportsPerCall = 16;
struct ReportCall {
  uint64_t count = 0;
  uint64_t token = 0;
  rdma::Remote answer = {};
  std::array<uint64_t, 2> padding{};
  std::array<Report, kReportsPerCall> reports{};
};
static_assert(sizeof(ReportCall) == 560);

enum class Outcome : uint64_t { kDone, kExists, kAbsent, kNoSpace, kUnavailable };

inline constexpr size_t kBuffersPerCall = 16;
struct Answer {
  Outcome outcome = Outcome::kDone;
  uint64_t link = 0;      // kFind, kExists: the oldest version that is not retired
  uint64_t shortcut = 0;  // number of the key's shortcut
  uint64_t buffer_count = 0;
  std::array<Buffer, kBuffersPerCall> buffers{};
  uint64_t epoch = 0;  // the server's
  std::array<uint64_t, 2> padding{};
  uint64_t check = 0;  // last

  [[nodiscard]] uint64_t check_of(uint64_t token) const {
    return base::splitmix64(token << 32 | base::crc32c(this, sizeof *this - sizeof check));
  }
};
static_assert(sizeof(Answer) == 192);

// A node's knowledge of the metadata server's epoch.
// Memory ordering: a thread that reads the time of a call reads the epoch of its answer, or a later one.
class EpochView {
 public:
  explicit EpochView(uint64_t epoch_ns) : epoch_ns_(epoch_ns) {}

  // A call of `asked_ns` was answered so.
  void learn(uint64_t epoch, uint64_t asked_ns);
  // At most the server's.
  [[nodiscard]] uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  // At most one less than the server's; null: it may be more.
  [[nodiscard]] std::optional<uint64_t> recent() const;

 private:
  const uint64_t epoch_ns_;
  std::atomic<uint64_t> asked_ns_{0};  // 0: never
  std::atomic<uint64_t> epoch_{0};
};

// One coroutine's calls, which go to the metadata server's workers in turn; `epochs` learns what each answer names.
// Requires: destroyed before `epochs` and the connection, whose nodes from `first_worker` on are those workers.
class MetadataCaller {
 public:
  static Status make(Connection* connection, size_t first_worker, EpochView* epochs,
                     std::unique_ptr<MetadataCaller>* caller);

  // Token and address of the answer are filled in. Errors: Unavailable.
  Status call(Call call, Answer* answer);
  Status call(ReportCall call, Answer* answer);

 private:
  MetadataCaller(Connection* connection, size_t first_worker, EpochView* epochs)
      : connection_(connection), first_worker_(first_worker), epochs_(*epochs), batch_(connection) {}
  [[nodiscard]] size_t workers() const { return connection_->memory_nodes() - first_worker_; }
  template <class AnyCall>
  Status ask(AnyCall* call, Answer* answer);

  Connection* const connection_;
  const size_t first_worker_;
  EpochView& epochs_;
  Batch batch_;
  uint64_t tokens_ = 0;
  // The call, then an answer of each worker. Nothing orders the WRITEs of several workers: a shared place could get the
  // end of one answer while the words of another one say that it is complete.
  std::unique_ptr<rdma::RegisteredMemory> memory_;
};

}  // namespace bonsai::bench::rivals::clover

#endif  // BONSAI_BENCH_STUDIES_RIVALS_CLOVER_CALLS_H_
