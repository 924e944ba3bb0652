// SPDX-License-Identifier: Apache-2.0
// Iterators: the store as of one moment, read one bnode's range at a time. A range is copied while inside an epoch
// guard, so that an iterator at rest holds back no memory but the old versions of its moment. On far targets a forward
// iterator reads ahead the runs of up to ScanAhead::kMax ranges, twice as many with each range that it enters.
#ifndef BONSAI_STORE_ITERATOR_H_
#define BONSAI_STORE_ITERATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "bonsai/db.h"
#include "index/index.h"
#include "store/db_impl.h"

namespace bonsai::store {

class IteratorImpl final : public Iterator {
 public:
  // `status`: why there is no registration, else OK.
  IteratorImpl(DbImpl& db, std::shared_ptr<const index::Versions::Registration> registration,
               persist::DnodeCursor::Verify verify, Status status)
      : loan_(db.lent().iterators),
        db_(db),
        registration_(std::move(registration)),
        verify_(verify),
        status_(std::move(status)),
        usable_(status_.ok()) {}

  [[nodiscard]] bool Valid() const override { return valid_; }
  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(std::string_view key) override;
  void SeekForPrev(std::string_view key) override;
  void SeekAfter(std::string_view key) override;
  void SeekBefore(std::string_view key) override;
  void Next() override;
  void Prev() override;
  [[nodiscard]] std::string_view key() const override;
  [[nodiscard]] std::string_view value() const override;
  Status status() const override { return status_; }

 private:
  struct Record {
    size_t key_offset;
    uint32_t key_bytes, value_bytes;
    bool large;
  };
  bool begin();
  template <class Move>
  void with_memory_or_fail(Move move);
  void seek_to_last();
  void seek(std::string_view key);
  void seek_for_prev(std::string_view key);
  void keep(const index::Index::Window& window);
  void load_from(const base::Fence& at, size_t ranges_ahead);
  void load_below(const base::Fence& fence);
  void settle_forward();
  void settle_backward();
  void land();
  void fail(Status status);
  [[nodiscard]] std::string_view key_at(size_t i) const {
    BONSAI_DCHECK(i < records_.size());
    return {bytes_.data() + records_[i].key_offset, records_[i].key_bytes};
  }

  const Loan loan_;
  DbImpl& db_;
  std::shared_ptr<const index::Versions::Registration> registration_;
  const persist::DnodeCursor::Verify verify_;
  Status status_;
  bool usable_;
  bool valid_ = false;

  index::ScanAhead ahead_;  // what was read ahead
  base::Fence lo_, hi_;     // of the range that is loaded
  std::string bytes_;
  std::vector<Record> records_;
  size_t at_ = 0;      // settle_backward counts one beyond
  std::string large_;  // the current value, if it is a large one
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_ITERATOR_H_
