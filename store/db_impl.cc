// SPDX-License-Identifier: Apache-2.0
#include "store/db_impl.h"

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <new>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/small_copy.h"
#include "base/status_macros.h"
#include "store/damage.h"
#include "store/iterator.h"
#include "store/options.h"
#include "store/scrub.h"
#include "store/session.h"
#include "store/stall.h"

namespace bonsai::store {

using base::Key;
using index::Index;

namespace {

// For work that leaves nothing half done.
Status out_of_memory() {
  base::memory_ran_out();
  return base::out_of_memory();
}

inline constexpr size_t kReadsIssuedMax = 256;  // by MultiGet, at a time

// Requires: the lookup has found none.
Status nothing_found(const scale::Volume& volume, const Index::Lookup& lookup) {
  if (lookup.found == Index::Found::kAbsent) [[likely]]
    return Status::NotFound();
  const bool damaged = lookup.found == Index::Found::kDamaged;
  return no_value(volume, damaged ? persist::Trouble::kDamaged : persist::Trouble::kUnavailable, lookup.key.bytes);
}

}  // namespace

DbImpl::DbImpl(const Options& options, std::unique_ptr<Tiers> tiers)
    : options_(options), tiers_(std::move(tiers)), background_(options_, *tiers_, counters_) {}

DbImpl::DbImpl(const Options& options, std::unique_ptr<Tiers> tiers, BackgroundThreads threads)
    : DbImpl(options, std::move(tiers)) {
  start(std::move(threads));
}

void DbImpl::start(BackgroundThreads threads) {
  BONSAI_CHECK(closed_ && tiers_->index != nullptr);
  leases_ = tiers_->leases;
  const bool fixed8 = tiers_->pool.key_format() == KeyFormat::kFixed8;
  key_bytes_min_ = fixed8 ? sizeof(uint64_t) : kKeyBytesMin;
  key_bytes_max_ = fixed8 ? sizeof(uint64_t) : kKeyBytesMax;
  large_value_bytes_min_ = tiers_->pool.limits().large_value_bytes_min;
  nvm_before_ = base::nvm_counters();
  closed_ = false;
  // Nothing writes from here on, whoever forgets to ask.
  if (options_.read_only) tiers_->volume->give_up("the store is read-only; open it without read_only to change it");
  background_.start(std::move(threads));
}

Status DbImpl::start_scrubbing() {
  return tiers_->targets->start_scrubbing(options_.scrub_bytes_per_s, [this](size_t target, auto blocks) {
    // Without memory nothing is known of them: a later pass judges them.
    static_cast<void>(with_memory([&] {
      judge_differing(*tiers_, target, blocks);
      return Status::OK();
    }));
  });
}

Status DbImpl::scrub_now() {
  if (!owner_.mine()) return of_parent();
  return tiers_->targets->scrub_now();
}

DbImpl::~DbImpl() {
  const Status status = Close();
  BONSAI_CHECK(!status.IsBusy());  // snapshots, iterators and sessions would read freed memory: destroy them before
}

Status DbImpl::Close() {
  return with_memory([this] { return close(); });
}

Status DbImpl::close() {
  if (closed_) return Status::OK();
  if (!owner_.mine()) {
    closed_ = true;
    background_.forget_threads();
    static_cast<void>(tiers_.release());  // what its end would write is the parent's to write
    return of_parent();
  }
  const uint64_t snapshots = lent_.snapshots.load(std::memory_order_acquire);
  const uint64_t iterators = lent_.iterators.load(std::memory_order_acquire);
  const uint64_t sessions = lent_.sessions.load(std::memory_order_acquire);
  if (snapshots + iterators + sessions != 0) {
    return Status::Busy("alive: " + std::to_string(snapshots) + " snapshots, " + std::to_string(iterators) +
                        " iterators, " + std::to_string(sessions) + " sessions; destroy them, then close again");
  }
  Status status = Sync();
  tiers_->targets->stop_scrubbing();
  background_.stop();
  closed_ = true;
  const std::unique_ptr<Tiers> closing = std::move(tiers_);
  return options_.read_only ? Status::OK() : finish(closing.get(), std::move(status));
}

// Without memory the pool stays as a crash would leave it, and a new one gets no names.
Status DbImpl::finish(Tiers* closing, Status status) {
  if (const Status sealed = closing->log->seal_all(); status.ok()) status = sealed;
  if (!closing->volume->failed()) {
    const Status clean = persist::write_clean_state(*closing->volume, closing->pool);
    if (status.ok()) status = clean;
  }
  for (const auto& target : *closing->targets) {
    if (Status synced = target->sync(); status.ok()) status = synced;
  }
  if (!status.ok() || !closing->named_at_close) return status;
  status = with_memory([closing] { return closing->targets->complete(); });
  if (status.ok()) return status;
  for (const auto& target : *closing->targets) static_cast<void>(with_memory([&] { return target->remove(); }));
  return status;
}

// ---- checks

Status DbImpl::of_parent() {
  return Status::NotSupported(
      "this process was forked from the one that has the pool open, which goes on using it; open pools after the fork");
}

Status DbImpl::of_reader() {
  return Status::NotSupported("this store was opened read-only and cannot be changed; open it without read_only");
}

Status DbImpl::await_updates(Stall* stall) const {
  if (!owner_.mine()) return of_parent();
  if (options_.read_only) return of_reader();
  if (tiers_->volume->failed()) return tiers_->volume->health();
  return stall->await_memory();
}

Status DbImpl::refuse_key(std::string_view key) const {
  if (tiers_->pool.key_format() == KeyFormat::kFixed8) {
    return Status::InvalidArgument("a key of " + std::to_string(key.size()) +
                                   " bytes in a pool of key=fixed8; keys are exactly 8 bytes, big-endian");
  }
  return Status::InvalidArgument("a key of " + std::to_string(key.size()) + " bytes; keys have " +
                                 std::to_string(kKeyBytesMin) + " to " + std::to_string(kKeyBytesMax) + " bytes");
}

Status DbImpl::refuse_value(std::string_view value) {
  return Status::InvalidArgument("a value of " + std::to_string(value.size()) + " bytes; values have at most " +
                                 std::to_string(kValueBytesMax) + " bytes");
}

// Checks that the data area has room for `bytes` more, beyond the updates that wait in the log.
Status DbImpl::admit(uint64_t bytes, Stall* stall) {
  const auto fits = [&] {
    const persist::Log& log = *tiers_->log;
    const uint64_t waiting = tiers_->index->dirty() ? (log.segments() - log.segments_free()) * log.segment_bytes() : 0;
    return tiers_->space.ordinary_free_bytes() >= waiting + bytes + kEntryOverheadBytes;
  };
  if (fits()) [[likely]]
    return Status::OK();
  const Status drained = stall->make_space(fits);
  if (fits()) return Status::OK();
  if (tiers_->volume->failed()) return tiers_->volume->health();
  return Status::NoSpace("the pool is full (" + std::to_string(tiers_->space.used_bytes()) + " of " +
                         std::to_string(tiers_->space.capacity_bytes()) + " data bytes used" +
                         (drained.ok() ? std::string() : ", " + drained.ToString()) +
                         "); enlarge it (bonsai grow, Options::grow_bytes), or delete data, deletes still work");
}

Status DbImpl::store_large(std::string_view value, persist::LargeRef* ref, Stall* stall) {
  Status status = tiers_->large->write(value, ref);
  if (!status.IsNoSpace()) return status;
  // Does not write again after a success, because no one would free the second value's space.
  const auto written = [&] { return status.ok() || (status = tiers_->large->write(value, ref)).ok(); };
  static_cast<void>(stall->make_space(written));
  if (!status.ok()) static_cast<void>(written());
  return status;
}

// ---- updates

Status DbImpl::Put(std::string_view key, std::string_view value) {
  Status status;
  Update update{.key = key, .value = value, .tombstone = false, .status = &status, .large = {}};
  Stall stall(options_, background_, counters_);
  update_all<1>({&update, 1}, &stall);
  return status;
}

Status DbImpl::Delete(std::string_view key) {
  Status status;
  Update update{.key = key, .value = {}, .tombstone = true, .status = &status, .large = {}};
  Stall stall(options_, background_, counters_);
  update_all<1>({&update, 1}, &stall);
  return status;
}

void DbImpl::MultiPut(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                      std::span<Status> statuses) {
  BONSAI_CHECK(keys.size() == values.size() && keys.size() == statuses.size());
  std::array<Update, Index::kPutManyMax> updates;
  Stall stall(options_, background_, counters_);
  for (size_t next = 0; next < keys.size();) {
    size_t n = 0;
    for (; next < keys.size() && n < updates.size(); ++next) {
      updates[n++] = {
          .key = keys[next], .value = values[next], .tombstone = false, .status = &statuses[next], .large = {}};
    }
    update_all<Index::kPutManyMax>({updates.data(), n}, &stall);
  }
}

void DbImpl::update_many(std::span<Update> updates) {
  Stall stall(options_, background_, counters_);
  for (size_t n; !updates.empty(); updates = updates.subspan(n)) {
    n = std::min(updates.size(), Index::kPutManyMax);
    update_all<Index::kPutManyMax>(updates.first(n), &stall);
  }
}

Status DbImpl::check(const Update& update) const {
  BONSAI_RETURN_IF_ERROR(check_key(update.key));
  return check_value(update.value);
}

Status DbImpl::prepare(Update* update, Index::Put* put, Stall* stall) {
  put->key = Key::of(update->key);
  put->value = update->value;
  put->tombstone = update->tombstone;
  put->use = update->tombstone ? persist::Log::Use::kReserve : persist::Log::Use::kOrdinary;
  if (update->value.size() >= large_value_bytes_min_) {
    BONSAI_RETURN_IF_ERROR(store_large(update->value, &update->large, stall));
    put->large = true;
    put->value = persist::bytes_of(update->large);
  }
  return Status::OK();
}

// Carries out some updates, at most kMax, in this order where they are of one key.
template <size_t kMax>
void DbImpl::update_all(std::span<Update> updates, Stall* stall) {
  bool begun = false;
  try {
    if (!takes_updates()) [[unlikely]] {
      if (const Status refused = await_updates(stall); !refused.ok()) {
        for (Update& update : updates) *update.status = refused;
        return;
      }
    }
    update_together<kMax>(updates, stall, &begun);
    if (!may_acknowledge()) [[unlikely]] {
      const Status owned = await_acknowledgement();
      for (Update& update : updates) {
        if (update.status->ok()) *update.status = owned;
      }
    }
  } catch (const std::bad_alloc&) {
    end_without_memory(updates, begun);
  }
}

// `begun`: what they have done is not known.
void DbImpl::end_without_memory(std::span<Update> updates, bool begun) {
  const Status why = begun ? lost_in_the_middle() : out_of_memory();
  for (Update& update : updates) {
    if (update.status->ok()) *update.status = why;
  }
}

Status DbImpl::lost_in_the_middle() {
  background_.give_up();
  return Status::IoError(std::string(base::kOutOfMemory) + "; this update may or may not have taken effect");
}

// *begun: whether some may have taken effect, should memory run out.
template <size_t kMax>
void DbImpl::update_together(std::span<Update> updates, Stall* stall, bool* begun) {
  BONSAI_DCHECK(updates.size() <= kMax);
  std::array<Index::Put, kMax> puts;
  std::array<Status*, kMax> statuses;
  size_t n = 0;
  uint64_t bytes = 0;
  for (Update& update : updates) {
    *update.status = check(update);
    if (!update.tombstone && update.status->ok()) bytes += room_for(update.key, update.value);
  }
  const Status room = bytes == 0 ? Status::OK() : admit(bytes, stall);
  if (!room.ok() && updates.size() > 1) {  // some may fit
    for (Update& update : updates) update_all<1>({&update, 1}, stall);
    return;
  }
  for (Update& update : updates) {
    if (update.status->ok() && !update.tombstone) *update.status = room;
    if (update.status->ok()) *update.status = prepare(&update, &puts[n], stall);
    if (!update.status->ok()) continue;
    statuses[n++] = update.status;
  }
  *begun = true;
  put_with_pressure({puts.data(), n}, {statuses.data(), n}, stall);
  uint64_t deletes = 0, done = 0, user_bytes = 0;
  for (const Update& update : updates) {
    if (!update.status->ok()) continue;
    ++done;
    deletes += update.tombstone ? 1 : 0;
    user_bytes += update.key.size() + update.value.size();
  }
  counters_.add(Count::kDels, deletes);
  counters_.add(Count::kPuts, done - deletes);
  counters_.add(Count::kUserBytes, user_bytes);
  after_updates(done);
}

void DbImpl::after_updates(uint64_t updates) {
  const uint64_t throttled_ns = background_.after_updates(updates);
  if (throttled_ns == 0) [[likely]]
    return;
  counters_.add(Count::kPauses, updates);
  counters_.add(Count::kPauseNs, throttled_ns);
}

void DbImpl::put_with_pressure(std::span<Index::Put> puts, std::span<Status*> statuses, Stall* stall) {
  BONSAI_DCHECK(puts.size() == statuses.size());
  size_t done = 0;
  while (done < puts.size()) {
    Index::Outcome outcome;
    const size_t before = done;
    {
      const auto guard = tiers_->epochs->enter();
      done += tiers_->index->put_many(puts.subspan(done), &outcome);
    }
    if (done != before) stall->progress();
    if (done == puts.size() || stall->wait(puts[done].recorded)) continue;
    // The others get a try of their own: a delete may take space that this one must not.
    const Index::Put& put = puts[done];
    // If the volume has failed, an unacknowledged record in the log may still refer to the value.
    if (put.large && !put.recorded && !tiers_->volume->failed()) {
      tiers_->large->free(persist::large_ref(put.value));
    }
    *statuses[done++] = stall->why(put.recorded);
    BONSAI_INVARIANT(!statuses[done - 1]->ok());  // what was given up is not acknowledged (2, 5)
  }
}

Status DbImpl::Write(const WriteBatch& batch, size_t* failed) {
  if (batch.Count() == 0) {
    return batch.requirements().empty() ? Status::OK()
                                        : with_memory([&] { return check_at_one_moment(batch, failed); });
  }
  std::vector<persist::LargeRef> large;
  bool begun = false;
  try {
    return write_batch(batch, failed, &large, &begun);
  } catch (const std::bad_alloc&) {
    if (begun) return lost_in_the_middle();
  }
  // Space that cannot be given back now comes back with the next opening.
  static_cast<void>(with_memory([&] {
    free_large(large);
    return Status::OK();
  }));
  return out_of_memory();
}

void DbImpl::free_large(const std::vector<persist::LargeRef>& large) {
  for (const persist::LargeRef& ref : large) tiers_->large->free(ref);
}

// *large: the values that it has stored. *begun: as in update_together().
Status DbImpl::write_batch(const WriteBatch& batch, size_t* failed, std::vector<persist::LargeRef>* large,
                           bool* begun) {
  Stall stall(options_, background_, counters_);
  if (!takes_updates()) BONSAI_RETURN_IF_ERROR(await_updates(&stall));
  uint64_t bytes = 0;
  bool deletes_only = true;
  for (const WriteBatch::Update& update : batch.updates()) {
    BONSAI_RETURN_IF_ERROR(check_key(update.key));
    BONSAI_RETURN_IF_ERROR(check_value(update.value));
    deletes_only = deletes_only && update.is_delete;
    bytes += room_for(update.key, update.value);
  }
  if (!batch.requirements().empty()) BONSAI_RETURN_IF_ERROR(check_requirements(batch, index::kLatest, failed));
  const Ordered updates = in_order(batch);
  BONSAI_RETURN_IF_ERROR(check_size(updates));
  if (!deletes_only) BONSAI_RETURN_IF_ERROR(admit(bytes, &stall));
  if (const size_t dram_bytes = dram_bytes_of(batch); !base::memory_has(dram_bytes)) {
    BONSAI_RETURN_IF_ERROR(stall.await_memory(dram_bytes));
  }
  index::Batch* made = nullptr;
  Status status = make_batch(updates, batch, large, &made, &stall);
  if (status.ok()) {
    *begun = true;
    status = write_with_pressure(made, &stall);
    if (status.ok() && made->conditional()) status = outcome_of(*made, batch, failed);
    made->unref();
  }
  if (!status.ok()) {
    if (!status.IsUnavailable() && !tiers_->volume->failed()) free_large(*large);
    return status.IsConditionFailed() ? answer_of(std::move(status)) : status;
  }
  counters_.add(Count::kBatches);
  for (const WriteBatch::Update& update : batch.updates()) {
    counters_.add(update.is_delete ? Count::kDels : Count::kPuts);
    counters_.add(Count::kUserBytes, update.key.size() + update.value.size());
  }
  after_updates(batch.Count());
  return may_acknowledge() ? Status::OK() : await_acknowledgement();
}

// ---- reads

// `answer` makes a status of the lookup, inside its guard.
template <class Answer>
Status DbImpl::look_up(const ReadOptions& options, std::string_view key, Answer answer) {
  BONSAI_RETURN_IF_ERROR(check_key(key));
  if (!owner_.mine()) return of_parent();
  counters_.add(Count::kGets);
  Status status;
  {
    const auto guard = tiers_->epochs->enter();
    Index::Lookup lookup{.key = Key::of(key)};
    tiers_->index->get(version_of(options.snapshot), &lookup);
    if (lookup.found == Index::Found::kValue && lookup.value.from_dnode) counters_.add(Count::kGetsFromDnodes);
    status = answer(lookup);
  }
  background_.after_read();
  if (!may_answer()) [[unlikely]]
    return answer_without_lease(std::move(status));
  return status;
}

Status DbImpl::Get(const ReadOptions& options, std::string_view key, std::string* value) {
  return with_memory(
      [&] { return look_up(options, key, [&](const Index::Lookup& lookup) { return answer(lookup, value); }); });
}

Status DbImpl::Exists(const ReadOptions& options, std::string_view key) {
  return with_memory([&] {
    return look_up(options, key, [this](const Index::Lookup& lookup) {
      return lookup.found == Index::Found::kValue ? Status::OK() : nothing_found(*tiers_->volume, lookup);
    });
  });
}

// Requires: the guard of the lookup.
Status DbImpl::answer(const Index::Lookup& lookup, std::string* value) const {
  if (lookup.found != Index::Found::kValue) return nothing_found(*tiers_->volume, lookup);
  if (const std::string_view bytes = lookup.value.bytes; !lookup.value.large) {
    if (value->size() == bytes.size()) {  // a caller's buffer that is used again
      base::copy_small(value->data(), bytes);
    } else {
      value->assign(bytes);
    }
  } else {
    const persist::Trouble trouble = tiers_->large->read(persist::large_ref(lookup.value.bytes), value);
    if (trouble != persist::Trouble::kNone) return no_value(*tiers_->volume, trouble, lookup.key.bytes);
  }
  return Status::OK();
}

void DbImpl::MultiGet(const ReadOptions& options, std::span<const std::string_view> keys, std::span<std::string> values,
                      std::span<Status> statuses) {
  BONSAI_CHECK(keys.size() == values.size() && keys.size() == statuses.size());
  boost::container::static_vector<Read, kReadsIssuedMax> reads;  // costs nothing for those that are not issued
  for (size_t next = 0; next < keys.size(); reads.clear()) {
    for (; next < keys.size() && reads.size() < reads.capacity(); ++next) {
      reads.push_back({keys[next], &values[next], &statuses[next]});
    }
    read_many(options, {reads.data(), reads.size()});
  }
}

// Gives the index the keys of reads, and these their answers.
class DbImpl::Reading final : public Index::Asker {
 public:
  Reading(const DbImpl& db, std::span<const Read> reads) : db_(db), reads_(reads) {}

  bool key(size_t i, Key* key) override {
    BONSAI_DCHECK(i < reads_.size());
    const Read& read = reads_[i];
    *read.status = db_.check_key(read.key);
    if (!read.status->ok()) return false;
    *key = Key::of(read.key);
    ++asked_;
    return true;
  }
  void answer(size_t i, const Index::Lookup& lookup) override {
    *reads_[i].status = db_.answer(lookup, reads_[i].value);
    if (lookup.found == Index::Found::kValue && lookup.value.from_dnode) ++from_dnodes_;
  }

  [[nodiscard]] uint64_t asked() const { return asked_; }
  [[nodiscard]] uint64_t from_dnodes() const { return from_dnodes_; }

 private:
  const DbImpl& db_;
  const std::span<const Read> reads_;
  uint64_t asked_ = 0, from_dnodes_ = 0;
};

void DbImpl::read_many(const ReadOptions& options, std::span<const Read> reads) {
  if (reads.empty()) return;
  Reading reading(*this, reads);
  try {
    if (!owner_.mine()) [[unlikely]] {
      for (const Read& read : reads) *read.status = of_parent();
      return;
    }
    const auto guard = tiers_->epochs->enter();
    tiers_->index->get_many(version_of(options.snapshot), reads.size(), &reading);
  } catch (const std::bad_alloc&) {
    const Status why = out_of_memory();
    for (const Read& read : reads) *read.status = why;
    return;
  }
  background_.after_read();
  if (!may_answer()) [[unlikely]]
    answer_without_lease(reads);
  counters_.add(Count::kGets, reading.asked());
  counters_.add(Count::kGetsFromDnodes, reading.from_dnodes());
}

std::unique_ptr<Session> DbImpl::NewSession(size_t depth) {
  return made_or_null([&]() -> std::unique_ptr<Session> { return std::make_unique<SessionImpl>(*this, depth); });
}

Status DbImpl::register_scan(index::Versions::Registration* registration) {
  if (!owner_.mine()) return of_parent();
  *registration = tiers_->index->register_scan();
  if (*registration) return Status::OK();
  return Status::Unavailable("there are " + std::to_string(options_.snapshots_max) +
                             " snapshots, iterators and scans already; release some, or raise snapshots_max");
}

Status DbImpl::register_shared(std::shared_ptr<const index::Versions::Registration>* registration) {
  index::Versions::Registration own;
  BONSAI_RETURN_IF_ERROR(register_scan(&own));
  *registration = std::make_shared<const index::Versions::Registration>(std::move(own));
  return Status::OK();
}

Status DbImpl::GetSnapshot(std::shared_ptr<const Snapshot>* snapshot) {
  return with_memory([&] {
    std::shared_ptr<const index::Versions::Registration> registration;
    BONSAI_RETURN_IF_ERROR(register_shared(&registration));
    BONSAI_RETURN_IF_ERROR(answer_of(Status::OK()));
    *snapshot = std::make_shared<SnapshotImpl>(lent_, std::move(registration));
    return Status::OK();
  });
}

std::unique_ptr<Iterator> DbImpl::NewIterator(const ReadOptions& options) {
  return made_or_null([&]() -> std::unique_ptr<Iterator> {
    std::shared_ptr<const index::Versions::Registration> registration;
    Status status;
    if (options.snapshot != nullptr) {
      registration = static_cast<const SnapshotImpl*>(options.snapshot)->registration();
    } else {
      status = register_shared(&registration);
    }
    return std::make_unique<IteratorImpl>(*this, std::move(registration), verify_of(options.verify_checksums),
                                          std::move(status));
  });
}

// ---- the rest

Status DbImpl::Sync() {
  return with_memory([this] { return owner_.mine() ? sync() : of_parent(); });
}

Status DbImpl::sync() {
  if (options_.read_only) return Status::OK();
  for (base::BoundedWait wait("sync", options_.stall_ms_max);; wait.pause()) {
    const Status closed = tiers_->log->close_epoch();
    if (closed.ok()) return tiers_->log->note_ends();
    // Only a writer that was preempted is waited for: a target that failed stays so.
    if (!closed.IsUnavailable() || tiers_->volume->failed()) return closed;
    if (wait.expired()) return wait.status();
  }
}

Status DbImpl::Drain() {
  if (options_.read_only) return owner_.mine() ? of_reader() : of_parent();
  return with_memory([this] { return owner_.mine() ? background_.drain() : of_parent(); });
}

}  // namespace bonsai::store
