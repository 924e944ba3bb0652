// SPDX-License-Identifier: Apache-2.0
// The emulator medium: memory with the modelled times of NVM.
//
// It models a device as latencies, bandwidths and a write-combining buffer of 64 blocks of 256 bytes in front of the
// media. Operations do not spin: each one only moves deadlines. A fence waits for its
// thread's deadline, through the owner's hook (which lets other coroutines run meanwhile); a reader calls
// read_deadline() and waits in the same way.
//   A flushed line that finds its block in the buffer is accepted at once. Else it takes the place of another block,
//   whose 256 bytes go to the media first, at write_bytes_per_s; if some of its lines were not stored to, the block is
//   read before, at read_bytes_per_s. A fence ends write_latency_ns after its last line was accepted. A read first
//   waits for earlier reads: all reads of its own thread, and those of other threads except the last
//   kUnreportedBlocksMax blocks of each. Then its blocks are transferred at read_bytes_per_s, and it ends
//   read_latency_ns later. The exception exists because reporting every read to other threads would take longer than
//   the modelled time.
// Results obtained with it are modelled, and are labelled so.
#ifndef BONSAI_BASE_NVM_EMULATOR_H_
#define BONSAI_BASE_NVM_EMULATOR_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/nvm/mapping.h"
#include "base/nvm/medium.h"
#include "base/nvm/per_thread.h"
#include "base/os_wait.h"
#include "bonsai/status.h"

namespace bonsai::base {

struct EmulatorModel {
  uint64_t read_latency_ns = 0;
  uint64_t write_latency_ns = 0;
  uint64_t read_bytes_per_s = 0;   // 0 = unlimited
  uint64_t write_bytes_per_s = 0;  // 0 = unlimited
};

// The model of a preset:
//   dram    adds nothing
//   optane  one Optane DC DIMM (100 series), typical published figures (Izraelevitz et al. 2019, Yang et al. 2020):
//           read 300 ns at random, write about 100 ns to the power-safe queue, 6.6 GB/s read, 2.3 GB/s write
// Errors: InvalidArgument (unknown name; the message lists the known ones).
Status emulator_preset(std::string_view name, EmulatorModel* model);

// Requires: the mapping outlives the medium. Thread-safety: as HookedMedium; wait_until is called without any lock.
class EmulatorMedium final : public HookedMedium {
 public:
  using WaitUntil = void (*)(uint64_t deadline_ns);

  EmulatorMedium(const Mapping& mapping, const EmulatorModel& model, WaitUntil wait_until = wait_politely_until);

  void store8(std::byte* dst, uint64_t value) override;
  void copy(std::byte* dst, const void* src, size_t n) override;
  void nt_copy(std::byte* dst, const void* src, size_t n, const Site& site) override;
  void flush(const std::byte* dst, size_t n, const Site& site) override;
  bool fence(const Site& site) override;
  [[nodiscard]] bool reads_wait() const override { return model_.read_latency_ns != 0 || model_.read_bytes_per_s != 0; }
  [[nodiscard]] uint64_t read_deadline(uint64_t blocks, uint64_t first_ns, uint64_t last_ns) override;

 private:
  struct Pending {
    explicit Pending(uint32_t) {}
    uint64_t accepted_ns = 0;  // when the thread's last line is in the buffer; 0 = none since the fence
    double read_until_ns = 0;  // when the thread's reads are transferred
    // Reads not reported to other threads yet: when the first of them began, and their total duration.
    double unreported_from_ns = 0, unreported_ns = 0;
    uint64_t unreported_blocks = 0;
  };

  static constexpr uint64_t kUnreportedBlocksMax = 8;

  void accept(const std::byte* dst, size_t n);
  void report_reads(Pending* mine);

  const EmulatorModel model_;
  const double read_block_ns_, write_block_ns_;  // transfer time of a block
  const bool flushes_;                           // ADR
  const WaitUntil wait_until_;
  PerThread<Pending> pending_;
  std::mutex device_mutex_;
  struct Held {
    size_t block;
    uint8_t lines;  // the lines that were stored to, one bit each
  };
  std::array<Held, 64> buffer_;
  double media_written_until_ns_ = 0;  // when the media have taken all blocks that left the buffer
  alignas(kLineBytes) std::atomic<double> media_read_until_ns_ = 0;  // reported reads; own line: read without lock
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_EMULATOR_H_
