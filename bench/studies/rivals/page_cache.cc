// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/page_cache.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/thread.h"

namespace bonsai::bench::rivals {

namespace {

constexpr size_t kSpareFrames = 8;
constexpr uint64_t kPauseNs = 1'000;

}  // namespace

Status PageCache::make(rdma::Fabric* fabric, const Options& options, std::unique_ptr<PageCache>* cache) {
  if (options.frames < kFramesMin) {
    return Status::InvalidArgument("a page cache of " + std::to_string(options.frames) + " frames; it needs " +
                                   std::to_string(kFramesMin) + " at least");
  }
  if (options.memory_nodes == 0 || options.node_bytes < kPageBytes) {
    return Status::InvalidArgument("paging needs memory nodes of a page of 4,096 bytes at least");
  }
  if (options.read_ahead_pages < 1 || options.read_ahead_pages > kReadAheadMax) {
    return Status::InvalidArgument("read_ahead_pages is 1 to 8");
  }
  std::unique_ptr<PageCache> made(new PageCache(options));
  made->frames_.resize(options.frames + kSpareFrames);
  BONSAI_RETURN_IF_ERROR(
      rdma::RegisteredMemory::make(*fabric, made->frames_.size() * kPageBytes, rdma::Rights::none(), &made->memory_));
  for (size_t frame = made->frames_.size(); frame > 0; --frame) made->free_.push_back(frame - 1);
  made->written_.resize(options.memory_nodes * (options.node_bytes / kPageBytes));
  *cache = std::move(made);
  return Status::OK();
}

Address PageCache::address_of(uint64_t page) const {
  return {static_cast<uint16_t>(page % options_.memory_nodes), page / options_.memory_nodes * kPageBytes};
}

PageCache::Counters PageCache::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

PageCache::Page& PageCache::Page::operator=(Page&& other) noexcept {
  if (this == &other) return *this;
  drop();
  cache_ = std::exchange(other.cache_, nullptr);
  number_ = other.number_;
  frame_ = other.frame_;
  data_ = other.data_;
  dirty_ = std::exchange(other.dirty_, false);
  return *this;
}

void PageCache::Page::drop() {
  if (cache_ != nullptr) std::exchange(cache_, nullptr)->let_go(*this);
  dirty_ = false;
}

void PageCache::let_go(const Page& page) {
  const std::lock_guard lock(mutex_);
  Frame& frame = frames_[page.frame_];
  frame.dirty = frame.dirty || page.dirty_;
  frame.held = false;
}

void PageCache::forget(size_t frame) {
  resident_.erase(frames_[frame].page);
  frames_[frame] = {};
  free_.push_back(frame);
}

bool PageCache::choose_victim(bool clean_only, size_t* frame) {
  for (size_t step = 0; step < 2 * frames_.size(); ++step) {
    const size_t at = hand_;
    hand_ = (hand_ + 1) % frames_.size();
    Frame& candidate = frames_[at];
    if (!candidate.filled || candidate.held || (clean_only && candidate.dirty)) continue;
    if (std::exchange(candidate.used, false)) continue;
    *frame = at;
    return true;
  }
  return false;
}

bool PageCache::begin_fault(uint64_t page, Fault* fault) {
  *fault = {.page = page, .reads = written_[page]};
  if (resident_.size() >= options_.frames) {
    if (!choose_victim(false, &fault->victim)) return false;
    Frame& victim = frames_[fault->victim];
    if (victim.dirty) {
      if (free_.empty()) return false;
      victim.held = true;
      fault->evicts = true;
      ++counters_.dirty_victims;
    } else {
      forget(fault->victim);
    }
  }
  fault->frame = free_.back();
  free_.pop_back();
  frames_[fault->frame] = {.page = page, .filled = true, .held = true, .used = true};
  resident_.emplace(page, fault->frame);
  return true;
}

// Neighbours come only where that needs no WRITE.
void PageCache::begin_read_ahead(uint64_t page, std::vector<Fault>* faults) {
  const uint64_t first = page / options_.read_ahead_pages * options_.read_ahead_pages;
  for (uint64_t next = first; next < first + options_.read_ahead_pages && next < pages(); ++next) {
    if (resident_.count(next) != 0 || !written_[next]) continue;
    size_t victim = 0;
    if (resident_.size() >= options_.frames) {
      if (!choose_victim(true, &victim)) return;
      forget(victim);
    }
    if (free_.empty()) return;
    const size_t frame = free_.back();
    free_.pop_back();
    frames_[frame] = {.page = next, .filled = true, .held = true};
    resident_.emplace(next, frame);
    faults->push_back({.page = next, .frame = frame, .reads = true});
    ++counters_.read_ahead;
  }
}

Status PageCache::carry_out(const std::vector<Fault>& faults, Batch* batch) {
  if (options_.fault_ns > 0) base::wait_closely_until(base::now_ns() + options_.fault_ns);
  for (const Fault& fault : faults) {
    if (fault.reads) {
      batch->read(address_of(fault.page), slice_of(fault.frame));
    } else {
      std::memset(slice_of(fault.frame).data(), 0, kPageBytes);
    }
    if (fault.evicts) batch->write(slice_of(fault.victim), address_of(frames_[fault.victim].page));
  }
  Status status = batch->size() > 0 ? batch->run() : Status::OK();
  const std::lock_guard lock(mutex_);
  for (const Fault& fault : faults) {
    if (fault.evicts) {
      if (status.ok()) {
        written_[frames_[fault.victim].page] = true;
        forget(fault.victim);
      } else {
        frames_[fault.victim].held = false;
      }
    }
    if (!status.ok()) forget(fault.frame);
  }
  for (size_t i = 1; i < faults.size() && status.ok(); ++i) frames_[faults[i].frame].held = false;
  return status;
}

Status PageCache::hold(uint64_t number, Batch* batch, const Limit& limit, Page* page) {
  page->drop();
  std::vector<Fault> faults;
  for (;; base::yield_until(base::now_ns() + kPauseNs)) {
    if (limit.expired()) return limit.status();
    const std::lock_guard lock(mutex_);
    const auto known = resident_.find(number);
    if (known != resident_.end()) {
      Frame& frame = frames_[known->second];
      if (frame.held) continue;
      frame.held = true;
      frame.used = true;
      ++counters_.hits;
      page->frame_ = known->second;
      break;
    }
    Fault fault;
    if (!begin_fault(number, &fault)) continue;
    ++counters_.faults;
    faults.push_back(fault);
    if (fault.reads && options_.read_ahead_pages > 1) begin_read_ahead(number, &faults);
    page->frame_ = fault.frame;
    break;
  }
  if (!faults.empty()) BONSAI_RETURN_IF_ERROR(carry_out(faults, batch));
  page->cache_ = this;
  page->number_ = number;
  page->data_ = slice_of(page->frame_).data();
  return Status::OK();
}

Status PageCache::write_back(bool all, Batch* batch, size_t* written) {
  std::vector<size_t> chosen;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < frames_.size() && chosen.size() < kWriteBackMax; ++i) {
      Frame& frame = frames_[i];
      if (!frame.filled || frame.held || !frame.dirty || (frame.used && !all)) continue;
      frame.held = true;
      chosen.push_back(i);
      batch->write(slice_of(i), address_of(frame.page));
    }
  }
  *written = chosen.size();
  if (chosen.empty()) return Status::OK();
  Status status = batch->run();
  const std::lock_guard lock(mutex_);
  for (const size_t i : chosen) {
    if (status.ok()) written_[frames_[i].page] = true;
    frames_[i].dirty = frames_[i].dirty && !status.ok();
    frames_[i].held = false;
  }
  counters_.written_back += status.ok() ? chosen.size() : 0;
  return status;
}

}  // namespace bonsai::bench::rivals
