// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/rcuckoo_locks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/step.h"

namespace bonsai::bench::rivals::rcuckoo {

void LockWords::add_take(Batch* batch, LockGroup* group, rdma::Slice old) {
  const Address at = Table::lock_word_at(group->word);
  if (masked_) return batch->masked_cas(at, {0, group->mask}, {group->mask, group->mask}, old);
  uint64_t& seen = seen_[group->word];
  group->free_expected = seen & ~group->mask;
  seen = group->free_expected | group->mask;
  batch->cas(at, group->free_expected, seen, old);
}

void LockWords::add_release(Batch* batch, LockGroup* group, rdma::Slice old) {
  const Address at = Table::lock_word_at(group->word);
  if (masked_) return batch->masked_cas(at, {group->mask, group->mask}, {0, group->mask}, old);
  uint64_t& seen = seen_[group->word];
  group->held_expected = seen | group->mask;
  seen = group->held_expected & ~group->mask;
  batch->cas(at, group->held_expected, seen, old);
}

bool LockWords::changed(const LockGroup& group, bool took, uint64_t old, bool* again) {
  *again = false;
  const bool as_expected = (old & group.mask) == (took ? 0 : group.mask);
  if (masked_) return as_expected;
  const bool stored = old == (took ? group.free_expected : group.held_expected);
  seen_[group.word] = !stored ? old : took ? old | group.mask : old & ~group.mask;
  *again = as_expected && !stored;
  return stored;
}

Status LockedRows::make(Connection* connection, const Table& table, const LockOptions& options, size_t rows_max,
                        Backoff* backoff, Suspect suspect, std::unique_ptr<LockedRows>* made) {
  std::unique_ptr<LockedRows> rows(new LockedRows(connection, table, options, backoff, std::move(suspect)));
  rows->rows_max_ = rows_max;
  BONSAI_RETURN_IF_ERROR(Scratch::make(connection, kRowsAt + rows_max * kRowBytes, &rows->memory_));
  *made = std::move(rows);
  return Status::OK();
}

void LockedRows::clear() {
  groups_.clear();
  reads_.clear();
  read_group_.clear();
  read_at_.clear();
  writes_.clear();
  rows_planned_ = 0;
}

void LockedRows::add_block(uint64_t block) {
  const uint64_t lock = table_.lock(block), word = lock / kLocksPerWord, bit = uint64_t{1} << (lock % kLocksPerWord);
  const bool again = !groups_.empty() && lock == last_lock_;
  const bool fits = again || (!groups_.empty() && lock - message_first_ < kLocksPerWord &&
                              message_locks_ < options_.locks_per_message);
  if (!fits) {
    message_first_ = lock;
    message_locks_ = 0;
  }
  message_locks_ += again ? 0 : 1;
  last_lock_ = lock;
  if (fits && groups_.back().word == word) {
    groups_.back().mask |= bit;
  } else {
    const size_t message = groups_.empty() ? 0 : groups_.back().message + (fits ? 0 : 1);
    groups_.push_back({.word = word, .mask = bit, .message = message});
  }
}

void LockedRows::add_read(uint64_t row, uint64_t rows) {
  BONSAI_CHECK(!groups_.empty());
  const size_t group = groups_.size() - 1;
  bool continues = false;
  uint64_t end = row;
  if (!reads_.empty()) {
    end = reads_.back().first + reads_.back().second;
    const uint64_t gap_rows_max = options_.covering_reads ? kLocksPerWord * table_.options().rows_per_lock : 0;
    continues =
        groups_[read_group_.back()].message == groups_[group].message && row >= end && row - end <= gap_rows_max;
  }
  const uint64_t added = continues ? row - end + rows : rows;
  BONSAI_CHECK(rows_planned_ + added <= rows_max_);
  if (continues) {
    reads_.back().second += added;
    read_group_.back() = group;
  } else {
    reads_.emplace_back(row, rows);
    read_group_.push_back(group);
    read_at_.push_back(kRowsAt + rows_planned_ * kRowBytes);
  }
  rows_planned_ += added;
}

Status LockedRows::run() {
  base::step("rcuckoo.list");
  ++counters_.lists;
  return batch_.run();
}

Status LockedRows::take(const Limit& limit) {
  suspected_since_ns_ = 0;
  for (Try outcome = Try::kOverdue; outcome != Try::kTaken;) {
    taken_ = read_ = 0;
    alone_ = false;
    held_since_ns_ = 0;
    BONSAI_RETURN_IF_ERROR(try_take(limit, &outcome));
    if (outcome == Try::kTaken) break;
    BONSAI_RETURN_IF_ERROR(release());
    if (limit.expired()) return limit.status();
    if (outcome != Try::kSuspect) continue;
    ++counters_.suspicions;
    suspected_since_ns_ = 0;
    BONSAI_RETURN_IF_ERROR(suspect_(suspected_, limit));
  }
  heal();
  return Status::OK();
}

Status LockedRows::try_take(const Limit& limit, Try* outcome) {
  const uint64_t patience_ns = options_.suspect_ms * base::kNsPerMs;
  while (taken_ < groups_.size() || read_ < reads_.size()) {
    *outcome = Try::kOverdue;
    if (limit.expired() || (held_since_ns_ != 0 && base::now_ns() - held_since_ns_ > patience_ns)) {
      return Status::OK();
    }
    const uint64_t asked_ns = base::now_ns();
    size_t read_end = read_;
    BONSAI_RETURN_IF_ERROR(ask(&read_end));
    const uint64_t busy = counters_.busy;
    const size_t failed = judge();
    alone_ = failed < asked_;
    if (failed > 0 && held_since_ns_ == 0) held_since_ns_ = asked_ns;
    taken_ = failed;
    backoff_.after(counters_.busy == busy);
    while (read_ < read_end && read_group_[read_] < taken_) ++read_;
    if (suspected_since_ns_ != 0 && base::now_ns() - suspected_since_ns_ > patience_ns) {
      *outcome = Try::kSuspect;
      return Status::OK();
    }
  }
  *outcome = Try::kTaken;
  return Status::OK();
}

// One list: gives back locks held out of order, requests locks, reads rows under them.
Status LockedRows::ask(size_t* read_end) {
  asked_ = taken_;
  while (asked_ < groups_.size() && (!alone_ || asked_ == taken_) &&
         groups_[asked_].message < groups_[taken_].message + options_.messages_per_list) {
    ++asked_;
  }
  for (const size_t group : spare_) words_.add_release(&batch_, &groups_[group], answer(batch_.size()));
  for (size_t group = taken_; group < asked_; ++group) {
    words_.add_take(&batch_, &groups_[group], answer(batch_.size()));
    counters_.messages += group == taken_ || groups_[group].message != groups_[group - 1].message ? 1 : 0;
  }
  while (*read_end < reads_.size() && read_group_[*read_end] < asked_ && batch_.size() < rdma::WorkList::kRequestsMax) {
    const auto [row, rows] = reads_[*read_end];
    batch_.read(table_.row_at(row), memory_->slice(read_at_[*read_end], rows * kRowBytes));
    ++*read_end;
  }
  return run();
}

// Returns the first group that is not held.
size_t LockedRows::judge() {
  size_t next = 0;
  std::vector<size_t> spare = std::exchange(spare_, {});
  for (const size_t group : spare) {
    bool again = false;
    if (words_.changed(groups_[group], false, answered(next++), &again)) continue;
    if (again) {
      spare_.push_back(group);  // it stays held; the list's own request for it has failed
    } else {
      ++counters_.releases_lost;
    }
  }
  size_t failed = asked_;
  for (size_t group = taken_; group < asked_; ++group) {
    const uint64_t old = answered(next++);
    const uint64_t suspected_bit = uint64_t{1} << (suspected_ % kLocksPerWord);
    if (suspected_ / kLocksPerWord == groups_[group].word && (old & suspected_bit) == 0) suspected_since_ns_ = 0;
    bool again = false;
    if (words_.changed(groups_[group], true, old, &again)) {
      if (failed < asked_) spare_.push_back(group);
      continue;
    }
    ++(again ? counters_.emulation_retries : counters_.busy);
    if (failed == asked_) suspect(groups_[group], old);
    failed = std::min(failed, group);
  }
  return failed;
}

// Takes note of the lock that stands in the way.
void LockedRows::suspect(const LockGroup& group, uint64_t old) {
  const uint64_t blocking = old & group.mask;
  if (blocking == 0) return;  // free by now
  const uint64_t lock = group.word * kLocksPerWord + static_cast<uint64_t>(std::countr_zero(blocking));
  if (suspected_since_ns_ == 0 || suspected_ != lock) suspected_since_ns_ = base::now_ns();
  suspected_ = lock;
}

bool LockedRows::holds(uint64_t block) const {
  const uint64_t lock = table_.lock(block), bit = uint64_t{1} << (lock % kLocksPerWord);
  return std::any_of(groups_.begin(), groups_.end(), [&](const LockGroup& group) {
    return group.word == lock / kLocksPerWord && (group.mask & bit) != 0;
  });
}

// Entries are whole, and no other client writes now: a row whose seal is wrong is sealed anew.
void LockedRows::heal() {
  for (const auto& [first, rows] : reads_) {
    for (uint64_t number = first; number < first + rows; ++number) {
      if (holds(table_.block(number)) && !row(number)->sealed(number)) write(number);
    }
  }
}

Row* LockedRows::row(uint64_t number) {
  for (size_t i = 0; i < reads_.size(); ++i) {
    if (number < reads_[i].first || number >= reads_[i].first + reads_[i].second) continue;
    return reinterpret_cast<Row*>(memory_->data() + read_at_[i] + (number - reads_[i].first) * kRowBytes);
  }
  return nullptr;
}

void LockedRows::write(uint64_t number) {
  row(number)->renew(number);
  if (std::find(writes_.begin(), writes_.end(), number) == writes_.end()) writes_.push_back(number);
}

Status LockedRows::release() {
  std::vector<size_t> left = std::exchange(spare_, {});
  for (size_t group = 0; group < taken_; ++group) left.push_back(group);
  taken_ = 0;
  for (size_t written = 0; written < writes_.size() || !left.empty();) {
    for (; written < writes_.size() && batch_.size() < rdma::WorkList::kRequestsMax; ++written) {
      const uint64_t number = writes_[written];
      const auto at = static_cast<size_t>(reinterpret_cast<std::byte*>(row(number)) - memory_->data());
      batch_.write(memory_->slice(at, kRowBytes), table_.row_at(number));
    }
    std::vector<size_t> asked;
    while (asked.size() < left.size() && batch_.size() < rdma::WorkList::kRequestsMax) {
      words_.add_release(&batch_, &groups_[left[asked.size()]], answer(batch_.size()));
      asked.push_back(left[asked.size()]);
    }
    const size_t first = batch_.size() - asked.size();
    BONSAI_RETURN_IF_ERROR(run());
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(asked.size()));
    for (size_t i = 0; i < asked.size(); ++i) {
      bool again = false;
      if (words_.changed(groups_[asked[i]], false, answered(first + i), &again)) continue;
      if (again) {
        ++counters_.emulation_retries;
        left.push_back(asked[i]);
      } else {
        ++counters_.releases_lost;
      }
    }
  }
  writes_.clear();
  return Status::OK();
}

}  // namespace bonsai::bench::rivals::rcuckoo
