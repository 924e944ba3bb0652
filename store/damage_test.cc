// SPDX-License-Identifier: Apache-2.0
// The damage campaign. Pools with everything in them, closed and crashed, are damaged in every way that media, copies
// and people do damage; then each key must have its last acknowledged value, or the damage must be reported. Never an
// older value, a missing key or one that nobody wrote; no crash, no hang.
#include "testing/damage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "base/testing/budget.h"
#include "base/testing/figures.h"
#include "persist/testing.h"
#include "persist/testing/file_on_medium.h"
#include "store/db_impl.h"
#include "testing/scratch.h"

namespace bonsai::testing {
namespace {

using persist::testing::Content;
using persist::testing::FileOnMedium;
using persist::testing::MemoryMedium;
using persist::testing::Rig;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

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
    return std::make_unique<store::DbImpl>(options_, std::move(tiers), false);
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

// What of target `target` is to be hit: each structure as often as another, however small.
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
  for (const Images& images : subject.earlier()) sources.earlier.push_back(&images[target]);
  sources.other = &other.images()[target];
  return sources;
}

// Judges one damaged pool. What is wrong; empty: the damage was reported, or did no harm.
class Judge {
 public:
  Judge(const Subject& subject, const Images& images) : subject_(subject), images_(images) {}

  // As recovery and reads see it, with or without the writes of a recovery.
  std::string in_memory(bool recover) {
    std::vector<std::unique_ptr<MemoryMedium>> media;
    std::vector<base::HookedMedium*> raw;
    for (const Image& image : images_) media.push_back(std::make_unique<MemoryMedium>(image));
    for (const auto& medium : media) raw.push_back(medium.get());
    Rig rig(raw, subject_.kind().durability == Durability::kBuffered);
    const Status status = recover ? rig.open() : rig.analyse_only();
    if (!status.ok() || (!recover && !rig.analysis.damages.empty())) return told();
    const auto content = recover ? recovered_content(rig) : analysed_content(rig);
    if (!content) return told();
    return subject_.allows(*content) ? "" : recover ? "recovered: wrong content" : "analysed: wrong content";
  }

  // As programs see it.
  std::string as_files() {
    ScratchFolder folder;
    const std::string path = folder.pool(images_.size());
    folder.expect_damage(path);
    const auto write = [&] {
      for (size_t i = 0; i < images_.size(); ++i) {
        std::ofstream(folder_file(path, i), std::ios::binary)
            .write(reinterpret_cast<const char*>(images_[i].data()), static_cast<std::streamsize>(images_[i].size()));
      }
    };
    write();
    CheckReport report;
    const bool sound = Check(path, &report).ok() && report.ok();
    if (!sound) told();
    if (std::string wrong = salvaged(path, folder.file("salvaged")); !wrong.empty()) return wrong;
    return opened(path, folder.file("checkpoint"), sound);
  }

  [[nodiscard]] bool was_told() const { return told_; }

 private:
  static std::string folder_file(const std::string& path, size_t i) {
    size_t begin = 0;
    for (; i > 0; --i) begin = path.find(',', begin) + 1;
    return path.substr(begin, path.find(',', begin) - begin);
  }
  std::string told() {
    told_ = true;
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
    told();
    return std::nullopt;
  }

  std::string opened(const std::string& path, const std::string& checkpoint, bool sound) {
    std::unique_ptr<DB> db;
    if (const Status status = DB::Open(options(), path, &db); !status.ok()) {
      told();
      return sound ? "check finds nothing, and it does not open: " + status.ToString() : "";
    }
    for (uint64_t i = 0; i < kKeys; ++i) {
      std::string value;
      const Status status = db->Get(ReadOptions(), key_of(i), &value);
      const bool answered = status.ok() || status.IsNotFound();
      if (!answered) told();
      if (!answered && sound) return "check finds nothing, and get fails: " + status.ToString();
      if (answered && !subject_.allows(i, status.ok() ? std::optional(value) : std::nullopt)) return "get: wrong value";
    }
    const std::optional<Content> content = content_of(db.get());
    if (content && !subject_.allows(*content)) return "scan: wrong content";
    if (!content && sound) return "check finds nothing, and a scan fails";
    if (!Checkpoint(db.get(), options(), checkpoint).ok()) return told();
    std::unique_ptr<DB> copy;
    if (const Status status = DB::Open(options(), checkpoint, &copy); !status.ok()) return "checkpoint does not open";
    const std::optional<Content> copied = content_of(copy.get());
    return copied && subject_.allows(*copied) ? "" : "checkpoint: wrong content";
  }

  std::string salvaged(const std::string& path, const std::string& to) {
    SalvageReport report;
    if (!Salvage(path, options(), to, &report).ok()) return told();
    std::unique_ptr<DB> copy;
    if (const Status status = DB::Open(options(), to, &copy); !status.ok()) return "what was salvaged does not open";
    const std::optional<Content> content = content_of(copy.get());
    if (!content) return "what was salvaged is damaged";
    for (const auto& [key, value] : *content) {
      if (!subject_.ever_had(key, value)) return "salvaged: a value that nobody wrote";
    }
    if (!report.lost.empty()) return told();
    return subject_.allows(*content) ? "" : "salvaged: wrong content, and nothing is lost";
  }

  const Subject& subject_;
  const Images& images_;
  bool told_ = false;
};

TEST(StoreDamage, IsToldOrHarmless) {
  base::Random random = persist::testing::seeded_random(21);
  const uint64_t rounds = kSlow ? 1 : budget<uint64_t>(1, 6, 60);
  const uint64_t damages_each = budget<uint64_t>(6, kSlow ? 12 : 48, 48);
  uint64_t damages = 0, silent = 0, told = 0, opened = 0;
  std::map<std::string, std::pair<uint64_t, uint64_t>> by_kind;  // done, reported
  for (uint64_t round = 0; round < rounds; ++round) {
    for (const PoolKind& pool : kPools) {
      const Subject subject(pool, random), other(pool, random);
      std::vector<DamageSources> sources;
      for (size_t i = 0; i < pool.targets; ++i) sources.push_back(sources_of(subject, other, i));
      for (const DamageKind& kind : kDamageKinds) {
        for (uint64_t i = 0; i < damages_each && silent < 10; ++i) {
          const size_t target = random.below(pool.targets);
          Images images;
          std::string where;
          bool done = false;
          for (int tries = 0; tries < 8 && !done; ++tries) {
            images = subject.images();
            done = do_damage(kind, sources[target], random, &images[target], &where);
          }
          if (!done) continue;
          Judge judge(subject, images);
          std::string wrong = judge.in_memory(false);
          if (wrong.empty() && i % 4 == 0) wrong = judge.in_memory(true);
          const bool files = i % 20 == 0;
          if (wrong.empty() && files) wrong = judge.as_files();
          opened += files ? 1 : 0;
          ++damages;
          ++by_kind[kind.name].first;
          by_kind[kind.name].second += judge.was_told() ? 1 : 0;
          told += judge.was_told() ? 1 : 0;
          silent += wrong.empty() ? 0 : 1;
          EXPECT_EQ(wrong, "") << pool.name << ": " << where << " of target " << target;
        }
      }
    }
  }
  for (const auto& [name, counts] : by_kind) {
    std::printf("  %-34s %7llu done %7llu told\n", name.c_str(), static_cast<unsigned long long>(counts.first),
                static_cast<unsigned long long>(counts.second));
    add_row("damages, by kind", name, {{"done", counts.first}, {"told", counts.second}});
  }
  std::printf("%llu damages, %llu told, %llu as files, %llu silent\n", static_cast<unsigned long long>(damages),
              static_cast<unsigned long long>(told), static_cast<unsigned long long>(opened),
              static_cast<unsigned long long>(silent));
  add_figure("damages", damages);
  add_figure("damages_silent", silent);
  EXPECT_GT(told, damages / 10);
}

}  // namespace
}  // namespace bonsai::testing
