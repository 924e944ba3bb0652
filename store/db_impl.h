// SPDX-License-Identifier: Apache-2.0
// The implementation of DB: argument checks, admission, back-pressure and background work around the index tier.
#ifndef BONSAI_STORE_DB_IMPL_H_
#define BONSAI_STORE_DB_IMPL_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/memory.h"
#include "base/own_process.h"
#include "bonsai/db.h"
#include "persist/fences.h"
#include "store/background.h"
#include "store/counters.h"
#include "store/tiers.h"

namespace bonsai::store {

class Stall;

// Bytes that an update may come to need in the data area before space is reclaimed: entry, check, rounding.
inline constexpr uint64_t kEntryOverheadBytes = 64;
// The bytes in the data area that an update of a key may need. A long key may be stored once more, as a fence key.
inline uint64_t room_for(std::string_view key, std::string_view value) {
  const uint64_t as_fence = persist::fits_inline(key) ? 0 : key.size();
  return key.size() + value.size() + as_fence + kEntryOverheadBytes;
}

// Counts the objects that must be destroyed before their store is closed.
struct Lent {
  std::atomic<uint64_t> snapshots{0}, iterators{0}, sessions{0};
};

// One such object is counted while this exists: as its first member, which is destroyed last.
class Loan {
 public:
  explicit Loan(std::atomic<uint64_t>& count) : count_(count) { count_.fetch_add(1, std::memory_order_relaxed); }
  ~Loan() {
    const uint64_t before = count_.fetch_sub(1, std::memory_order_release);
    BONSAI_INVARIANT(before > 0);  // (8)
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

 private:
  std::atomic<uint64_t>& count_;
};

// A moment of the history; readers through it share the registration.
class SnapshotImpl final : public Snapshot {
 public:
  SnapshotImpl(Lent& lent, std::shared_ptr<const index::Versions::Registration> registration)
      : loan_(lent.snapshots), registration_(std::move(registration)) {
    BONSAI_CHECK(registration_ != nullptr);
  }
  [[nodiscard]] const std::shared_ptr<const index::Versions::Registration>& registration() const {
    return registration_;
  }
  [[nodiscard]] uint64_t version() const { return registration_->version(); }

 private:
  const Loan loan_;
  std::shared_ptr<const index::Versions::Registration> registration_;
};

// Why a scan without a visitor is refused.
[[nodiscard]] Status no_visitor();

// The version of a read: its snapshot's, else "now".
inline uint64_t version_of(const Snapshot* snapshot) {
  return snapshot == nullptr ? index::kLatest : static_cast<const SnapshotImpl*>(snapshot)->version();
}

inline persist::DnodeCursor::Verify verify_of(bool verify_checksums) {
  return verify_checksums ? persist::DnodeCursor::Verify::kAlways : persist::DnodeCursor::Verify::kSampled;
}

class DbImpl final : public DB {
 public:
  // A store whose tiers are to be opened, and which counts as closed until then. It has all the memory that start()
  // takes: a pool is created only if its store can be.
  explicit DbImpl(const Options& options) : DbImpl(options, std::make_unique<Tiers>()) {}
  // `threads`: those that the options request, or none, for tests that run the store in one thread.
  DbImpl(const Options& options, std::unique_ptr<Tiers> tiers, BackgroundThreads threads);
  // Call once, when the tiers are open.
  void start(BackgroundThreads threads);
  ~DbImpl() override;

  Status Put(std::string_view key, std::string_view value) override;
  Status Delete(std::string_view key) override;
  void MultiPut(std::span<const std::string_view> keys, std::span<const std::string_view> values,
                std::span<Status> statuses) override;
  using DB::Write;
  Status Write(const WriteBatch& batch, size_t* failed) override;
  Status PutIf(const Condition& condition, std::string_view key, std::string_view value) override;
  Status DeleteIf(const Condition& condition, std::string_view key) override;
  Status Increment(std::string_view key, int64_t by, int64_t* result) override;
  [[nodiscard]] uint64_t BatchBytesMax() const override;
  Status DeleteRange(const ScanOptions& options, std::string_view from, uint64_t* deleted) override;
  Status Get(const ReadOptions& options, std::string_view key, std::string* value) override;
  Status Exists(const ReadOptions& options, std::string_view key) override;
  void MultiGet(const ReadOptions& options, std::span<const std::string_view> keys, std::span<std::string> values,
                std::span<Status> statuses) override;
  std::unique_ptr<Session> NewSession(size_t depth) override;
  Status Scan(const ScanOptions& options, std::string_view from, const ScanVisitor& visit) override;
  Status ScanRows(const ScanOptions& options, std::string_view from, const RowsVisitor& visit) override;
  Status Count(const ScanOptions& options, std::string_view from, uint64_t* count) override;
  Status GetSnapshot(std::shared_ptr<const Snapshot>* snapshot) override;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override;
  Status Sync() override;
  Status Drain() override;
  [[nodiscard]] Stats GetStats() const override;
  Status Close() override;

  // A requested update of one key, and its execution.
  struct Update {
    std::string_view key, value;
    bool tombstone = false;
    Status* status = nullptr;  // of the caller
    persist::LargeRef large{};
  };
  // Executes updates; those of one key take effect in this order.
  void update_many(std::span<Update> updates);

  struct Read {
    std::string_view key;
    std::string* value;
    Status* status;
  };
  class Reading;
  // All under one guard, which delays reclamation: the caller limits their number.
  void read_many(const ReadOptions& options, std::span<const Read> reads);
  // One scan of a group; its views outlive it.
  struct Ranged {
    ScanOptions options;
    std::string_view from;
    ScanVisitor visit;
    Status* status;
    uint64_t version = index::kLatest;  // that it sees; kLatest: that of its group
    std::span<const Update> earlier;    // updates of the group that it must see, and that were not executed yet
    bool has_ended = false;
  };
  // One after the other; the cache misses of short ones overlap, and all see the same moment. Stops before the first
  // scan whose result an earlier update may change. The caller executes the earlier updates of that scan, and calls
  // again with the scans that have not ended.
  void scan_many(std::span<Ranged> scans);

  // Reads of NVM take modelled time, so that it pays to have several groups of operations in flight.
  [[nodiscard]] bool reads_wait() const { return tiers_->volume->reads_wait(); }
  // A session runs each get in a coroutine: a search without metadata waits several times, and the waits of a group
  // would add up.
  [[nodiscard]] bool gets_in_coroutines() const { return !tiers_->dnodes->metadata() && reads_wait(); }

  // Compares the members of targets that several nodes hold, from now on. Errors: NoSpace (no thread).
  Status start_scrubbing();
  // ScrubGroups().
  Status scrub_now();

  // For iterators and sessions.
  [[nodiscard]] Tiers& tiers() { return *tiers_; }
  [[nodiscard]] const Tiers& tiers() const { return *tiers_; }
  [[nodiscard]] Lent& lent() { return lent_; }
  // Whether what has been read may be returned: this process owned the store then. Requires: the read is done.
  [[nodiscard]] bool may_answer() const { return leases_ == nullptr || leases_->valid(); }
  // If not: OK if it did own the store when this was called. `waits`: for nodes that are silent. Errors: Unavailable.
  [[nodiscard]] Status await_lease(bool waits = true) const;
  // For a read that has ended with `read`. A node that was silent is not waited for again.
  [[nodiscard]] Status answer_of(Status read) const {
    if (may_answer()) [[likely]]
      return read;
    return answer_without_lease(std::move(read));
  }
  Status check_key(std::string_view key) const {
    if (key.size() >= key_bytes_min_ && key.size() <= key_bytes_max_) [[likely]]
      return Status::OK();
    return refuse_key(key);
  }

 private:
  DbImpl(const Options& options, std::unique_ptr<Tiers> tiers);
  // In the owner's process while the volume has not failed and memory is not scarce. The volume of a read-only store
  // counts as failed.
  [[nodiscard]] bool takes_updates() const {
    return owner_.mine() && !tiers_->volume->failed() && !base::memory_is_scarce();
  }
  // If it does not: waits for memory, or states why not.
  [[nodiscard]] Status await_updates(Stall* stall) const;
  [[nodiscard]] Status answer_without_lease(Status read) const;
  void answer_without_lease(std::span<const Read> reads) const;
  // Buffered updates are acknowledged without an answer of a node.
  [[nodiscard]] bool may_acknowledge() const { return options_.durability != Durability::kBuffered || may_answer(); }
  [[nodiscard]] Status await_acknowledgement() const;
  [[nodiscard]] static Status of_parent();
  [[nodiscard]] static Status of_reader();
  [[nodiscard]] Status refuse_key(std::string_view key) const;
  static Status check_value(std::string_view value) {
    if (value.size() <= kValueBytesMax) [[likely]]
      return Status::OK();
    return refuse_value(value);
  }
  [[nodiscard]] static Status refuse_value(std::string_view value);

  Status sync();
  Status close();
  static Status finish(Tiers* closing, Status status);
  Status register_scan(index::Versions::Registration* registration);
  Status register_shared(std::shared_ptr<const index::Versions::Registration>* registration);
  void scan_short_ones(std::span<Ranged> scans);
  void scan_short_ones(std::span<Ranged> scans, size_t* ended);
  bool waits_for_update(const Ranged& scan, uint64_t version, std::span<index::Index::Window> windows, size_t* read,
                        index::ScanAhead* ahead);
  Status scan_alone(uint64_t version, const ScanOptions& options, std::string_view from, const RowsVisitor& visit);
  template <class Take>
  Status walk_alone(uint64_t version, const ScanOptions& options, std::string_view from, Take&& take);
  template <bool kGuarded, class Take>
  Status walk(uint64_t version, const ScanOptions& options, std::string_view from,
              std::span<index::Index::Window> windows, size_t read, index::ScanAhead* ahead, Take&& take);
  auto passing_on_to(const RowsVisitor& visit);
  template <class Answer>
  Status look_up(const ReadOptions& options, std::string_view key, Answer answer);
  static uint64_t with_rounding(uint64_t bytes);
  void count_ranges(Stats* stats) const;
  Status answer(const index::Index::Lookup& lookup, std::string* value) const;
  Status check(const Update& update) const;
  Status prepare(Update* update, index::Index::Put* put, Stall* stall);
  template <size_t kMax>
  void update_all(std::span<Update> updates, Stall* stall);
  template <size_t kMax>
  void update_together(std::span<Update> updates, Stall* stall, bool* begun);
  void end_without_memory(std::span<Update> updates, bool begun);
  Status lost_in_the_middle();
  void after_updates(uint64_t updates);
  void put_with_pressure(std::span<index::Index::Put> puts, std::span<Status*> statuses, Stall* stall);
  Status admit(uint64_t bytes, Stall* stall);
  Status store_large(std::string_view value, persist::LargeRef* ref, Stall* stall);
  // A key of a batch: its effective update (null: it is only checked), and the conditions, sorted by key.
  struct Planned {
    std::string_view key;
    const WriteBatch::Update* update;
    uint32_t conditions_first = 0, conditions_count = 0;
  };
  using Ordered = std::vector<Planned>;
  static Ordered in_order(const WriteBatch& batch);
  static std::vector<uint32_t> requirements_in_order(const WriteBatch& batch);
  static void add_requirements(const WriteBatch& batch, Ordered* order);
  static size_t dram_bytes_of(const WriteBatch& batch);
  [[nodiscard]] Status check_size(const Ordered& updates) const;
  Status make_batch(const Ordered& updates, const WriteBatch& batch, std::vector<persist::LargeRef>* large,
                    index::Batch** made, Stall* stall);
  Status write_with_pressure(index::Batch* batch, Stall* stall);
  Status write_batch(const WriteBatch& batch, size_t* failed, std::vector<persist::LargeRef>* large, bool* begun);
  void free_large(const std::vector<persist::LargeRef>& large);
  Status deletes_of_range(const ScanOptions& options, std::string_view from, WriteBatch* batch);

  // conditional.cc
  class Changing;
  class PutOrDeleteIf;
  class Incrementing;
  Status change(std::string_view key, std::string_view value, Changing* changing);
  Status change_begun(std::string_view key, std::string_view value, Changing* changing, bool* begun);
  Status change_with_pressure(index::Index::Change* change, index::Refusal* why, Stall* stall);
  [[nodiscard]] Status status_of(index::Refusal why, std::string_view key) const;
  static index::Condition condition_of(const WriteBatch::Requirement& requirement, size_t number);
  Status check_requirements(const WriteBatch& batch, uint64_t version, size_t* failed);
  Status check_at_one_moment(const WriteBatch& batch, size_t* failed);
  Status outcome_of(const index::Batch& made, const WriteBatch& batch, size_t* failed) const;

  const Options options_;
  std::unique_ptr<Tiers> tiers_;
  // From start() on. The counters are those of the process at that time.
  scale::Leases* leases_ = nullptr;  // null: none is needed
  size_t key_bytes_min_ = 0, key_bytes_max_ = 0;
  uint64_t large_value_bytes_min_ = 0;
  base::NvmCounters nvm_before_;
  Counters counters_;
  Lent lent_;
  Background background_;
  const base::OwnProcess owner_;
  bool closed_ = true;
};

// DB::Open, and OpenForTest. With `name_later` the files of a new pool get their names when it is closed, if
// Tiers::named_at_close is set then. Errors: those of DB::Open.
Status open_store(const Options& options, const TestOptions& test, const std::string& path, bool name_later,
                  std::unique_ptr<DbImpl>* db);

}  // namespace bonsai::store

#endif  // BONSAI_STORE_DB_IMPL_H_
