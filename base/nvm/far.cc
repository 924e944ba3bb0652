// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/far.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/nvm/descriptor.h"
#include "base/nvm/racy_copy.h"

namespace bonsai::base {

namespace {

constexpr size_t kPage = 4096;
constexpr uint64_t kPollsMax = 4;    // a read ends after at most this many polls
constexpr size_t kForgottenMax = 4;  // abandoned reads that are kept in flight
constexpr std::byte kJunk{0xe5};

size_t to_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

FarMedium::FarMedium(std::unique_ptr<HookedMedium> near, const FarOptions& options) : FarMedium(*near, options) {
  owned_ = std::move(near);
}

// Maps the same memory twice: as the view, without access, and accessible for the medium itself.
FarMedium::FarMedium(HookedMedium& near, const FarOptions& options)
    : HookedMedium(nullptr, 0),
      options_(options),
      near_(near),
      closings_(to_pages(near.bytes()) / kPage + 1),
      random_(options.seed) {
  const size_t bytes = to_pages(near_.bytes());
  const OsFile file = make_memory_file("bonsai-far", 0);
  const int fd = file.fd();
  BONSAI_CHECK(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  void* const view = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  void* const own = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  BONSAI_CHECK(view != MAP_FAILED && own != MAP_FAILED);
  set_view(static_cast<std::byte*>(view), near_.bytes());
  own_ = static_cast<std::byte*>(own);
  resident_.resize(bytes / kPage);
}

FarMedium::~FarMedium() {
  for (auto& [ticket, reads] : reads_) arrive(&reads, SIZE_MAX);
  for (Reads& reads : forgotten_) arrive(&reads, SIZE_MAX);
  ::munmap(view(), to_pages(bytes()));
  ::munmap(own_, to_pages(bytes()));
}

uint64_t FarMedium::offset_of(const std::byte* dst) const {
  BONSAI_CHECK(dst >= view() && dst <= view() + bytes());
  return static_cast<uint64_t>(dst - view());
}

std::atomic<uint64_t>& FarMedium::closings_of(uint64_t offset) { return closings_[offset / kPage]; }

void FarMedium::stage(Op op, const std::byte* dst, size_t n, const Site* site) {
  BONSAI_CHECK(offset_of(dst) + n <= bytes());
  const uint64_t offset = offset_of(dst);
  pending_.mine().staged.push_back({op, offset, n, closings_of(offset).load(), site});
}

void FarMedium::store8(std::byte* dst, uint64_t value) {
  stage(Op::kStore, dst, sizeof value, nullptr);
  word_at(own_ + offset_of(dst)).store(value, std::memory_order_release);
}

void FarMedium::copy(std::byte* dst, const void* src, size_t n) {
  stage(Op::kCopy, dst, n, nullptr);
  racy_store(own_ + offset_of(dst), src, n);
}

void FarMedium::nt_copy(std::byte* dst, const void* src, size_t n, const Site& site) {
  stage(Op::kNtCopy, dst, n, &site);
  racy_store(own_ + offset_of(dst), src, n);
}

void FarMedium::flush(const std::byte* dst, size_t n, const Site& site) { stage(Op::kFlush, dst, n, &site); }

// Transfers the current content, since another thread may have stored a newer one. A flush transfers the stores of
// other threads, too.
void FarMedium::bring(const Staged& staged) {
  const bool is_flushed = staged.op == Op::kFlush || staged.op == Op::kNtCopy;  // if its page was closed: junk
  if (!is_flushed && closings_of(staged.offset).load() != staged.closings) return;
  std::byte* const dst = near_.view() + staged.offset;
  if (staged.op == Op::kStore) return near_.store8(dst, word_at(own_ + staged.offset).load(std::memory_order_acquire));
  std::vector<std::byte> content(staged.bytes);
  racy_load(content.data(), own_ + staged.offset, content.size());
  if (staged.op == Op::kNtCopy) return near_.nt_copy(dst, content.data(), content.size(), *staged.site);
  near_.copy(dst, content.data(), content.size());
  if (staged.op == Op::kFlush) near_.flush(dst, staged.bytes, *staged.site);
}

bool FarMedium::fence(const Site& site) {
  std::vector<Staged> staged = std::exchange(pending_.mine().staged, {});
  if (failed_.load()) return false;
  const std::lock_guard lock(fence_mutex_);
  const bool fails = one_in(fences_failed_one_in_);
  if (fails) {
    const std::lock_guard random_lock(mutex_);
    staged.resize(random_.below(staged.size() + 1));
  }
  for (const Staged& each : staged) bring(each);
  if (near_.fence(site) && !fails) return true;
  failed_.store(true);
  return false;
}

Status FarMedium::health() const {
  if (!failed_.load()) return near_.health();
  return Status::Unavailable("a far target did not confirm a write; close the store and open it again");
}

FarReads::Memory FarMedium::memory(size_t bytes) { return {new std::byte[bytes], std::default_delete<std::byte[]>()}; }

uint64_t FarMedium::begin(std::span<const Piece> pieces, std::shared_ptr<const void> holder) {
  const bool fails = one_in(reads_failed_one_in_);
  for (const Piece& piece : pieces) {
    BONSAI_CHECK(piece.offset <= bytes() && piece.bytes <= bytes() - piece.offset);
    std::memset(piece.to, static_cast<int>(kJunk), piece.bytes);
  }
  const std::lock_guard lock(mutex_);
  ++counts_.lists;
  if (!reads_.empty()) ++counts_.lists_overlapped;
  counts_.reads += pieces.size();
  for (const Piece& piece : pieces) counts_.bytes += piece.bytes;
  Reads reads{{pieces.begin(), pieces.end()}, std::move(holder), random_.below(kPollsMax + 1), fails};
  reads_.emplace(++tickets_, std::move(reads));
  return tickets_;
}

// Requires: mutex_, or that no other call runs.
void FarMedium::arrive(Reads* reads, size_t pieces_max) {
  for (; pieces_max > 0 && !reads->pieces.empty(); --pieces_max) {
    std::swap(reads->pieces[random_.below(reads->pieces.size())], reads->pieces.back());
    const Piece& piece = reads->pieces.back();
    racy_load(piece.to, near_.view() + piece.offset, piece.bytes);
    reads->pieces.pop_back();
  }
}

bool FarMedium::ended(uint64_t ticket, Status* status) {
  if (silent_.load()) return false;
  const std::lock_guard lock(mutex_);
  const auto at = reads_.find(ticket);
  BONSAI_CHECK(at != reads_.end());
  Reads& reads = at->second;
  if (reads.polls_left > 0) {
    --reads.polls_left;
    arrive(&reads, 1);
    return false;
  }
  if (reads.fails) {
    *status = Status::Unavailable("the far medium was asked to fail reads");
    keep(std::move(reads));
  } else {
    arrive(&reads, SIZE_MAX);
    *status = Status::OK();
  }
  reads_.erase(at);
  for (; forgotten_.size() > kForgottenMax; forgotten_.pop_front()) arrive(&forgotten_.front(), SIZE_MAX);
  return true;
}

// Keeps an abandoned read, so that it still arrives, if its holder keeps its memory. Requires: mutex_.
void FarMedium::keep(Reads reads) {
  if (reads.holder != nullptr) forgotten_.push_back(std::move(reads));
}

void FarMedium::forget(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto at = reads_.find(ticket);
  BONSAI_CHECK(at != reads_.end());
  keep(std::move(at->second));
  reads_.erase(at);
}

// Skips pages that are resident already: they contain this node's stores.
Status FarMedium::open_resident(uint64_t offset, uint64_t n, std::vector<Piece>* pieces) {
  BONSAI_CHECK(offset <= bytes() && n <= bytes() - offset);
  const std::lock_guard lock(mutex_);
  const size_t end = to_pages(offset + n) / kPage;
  for (size_t page = offset / kPage; page < end; ++page) {
    const size_t first = page;
    while (page < end && !resident_[page]) ++page;
    if (first == page) continue;
    const size_t at = first * kPage;
    pieces->push_back({at, own_ + at, std::min(page * kPage, bytes()) - at});
  }
  return Status::OK();
}

void FarMedium::close_resident(std::span<const Piece> pieces) {
  const std::lock_guard lock(mutex_);
  for (const Piece& piece : pieces) {
    set_resident(piece.offset / kPage, to_pages(piece.offset + piece.bytes) / kPage, true);
  }
}

Status FarMedium::open_blank(uint64_t offset, uint64_t n) {
  BONSAI_CHECK(offset % kPage == 0 && n % kPage == 0 && offset <= bytes() && n <= bytes() - offset);
  const std::lock_guard lock(mutex_);
  for (size_t page = offset / kPage; page < (offset + n) / kPage; ++page) {
    if (resident_[page]) continue;
    std::memset(own_ + page * kPage, static_cast<int>(kJunk), kPage);
    set_resident(page, page + 1, true);
  }
  return Status::OK();
}

void FarMedium::close_blank(uint64_t offset, uint64_t n) {
  BONSAI_CHECK(offset % kPage == 0 && n % kPage == 0 && offset <= bytes() && n <= bytes() - offset);
  for (uint64_t at = offset; at < offset + n; at += kPage) closings_of(at).fetch_add(1);
  const std::lock_guard lock(mutex_);
  set_resident(offset / kPage, (offset + n) / kPage, false);
  std::memset(own_ + offset, static_cast<int>(kJunk), n);
}

// Of pages [begin, end). Requires: mutex_.
void FarMedium::set_resident(size_t begin, size_t end, bool on) {
  const size_t n = (end - begin) * kPage;
  BONSAI_CHECK(::mprotect(view() + begin * kPage, n, on ? PROT_READ : PROT_NONE) == 0);
  for (size_t page = begin; page < end; ++page) {
    if (resident_[page] == on) continue;
    resident_[page] = on;
    counts_.resident_bytes = on ? counts_.resident_bytes + kPage : counts_.resident_bytes - kPage;
  }
}

bool FarMedium::one_in(const std::atomic<uint64_t>& n) {
  const uint64_t chance = n.load();
  if (chance == 0) return false;
  const std::lock_guard lock(mutex_);
  return random_.below(chance) == 0;
}

FarMedium::Counts FarMedium::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace bonsai::base
