// SPDX-License-Identifier: Apache-2.0
// The damage campaign. Pools with all kinds of content, closed and crashed, are damaged in every way that media, copies
// and people do damage. Then each key must have its last acknowledged value, or the damage must be reported. An older
// value, a missing key, a value that was never written, a crash and a hang are failures.
#include "testing/damage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "base/testing/sanitized.h"
#include "persist/testing.h"
#include "scale/testing/file_on_medium.h"
#include "store/db_impl.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using persist::testing::Content;
using persist::testing::MemoryMedium;
using persist::testing::Rig;
using scale::FileOnMedium;

constexpr bool kSlow = bonsai::testing::kSanitized;

enum class End {
  kClosed,
  kSynced,  // a crash after Sync: all that was acknowledged is distinguished from a torn write
  kBusy,    // a crash at once: what was appended last may be lost with what is damaged there
};

struct PoolKind {
  const char* name;
  End end;
  int operations;
  Durability durability = Durability::kDurable;
  size_t targets = 1;
  uint64_t value_bytes_max = 60;
  bool over_old = false;  // made where a pool was
  uint64_t bytes = 64 << 10;
};

constexpr PoolKind kPools[] = {
    {"fresh, closed", End::kClosed, 0},
    {"few updates, crashed", End::kSynced, 8},
    {"closed", End::kClosed, 150},
    {"crashed", End::kSynced, 150},
    {"crashed, busy", End::kBusy, 150},
    {"buffered, closed", End::kClosed, 120, Durability::kBuffered},
    {"buffered, crashed", End::kSynced, 120, Durability::kBuffered},
    {"large values, closed", End::kClosed, 100, Durability::kDurable, 1, 1500, false, 96 << 10},
    {"large values, crashed", End::kSynced, 100, Durability::kDurable, 1, 1500, false, 96 << 10},
    {"two targets, closed", End::kClosed, 150, Durability::kDurable, 2},
    {"two targets, crashed", End::kSynced, 150, Durability::kBuffered, 2},
    {"over an old pool, closed", End::kClosed, 60, Durability::kDurable, 1, 60, true},
    {"over an old pool, crashed", End::kSynced, 60, Durability::kDurable, 1, 60, true},
};

constexpr uint64_t kKeys = 24;
std::string key_of(uint64_t i) { return "key" + std::to_string(100 + i) + (i % 5 == 0 ? std::string(40, 'k') : ""); }

using Images = std::vector<Image>;  // of all targets

// A pool that has lived, and what may be read of it.
class Subject {
 public:
  Subject(const PoolKind& kind, base::Random& random) : kind_(kind), random_(random) {
    for (size_t i = 0; i < kind.targets; ++i) media_.push_back(std::make_unique<MemoryMedium>(kind.bytes));
    if (kind.over_old) live();
    live();
    images_ = now();
  }

  [[nodiscard]] const PoolKind& kind() const { return kind_; }
  [[nodiscard]] const Images& images() const { return images_; }
  [[nodiscard]] const std::vector<Images>& earlier() const { return earlier_; }

  // Whether a complete content is right, and one value of a key; nullopt is absent.
  [[nodiscard]] bool allows(const Content& content) const {
    for (uint64_t i = 0; i < kKeys; ++i) {
      const auto it = content.find(key_of(i));
      if (!allows(i, it == content.end() ? std::nullopt : std::optional(it->second))) return false;
    }
    return std::all_of(content.begin(), content.end(), [&](const auto& kv) { return numbers_.contains(kv.first); });
  }
  [[nodiscard]] bool allows(uint64_t key, const std::optional<std::string>& value) const {
    return allowed_[key].contains(value);
  }
  [[nodiscard]] bool ever_had(const std::string& key, const std::string& value) const {
    return numbers_.contains(key) && ever_[numbers_.at(key)].contains(value);
  }

 private:
  std::unique_ptr<store::DbImpl> open(bool create) {
    Options options;
    options.create_if_missing = create;
    options.pool_bytes = kind_.bytes;
    options.background_threads = 0;
    options.durability = kind_.durability;
    options_ = options;
    std::vector<std::unique_ptr<base::HookedMedium>> media;
    for (auto& medium : media_) media.push_back(std::make_unique<FileOnMedium>(*medium, kind_.bytes));
    std::unique_ptr<store::Tiers> tiers;
    const Status status = store::open_tiers_on(options_, std::move(media), create, &tiers);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return std::make_unique<store::DbImpl>(options_, std::move(tiers), store::BackgroundThreads());
  }

  [[nodiscard]] Images now() const {
    Images images;
    for (const auto& medium : media_) images.push_back(medium->image());
    return images;
  }

  // Three sittings; the last ends as the kind says, or with a close.
  void live() {
    last_.clear();
    allowed_.assign(kKeys, {std::nullopt});
    ever_.assign(kKeys, {});
    for (uint64_t i = 0; i < kKeys; ++i) numbers_[key_of(i)] = i;
    others_ = earlier_.size();
    for (int sitting = 0; sitting < 3; ++sitting) {
      const auto db = open(sitting == 0);
      for (int i = 0; i < kind_.operations / 3; ++i) operate(db.get());
      if (sitting == 2 && kind_.end != End::kBusy) sync(db.get());
      if (sitting == 2 && kind_.end != End::kClosed) crash_ = now();
      EXPECT_TRUE(db->Close().ok());
      if (sitting < 2) settle();
    }
    if (kind_.end != End::kClosed) {
      for (size_t i = 0; i < media_.size(); ++i) std::memcpy(media_[i]->view(), crash_[i].data(), crash_[i].size());
    }
  }

  void operate(store::DbImpl* db) {
    const uint64_t dice = random_.below(20);
    if (dice == 0) static_cast<void>(db->Drain());
    if (dice == 1) sync(db);
    if (dice < 4 && earlier_.size() < others_ + 24) earlier_.push_back(now());
    if (dice == 4) return batch(db);
    const uint64_t key = random_.below(kKeys);
    if (random_.chance(1, 6)) return note(key, std::nullopt, db->Delete(key_of(key)));
    const std::string value = any_value();
    note(key, value, db->Put(key_of(key), value));
  }
  std::string any_value() {
    const std::string head = std::to_string(++values_) + ":";
    return head + std::string(random_.below(random_.chance(1, 3) ? kind_.value_bytes_max : 20), 'v');
  }
  void batch(store::DbImpl* db) {
    WriteBatch batch;
    std::map<uint64_t, std::string> values;
    for (int i = 0; i < 3; ++i) values[random_.below(kKeys)] = any_value();
    for (const auto& [key, value] : values) batch.Put(key_of(key), value);
    const Status status = db->Write(batch);
    for (const auto& [key, value] : values) note(key, value, status);
  }
  // Mode buffered: nothing is acknowledged before Sync.
  void note(uint64_t key, const std::optional<std::string>& value, const Status& status) {
    if (!status.ok()) {
      EXPECT_TRUE(status.IsNoSpace() || status.IsUnavailable()) << status.ToString();
      return;
    }
    if (value) ever_[key].insert(*value);
    if (kind_.end != End::kBusy) allowed_[key].clear();
    allowed_[key].insert(value);
    last_[key] = value;
  }
  void sync(store::DbImpl* db) {
    EXPECT_TRUE(db->Sync().ok());
    settle();
  }
  void settle() {
    for (const auto& [key, value] : last_) allowed_[key] = {value};
  }

  const PoolKind kind_;
  base::Random& random_;
  Options options_;
  std::vector<std::unique_ptr<MemoryMedium>> media_;
  Images images_, crash_;
  std::vector<Images> earlier_;
  size_t others_ = 0;  // of earlier_, states of the pool that was there before
  uint64_t values_ = 0;
  std::map<std::string, uint64_t> numbers_;
  std::vector<std::set<std::optional<std::string>>> allowed_;
  std::vector<std::set<std::string>> ever_;
  std::map<uint64_t, std::optional<std::string>> last_;
};

// The places of `target` to damage. Half of the time: bytes that reads use, in runs and large values, if there are any.
// Otherwise each structure as often as any other, however small.
DamageSources sources_of(const Subject& subject, const Subject& other, size_t target) {
  std::vector<std::unique_ptr<MemoryMedium>> media;
  std::vector<base::HookedMedium*> raw;
  for (const Image& image : subject.images()) media.push_back(std::make_unique<MemoryMedium>(image));
  for (const auto& medium : media) raw.push_back(medium.get());
  Rig rig(raw);
  EXPECT_TRUE(rig.analyse_only().ok());
  EXPECT_TRUE(rig.analysis.damages.empty())
      << subject.kind().name << ": " << persist::damage_status(rig.analysis.damages).ToString();
  const auto content = analysed_content(rig);
  EXPECT_TRUE(content && subject.allows(*content)) << subject.kind().name << ": the pool is wrong before any damage";
  DamageSources sources;
  const persist::Superblock& sb = rig.pool.superblocks[target];
  const auto add = [&](uint64_t begin, uint64_t bytes) { sources.places.emplace_back(begin, bytes); };
  add(0, 128);
  add(persist::kPageBytes, 128);
  add(persist::kStateOffset, 128);
  add(sb.extent_table_offset, 8 * sb.extents);
  add(sb.log_table_offset, persist::kSegmentEntriesOffset + sb.segments * sizeof(persist::SegmentEntry));
  for (uint64_t i = 0; i < sb.segments; ++i) {
    const uint64_t at = sb.log_offset + i * sb.segment_bytes;
    add(at, 64);
    add(at, sb.segment_bytes);
    add(at, sb.segment_bytes);
    sources.wholes.emplace_back(at, sb.segment_bytes);
  }
  for (const auto& extent : rig.analysis.header_extents) {
    if (extent.at.target() != target) continue;
    for (int i = 0; i < 4; ++i) add(extent.at.offset(), sb.extent_bytes);
  }
  for (uint64_t i = 0; i < sb.extents; ++i) {
    add(sb.data_offset + i * sb.extent_bytes, sb.extent_bytes);
    sources.wholes.emplace_back(sb.data_offset + i * sb.extent_bytes, sb.extent_bytes);
  }
  std::vector<std::pair<uint64_t, uint64_t>> data;
  const auto add_data = [&](scale::Addr at, uint64_t bytes) {
    if (at.target() == target) data.emplace_back(at.offset(), bytes);
  };
  const auto add_large = [&](const persist::LargeRef& ref) {
    add_data(scale::Addr::of_bits(ref.addr), ref.value_bytes);
  };
  for (const persist::Tile& tile : rig.analysis.tiles) {
    const persist::Dnode& dnode = *rig.analysis.dnodes[tile.dnode];
    for (const persist::RunDesc& run : dnode.runs()) add_data(scale::Addr::of_bits(run.addr), run.bytes);
    EXPECT_TRUE(persist::for_each_large(rig.volume, dnode, add_large));
    for (const persist::LiveRecord& record : tile.records) {
      if (record.update.large) add_large(persist::large_ref(record.update.value));
    }
  }
  const size_t others = sources.places.size();
  for (size_t i = 0; !data.empty() && i < others; ++i) sources.places.push_back(data[i % data.size()]);
  for (const Images& images : subject.earlier()) sources.earlier.push_back(&images[target]);
  sources.other = &other.images()[target];
  return sources;
}

// Counts of the outcomes of damaged pools.
struct Tally {
  uint64_t damages = 0, silent = 0, reported = 0;
  uint64_t opened = 0;          // the store opened,
  uint64_t read_whole = 0;      // and every read was answered, before and after all was offloaded; or
  uint64_t reads_reported = 0;  // some read, or an offload, reported damage
  uint64_t checkpoints = 0, checkpoints_made = 0;
  uint64_t salvages = 0, salvages_made = 0;

  void add(const Tally& other) {
    damages += other.damages;
    silent += other.silent;
    reported += other.reported;
    opened += other.opened;
    read_whole += other.read_whole;
    reads_reported += other.reads_reported;
    checkpoints += other.checkpoints;
    checkpoints_made += other.checkpoints_made;
    salvages += other.salvages;
    salvages_made += other.salvages_made;
  }
};

// Judges one damaged pool. Returns the fault; empty: the damage was reported, or did no harm.
class Judge {
 public:
  Judge(const Subject& subject, const Images& images, Tally* tally)
      : subject_(subject), images_(images), tally_(*tally) {}

  // As `check` sees it.
  std::string analysed() {
    std::vector<std::unique_ptr<MemoryMedium>> media;
    std::vector<base::HookedMedium*> raw;
    for (const Image& image : images_) media.push_back(std::make_unique<MemoryMedium>(image));
    for (const auto& medium : media) raw.push_back(medium.get());
    Rig rig(raw, subject_.kind().durability == Durability::kBuffered);
    if (!rig.analyse_only().ok() || !rig.analysis.damages.empty()) return report_damage();
    const auto content = analysed_content(rig);
    if (!content) return report_damage();
    return subject_.allows(*content) ? "" : "analysed: wrong content";
  }

  // As a store reads it, in memory, after it was analysed; and as its checkpoint.
  std::string opened_in_memory(bool with_checkpoint) {
    std::optional<ScratchFolder> folder;
    if (with_checkpoint) folder.emplace();
    std::vector<std::unique_ptr<MemoryMedium>> media;
    std::vector<std::unique_ptr<base::HookedMedium>> files;
    for (const Image& image : images_) {
      media.push_back(std::make_unique<MemoryMedium>(image));
      files.push_back(std::make_unique<FileOnMedium>(*media.back(), image.size()));
    }
    const bool sound = !reported_;
    std::unique_ptr<store::Tiers> tiers;
    if (const Status status = store::open_tiers_on(options(), std::move(files), false, &tiers); !status.ok()) {
      return refused(sound, status);
    }
    store::DbImpl db(options(), std::move(tiers), store::BackgroundThreads());
    return read(&db, folder ? folder->file("checkpoint") : "", sound);
  }

  // As programs see it, with what they make of it in `folder`.
  std::string as_files() {
    ScratchFolder folder;
    const std::string path = folder.pool(images_.size());
    folder.expect_damage(path);
    for (size_t i = 0; i < images_.size(); ++i) {
      std::ofstream(folder_file(path, i), std::ios::binary)
          .write(reinterpret_cast<const char*>(images_[i].data()), static_cast<std::streamsize>(images_[i].size()));
    }
    CheckReport report;
    const bool sound = Check(path, &report).ok() && report.ok();
    if (!sound) report_damage();
    if (std::string wrong = salvaged(path, folder.file("salvaged")); !wrong.empty()) return wrong;
    std::unique_ptr<DB> db;
    if (const Status status = DB::Open(options(), path, &db); !status.ok()) return refused(sound, status);
    return read(db.get(), folder.file("checkpoint"), sound);
  }

  [[nodiscard]] bool has_reported() const { return reported_; }

 private:
  static std::string folder_file(const std::string& path, size_t i) {
    size_t begin = 0;
    for (; i > 0; --i) begin = path.find(',', begin) + 1;
    return path.substr(begin, path.find(',', begin) - begin);
  }
  std::string report_damage() {
    reported_ = true;
    return "";
  }
  [[nodiscard]] Options options() const {
    Options options;
    options.background_threads = 0;
    options.durability = subject_.kind().durability;
    options.pool_bytes = 256 << 10;
    return options;
  }

  // All of a store; nullopt if it reports damage.
  std::optional<Content> content_of(DB* db) {
    Content content;
    const Status status = db->Scan(ScanOptions(), {}, [&](std::string_view key, std::string_view value) {
      content[std::string(key)] = value;
      return true;
    });
    if (status.ok()) return content;
    report_damage();
    return std::nullopt;
  }

  std::string refused(bool sound, const Status& status) {
    report_damage();
    return sound ? "check finds nothing, and it does not open: " + status.ToString() : "";
  }

  // Reads all of an open store in every way, then again from dnodes, then copies it. `sound`: nothing may be reported.
  std::string read(DB* db, const std::string& checkpoint, bool sound) {
    ++tally_.opened;
    const bool reported_before = std::exchange(reported_, false);
    std::string wrong = got(db);
    if (wrong.empty()) wrong = scanned(db, "scan");
    if (wrong.empty()) {
      const Status drained = db->Drain();
      if (!drained.ok() && !drained.IsNoSpace()) report_damage();
      wrong = scanned(db, "scan of what was drained");
    }
    const bool reported = std::exchange(reported_, reported_ || reported_before);
    ++(reported ? tally_.reads_reported : tally_.read_whole);
    if (wrong.empty() && reported && sound) wrong = "check finds nothing, and a read or an offload reports damage";
    return wrong.empty() && !checkpoint.empty() ? copied(db, checkpoint) : wrong;
  }
  std::string got(DB* db) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      std::string value;
      const Status status = db->Get(ReadOptions(), key_of(i), &value);
      if (!status.ok() && !status.IsNotFound()) {
        report_damage();
      } else if (!subject_.allows(i, status.ok() ? std::optional(value) : std::nullopt)) {
        return "get: wrong value";
      }
    }
    return "";
  }
  std::string scanned(DB* db, const char* what) {
    const std::optional<Content> forward = content_of(db);
    if (forward && !subject_.allows(*forward)) return std::string(what) + ": wrong content";
    Content back;
    const auto iterator = db->NewIterator(ReadOptions());
    for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) back.emplace(iterator->key(), iterator->value());
    if (!iterator->status().ok()) return report_damage();
    return subject_.allows(back) ? "" : std::string(what) + " backwards: wrong content";
  }
  std::string copied(DB* db, const std::string& checkpoint) {
    ++tally_.checkpoints;
    if (!Checkpoint(db, options(), checkpoint).ok()) return report_damage();
    ++tally_.checkpoints_made;
    std::unique_ptr<DB> copy;
    if (const Status status = DB::Open(options(), checkpoint, &copy); !status.ok()) return "checkpoint does not open";
    const std::optional<Content> copied = content_of(copy.get());
    return copied && subject_.allows(*copied) ? "" : "checkpoint: wrong content";
  }

  std::string salvaged(const std::string& path, const std::string& to) {
    SalvageReport report;
    ++tally_.salvages;
    if (!Salvage(path, options(), to, &report).ok()) return report_damage();
    ++tally_.salvages_made;
    std::unique_ptr<DB> copy;
    if (const Status status = DB::Open(options(), to, &copy); !status.ok()) return "what was salvaged does not open";
    const std::optional<Content> content = content_of(copy.get());
    if (!content) return "what was salvaged is damaged";
    for (const auto& [key, value] : *content) {
      if (!subject_.ever_had(key, value)) return "salvaged: a value that nobody wrote";
    }
    if (!report.lost.empty()) return report_damage();
    return subject_.allows(*content) ? "" : "salvaged: wrong content, and nothing is lost";
  }

  const Subject& subject_;
  const Images& images_;
  Tally& tally_;
  bool reported_ = false;
};

// One damage of a kind to a pool, if it changes anything, and what becomes of it. `i`: how many there were before.
void damage_once(const Subject& subject, const std::vector<DamageSources>& sources, const DamageKind& kind, uint64_t i,
                 base::Random* random, Tally* tally) {
  constexpr uint64_t kFilesEach = 20, kCheckpointsEach = 5;  // of which one is taken so far; they take longer
  const size_t target = random->below(sources.size());
  Images images;
  std::string where;
  bool done = false;
  for (int tries = 0; tries < 8 && !done; ++tries) {
    images = subject.images();
    done = do_damage(kind, sources[target], *random, &images[target], &where);
  }
  if (!done) return;
  ++tally->damages;
  Judge judge(subject, images, tally);
  std::string wrong = judge.analysed();
  if (wrong.empty()) wrong = judge.opened_in_memory(i % kCheckpointsEach == 1);
  if (wrong.empty() && i % kFilesEach == 0) wrong = judge.as_files();
  tally->reported += judge.has_reported() ? 1 : 0;
  tally->silent += wrong.empty() ? 0 : 1;
  EXPECT_EQ(wrong, "") << subject.kind().name << ": " << where << " of target " << target;
}

void print(const char* what, uint64_t part, uint64_t of) {
  std::printf("  %7llu of %7llu (%2.0f %%) %s\n", static_cast<unsigned long long>(part),
              static_cast<unsigned long long>(of), 100.0 * static_cast<double>(part) / static_cast<double>(of), what);
}

TEST(StoreDamage, IsReportedOrHarmless) {
  base::Random random = persist::testing::seeded_random(21);
  const uint64_t rounds = kSlow ? 1 : budget<uint64_t>(1, 6, 60);
  const uint64_t damages_each = budget<uint64_t>(6, kSlow ? 12 : 50, 50);
  Tally all;
  std::map<std::string, Tally> by_kind;
  for (uint64_t round = 0; round < rounds; ++round) {
    for (const PoolKind& pool : kPools) {
      const Subject subject(pool, random), other(pool, random);
      std::vector<DamageSources> sources;
      for (size_t i = 0; i < pool.targets; ++i) sources.push_back(sources_of(subject, other, i));
      for (const DamageKind& kind : kDamageKinds) {
        Tally& tally = by_kind[kind.name];
        for (uint64_t i = 0; i < damages_each && tally.silent < 10; ++i) {
          damage_once(subject, sources, kind, i, &random, &tally);
        }
      }
    }
  }
  for (const auto& [name, tally] : by_kind) {
    all.add(tally);
    std::printf("  %-34s %7llu done %7llu reported %7llu opened\n", name.c_str(),
                static_cast<unsigned long long>(tally.damages), static_cast<unsigned long long>(tally.reported),
                static_cast<unsigned long long>(tally.opened));
    add_row("damages, by kind", name,
            {{"done", tally.damages}, {"reported", tally.reported}, {"opened", tally.opened}});
  }
  print("were reported by something", all.reported, all.damages);
  print("opened, and were read in every way", all.opened, all.damages + all.salvages);
  print("of these gave all, as they should", all.read_whole, all.opened);
  print("of these reported damage to a read or an offload", all.reads_reported, all.opened);
  print("checkpoints were made, others refused", all.checkpoints_made, all.checkpoints);
  print("salvages were made, others refused", all.salvages_made, all.salvages);
  print("silent", all.silent, all.damages);
  add_figure("damages", all.damages);
  add_figure("damages_opened", all.opened);
  add_figure("damages_silent", all.silent);
  EXPECT_GT(all.reported, all.damages / 10);
  EXPECT_GT(all.opened, all.damages / 2) << "hardly any damage reaches a read";
  EXPECT_GT(all.reads_reported, all.damages / 10) << "hardly any damage is found by a read";
}

}  // namespace
}  // namespace bonsai::testing
