// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/emulator.h"

#include <algorithm>

#include "base/clock.h"
#include "base/nvm/counters.h"
#include "base/nvm/racy_copy.h"

namespace bonsai::base {
namespace {

// Nanoseconds that the transfer of a block takes; 0 for unlimited bandwidth.
double block_ns(uint64_t bytes_per_s) {
  return bytes_per_s == 0 ? 0 : static_cast<double>(kMediaBlockBytes) * 1e9 / static_cast<double>(bytes_per_s);
}

constexpr size_t kNoBlock = SIZE_MAX;
constexpr size_t kLinesPerBlock = kMediaBlockBytes / kLineBytes;
constexpr uint8_t kAllLines = (1U << kLinesPerBlock) - 1;

}  // namespace

Status emulator_preset(std::string_view name, EmulatorModel* model) {
  if (name == "dram") {
    *model = {};
  } else if (name == "optane") {
    *model = {300, 100, 6'600'000'000, 2'300'000'000};
  } else {
    return Status::InvalidArgument("unknown emulator preset '" + std::string(name) + "': use dram or optane");
  }
  return Status::OK();
}

EmulatorMedium::EmulatorMedium(const Mapping& mapping, const EmulatorModel& model, WaitUntil wait_until)
    : HookedMedium(mapping.data(), mapping.bytes()),
      model_(model),
      read_block_ns_(block_ns(model.read_bytes_per_s)),
      write_block_ns_(block_ns(model.write_bytes_per_s)),
      flushes_(mapping.domain() != PersistenceDomain::kEadr),
      wait_until_(wait_until) {
  buffer_.fill({kNoBlock, 0});
}

void EmulatorMedium::store8(std::byte* dst, uint64_t value) {
  word_at(dst).store(value, std::memory_order_release);
  count_stored(8);
}

void EmulatorMedium::copy(std::byte* dst, const void* src, size_t n) {
  racy_store(dst, src, n);
  count_stored(n);
}

void EmulatorMedium::nt_copy(std::byte* dst, const void* src, size_t n, const Site&) {
  racy_store(dst, src, n);
  count_nt(dst, n);
  accept(dst, n);
}

void EmulatorMedium::flush(const std::byte* dst, size_t n, const Site&) {
  count_flush(dst, n);
  if (flushes_) accept(dst, n);
}

bool EmulatorMedium::fence(const Site&) {
  count_fence();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  Pending& mine = pending_.mine();
  if (mine.accepted_ns == 0) return true;
  const uint64_t deadline = mine.accepted_ns + model_.write_latency_ns;
  mine.accepted_ns = 0;
  if (deadline > now_ns()) wait_until_(deadline);
  return true;
}

uint64_t EmulatorMedium::read_deadline(uint64_t blocks, uint64_t first_ns, uint64_t last_ns) {
  if (blocks == 0) return 0;
  const auto first = static_cast<double>(first_ns);
  const double transfer = static_cast<double>(blocks) * read_block_ns_;
  Pending& mine = pending_.mine();
  const double others_until = media_read_until_ns_.load(std::memory_order_relaxed);
  mine.read_until_ns = std::max({others_until, mine.read_until_ns, first}) + transfer;
  if (mine.unreported_blocks == 0) mine.unreported_from_ns = first;
  mine.unreported_ns += transfer;
  mine.unreported_blocks += blocks;
  if (mine.unreported_blocks >= kUnreportedBlocksMax) report_reads(&mine);
  return std::max(static_cast<uint64_t>(mine.read_until_ns), last_ns) + model_.read_latency_ns;
}

void EmulatorMedium::report_reads(Pending* mine) {
  double busy_until = media_read_until_ns_.load(std::memory_order_relaxed), until;
  do {
    until = std::max(busy_until, mine->unreported_from_ns) + mine->unreported_ns;
  } while (!media_read_until_ns_.compare_exchange_weak(busy_until, until, std::memory_order_relaxed));
  mine->unreported_ns = 0;
  mine->unreported_blocks = 0;
}

void EmulatorMedium::accept(const std::byte* dst, size_t n) {
  if (n == 0) return;
  const auto offset = static_cast<size_t>(dst - view());
  const auto now = static_cast<double>(now_ns());
  double accepted = now;
  {
    const std::lock_guard lock(device_mutex_);
    for (size_t line = offset / kLineBytes; line <= (offset + n - 1) / kLineBytes; ++line) {
      const size_t block = line / kLinesPerBlock;
      Held& held = buffer_[block % buffer_.size()];
      if (held.block != block) {
        if (held.block != kNoBlock) {
          const double read_ns = held.lines == kAllLines ? 0 : read_block_ns_;
          media_written_until_ns_ = std::max(media_written_until_ns_, now) + read_ns + write_block_ns_;
          accepted = media_written_until_ns_;
        }
        held = {block, 0};
      }
      held.lines |= static_cast<uint8_t>(1U << (line % kLinesPerBlock));
    }
  }
  Pending& mine = pending_.mine();
  mine.accepted_ns = std::max(mine.accepted_ns, static_cast<uint64_t>(accepted));
}

}  // namespace bonsai::base
