// SPDX-License-Identifier: Apache-2.0
// Random lives of a pool of the persistence tier, each a program of appends, batches, offloads, splits, merges, moves,
// ends and reopenings; each judges the images of its crashes by a model of its own.
#ifndef BONSAI_PERSIST_TESTING_LIFE_H_
#define BONSAI_PERSIST_TESTING_LIFE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "persist/sites.h"
#include "persist/testing/explorer.h"
#include "persist/testing/floors.h"
#include "persist/testing/life_model.h"
#include "persist/testing/profile.h"
#include "persist/words.h"
#include "scale/testing/file_on_medium.h"

namespace bonsai::persist::testing {

using base::Fence;
using scale::Addr;

// A life of a pool.
class Life final : public LifeModel {
 public:
  Life(uint64_t seed, const Manner& manner, Outcome* outcome, bool buffered, const Profile& profile)
      : LifeModel(seed, manner, outcome, std::max(profile.pool_bytes, profile.grown_bytes)),
        buffered_(buffered),
        profile_(profile) {}

  void run() {
    MemoryMedium fresh(profile_.pool_bytes);
    EXPECT_TRUE(Rig({&fresh}).format(profile_.log_bytes).ok());
    std::vector<std::byte> image = fresh.image();
    image.resize(scratch_.bytes());
    start(image);
    open();
    for (int i = 0; i < profile_.operations && !failed() && !ended_; ++i) operate();
    if (!ended_) explore();
    collect_sites();
  }

 private:
  struct Logged {
    uint32_t segment;
    bool tombstone;
  };

  // ---- judging

  [[nodiscard]] uint64_t thread() const override { return thread_; }

  ReadSet judge() override {
    Rig rig({&scratch_});
    if (const std::string wrong = judge_content(&rig); !wrong.empty()) {
      violation(wrong);
      return {};
    }
    const ReadSet read(rig);
    judge_ends(rig);
    judge_repair(rig);
    judge_floors(rig);
    if (random_.chance(1, 8)) judge_without_a_dnode(rig);
    if (!forges_ && random_.chance(1, 4)) judge_flip(read);
    if (random_.chance(1, 64)) judge_rest(read, analysed_content(rig));
    if (random_.chance(1, 10)) judge_recovery(*analysed_content(rig));
    return read;
  }

  // The fault of an image that is not recovered yet; empty: none.
  [[nodiscard]] std::string judge_content(Rig* rig) const {
    if (const Status status = rig->analyse_only(); !status.ok()) return "no pool: " + status.ToString();
    if (!rig->analysis.damages.empty()) return damage_status(rig->analysis.damages).ToString();
    const auto content = analysed_content(*rig);
    if (!content) return "a dnode or large value is damaged";
    return allowed(*content) ? "" : "content is neither acknowledged nor in flight";
  }

  // Segments that were left or sealed have named ends.
  void judge_ends(const Rig& rig) {
    for (const auto& [segment, sequence] : sealed_) {
      const SegmentState& state = rig.analysis.segments[segment];
      if (state.sequence == sequence && !state.sealed) violation("a segment has lost its sealed end");
    }
    if (just_recovered_) judge_just_recovered(rig);
  }

  // Judges recovery's promises as it returns: ends are named and cut, and no header slot is torn.
  void judge_just_recovered(const Rig& rig) {
    for (const SegmentState& state : rig.analysis.segments) {
      if (!state.entered || !state.sealed || state.truncate) violation("recovery has left an end open");
    }
    if (!rig.analysis.torn_slots.empty()) violation("recovery has left a torn header");
  }

  // Once recovery has repaired the extent table, it is whole in every image.
  void judge_repair(const Rig& rig) {
    if (before_ == kSiteExtentRepairFence.name || rig.analysis.damaged_extent_entries.empty()) return;
    violation(repairing_ ? "a write goes ahead of the repaired extent table" : "a word of the extent table is damaged");
  }

  // The values that distinguish an earlier state of a place from the present one are not older than the present one.
  void judge_floors(const Rig& rig) {
    if (const std::string wrong = floors_.broken_in(rig); !wrong.empty()) violation(wrong);
  }
  void note_ends() {
    if (kept(rig_->log->note_ends()) && !buffered_) floors_.raise_ends(*rig_);
  }

  // With any bit flipped, the replaced dnodes and the log that still holds every record since being there or not:
  // reported, or the content is still right.
  void judge_flip(const ReadSet& read) {
    const uint64_t at = read.random_firm_byte(random_);
    const auto bit = static_cast<unsigned>(random_.below(8));
    scratch_.flip(at, bit);
    ++outcome_.flips;
    Rig flipped({&scratch_});
    const auto content = flipped.analyse_only().ok() ? analysed_content(flipped) : std::nullopt;
    outcome_.flips_reported += content ? 0 : 1;
    if (content && !allowed(*content)) violation("a flipped bit at " + std::to_string(at) + " gives older content");
    if (random_.chance(1, 4)) {
      MemoryMedium copy(scratch_.image());
      Rig opened({&copy});
      const auto recovered = opened.open().ok() ? recovered_content(opened) : std::nullopt;
      if (recovered && !allowed(*recovered)) violation("recovery with a flipped bit gives older content");
    }
    scratch_.flip(at, bit);
  }

  // With a live dnode damaged: reported, or the content is still right. Never an older cover without its records.
  void judge_without_a_dnode(const Rig& rig) {
    const size_t tile = random_.below(rig.analysis.tiles.size());
    const Dnode& dnode = *rig.analysis.dnodes[rig.analysis.tiles[tile].dnode];
    const uint64_t at = dnode.header().offset() + offsetof(DnodeHeader, gen);
    scratch_.flip(at, 5);
    Rig damaged({&scratch_});
    static_cast<void>(damaged.analyse_only());
    const auto content = analysed_content(damaged);
    if (content && !allowed(*content)) violation("an older dnode stands in for a damaged one");
    scratch_.flip(at, 5);
  }

  // ---- operations

  void operate() {
    if (random_.chance(1, 12)) fences_to_crash_ = 1 + random_.below(5);
    if (random_.chance(1, 32)) medium_->fail_fence(1 + random_.below(8));
    if (random_.chance(1, 8)) note_ends();
    const std::function<void()> deeds[] = {
        [&] { offload(0, dnodes_.size()); },
        [&] { offload_some(); },
        [&] { batch(); },
        [&] { put(true, 1000 + random_.below(600)); },
        [&] { reopen(); },
        [&] { close_epoch(); },
        [&] { put(false, random_.below(80)); },
        [&] { put(false, kRollingBytes); },
        [&] { claim_extent_over_forged_headers(); },
        [&] { move_run(); },
        [&] { large_batch(); },
    };
    static_assert(std::size(deeds) == std::tuple_size_v<decltype(Profile::weights)>);
    deeds[profile_.choose(random_)]();
    if (!failed() && !ended_ && fence_failed_) live_on_failed();
    if (!crash_image_.empty()) go_on_from_crash();
  }

  // At most one record of the last update may be in flight after the failure. The other attempts change nothing that a
  // user sees, and only fail. Then the power goes off, too: bytes that are in the pool by then are on the medium or
  // not.
  void live_on_failed() {
    ++outcome_.fence_failures;
    if (dnodes_.empty()) return choose_crash_image();  // it failed while the pool was opened
    if (floor_ + 1 == states_.size()) put(false, random_.below(80));
    offload_some();
    move_run();
    static_cast<void>(rig_->volume.fence(kVain));
    static_cast<void>(kept(rig_->log->seal_all()));
    explore();
    if (crash_image_.empty()) choose_crash_image();
  }

  std::string any_key(uint64_t first = 0, uint64_t end = 10) {
    return "key" + std::to_string(first + random_.below(end - first));
  }

  Update update_of(const std::string& key, std::string_view value) {
    Update update;
    update.key = key;
    update.value = value;
    update.gen = gen_;
    update.token = ++token_;
    return update;
  }

  void put(bool large, uint64_t bytes) {
    // Few keys are large, so that the pool never gets full: other tests cover a full one.
    const std::string key = large ? any_key(2, 4) : bytes == kRollingBytes ? any_key(0, 2) : any_key();
    const bool tombstone = !large && random_.chance(1, 5);
    Stored stored{tombstone ? "" : std::string(bytes, static_cast<char>('a' + random_.below(26))), {}};
    LargeRef ref{};
    if (large) {
      if (const Status status = rig_->large->write(stored.value, &ref); !kept(status)) {
        return status.IsNoSpace() ? offload(0, dnodes_.size()) : void();
      }
      stored.large = ref;
    }
    const std::string ref_bytes(bytes_of(ref));
    Update update = update_of(key, large ? std::string_view(ref_bytes) : stored.value);
    update.large = large;
    update.tombstone = tombstone;
    apply(key, tombstone ? nullptr : &stored);
    append({update}, false);
  }

  using Owned = std::vector<std::pair<std::string, std::string>>;
  std::vector<Update> apply_all(const Owned& owned) {
    std::vector<Update> updates;
    for (const auto& [key, value] : owned) {
      updates.push_back(update_of(key, value));
      const Stored stored{value, {}};
      apply(key, &stored);
    }
    return updates;
  }
  void batch() {
    Owned owned;
    for (int i = 0; i < 3; ++i) owned.emplace_back("key" + std::to_string(3 * i), std::to_string(random_.next()));
    append(apply_all(owned), true);
  }
  // Two records that do not fit into one segment.
  void large_batch() {
    std::vector<uint32_t> segments;
    if (rig_->log->take(2, &segments) == Log::Result::kFull) offload(0, dnodes_.size());
    if (segments.empty()) close_epoch();
    if (failed() || fence_failed_ || (segments.empty() && rig_->log->take(2, &segments) == Log::Result::kFull)) {
      return rig_->log->want_none();
    }
    const auto any_value = [&] { return std::string(kRollingBytes, static_cast<char>('a' + random_.below(26))); };
    const Owned owned{{"key0", any_value()}, {"key1", any_value()}};
    const std::vector<Update> updates = apply_all(owned);
    states_.push_back(now());
    uint32_t segment = kNoSegment;
    Log::Result result = Log::Result::kOk;
    on_thread(any_thread(), [&] { result = rig_->log->append_shares(updates, segments, &segment); });
    if (failed()) return;
    if (result == Log::Result::kFailed) fence_failed_ = true;
    if (fence_failed_) {
      if (result == Log::Result::kOk && !buffered_) violation("a batch is acknowledged after a fence that failed");
      return;
    }
    for (const uint32_t each : segments) sealed_[each] = sequence_of(each);
    note_logged(updates, segment);
  }

  // Appends updates that the model has already applied; they are in flight until the log has answered.
  void append(std::vector<Update> updates, bool as_batch) {
    states_.push_back(now());
    uint32_t segment = kNoSegment;
    const auto try_append = [&](Log::Use use) {
      return as_batch ? rig_->log->append_batch(updates, use, &segment) : rig_->log->append(updates[0], use, &segment);
    };
    Log::Result result = Log::Result::kFull;
    const uint64_t thread = any_thread();
    on_thread(thread, [&] {
      result = try_append(Log::Use::kOrdinary);
      if (result == Log::Result::kFull) result = try_append(Log::Use::kBatch);
    });
    if (failed()) return;
    if (result == Log::Result::kFailed) fence_failed_ = true;
    if (fence_failed_) {
      if (result == Log::Result::kOk && !buffered_) violation("an update is acknowledged after a fence that failed");
      return;
    }
    if (result == Log::Result::kFull) {  // runs have piled up until nothing can be offloaded: the life ends
      ended_ = true;
      ++outcome_.filled;
      return;
    }
    note_segment(thread, segment);
    note_logged(updates, segment);
  }

  // These values are durable, or will be with the epoch, and so replace the logged ones of their keys.
  void note_logged(const std::vector<Update>& updates, uint32_t segment) {
    for (const Update& update : updates) {
      const std::string key(update.key);
      if (const auto it = logged_.find(key); it != logged_.end()) rig_->log->release(it->second.segment);
      logged_[key] = {segment, update.tombstone};
    }
    if (!buffered_) settle();
    if (!rig_->log->full()) return;
    offload(0, dnodes_.size());
    close_epoch();  // before which no segment is free
  }

  uint64_t any_thread() { return random_.below(profile_.log_bytes == 0 ? 1 : kThreads); }

  // Another thread has another stream of the log, and completes none of this thread's flushes.
  template <class Action>
  void on_thread(uint64_t thread, Action action) {
    if (thread == 0) return action();
    thread_ = thread;
    std::thread(action).join();
    thread_ = 0;
  }

  void note_segment(uint64_t thread, uint32_t segment) {
    uint32_t& open = open_segments_[thread];
    if (segment == open) return;
    if (open != kNoSegment) sealed_[open] = sequence_of(open);
    sealed_.erase(segment);
    open = segment;
  }
  uint64_t sequence_of(uint32_t segment) { return entered_sequence(*rig_, segment); }

  void close_epoch() {
    const Status closed = rig_->log->close_epoch();
    if (buffered_ && !kept(closed)) return;
    if (buffered_) floors_.raise_epoch(*rig_);
    settle_closed();
  }

  void offload_some() {
    const size_t first = random_.below(dnodes_.size());
    offload(first, std::min(dnodes_.size(), first + 1 + random_.below(2)));
  }

  // Replaces dnodes [first, end) by one or two that hold the newest values, as the index does.
  void offload(size_t first, size_t end) {
    close_epoch();
    if (fence_failed_ && buffered_) return;
    const Fence lo = dnodes_[first]->lo();
    const Fence hi = dnodes_[end - 1]->hi();
    DnodeWriter writer(*rig_->store);
    const size_t longer = random_.chance(1, 4) ? kInlineFenceBytes : 0;  // too long for a header
    const Fence middle("key" + std::to_string(1 + random_.below(8)) + std::string(longer, '+'));
    const bool split = dnodes_.size() < 6 && random_.chance(1, 2) && lo < middle && middle < hi;
    Status status = split ? add(&writer, lo, middle) : add_or_append(&writer, lo, hi, first, end);
    if (split && status.ok()) status = add(&writer, middle, hi);
    if (is_failure(status)) static_cast<void>(kept(status));
    if (!status.ok()) return;
    std::vector<std::unique_ptr<Dnode>> fresh;
    if (!kept(writer.commit(&fresh))) return;
    std::vector<const Dnode*> old;
    for (size_t i = first; i < end; ++i) old.push_back(dnodes_[i].get());
    if (!kept(rig_->store->retire(old))) return;
    floors_.raise_extents(*rig_);
    for (auto it = logged_.begin(); it != logged_.end();) {
      const base::Key key = base::Key::of(it->first);
      const bool inside = !(key < lo.key()) && hi.above(key);
      if (inside) rig_->log->release(it->second.segment);
      it = inside ? logged_.erase(it) : std::next(it);
    }
    for (const Dnode* dnode : old) rig_->store->free(*dnode, fresh[0]->runs(), fresh[0]->long_fences());
    if (first == 0 && end == dnodes_.size()) {
      for (const LargeRef& ref : dead_) rig_->large->free(ref);
      dead_.clear();
    }
    dnodes_.erase(dnodes_.begin() + static_cast<ptrdiff_t>(first), dnodes_.begin() + static_cast<ptrdiff_t>(end));
    dnodes_.insert(dnodes_.begin() + static_cast<ptrdiff_t>(first), std::move_iterator(fresh.begin()),
                   std::move_iterator(fresh.end()));
    ++gen_;
  }

  // Writes a dnode again with one of its runs elsewhere, as defragmenting does.
  void move_run() {
    std::unique_ptr<Dnode>& old = dnodes_[random_.below(dnodes_.size())];
    if (old->runs().empty()) return;
    const size_t run = random_.below(old->runs().size());
    const uint64_t bytes = old->runs()[run].bytes;
    const Addr to = rig_->space.allocate(bytes, Space::Use::kReserve);
    if (to.is_nil()) return;
    DnodeWriter writer(*rig_->store);
    Dnode* dnode = nullptr;
    if (const Status status = writer.add_moved(*old, run, to, &dnode); !status.ok()) {
      if (is_failure(status)) static_cast<void>(kept(status));
      return rig_->space.free(to, bytes);
    }
    std::vector<std::unique_ptr<Dnode>> moved;
    if (!kept(writer.commit(&moved)) || !kept(rig_->store->retire({old.get()}))) return;
    rig_->store->free(*old, moved.front()->runs(), moved.front()->long_fences());
    old = std::move(moved.front());
    floors_.raise_extents(*rig_);
    ++outcome_.moves;
  }

  Status add(DnodeWriter* writer, const Fence& lo, const Fence& hi) {
    Entries entries;
    for (const auto& [key, stored] : stored_) {
      if (base::Key::of(key) < lo.key() || !hi.above(base::Key::of(key))) continue;
      stored.large ? entries.put_large(key, *stored.large) : entries.put(key, stored.value);
    }
    Dnode* dnode = nullptr;
    return writer->add(lo, hi, gen_, nullptr, entries.list(), &dnode);
  }

  // One dnode without large values gets one more run.
  Status add_or_append(DnodeWriter* writer, const Fence& lo, const Fence& hi, size_t first, size_t end) {
    const Dnode& old = *dnodes_[first];
    bool large = old.has_large();
    Entries updates;
    for (const auto& [key, logged] : logged_) {
      if (base::Key::of(key) < lo.key() || !hi.above(base::Key::of(key))) continue;
      const auto it = stored_.find(key);
      large = large || (it != stored_.end() && it->second.large);
      const bool deleted = logged.tombstone || it == stored_.end();  // the latter by an update in flight
      deleted ? updates.del(key) : updates.put(key, it->second.value);
    }
    if (large || end != first + 1 || old.runs().size() == kRunsMax || random_.chance(1, 3)) return add(writer, lo, hi);
    Dnode* dnode = nullptr;
    return writer->add(lo, hi, gen_, &old, updates.list(), &dnode);
  }

  // A value that looks like dnode headers of the newest generation, as an attacker would make it who had the pool's
  // identity and the value's address. Headers are later stored in its place.
  void claim_extent_over_forged_headers() {
    if (!forges_ || rig_->analysis.header_extents.size() > 1 || claims_++ > 0) return;
    DnodeHeader header{};
    header.magic = kDnodeMagic;
    header.gen = uint64_t{1} << 50;
    header.hi_bytes = kInfiniteFence;
    std::string forged(40 * sizeof header, 'f');
    LargeRef ref{};
    for (Status status; status = rig_->large->write(forged, &ref), !kept(status);) {
      if (fence_failed_) return;
      forged.resize(forged.size() / 2 / kBlockBytes * kBlockBytes);
      if (forged.empty()) return;
    }
    for (uint64_t at = 0; at < forged.size(); at += sizeof header) {
      const uint64_t seed = place_seed(rig_->volume, Addr::of_bits(ref.addr) + at);
      header.crc = header.computed_crc(seed);
      header.mark = header.live_mark(seed);
      std::memcpy(forged.data() + at, &header, sizeof header);
    }
    rig_->large->free(ref);
    if (!kept(rig_->large->write(forged, &ref))) return;
    rig_->large->free(ref);
    std::vector<Addr> taken(1);
    thread_ = 1;
    const uint64_t used = rig_->space.used_bytes();
    Status status;
    while (status = rig_->store->take_slot(&taken.back()), status.ok() && rig_->space.used_bytes() == used) {
      taken.emplace_back();
    }
    thread_ = 0;
    fence_failed_ = is_failure(status) || rig_->volume.failed();
    if (fence_failed_) return;
    if (rig_->space.used_bytes() != used) rig_->store->give_slot(taken.back());
    taken.pop_back();
    offload(0, dnodes_.size());
    for (const Addr slot : taken) rig_->store->give_slot(slot);
  }

  // ---- lives end and begin

  void open() {
    sealed_.clear();
    rig_ = std::make_unique<Rig>(std::vector<base::HookedMedium*>{&opened()}, buffered_);
    rig_->after_recovery = [this] {
      just_recovered_ = true;
      explore();
      just_recovered_ = false;
    };
    fence_failed_ = false;
    dnodes_.clear();
    thread_ = 1;  // who opens a pool need not be who uses it
    const Status status = rig_->open();
    thread_ = 0;
    if (is_failure(status)) return static_cast<void>(kept(status));
    repairing_ = false;
    if (status.IsNoSpace()) ended_ = true;
    if (!status.ok()) return status.IsNoSpace() ? void(++outcome_.refused) : violation("opening: " + status.ToString());
    open_segments_.fill(kNoSegment);
    floors_ = Floors();
    gen_ = rig_->analysis.gen_max + 1;
    logged_.clear();
    dead_.clear();
    stored_.clear();
    for (RecoveredRange& range : rig_->ranges) {
      adopt(range);
      dnodes_.push_back(std::move(range.dnode));
    }
    states_ = {now()};
    floor_ = 0;
  }

  void adopt(const RecoveredRange& range) {
    DnodeCursor cursor(rig_->volume, *range.dnode);
    for (cursor.seek(range.dnode->lo().key()); cursor.valid(); cursor.next()) {
      if (!cursor.entry().tombstone) adopt(cursor.entry().key.bytes, cursor.entry().value, cursor.entry().large);
    }
    for (const LiveRecord& record : range.records) {
      const std::string key(record.update.key);
      logged_[key] = {record.segment, record.update.tombstone};
      apply(key, nullptr);
      if (!record.update.tombstone) adopt(record.update.key, record.update.value, record.update.large);
    }
  }
  void adopt(std::string_view key, std::string_view value, bool large) {
    Stored stored{value_of(*rig_, value, large).value_or("damaged"), {}};
    if (large) stored.large = large_ref(value);
    apply(std::string(key), &stored);
  }

  void reopen() {
    close_epoch();
    if (fence_failed_ || !kept(rig_->log->seal_all())) return;
    for (const uint32_t open : open_segments_) {
      if (open != kNoSegment) sealed_[open] = sequence_of(open);
    }
    explore();
    const Content before = now();
    if (!forges_ && random_.chance(1, 2)) damage_extent_entry();  // of a pool that was not closed
    if (!repairing_ && !kept(write_clean_state(rig_->volume, rig_->pool))) return;
    if (!repairing_ && profile_.grown_bytes != 0 && random_.chance(1, 2) && !grow()) return dnodes_.clear();
    open();
    if (!failed() && !ended_ && !fence_failed_ && now() != before) violation("a clean end changes the content");
  }

  // False: a fence has failed.
  bool grow() {
    const uint64_t bytes = rig_->pool.superblocks[0].target_bytes + kPageBytes;
    scale::FileOnMedium file(opened(), std::min(bytes, profile_.grown_bytes));
    Rig closed({&file});
    EXPECT_TRUE(closed.analyse_only().ok());
    return kept(testing::grow(closed.volume, &closed.pool));
  }

  // The medium damages the extent table where it names data. Forged headers in that data would be taken for real ones.
  void damage_extent_entry() {
    static constexpr base::Site kDamage{"(damage)"};
    const Superblock& sb = rig_->pool.superblocks[0];
    const Addr entry(0, sb.extent_table_offset + 8 * random_.below(sb.extents));
    const uint64_t word = load8(rig_->volume, entry);
    if (load_word(rig_->volume, entry) != kExtentData) return;
    rig_->volume.store8(entry, random_.chance(1, 2) ? 0 : word ^ uint64_t{1} << random_.below(64));
    rig_->volume.flush(entry, sizeof word, kDamage);
    fences_to_crash_ = 0;
    mute_ = true;
    medium_->fail_fence(0);
    static_cast<void>(rig_->volume.fence(kDamage));
    mute_ = false;
    repairing_ = true;
  }

  void go_on_from_crash() {
    std::vector<std::byte> image = std::exchange(crash_image_, {});
    fences_to_crash_ = 0;
    if (failed()) return;
    const bool killed = fence_failed_ && !dnodes_.empty() && random_.chance(1, 2);  // what it has stored is there
    if (killed) image.assign(medium_->view(), medium_->view() + medium_->bytes());
    std::memcpy(scratch_.view(), image.data(), image.size());
    Rig rig({&scratch_});
    const auto content = rig.analyse_only().ok() ? analysed_content(rig) : std::nullopt;
    if (!content || (killed && !allowed(*content))) return violation("damage after a crash");
    if (!killed) states_ = {*content}, floor_ = 0;  // else what there was is legal until recovery has returned
    rig_.reset();
    claims_ = 0;
    floors_ = Floors();  // they were raised after the crash, too
    if (!killed) start(image);
    open();
    if (!failed() && !ended_ && now() != *content) violation("recovery changes the content");
  }

  static constexpr base::Site kVain{"(in vain)"};
  static constexpr uint64_t kThreads = 2;
  uint64_t thread_ = 0;
  static constexpr uint64_t kRollingBytes = 2500;  // two such records do not fit into one segment

  const bool buffered_;
  const Profile& profile_;
  std::unique_ptr<Rig> rig_;
  std::vector<std::unique_ptr<Dnode>> dnodes_;
  std::map<std::string, Logged> logged_;  // records that count, by key
  bool just_recovered_ = false;
  bool repairing_ = false;               // recovery has an entry of the extent table to repair
  std::map<uint32_t, uint64_t> sealed_;  // segment -> sequence
  Floors floors_;
  std::array<uint32_t, kThreads> open_segments_{};
  uint64_t gen_ = 0;
  uint32_t token_ = 0;
  int claims_ = 0;
  // Either users forge headers or the medium does damage: the checks find damage and not malice.
  const bool forges_ = random_.chance(1, 2);
  bool ended_ = false;  // nothing opens it, or nothing can be added
};

}  // namespace bonsai::persist::testing

#endif  // BONSAI_PERSIST_TESTING_LIFE_H_
