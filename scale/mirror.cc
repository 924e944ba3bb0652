// SPDX-License-Identifier: Apache-2.0
#include "scale/mirror.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/nvm/racy_copy.h"
#include "base/sizes.h"
#include "base/status_macros.h"

namespace bonsai::scale {
namespace {

constexpr uint64_t kPageBytes = 4096;

uint64_t to_pages(uint64_t bytes) { return base::round_up(bytes, kPageBytes); }

}  // namespace

Status Mirror::make(std::shared_ptr<rdma::Fabric> fabric, const std::string& name, uint64_t bytes,
                    std::shared_ptr<Mirror>* mirror) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const at = ::mmap(nullptr, to_pages(bytes), PROT_NONE, kFlags, -1, 0);
  if (at == MAP_FAILED) {
    return Status::NoSpace("no addresses for the " + std::to_string(bytes) + " bytes of " + name +
                           "; raise the limit of address space (ulimit -v)");
  }
  mirror->reset(new Mirror(std::move(fabric), name, {static_cast<std::byte*>(at), bytes}));
  return Status::OK();
}

Mirror::~Mirror() {
  ranges_.clear();
  ::munmap(addresses_.data(), to_pages(addresses_.size()));
}

Status Mirror::open(uint64_t offset, uint64_t n, std::vector<base::FarReads::Piece>* pieces) {
  BONSAI_CHECK(offset <= addresses_.size() && n <= addresses_.size() - offset);
  const uint64_t end = std::min(to_pages(offset + n), static_cast<uint64_t>(addresses_.size()));
  const std::lock_guard lock(mutex_);
  for (uint64_t at = offset / kPageBytes * kPageBytes; at < end;) {
    Ranges::iterator known;
    BONSAI_RETURN_IF_ERROR(open_range(at, end, &known));
    const std::span<std::byte> memory = known->second.region->memory();
    if (!known->second.read) pieces->push_back({known->first, memory.data(), memory.size()});
    at = known->first + to_pages(memory.size());
  }
  return Status::OK();
}

// The range that contains `at`. If there is none, one is made, up to the next one or `end`. Requires: the mutex.
Status Mirror::open_range(uint64_t at, uint64_t end, Ranges::iterator* range) {
  auto known = ranges_.upper_bound(at);
  const uint64_t gap_end = known != ranges_.end() ? std::min(end, known->first) : end;
  const bool inside = known != ranges_.begin() && at < std::prev(known)->first + std::prev(known)->second.bytes();
  if (!inside) BONSAI_RETURN_IF_ERROR(open_gap(at, gap_end - at));
  known = std::prev(ranges_.upper_bound(at));
  std::erase_if(known->second.landing, [](const auto& token) { return token.expired(); });
  if (!known->second.read && !known->second.landing.empty()) {
    return Status::Unavailable("an earlier read of " + name_ + " has not ended yet; try again later");
  }
  *range = known;
  return Status::OK();
}

Status Mirror::open_blank(uint64_t offset, uint64_t n) {
  BONSAI_CHECK(offset % kPageBytes == 0 && n % kPageBytes == 0);
  BONSAI_CHECK(offset <= addresses_.size() && n <= addresses_.size() - offset);
  const std::lock_guard lock(mutex_);
  for (uint64_t at = offset; at < offset + n;) {
    Ranges::iterator known;
    BONSAI_RETURN_IF_ERROR(open_range(at, offset + n, &known));
    known->second.read = true;
    at = known->first + to_pages(known->second.bytes());
  }
  return Status::OK();
}

void Mirror::close_blank(uint64_t offset, uint64_t n) {
  Ranges::node_type closed;
  {
    const std::lock_guard lock(mutex_);
    const auto known = ranges_.find(offset);
    if (known == ranges_.end() || known->second.bytes() != n) return;
    BONSAI_INVARIANT(known->second.landing.empty());  // it was never read (7)
    closed = ranges_.extract(known);
  }
  closed.mapped().region.reset();  // without the mutex, since that asks the device
  std::byte* const at = addresses_.data() + offset;
  static_cast<void>(::madvise(at, n, MADV_DONTNEED));
  static_cast<void>(::mprotect(at, n, PROT_NONE));  // if it is refused, the addresses stay accessible
}

// Requires: the mutex; nothing of it is open.
Status Mirror::open_gap(uint64_t offset, uint64_t n) {
  BONSAI_CHECK(n > 0 && offset % kPageBytes == 0 && n <= addresses_.size() - offset);
  std::byte* const to = addresses_.data() + offset;
  Range opened;
  Status status;
  if (::mprotect(to, to_pages(n), PROT_READ | PROT_WRITE) != 0) status = Status::NoSpace("mprotect refuses");
  if (status.ok()) status = fabric_->register_region({to, n}, rdma::Rights::none(), &opened.region);
  if (!status.ok()) {
    return Status::NoSpace("no memory for what is resident of " + name_ + ": " + std::string(status.message()));
  }
  const bool is_new = ranges_.emplace(offset, std::move(opened)).second;
  BONSAI_CHECK(is_new);
  return Status::OK();
}

void Mirror::close(std::span<const base::FarReads::Piece> pieces) {
  const std::lock_guard lock(mutex_);
  for (const base::FarReads::Piece& piece : pieces) {
    Range& range = ranges_.at(piece.offset);
    BONSAI_INVARIANT(range.bytes() == piece.bytes);  // all of it has been read (7)
    range.read = true;
  }
}

std::shared_ptr<const void> Mirror::begin_landing(std::span<const base::FarReads::Piece> pieces) {
  auto token = std::make_shared<char>();
  const std::lock_guard lock(mutex_);
  for (const base::FarReads::Piece& piece : pieces) {
    const auto after = ranges_.upper_bound(piece.offset);
    if (after == ranges_.begin()) continue;
    std::vector<std::weak_ptr<const void>>& landing = std::prev(after)->second.landing;
    std::erase_if(landing, [](const auto& earlier) { return earlier.expired(); });
    landing.push_back(token);
  }
  return token;
}

// The range that begins there, or the last one before; end(): none. Requires: the mutex.
Mirror::Ranges::const_iterator Mirror::before(uint64_t offset) const {
  const auto after = ranges_.upper_bound(offset);
  return after == ranges_.begin() ? ranges_.end() : std::prev(after);
}

// Whether they are resident. Requires: the mutex.
bool Mirror::has(uint64_t offset, uint64_t n) const {
  const auto known = before(offset);
  return known != ranges_.end() && known->second.read && offset + n <= known->first + known->second.bytes();
}

bool Mirror::resident(uint64_t offset, uint64_t n) const {
  const std::lock_guard lock(mutex_);
  return has(offset, n);
}

bool Mirror::copy(uint64_t offset, uint64_t n, std::byte* to) const {
  const std::lock_guard lock(mutex_);
  if (!has(offset, n)) return false;
  base::racy_load(to, addresses_.data() + offset, n);
  return true;
}

uint64_t Mirror::resident_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [begin, known] : ranges_) bytes += known.bytes();
  return bytes;
}

rdma::Slice Mirror::slice(uint64_t offset, uint64_t n) const {
  const std::lock_guard lock(mutex_);
  const auto known = before(offset);
  if (known == ranges_.end() || offset >= known->first + known->second.bytes()) return {};
  const uint64_t from = offset - known->first;
  return known->second.region->slice(from, std::min(n, known->second.bytes() - from));
}

}  // namespace bonsai::scale
