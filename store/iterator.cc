// SPDX-License-Identifier: Apache-2.0
#include "store/iterator.h"

#include <algorithm>

#include "base/check.h"
#include "store/damage.h"
#include "store/options.h"

namespace bonsai::store {

using base::Fence;
using base::Key;
using index::Index;

bool IteratorImpl::begin() {
  valid_ = false;
  if (usable_) status_ = Status::OK();
  return usable_;
}

void IteratorImpl::fail(Status status) {
  valid_ = false;
  status_ = std::move(status);
}

// A range that was copied in part is not looked at: only a seek goes on.
template <class Move>
void IteratorImpl::with_memory_or_fail(Move move) {
  Status status = with_memory([&] {
    move();
    return Status::OK();
  });
  if (!status.ok()) fail(std::move(status));
}

void IteratorImpl::keep(const Index::Window& window) {
  BONSAI_CHECK(window.trouble != persist::Trouble::kNone || window.lo < window.hi);
  lo_ = window.lo;
  hi_ = window.hi;
  bytes_.clear();
  records_.clear();
  for (const auto& [rows, large] : window.pieces) {
    for (size_t i = 0; i < rows.count; ++i) {
      records_.push_back({bytes_.size(), rows.key_bytes, rows.value_bytes, large});
      bytes_.append(rows.key(i)).append(rows.value(i));
    }
  }
  Status status;
  if (window.trouble != persist::Trouble::kNone) status = no_range(*db_.tiers().volume, window.trouble, lo_, hi_);
  status = db_.answer_of(std::move(status));
  if (!status.ok()) fail(std::move(status));
}

void IteratorImpl::load_from(const Fence& at, size_t ranges_ahead) {
  BONSAI_INVARIANT(usable_ && registration_ != nullptr);  // it reads as of its snapshot (6)
  const auto guard = db_.tiers().epochs->enter();
  Index::Window window;
  window.verify = verify_;
  ahead_.forget_bnodes();
  ahead_.set_runs_ahead(std::min(ranges_ahead, index::ScanAhead::kMax));
  db_.tiers().index->read_window(at.key(), registration_->version(), true, UINT64_MAX, &window, &ahead_);
  keep(window);
}

void IteratorImpl::load_below(const Fence& fence) {
  BONSAI_INVARIANT(usable_ && registration_ != nullptr);  // (6)
  const auto guard = db_.tiers().epochs->enter();
  Index::Window window;
  window.verify = verify_;
  db_.tiers().index->read_window_below(fence, registration_->version(), &window);
  keep(window);
}

// From position at_ on, to the next record there is, in this range or a later one.
void IteratorImpl::settle_forward() {
  while (status_.ok() && at_ == records_.size() && !hi_.is_infinite()) {
    const Fence from = hi_;  // a merge may have put the next range together with ones that were passed
    load_from(from, 2 * ahead_.runs_ahead() + 1);
    BONSAI_CHECK(!status_.ok() || from < hi_);  // each step goes on: the loop ends
    at_ = 0;
    while (at_ < records_.size() && key_at(at_) < from.bytes()) ++at_;
  }
  if (status_.ok() && at_ < records_.size()) land();
}

// From position at_ - 1 on, backwards.
void IteratorImpl::settle_backward() {
  while (status_.ok() && at_ == 0 && !lo_.bytes().empty()) {
    const Fence below = lo_;
    load_below(below);
    BONSAI_CHECK(!status_.ok() || lo_ < below);
    at_ = records_.size();
    while (at_ > 0 && key_at(at_ - 1) >= below.bytes()) --at_;
  }
  if (status_.ok() && at_ > 0) {
    --at_;
    land();
  }
}

void IteratorImpl::land() {
  BONSAI_CHECK(status_.ok() && at_ < records_.size());
  const Record& record = records_[at_];
  if (record.large) {
    const std::string_view ref(bytes_.data() + record.key_offset + record.key_bytes, record.value_bytes);
    const persist::Trouble trouble = db_.tiers().large->read(persist::large_ref(ref), &large_);
    Status status;
    if (trouble != persist::Trouble::kNone) status = no_value(*db_.tiers().volume, trouble, key_at(at_));
    status = db_.answer_of(std::move(status));
    if (!status.ok()) return fail(std::move(status));
  }
  valid_ = true;
}

void IteratorImpl::SeekToFirst() { Seek({}); }

void IteratorImpl::SeekToLast() {
  if (begin()) with_memory_or_fail([this] { seek_to_last(); });
}

void IteratorImpl::seek_to_last() {
  load_below(Fence::infinite());
  at_ = records_.size();
  settle_backward();
}

void IteratorImpl::Seek(std::string_view key) {
  if (begin()) with_memory_or_fail([&] { seek(key); });
}

void IteratorImpl::seek(std::string_view key) {
  const std::string wanted(key);  // the view may point into what is replaced now
  load_from(Fence(wanted), 0);
  at_ = 0;
  while (at_ < records_.size() && key_at(at_) < wanted) ++at_;
  settle_forward();
}

void IteratorImpl::SeekForPrev(std::string_view key) {
  if (begin()) with_memory_or_fail([&] { seek_for_prev(key); });
}

void IteratorImpl::seek_for_prev(std::string_view key) {
  const std::string wanted(key);
  load_from(Fence(wanted), 0);
  at_ = records_.size();
  while (at_ > 0 && key_at(at_ - 1) > wanted) --at_;
  settle_backward();
}

void IteratorImpl::SeekAfter(std::string_view key) {
  if (begin()) with_memory_or_fail([&] { seek(std::string(key).append(1, '\0')); });
}

void IteratorImpl::SeekBefore(std::string_view key) {
  if (!begin()) return;
  with_memory_or_fail([&] {
    const std::string bound(key);
    seek_for_prev(bound);
    if (!valid_ || this->key() != bound) return;
    valid_ = false;
    settle_backward();
  });
}

void IteratorImpl::Next() {
  BONSAI_CHECK(valid_);
  valid_ = false;
  ++at_;
  with_memory_or_fail([this] { settle_forward(); });
}

void IteratorImpl::Prev() {
  BONSAI_CHECK(valid_);
  valid_ = false;
  with_memory_or_fail([this] { settle_backward(); });
}

std::string_view IteratorImpl::key() const {
  BONSAI_CHECK(valid_);
  return key_at(at_);
}

std::string_view IteratorImpl::value() const {
  BONSAI_CHECK(valid_);
  const Record& record = records_[at_];
  if (record.large) return large_;
  return {bytes_.data() + record.key_offset + record.key_bytes, record.value_bytes};
}

}  // namespace bonsai::store
