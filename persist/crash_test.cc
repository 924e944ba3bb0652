// The crash exploration of the persistence tier. Random lives of appends, batches, offloads and reopenings run on the
// recorder medium; before each fence the images that a crash could leave are analysed, some recovered (with a power cut
// in the recovery, too), and compared with a model. Then the same with each flush, non-temporal copy and fence of
// persist/ left out: the exploration must notice.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "persist/testing.h"
#include "persist/testing/explorer.h"

namespace bonsai::persist {
namespace {

using base::Fence;
using base::SiteUse;
using scale::Addr;
using testing::Amount;
using testing::Content;
using testing::Entries;
using testing::Explorer;
using testing::MemoryMedium;
using testing::Mutant;
using testing::Outcome;
using testing::Rig;

// Creation over old bytes: no pool, or a sound one; and a sound one once format has returned.
class Creation final : public Explorer {
 public:
  using Explorer::Explorer;

  void run() {
    std::vector<std::byte> garbage(kPoolBytesMin);
    for (std::byte& byte : garbage) byte = static_cast<std::byte>(random_.next());
    start(garbage);
    Rig rig({medium_.get()});
    EXPECT_TRUE(rig.format().ok());
    created_ = true;
    explore();
    collect_sites();
  }

 private:
  void judge() override {
    Rig rig({&scratch_});
    const Status status = rig.analyse_only();
    if (!status.ok() && created_) violation("the pool is gone: " + status.ToString());
    if (status.ok() && testing::analysed_content(rig) != Content{}) violation("a new pool is not empty");
  }

  bool created_ = false;
};

// A life of a pool.
class Life final : public Explorer {
 public:
  Life(uint64_t seed, bool buffered, std::optional<Mutant> mutant, Amount amount, Domain domain)
      : Explorer(seed, mutant, amount.images_per_fence, domain), buffered_(buffered), operations_(amount.operations) {}

  void run() {
    MemoryMedium fresh(kPoolBytesMin);
    EXPECT_TRUE(Rig({&fresh}).format().ok());
    start(fresh.image());
    open();
    for (int i = 0; i < operations_ && !failed() && !ended_; ++i) operate();
    if (!ended_) explore();
    collect_sites();
  }

 private:
  struct Stored {
    std::string value;
    std::optional<LargeRef> large;
    bool operator==(const Stored& other) const { return value == other.value; }
  };
  struct Logged {
    uint32_t segment;
    bool tombstone;
  };

  // ---- the model: states[floor] and what came after it may be what a crash leaves

  [[nodiscard]] Content now() const {
    Content content;
    for (const auto& [key, stored] : stored_) content[key] = stored.value;
    return content;
  }
  [[nodiscard]] bool allowed(const Content& content) const {
    return std::find(states_.begin() + static_cast<ptrdiff_t>(floor_), states_.end(), content) != states_.end();
  }
  void settle() { floor_ = states_.size() - 1; }

  // ---- judging

  void judge() override {
    Rig rig({&scratch_});
    if (const Status status = rig.analyse_only(); !status.ok()) return violation("no pool: " + status.ToString());
    if (!rig.analysis.damages.empty()) return violation(damage_status(rig.analysis.damages).ToString());
    const auto content = testing::analysed_content(rig);
    if (!content) return violation("a dnode or large value is damaged");
    if (!allowed(*content)) return violation("content is neither acknowledged nor in flight");
    judge_ends(rig);
    if (random_.chance(1, 3)) judge_without_a_dnode(rig);
    if (random_.chance(1, 6)) judge_recovery(*content);
  }

  // Segments that were left or sealed have named ends.
  void judge_ends(const Rig& rig) {
    for (const auto& [segment, sequence] : sealed_) {
      const SegmentState& state = rig.analysis.segments[segment];
      if (state.sequence == sequence && !state.sealed) violation("a segment has lost its sealed end");
    }
    if (just_recovered_) judge_just_recovered(rig);
  }

  // What recovery promises of the pool when it returns: ends are named and cut, and free header slots hold no checksum.
  void judge_just_recovered(const Rig& rig) {
    for (const SegmentState& state : rig.analysis.segments) {
      if (state.sequence != 0 && (!state.sealed || state.truncate)) violation("recovery has left an end open");
    }
    for (const Addr slot : rig_->analysis.free_slots) {
      DnodeHeader header;
      std::memcpy(&header, rig.volume.local(slot), sizeof header);
      const bool taken = header.crc == header.computed_crc() && header.mark == header.live_mark();
      if (header.crc != 0 && !taken) violation("recovery has left a checksum in a free header slot");
    }
  }

  // With a live dnode damaged: told, or the content is still right. Never an older cover without its records.
  void judge_without_a_dnode(const Rig& rig) {
    for (size_t i = 0; i < rig.analysis.dnodes.size(); ++i) {
      if (!rig.analysis.dnode_live[i]) continue;
      const uint64_t at = rig.analysis.dnodes[i]->header().offset() + offsetof(DnodeHeader, gen);
      scratch_.flip(at, 5);
      Rig damaged({&scratch_});
      static_cast<void>(damaged.analyse_only());
      const auto content = testing::analysed_content(damaged);
      if (content && !allowed(*content)) violation("an older dnode stands in for a damaged one");
      scratch_.flip(at, 5);
    }
  }

  void judge_recovery(const Content& content) {
    scratch_.cut_power_after(random_.below(12));
    static_cast<void>(Rig({&scratch_}).open());
    ++outcome.recovery_images;
    scratch_.cut_power_after(UINT64_MAX);
    for (int again = 0; again < 2; ++again) {
      Rig rig({&scratch_});
      const Status status = rig.open();
      if (status.IsNoSpace()) return judge_refusal(content);
      if (!status.ok()) return violation("recovery: " + status.ToString());
      if (testing::recovered_content(rig) != content) return violation("recovery changes the content");
    }
  }

  void judge_refusal(const Content& content) {
    ++outcome.refused;
    Rig rig({&scratch_});
    static_cast<void>(rig.analyse_only());
    if (testing::analysed_content(rig) != content) violation("a refused recovery changes the content");
  }

  // ---- operations

  void operate() {
    if (++operation_ % 16 == 0) return claim_extent_over_forged_headers();
    if (random_.chance(1, 12)) fences_to_crash_ = 1 + random_.below(5);
    switch (random_.below(16)) {
      case 0:
        offload(0, dnodes_.size());
        break;
      case 1:
      case 2:
        offload_some();
        break;
      case 3:
        batch();
        break;
      case 4:
        put(true, 1000 + random_.below(600));
        break;
      case 5:
        reopen();
        break;
      case 7:
      case 8:
        close_epoch();
        break;
      default:
        put(false, random_.chance(1, 6) ? kRollingBytes : random_.below(80));
    }
    if (!crash_image_.empty()) go_on_from_crash();
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
    // Few keys are large, so that the pool never gets full: what a full one does is for other tests.
    const std::string key = large ? any_key(2, 4) : bytes == kRollingBytes ? any_key(0, 2) : any_key();
    const bool tombstone = !large && random_.chance(1, 5);
    Stored stored{tombstone ? "" : std::string(bytes, static_cast<char>('a' + random_.below(26))), {}};
    LargeRef ref{};
    if (large) {
      if (!rig_->large->write(stored.value, &ref).ok()) return offload(0, dnodes_.size());
      stored.large = ref;
    }
    const std::string ref_bytes(bytes_of(ref));
    Update update = update_of(key, large ? std::string_view(ref_bytes) : stored.value);
    update.large = large;
    update.tombstone = tombstone;
    apply(key, tombstone ? nullptr : &stored);
    append({update}, false);
  }

  void batch() {
    std::vector<std::pair<std::string, std::string>> owned;
    for (int i = 0; i < 3; ++i) owned.emplace_back("key" + std::to_string(3 * i), std::to_string(random_.next()));
    std::vector<Update> updates;
    for (const auto& [key, value] : owned) {
      updates.push_back(update_of(key, value));
      const Stored stored{value, {}};
      apply(key, &stored);
    }
    append(updates, true);
  }

  void apply(const std::string& key, const Stored* stored) {
    if (const auto it = stored_.find(key); it != stored_.end()) {
      if (it->second.large) dead_.push_back(*it->second.large);
      stored_.erase(it);
    }
    if (stored != nullptr) stored_[key] = *stored;
  }

  // Appends updates that the model has already applied; they are in flight until the log has answered.
  void append(std::vector<Update> updates, bool as_batch) {
    states_.push_back(now());
    uint32_t segment = kNoSegment;
    const auto try_append = [&](Log::Use use) {
      return as_batch ? rig_->log->append_batch(updates, use, &segment) : rig_->log->append(updates[0], use, &segment);
    };
    Log::Result result = try_append(Log::Use::kOrdinary);
    if (result == Log::Result::kFull) result = try_append(Log::Use::kBatch);
    if (failed()) return;
    ASSERT_EQ(result, Log::Result::kOk);
    note_segment(segment);
    for (const Update& update : updates) {
      const std::string key(update.key);
      if (const auto it = logged_.find(key); it != logged_.end()) rig_->log->release(it->second.segment);
      logged_[key] = {segment, update.tombstone};
    }
    if (!buffered_) settle();
    if (rig_->log->full()) offload(0, dnodes_.size());
  }

  void note_segment(uint32_t segment) {
    if (segment == open_segment_) return;
    if (open_segment_ != kNoSegment) sealed_[open_segment_] = sequence_of(open_segment_);
    sealed_.erase(segment);
    open_segment_ = segment;
  }
  uint64_t sequence_of(uint32_t segment) {
    SegmentHeader header;
    std::memcpy(&header, rig_->volume.local(rig_->pool.segments()[segment]), sizeof header);
    return header.sequence;
  }

  void close_epoch() {
    EXPECT_TRUE(rig_->log->close_epoch());
    settle();
  }

  void offload_some() {
    const size_t first = random_.below(dnodes_.size());
    offload(first, std::min(dnodes_.size(), first + 1 + random_.below(2)));
  }

  // Replaces dnodes [first, end) by one or two that hold the newest values, as the index does.
  void offload(size_t first, size_t end) {
    close_epoch();
    const Fence lo = dnodes_[first]->lo();
    const Fence hi = dnodes_[end - 1]->hi();
    DnodeWriter writer(*rig_->store);
    const Fence middle("key" + std::to_string(1 + random_.below(8)));
    const bool split = dnodes_.size() < 4 && random_.chance(1, 2) && lo < middle && middle < hi;
    Status status = split ? add(&writer, lo, middle) : add_or_append(&writer, lo, hi, first, end);
    if (split && status.ok()) status = add(&writer, middle, hi);
    if (!status.ok()) return;
    auto fresh = writer.commit();
    std::vector<const Dnode*> old;
    for (size_t i = first; i < end; ++i) old.push_back(dnodes_[i].get());
    rig_->store->retire(old);
    for (auto it = logged_.begin(); it != logged_.end();) {
      const base::Key key = base::Key::of(it->first);
      const bool inside = !(key < lo.key()) && hi.above(key);
      if (inside) rig_->log->release(it->second.segment);
      it = inside ? logged_.erase(it) : std::next(it);
    }
    for (const Dnode* dnode : old) rig_->store->free(*dnode, fresh[0]->runs());
    if (first == 0 && end == dnodes_.size()) {
      for (const LargeRef& ref : dead_) rig_->large->free(ref);
      dead_.clear();
    }
    dnodes_.erase(dnodes_.begin() + static_cast<ptrdiff_t>(first), dnodes_.begin() + static_cast<ptrdiff_t>(end));
    dnodes_.insert(dnodes_.begin() + static_cast<ptrdiff_t>(first), std::move_iterator(fresh.begin()),
                   std::move_iterator(fresh.end()));
    ++gen_;
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
      logged.tombstone ? updates.del(key) : updates.put(key, it->second.value);
    }
    if (large || end != first + 1 || old.runs().size() == kRunsMax || random_.chance(1, 3)) return add(writer, lo, hi);
    Dnode* dnode = nullptr;
    return writer->add(lo, hi, gen_, &old, updates.list(), &dnode);
  }

  // A user's value may look like dnode headers of the newest generation. Where it has lain, headers come to lie.
  void claim_extent_over_forged_headers() {
    if (rig_->analysis.header_extents.size() > 1 || claims_++ > 0) return;
    DnodeHeader header{};
    header.magic = kDnodeMagic;
    header.gen = uint64_t{1} << 50;
    header.hi_bytes = kInfiniteFence;
    header.crc = header.computed_crc();
    header.mark = header.live_mark();
    std::string forged;
    for (int i = 0; i < 40; ++i) forged.append(reinterpret_cast<const char*>(&header), sizeof header);
    LargeRef ref{};
    while (!rig_->large->write(forged, &ref).ok()) {
      forged.resize(forged.size() / 2 / kBlockBytes * kBlockBytes);
      if (forged.empty()) return;
    }
    rig_->large->free(ref);
    std::vector<Addr> taken(1);
    const uint64_t used = rig_->space.used_bytes();
    while (rig_->store->take_slot(&taken.back()).ok() && rig_->space.used_bytes() == used) taken.emplace_back();
    if (rig_->space.used_bytes() != used) rig_->store->give_slot(taken.back());
    taken.pop_back();
    offload(0, dnodes_.size());
    for (const Addr slot : taken) rig_->store->give_slot(slot);
  }

  // ---- lives end and begin

  void open() {
    sealed_.clear();
    rig_ = std::make_unique<Rig>(std::vector<base::HookedMedium*>{medium_.get()}, buffered_);
    rig_->after_recovery = [this] {
      just_recovered_ = true;
      explore();
      just_recovered_ = false;
    };
    const Status status = rig_->open();
    if (status.IsNoSpace()) ended_ = true;
    if (!status.ok()) return status.IsNoSpace() ? void(++outcome.refused) : violation("opening: " + status.ToString());
    open_segment_ = kNoSegment;
    gen_ = rig_->analysis.gen_max + 1;
    dnodes_.clear();
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
    Stored stored{testing::value_of(*rig_, value, large).value_or("damaged"), {}};
    if (large) stored.large = large_ref(value);
    apply(std::string(key), &stored);
  }

  void reopen() {
    close_epoch();
    rig_->log->seal_all();
    if (open_segment_ != kNoSegment) sealed_[open_segment_] = sequence_of(open_segment_);
    explore();
    write_run_state(rig_->volume, RunState::kClean);
    const Content before = now();
    open();
    if (!failed() && !ended_ && now() != before) violation("a clean end changes the content");
  }

  void go_on_from_crash() {
    const std::vector<std::byte> image = std::exchange(crash_image_, {});
    fences_to_crash_ = 0;
    if (failed()) return;
    std::memcpy(scratch_.view(), image.data(), image.size());
    Rig rig({&scratch_});
    if (!rig.analyse_only().ok()) return violation("no pool after a crash");
    const auto content = testing::analysed_content(rig);
    if (!content) return violation("damage after a crash");
    states_ = {*content};
    floor_ = 0;
    rig_.reset();
    claims_ = 0;
    start(image);
    open();
    if (!failed() && !ended_ && now() != *content) violation("recovery changes the content");
  }

  static constexpr uint64_t kRollingBytes = 2500;  // two such records do not fit into one segment

  const bool buffered_;
  const int operations_;
  std::unique_ptr<Rig> rig_;
  std::vector<std::unique_ptr<Dnode>> dnodes_;
  std::map<std::string, Stored> stored_;
  std::map<std::string, Logged> logged_;  // records that count, by key
  std::vector<LargeRef> dead_;
  std::vector<Content> states_{Content{}};
  size_t floor_ = 0;
  bool just_recovered_ = false;
  std::map<uint32_t, uint64_t> sealed_;  // segment -> sequence
  uint32_t open_segment_ = kNoSegment;
  uint64_t gen_ = 0;
  uint32_t token_ = 0;
  int claims_ = 0;
  int operation_ = 0;
  bool ended_ = false;  // nothing opens it
};

constexpr size_t kDistinctMax = 1'000'000;  // counted per site, so that a nightly run keeps its memory

void add_sites(const Outcome& from, Outcome* to) {
  for (const auto& [name, site] : from.by_site) {
    testing::SiteImages& sum = to->by_site[name];
    sum.fences += site.fences;
    sum.exhaustive += site.exhaustive;
    sum.images += site.images;
    if (sum.contents.size() < kDistinctMax) sum.contents.insert(site.contents.begin(), site.contents.end());
  }
}

void print_sites(const Outcome& outcome) {
  std::printf("  %-22s %9s %10s %9s %9s\n", "crash before", "fences", "exhaustive", "images", "distinct");
  for (const auto& [name, site] : outcome.by_site) {
    std::printf("  %-22s %9llu %10llu %9llu %9zu\n", name.c_str(), static_cast<unsigned long long>(site.fences),
                static_cast<unsigned long long>(site.exhaustive), static_cast<unsigned long long>(site.images),
                site.contents.size());
  }
}

// Everything, with one site left out or none.
Outcome explore_all(uint64_t seed, std::optional<Mutant> mutant, Amount amount, std::vector<base::SiteCount>* sites,
                    Domain domain = Domain::kAdr) {
  Outcome all;
  const auto add = [&](Explorer& explorer) {
    all.images += explorer.outcome.images;
    all.violations += explorer.outcome.violations;
    all.refused += explorer.outcome.refused;
    all.recovery_images += explorer.outcome.recovery_images;
    add_sites(explorer.outcome, &all);
    if (all.first.empty()) all.first = explorer.outcome.first;
    if (sites != nullptr) sites->insert(sites->end(), explorer.sites.begin(), explorer.sites.end());
  };
  Creation creation(seed, mutant, amount.images_per_fence, domain);
  creation.run();
  add(creation);
  for (const bool buffered : {false, true}) {
    if (all.violations > 0) break;
    Life life(seed, buffered, mutant, amount, domain);
    life.run();
    add(life);
  }
  return all;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

const char* name_of(SiteUse use) {
  return use == SiteUse::kFlush ? "flush" : use == SiteUse::kNtCopy ? "nt_copy" : "fence";
}

TEST(PersistCrash, EveryImageIsAcknowledgedOrInFlight) {
  base::Random random = testing::seeded_random(11);
  const Amount amount{bonsai::testing::budget(60, 150, 600), bonsai::testing::budget<uint64_t>(12, 24, 60)};
  Outcome all;
  for (int i = 0; i < (kSlow ? 1 : bonsai::testing::budget(8, 150, 2000)); ++i) {
    const uint64_t seed = random.next();
    const Outcome outcome = explore_all(seed, {}, amount, nullptr, i % 4 == 3 ? Domain::kEadr : Domain::kAdr);
    EXPECT_EQ(outcome.violations, 0U) << "life " << i << ": " << outcome.first;
    all.images += outcome.images;
    all.violations += outcome.violations;
    all.refused += outcome.refused;
    all.recovery_images += outcome.recovery_images;
    add_sites(outcome, &all);
  }
  print_sites(all);
  bonsai::testing::add_figure("crash_recovery_images", all.recovery_images);
  bonsai::testing::add_figure("crash_images", all.images);
  bonsai::testing::add_figure("crash_violations", all.violations);
  std::printf("%llu crash images, %llu recoveries refused for want of room\n",
              static_cast<unsigned long long>(all.images), static_cast<unsigned long long>(all.refused));
  EXPECT_LE(all.refused, all.images / 100);
  EXPECT_GT(all.images, bonsai::testing::budget<uint64_t>(1000, kSlow ? 1000 : 1000000, 1000000));
  if (bonsai::testing::budget(0, 1, 1) == 0 || kSlow) return;
  EXPECT_GE(all.recovery_images, 10'000U);
  for (const auto& [name, site] : all.by_site) EXPECT_GE(site.contents.size(), 1000U) << "before " << name;
}

TEST(PersistCrash, EverySiteThatIsLeftOutIsNoticed) {
  if (kSlow) GTEST_SKIP() << "one thread and no new code: the build without sanitizers is enough";
  base::Random random = testing::seeded_random(12);
  const Amount amount{120, 60};
  std::vector<base::SiteCount> counts;
  EXPECT_EQ(explore_all(random.next(), {}, amount, &counts).violations, 0U);
  std::map<std::pair<std::string, int>, Mutant> mutants;
  for (const base::SiteCount& count : counts) {
    mutants[{count.site->name, static_cast<int>(count.use)}] = {count.site, count.use};
  }
  EXPECT_GE(mutants.size(), 24U) << "each site of format.h is used";
  const int lives_max = bonsai::testing::budget(8, 16, 40);
  uint64_t killed = 0;
  for (const auto& [name, mutant] : mutants) {
    Outcome outcome;
    for (int life = 0; life < lives_max && outcome.violations == 0; ++life) {
      outcome = explore_all(random.next(), mutant, amount, nullptr);
    }
    killed += outcome.violations > 0 ? 1 : 0;
    std::printf("  %-22s %-7s %s\n", name.first.c_str(), name_of(mutant.use),
                outcome.violations > 0 ? outcome.first.c_str() : "SURVIVES");
    EXPECT_GT(outcome.violations, 0U) << name.first << " " << name_of(mutant.use) << " can be left out unnoticed";
  }
  bonsai::testing::add_figure("mutants", mutants.size());
  bonsai::testing::add_figure("mutants_killed", killed);
}

}  // namespace
}  // namespace bonsai::persist
