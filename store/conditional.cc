// SPDX-License-Identifier: Apache-2.0
// Conditional updates of one key, and the conditions of batches. How the index makes them: index/change.cc.
#include <charconv>
#include <new>
#include <string>

#include "base/check.h"
#include "base/key.h"
#include "base/status_macros.h"
#include "store/damage.h"
#include "store/db_impl.h"
#include "store/options.h"
#include "store/stall.h"

namespace bonsai::store {

using base::Key;
using index::Index;
using index::Refusal;

namespace {

index::Condition::Kind kind_of(Condition::Kind kind) {
  switch (kind) {
    case Condition::Kind::kAbsent:
      return index::Condition::Kind::kAbsent;
    case Condition::Kind::kPresent:
      return index::Condition::Kind::kPresent;
    case Condition::Kind::kEquals:
      return index::Condition::Kind::kEquals;
    case Condition::Kind::kUnchanged:
      break;
  }
  return index::Condition::Kind::kUnchanged;
}

// The index's condition; it refers to the bytes of this one.
index::Condition made_of(Condition::Kind kind, std::string_view value, const Snapshot* snapshot, uint32_t number) {
  BONSAI_CHECK((kind == Condition::Kind::kUnchanged) == (snapshot != nullptr));
  return {kind_of(kind), value, snapshot != nullptr ? version_of(snapshot) : 0, number};
}

}  // namespace

// A conditional update of the store.
class DbImpl::Changing : public Index::Change {
 public:
  // Why the update was refused, if decide() knows better than the index.
  Status refused;

 protected:
  explicit Changing(const DbImpl& db) : db_(db) {}
  ~Changing() = default;

  const DbImpl& db_;
};

class DbImpl::PutOrDeleteIf final : public Changing {
 public:
  PutOrDeleteIf(const DbImpl& db, const Condition& condition, bool deletes)
      : Changing(db), condition_(made_of(condition.kind(), condition.value(), condition.snapshot(), 0)) {
    tombstone = deletes;
  }
  Refusal decide(const Index::Lookup& now, uint64_t version) override {
    return db_.tiers_->index->judge(condition_, now, version);
  }

 private:
  const index::Condition condition_;
};

class DbImpl::Incrementing final : public Changing {
 public:
  Incrementing(const DbImpl& db, int64_t by) : Changing(db), by_(by) {}
  [[nodiscard]] int64_t sum() const { return sum_; }

  Refusal decide(const Index::Lookup& now, uint64_t) override {
    if (now.found == Index::Found::kDamaged) return Refusal::kDamaged;
    if (now.found == Index::Found::kUnavailable) return Refusal::kUnavailable;
    int64_t number = 0;
    if (now.found == Index::Found::kValue && !read(now, &number)) {
      refused = Status::InvalidArgument("the value of key " + base::printable(now.key.bytes) +
                                        " is no decimal integer of 64 bits; put one, such as 0");
      return Refusal::kFails;
    }
    if (__builtin_add_overflow(number, by_, &sum_)) {
      refused = Status::InvalidArgument("the sum of " + std::to_string(number) + " and " + std::to_string(by_) +
                                        " does not fit into 64 bits; nothing was changed");
      return Refusal::kFails;
    }
    value = {text_, std::to_chars(text_, text_ + sizeof text_, sum_).ptr};
    return Refusal::kNone;
  }

 private:
  static bool read(const Index::Lookup& now, int64_t* number) {
    const std::string_view text = now.value.bytes;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    return !now.value.large && error == std::errc() && end == text.data() + text.size();
  }

  const int64_t by_;
  int64_t sum_ = 0;
  char text_[24];
};

Status DbImpl::PutIf(const Condition& condition, std::string_view key, std::string_view value) {
  PutOrDeleteIf put(*this, condition, false);
  return change(key, value, &put);
}

Status DbImpl::DeleteIf(const Condition& condition, std::string_view key) {
  PutOrDeleteIf deletion(*this, condition, true);
  return change(key, {}, &deletion);
}

Status DbImpl::Increment(std::string_view key, int64_t by, int64_t* result) {
  constexpr std::string_view kLongest = "-9223372036854775808";
  Incrementing addition(*this, by);
  const Status status = change(key, kLongest, &addition);
  if (status.ok() && result != nullptr) *result = addition.sum();
  return status;
}

Status DbImpl::change(std::string_view key, std::string_view value, Changing* changing) {
  bool begun = false;
  try {
    return change_begun(key, value, changing, &begun);
  } catch (const std::bad_alloc&) {
    if (begun) return lost_in_the_middle();
  }
  base::memory_ran_out();
  return base::out_of_memory();
}

// *begun: whether it may have taken effect, should memory run out. `value`: as long as what will be written.
Status DbImpl::change_begun(std::string_view key, std::string_view value, Changing* changing, bool* begun) {
  Stall stall(options_, background_, counters_);
  if (!takes_updates()) [[unlikely]]
    BONSAI_RETURN_IF_ERROR(await_updates(&stall));
  BONSAI_RETURN_IF_ERROR(check_key(key));
  BONSAI_RETURN_IF_ERROR(check_value(value));
  changing->key = Key::of(key);
  changing->value = value;
  persist::LargeRef large;
  if (changing->tombstone) {
    changing->use = persist::Log::Use::kReserve;
  } else {
    BONSAI_RETURN_IF_ERROR(admit(room_for(key, value), &stall));
    if (value.size() >= large_value_bytes_min_) {
      BONSAI_RETURN_IF_ERROR(store_large(value, &large, &stall));
      changing->large = true;
      changing->value = persist::bytes_of(large);
    }
  }
  *begun = true;
  Refusal why = Refusal::kNone;
  Status status = change_with_pressure(changing, &why, &stall);
  if (status.ok() && why != Refusal::kNone) status = changing->refused.ok() ? status_of(why, key) : changing->refused;
  if (!status.ok()) {
    // If the volume has failed, a record in the log may refer to the value.
    if (changing->large && !tiers_->volume->failed()) tiers_->large->free(large);
    return why != Refusal::kNone ? answer_of(std::move(status)) : status;
  }
  counters_.add(changing->tombstone ? Count::kDels : Count::kPuts);
  counters_.add(Count::kUserBytes, key.size() + changing->value.size());
  after_updates(1);
  return may_acknowledge() ? Status::OK() : await_acknowledgement();
}

Status DbImpl::change_with_pressure(Index::Change* change, Refusal* why, Stall* stall) {
  for (;;) {
    {
      const auto guard = tiers_->epochs->enter();
      if (tiers_->index->change(change, why) == Index::Outcome::kDone) return Status::OK();
    }
    if (!stall->wait(false)) return stall->why(false);
  }
}

Status DbImpl::status_of(Refusal why, std::string_view key) const {
  BONSAI_CHECK(why != Refusal::kNone && why != Refusal::kGivenUp);
  if (why == Refusal::kFails) return Status::ConditionFailed();
  return no_value(*tiers_->volume,
                  why == Refusal::kDamaged ? persist::Trouble::kDamaged : persist::Trouble::kUnavailable, key);
}

index::Condition DbImpl::condition_of(const WriteBatch::Requirement& requirement, size_t number) {
  return made_of(requirement.kind, requirement.value, requirement.snapshot, static_cast<uint32_t>(number));
}

// Judges the conditions as of `version`, or (kLatest) each at a moment of its own: so a batch that is going to be
// refused leaves nothing behind.
Status DbImpl::check_requirements(const WriteBatch& batch, uint64_t version, size_t* failed) {
  for (size_t i = 0; i < batch.requirements().size(); ++i) {
    const WriteBatch::Requirement& each = batch.requirements()[i];
    BONSAI_RETURN_IF_ERROR(check_key(each.key));
    Refusal why;
    {
      const auto guard = tiers_->epochs->enter();
      Index::Lookup now{.key = Key::of(each.key)};
      uint64_t own = index::kNoVersion;
      tiers_->index->read_versioned(version, &now, &own);
      why = tiers_->index->judge(condition_of(each, i), now, own);
    }
    if (why == Refusal::kNone) continue;
    if (failed != nullptr) *failed = i;
    return answer_of(status_of(why, each.key));
  }
  return Status::OK();
}

// For a batch without updates.
Status DbImpl::check_at_one_moment(const WriteBatch& batch, size_t* failed) {
  if (!owner_.mine()) return of_parent();
  index::Versions::Registration registration;
  BONSAI_RETURN_IF_ERROR(register_scan(&registration));
  return answer_of(check_requirements(batch, registration.version(), failed));
}

// What became of a batch with conditions that is done.
Status DbImpl::outcome_of(const index::Batch& made, const WriteBatch& batch, size_t* failed) const {
  const uint64_t cell = made.cell.load();
  const Refusal why = index::Batch::refusal_of(cell);
  if (why == Refusal::kNone) return Status::OK();
  const uint32_t number = index::Batch::condition_of(cell);
  BONSAI_CHECK(number < batch.requirements().size());
  if (failed != nullptr) *failed = number;
  return status_of(why, batch.requirements()[number].key);
}

}  // namespace bonsai::store
