// SPDX-License-Identifier: Apache-2.0
// A compute node's local memory as a cache of the memory nodes' pages, as paging to remote memory has it: whole pages,
// fetched when an operation needs one, written back when their frame is needed or in the background. CLOCK chooses
// the victim.
//
//   event                        lists/messages/bytes
//   the page is here             none
//   fault                        READ 4,096                                                    1/1/4096
//     the victim is dirty        {READ into a spare frame, WRITE victim}                       1/2/8192
//     the page was never written none: it is zero; a bit for each page says so
//     read-ahead of 8            {READ 4,096 of what is not here of 8 neighbours}              1/8/32768
//   background write-back        {WRITE 4,096} of up to 32 pages                               1/32/131072
//
// A page is held by one operation at a time; while it comes or goes, no other can hold it. An operation that holds
// several takes them in rising order of pages. Thread-safety: any thread of the compute node; each caller brings a
// Batch of its own.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_PAGE_CACHE_H_
#define BONSAI_BENCH_STUDIES_RIVALS_PAGE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/studies/rivals/client.h"
#include "bench/studies/rivals/connection.h"
#include "rdma/registered_memory.h"

namespace bonsai::bench::rivals {

class PageCache {
 public:
  static constexpr size_t kPageBytes = 4'096;
  static constexpr size_t kFramesMin = 8;
  static constexpr size_t kReadAheadMax = 8;
  static constexpr size_t kWriteBackMax = 32;

  struct Options {
    size_t frames = 1'024;  // of pages that are here
    size_t memory_nodes = 1;
    size_t node_bytes = size_t{1} << 20;  // of each
    // A fault fetches the missing ones of this many pages, from a multiple of them on; published: 8 (Linux), 1
    // (others).
    size_t read_ahead_pages = 1;
    // The cost of a trap, the kernel and its block device, without the fabric. About 0 at user level, 5,000 and 30,000
    // to 40,000 in the published systems that page in the kernel.
    uint64_t fault_ns = 0;
  };
  struct Counters {
    uint64_t hits = 0, faults = 0;
    uint64_t dirty_victims = 0;
    uint64_t read_ahead = 0;    // pages
    uint64_t written_back = 0;  // pages, in the background
    bool operator==(const Counters&) const = default;
  };

  // Errors: InvalidArgument, and those of Fabric::register_region.
  static Status make(rdma::Fabric* fabric, const Options& options, std::unique_ptr<PageCache>* cache);

  [[nodiscard]] uint64_t pages() const { return written_.size(); }
  // Frames, spare ones among them, and the bits.
  [[nodiscard]] size_t bytes() const { return frames_.size() * kPageBytes + written_.size() / 8; }
  [[nodiscard]] Counters counters() const;

  // A page that is held, until the end of this object's life or drop().
  class Page {
   public:
    Page() = default;
    ~Page() { drop(); }
    Page(Page&& other) noexcept { *this = std::move(other); }
    Page& operator=(Page&& other) noexcept;

    void drop();
    [[nodiscard]] bool held() const { return cache_ != nullptr; }
    [[nodiscard]] uint64_t number() const { return number_; }
    [[nodiscard]] std::byte* data() const { return data_; }
    // It was changed.
    void mark_dirty() { dirty_ = true; }

   private:
    friend class PageCache;
    PageCache* cache_ = nullptr;
    uint64_t number_ = 0;
    size_t frame_ = 0;
    std::byte* data_ = nullptr;
    bool dirty_ = false;
  };

  // Holds the page, in place of what *page held. Requires: number < pages(). Errors: Unavailable.
  Status hold(uint64_t number, Batch* batch, const Limit& limit, Page* page);

  // Writes back dirty pages that were not used since the clock's hand last passed, up to kWriteBackMax; with `all`,
  // others, too. Errors: Unavailable.
  Status write_back(bool all, Batch* batch, size_t* written);

 private:
  struct Frame {
    uint64_t page = 0;
    bool filled = false, held = false, dirty = false, used = false;
  };
  struct Fault {
    uint64_t page = 0;
    size_t frame = 0;
    bool reads = false;
    bool evicts = false;
    size_t victim = 0;  // its frame
  };

  explicit PageCache(const Options& options) : options_(options) {}

  [[nodiscard]] Address address_of(uint64_t page) const;
  [[nodiscard]] rdma::Slice slice_of(size_t frame) const { return memory_->slice(frame * kPageBytes, kPageBytes); }
  // Requires: the mutex. False: all frames are held.
  bool begin_fault(uint64_t page, Fault* fault);
  bool choose_victim(bool clean_only, size_t* frame);
  void begin_read_ahead(uint64_t page, std::vector<Fault>* faults);
  void forget(size_t frame);
  // Brings the pages.
  Status carry_out(const std::vector<Fault>& faults, Batch* batch);
  void let_go(const Page& page);

  const Options options_;
  std::unique_ptr<rdma::RegisteredMemory> memory_;
  mutable std::mutex mutex_;  // never held over a wait for the fabric
  std::vector<Frame> frames_;
  std::vector<size_t> free_;
  std::unordered_map<uint64_t, size_t> resident_;  // frames by page
  std::vector<bool> written_;
  size_t hand_ = 0;
  Counters counters_;
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_PAGE_CACHE_H_
