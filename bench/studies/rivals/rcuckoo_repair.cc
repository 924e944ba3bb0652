// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/rcuckoo_repair.h"

#include <algorithm>

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/step.h"
#include "base/thread.h"

namespace bonsai::bench::rivals::rcuckoo {

namespace {

constexpr size_t kOthersMax = 16;  // rows read at once beside those of the block

struct Lease {
  static constexpr uint64_t kTaken = uint64_t{1} << 63;
  [[nodiscard]] static uint64_t of(uint64_t owner, uint64_t before) {
    return kTaken | owner << 8 | ((before + 1) & 0xff);
  }
};

}  // namespace

Status Repairer::make(Connection* connection, const Table& table, const LockOptions& options,
                      std::unique_ptr<Repairer>* made) {
  std::unique_ptr<Repairer> repairer(new Repairer(connection, table, options));
  const size_t rows = table.options().rows_per_lock + kOthersMax;
  BONSAI_RETURN_IF_ERROR(Scratch::make(connection, kRowsAt + rows * kRowBytes, &repairer->memory_));
  *made = std::move(repairer);
  return Status::OK();
}

Row* Repairer::row(size_t i) const { return reinterpret_cast<Row*>(memory_->data() + kRowsAt + i * kRowBytes); }
rdma::Slice Repairer::row_slice(size_t first, size_t rows) const {
  return memory_->slice(kRowsAt + first * kRowBytes, rows * kRowBytes);
}

Status Repairer::run(uint64_t lock, const Limit& limit) {
  View view;
  bool dead = false;
  BONSAI_RETURN_IF_ERROR(watch(lock, limit, &view, &dead));
  if (!dead) {
    ++counters_.false_alarms;
    return Status::OK();
  }
  const uint64_t lease = Lease::of(owner_, view.lease);
  batch_.cas(table_.lease_at(lock / kLocksPerWord), view.lease, lease, answer(0));
  BONSAI_RETURN_IF_ERROR(batch_.run());
  if (answered(0) != view.lease) return Status::OK();  // somebody else repairs
  base::step("rcuckoo.repair");
  // The lock is certainly that of the dead client: a client that repaired it meanwhile would have had the lease.
  for (uint64_t block = lock; block < table_.blocks(); block += table_.lock_bits()) {
    BONSAI_RETURN_IF_ERROR(repair_block(block));
  }
  ++counters_.locks_repaired;
  return release(lock, lease);
}

// Lock, lease and seals as they are now. An atomic that stores nothing new reads the words.
Status Repairer::look(uint64_t lock, View* view) {
  view->seals.clear();
  for (uint64_t block = lock; block < table_.blocks(); block += table_.lock_bits()) {
    const uint64_t rows = table_.rows_of(block);
    batch_.cas(Table::lock_word_at(lock / kLocksPerWord), 0, 0, answer(0));
    batch_.cas(table_.lease_at(lock / kLocksPerWord), 0, 0, answer(1));
    batch_.read(table_.row_at(table_.first_row(block)), row_slice(0, rows));
    BONSAI_RETURN_IF_ERROR(batch_.run());
    for (uint64_t i = 0; i < rows; ++i) view->seals.push_back(row(i)->seal);
  }
  view->lock_word = answered(0) & uint64_t{1} << (lock % kLocksPerWord);
  view->lease = answered(1);
  return Status::OK();
}

Status Repairer::watch(uint64_t lock, const Limit& limit, View* view, bool* dead) {
  BONSAI_RETURN_IF_ERROR(look(lock, view));
  const uint64_t end_ns = base::now_ns() + options_.suspect_ms * base::kNsPerMs;
  for (View again = *view; again == *view && view->lock_word != 0;) {
    *dead = base::now_ns() >= end_ns;
    if (*dead) return Status::OK();
    if (limit.expired()) return limit.status();
    base::sleep_ms(1);
    BONSAI_RETURN_IF_ERROR(look(lock, &again));
  }
  return Status::OK();
}

Status Repairer::repair_block(uint64_t block) {
  const uint64_t first = table_.first_row(block), rows = table_.rows_of(block);
  batch_.read(table_.row_at(first), row_slice(0, rows));
  BONSAI_RETURN_IF_ERROR(batch_.run());
  for (uint64_t i = 0; i < rows; ++i) {
    const uint64_t number = first + i;
    Row* const mine = row(i);
    bool changed = !mine->sealed(number);
    counters_.rows_sealed += changed ? 1 : 0;
    std::vector<uint64_t> others;  // by entry
    for (const uint64_t entry : mine->entries) others.push_back(table_.place(Entry::key(entry)).first);
    if (number % 2 == 1) BONSAI_RETURN_IF_ERROR(read_first_rows(others));
    for (size_t slot = 0; slot < kEntriesPerRow && number % 2 == 1; ++slot) {
      const uint64_t entry = mine->entries[slot];
      if (entry == 0 ||
          entry_of(row(table_.options().rows_per_lock + slot)->entries, Entry::key(entry)) == kEntriesPerRow) {
        continue;
      }
      mine->entries[slot] = 0;
      ++counters_.entries_removed;
      changed = true;
    }
    if (!changed) continue;
    mine->renew(number);
    batch_.write(row_slice(i, 1), table_.row_at(number));
    BONSAI_RETURN_IF_ERROR(batch_.run());
  }
  return Status::OK();
}

// Entries come whole, and that of a key of the repaired row does not change: seals do not matter.
Status Repairer::read_first_rows(const std::vector<uint64_t>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    batch_.read(table_.row_at(numbers[i]), row_slice(table_.options().rows_per_lock + i, 1));
  }
  return batch_.run();
}

Status Repairer::release(uint64_t lock, uint64_t lease) {
  LockGroup group{lock / kLocksPerWord, uint64_t{1} << (lock % kLocksPerWord)};
  for (bool again = true; again;) {
    words_.add_release(&batch_, &group, answer(0));
    BONSAI_RETURN_IF_ERROR(batch_.run());
    static_cast<void>(words_.changed(group, false, answered(0), &again));
  }
  batch_.cas(table_.lease_at(lock / kLocksPerWord), lease, lease & ~Lease::kTaken, answer(0));
  return batch_.run();
}

}  // namespace bonsai::bench::rivals::rcuckoo
