// SPDX-License-Identifier: Apache-2.0
// The shadow medium: makes SIGKILL act as a power cut.
//
// The page cache outlives a killed process, so its stores to a shared mapping all survive: that is a crash of an eADR
// machine. Here stores go to private memory, the view, and a line reaches the mapped file only when it was flushed and
// its thread fenced (or by an early eviction, which ADR allows at any time). What the file holds after SIGKILL is what
// an ADR machine could hold after a power cut. In persistence domain eADR the view is the mapping itself.
//
// The shadow is milder than hardware in two ways. It copies a line as it is at the fence, so stores between flush and
// fence survive, too. And a fence that the kill interrupts has copied whole lines in order. The recorder covers both.
//
// Memory ordering: a fence reads each pending line at one moment, under a lock of the line, and writes it at once, so
// an older content never replaces a newer one.
#ifndef BONSAI_BASE_NVM_SHADOW_H_
#define BONSAI_BASE_NVM_SHADOW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/nvm/line_writer.h"
#include "base/nvm/mapping.h"
#include "base/nvm/medium.h"
#include "base/nvm/per_thread.h"
#include "base/random.h"
#include "bonsai/status.h"

namespace bonsai::base {

struct ShadowOptions {
  bool drops_flushes = false;  // the canary: flushes and non-temporal copies never reach the file
  uint64_t eviction_seed = 0;  // 0 = no early evictions
  bool lines_by_system_call = !LineWriter::machine_stores_lines();
};

// Requires: the mapping outlives the medium, and nothing else writes it. Thread-safety: as HookedMedium.
class ShadowMedium final : public HookedMedium {
 public:
  // Takes the mapping's content and domain.
  // Errors: InvalidArgument (read-only mapping; canary with eADR), Corruption (a file that ends inside a line),
  // NotSupported (see LineWriter), IoError (no memory for the view).
  static Status make(const Mapping& mapping, const ShadowOptions& options, std::unique_ptr<ShadowMedium>* medium);
  ~ShadowMedium() override;

  void store8(std::byte* dst, uint64_t value) override;
  void copy(std::byte* dst, const void* src, size_t n) override;
  void nt_copy(std::byte* dst, const void* src, size_t n, const Site& site) override;
  void flush(const std::byte* dst, size_t n, const Site& site) override;
  bool fence(const Site& site) override;

  // The mapping's content at this moment, which a power cut would leave; operations may run meanwhile. Requires: not
  // eADR.
  [[nodiscard]] std::vector<std::byte> durable();

 private:
  // The lines that one thread has flushed since its fence, and those that it stored to most recently.
  struct Pending {
    explicit Pending(uint32_t thread) : ordinal(thread) {}
    uint32_t ordinal;
    std::vector<size_t> lines;
    std::array<size_t, 16> recent{};
    uint64_t stores = 0;
    Random random{ordinal};
    bool seeded = false;
  };

  ShadowMedium(std::byte* view, const Mapping& mapping, const ShadowOptions& options, const LineWriter& writer);

  void add_pending(const std::byte* dst, size_t n);
  void write_back(size_t line);
  void maybe_evict(const std::byte* dst);
  [[nodiscard]] size_t line_of(const std::byte* p) const { return static_cast<size_t>(p - view()) / kLineBytes; }

  const ShadowOptions options_;
  const std::byte* const mapped_;
  const bool writes_through_;  // eADR
  LineWriter writer_;
  PerThread<Pending> pending_;
  std::array<std::mutex, 32> line_locks_;  // held all at once; ThreadSanitizer supports fewer than 64 held locks
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_SHADOW_H_
