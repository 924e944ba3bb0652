// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"

namespace bonsai::base {
namespace {

// One store in this many evicts a line early.
constexpr uint64_t kStoresPerEviction = 32;

// Copies a mapping to fresh zeroed memory; pages of zeros stay untouched and cost nothing.
void copy_pages(std::byte* to, const std::byte* from, size_t bytes) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  for (size_t i = 0; i < bytes; i += kZeros.size()) {
    const size_t n = std::min(kZeros.size(), bytes - i);
    if (std::memcmp(from + i, kZeros.data(), n) != 0) std::memcpy(to + i, from + i, n);
  }
}

}  // namespace

Status ShadowMedium::make(const Mapping& mapping, const ShadowOptions& options, std::unique_ptr<ShadowMedium>* medium) {
  const bool eadr = mapping.domain() == PersistenceDomain::kEadr;
  if (mapping.read_only())
    return Status::InvalidArgument("a shadow medium cannot write " + mapping.path() + ": it is mapped read-only");
  if (eadr && options.drops_flushes) {
    return Status::InvalidArgument(
        "a shadow medium that drops flushes needs domain ADR: under eADR flushes do nothing");
  }
  if (mapping.bytes() % kLineBytes != 0) {
    return Status::Corruption(mapping.path() + " has " + std::to_string(mapping.bytes()) +
                              " bytes and ends inside a cache line: it was truncated, restore it");
  }
  LineWriter writer;
  BONSAI_RETURN_IF_ERROR(LineWriter::make(mapping, options.lines_by_system_call, &writer));
  std::byte* view = mapping.data();
  if (!eadr) {
    void* const memory =
        ::mmap(nullptr, mapping.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return os_error("make a shadow of", mapping.path(), errno);
    view = static_cast<std::byte*>(memory);
    copy_pages(view, mapping.data(), mapping.bytes());
  }
  medium->reset(new ShadowMedium(view, mapping, options, writer));
  return Status::OK();
}

ShadowMedium::ShadowMedium(std::byte* view, const Mapping& mapping, const ShadowOptions& options,
                           const LineWriter& writer)
    : HookedMedium(view, mapping.bytes()),
      options_(options),
      mapped_(mapping.data()),
      writes_through_(view == mapping.data()),
      writer_(writer) {}

ShadowMedium::~ShadowMedium() {
  if (!writes_through_) ::munmap(view(), bytes());
}

void ShadowMedium::store8(std::byte* dst, uint64_t value) {
  word_at(dst).store(value, std::memory_order_release);
  count_stored(8);
  maybe_evict(dst);
}

void ShadowMedium::copy(std::byte* dst, const void* src, size_t n) {
  racy_store(dst, src, n);
  count_stored(n);
  if (n > 0) maybe_evict(dst + n - 1);
}

void ShadowMedium::nt_copy(std::byte* dst, const void* src, size_t n, const Site&) {
  racy_store(dst, src, n);
  count_nt(dst, n);
  add_pending(dst, n);
}

void ShadowMedium::flush(const std::byte* dst, size_t n, const Site&) {
  count_flush(dst, n);
  add_pending(dst, n);
}

bool ShadowMedium::fence(const Site&) {
  count_fence();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (writes_through_) return true;
  std::vector<size_t>& lines = pending_.mine().lines;
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  for (const size_t line : lines) write_back(line);
  lines.clear();
  return true;
}

std::vector<std::byte> ShadowMedium::durable() {
  BONSAI_CHECK(!writes_through_);
  for (std::mutex& lock : line_locks_) lock.lock();
  std::vector<std::byte> image(mapped_, mapped_ + bytes());
  for (std::mutex& lock : line_locks_) lock.unlock();
  return image;
}

void ShadowMedium::add_pending(const std::byte* dst, size_t n) {
  if (n == 0 || writes_through_ || options_.drops_flushes) return;
  std::vector<size_t>& lines = pending_.mine().lines;
  for (size_t line = line_of(dst); line <= line_of(dst + n - 1); ++line) {
    if (lines.empty() || lines.back() != line) lines.push_back(line);
  }
}

void ShadowMedium::write_back(size_t line) {
  const std::lock_guard lock(line_locks_[line % line_locks_.size()]);
  writer_.write(line * kLineBytes, read_line(view() + line * kLineBytes));
}

void ShadowMedium::maybe_evict(const std::byte* dst) {
  if (options_.eviction_seed == 0 || writes_through_) return;
  Pending& mine = pending_.mine();
  if (!mine.seeded) {
    mine.random = Random(options_.eviction_seed + mine.ordinal);
    mine.seeded = true;
  }
  mine.recent[mine.stores++ % mine.recent.size()] = line_of(dst);
  if (!mine.random.chance(1, kStoresPerEviction)) return;
  write_back(mine.recent[mine.random.below(std::min<uint64_t>(mine.stores, mine.recent.size()))]);
}

}  // namespace bonsai::base
