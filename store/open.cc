// Opening and creating pools: mappings, media, volume, recovery, tiers.
//
// A creation that is killed can be made anew, with two exceptions after which its files have to be removed by hand: a
// pool of several targets that is killed between the first words of its superblocks, and a file system where a file
// cannot be made before it has a name (hugetlbfs).
#include <algorithm>
#include <filesystem>

#include "base/coro/scheduler.h"
#include "base/nvm/file.h"
#include "base/nvm/media.h"
#include "base/nvm/os_file.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "persist/analysis.h"
#include "persist/recovery.h"
#include "store/db_impl.h"
#include "store/tiers.h"

namespace bonsai {
namespace store {
namespace {

// A DAX device exists before its pool does: it is there to be made one when nobody has written to its beginning, or the
// creation of one was interrupted.
bool is_blank_device(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_character_file(path, ignored)) return false;
  base::MappingOptions options;
  options.read_only = true;
  std::unique_ptr<base::Mapping> device;
  if (!base::Mapping::open(path, options, &device).ok()) return false;
  const std::span first_bytes(device->data(), std::min<size_t>(device->bytes(), persist::kFirstBytes));
  return persist::is_unfinished(first_bytes) ||
         std::all_of(first_bytes.begin(), first_bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

class Opener {
 public:
  Opener(const Options& options, const TestOptions& test, std::vector<std::string> paths, Tiers* tiers)
      : options_(options), test_(test), paths_(std::move(paths)), t_(*tiers) {}

  Status open() {
    BONSAI_RETURN_IF_ERROR(check_options());
    BONSAI_RETURN_IF_ERROR(decide_creation());
    BONSAI_RETURN_IF_ERROR(map());
    const Status status = all_product_ ? wire(product_volume()) : wire(hooked_volume());
    if (!status.ok() && create_) remove_files();
    return status;
  }

  Status open_on(std::vector<std::unique_ptr<base::HookedMedium>> media, bool create) {
    create_ = create;
    t_.hooked_media = std::move(media);
    t_.medium_text = "media of the caller";
    return wire(hooked_volume());
  }

 private:
  Status check_options() const {
    if (options_.pool_bytes < kPoolBytesMin || options_.pool_bytes > kPoolBytesMax) {
      return Status::InvalidArgument("pool_bytes is " + std::to_string(options_.pool_bytes) + "; a target has " +
                                     std::to_string(kPoolBytesMin) + " to " + std::to_string(kPoolBytesMax) + " bytes");
    }
    if (options_.durability == Durability::kBuffered && options_.buffered_window_ms == 0) {
      return Status::InvalidArgument("buffered_window_ms must be at least 1; use mode durable for no loss window");
    }
    if (is_volatile() && options_.durability != Durability::kVolatile) {
      return Status::InvalidArgument(
          "a store in DRAM is gone when it is closed: set durability to volatile, too, or medium to auto to keep it");
    }
    if (!is_volatile() && options_.durability == Durability::kVolatile) {
      return Status::InvalidArgument(
          "only a store in DRAM can be volatile: set medium to DRAM, too, or durability to durable or buffered");
    }
    return check_test_options();
  }

  Status check_test_options() const {
    if (is_volatile() && test_.medium != TestMedium::kNone) {
      return Status::InvalidArgument("a store in DRAM writes no NVM that could be played; give another medium");
    }
    const bool throw_away = test_.medium == TestMedium::kEmulator && options_.create_if_missing &&
                            options_.error_if_exists && options_.background_threads == 0;
    if (test_.updates_in_place && !throw_away) {
      return Status::InvalidArgument(
          "updates_in_place is for an experiment of bonsai-bench alone, a crash would damage records: it needs a new "
          "pool (create_if_missing, error_if_exists) on the emulator medium and background_threads of 0");
    }
    return Status::OK();
  }

  [[nodiscard]] bool is_volatile() const { return options_.medium == MediumChoice::kDram; }

  // All targets exist, or none does and they are to be made.
  Status decide_creation() {
    if (is_volatile()) {
      create_ = true;
      return Status::OK();
    }
    size_t existing = 0;
    for (const std::string& path : paths_) {
      std::error_code ignored;
      if (std::filesystem::is_directory(path, ignored)) {
        return Status::IoError(path + " is a directory; name a file in it");
      }
      // What an interrupted creation has left holds nothing.
      if (options_.create_if_missing) {
        static_cast<void>(base::remove_unused(path, persist::kFirstBytes, persist::is_unfinished));
      }
      existing += std::filesystem::exists(path, ignored) && !is_blank_device(path) ? 1 : 0;
    }
    if (existing == 0 && options_.create_if_missing) {
      create_ = true;
    } else if (existing != 0 && existing != paths_.size()) {
      return Status::IoError("some targets of the pool are missing; name existing files, or new ones only");
    } else if (existing != 0 && options_.error_if_exists) {
      return Status::InvalidArgument(paths_[0] + " exists already and error_if_exists is set");
    }
    return Status::OK();
  }

  Status map() {
    for (const std::string& path : paths_) {
      std::unique_ptr<base::Mapping> mapping;
      if (is_volatile()) {
        BONSAI_RETURN_IF_ERROR(base::Mapping::make_in_memory(path, options_.pool_bytes, &mapping));
        t_.mappings.push_back(std::move(mapping));
        continue;
      }
      base::MappingOptions options;
      options.create_bytes = create_ ? options_.pool_bytes : 0;
      options.create_mark = persist::kCreatingMagic;
      options.grow_bytes = create_ ? 0 : options_.grow_bytes;
      std::error_code none;
      bytes_before_.push_back(options.grow_bytes == 0 ? 0 : std::filesystem::file_size(path, none));
      options.domain = options_.persistence_domain;
      if (Status status = base::Mapping::open(path, options, &mapping); !status.ok()) {
        if (create_) remove_files();
        return status;
      }
      t_.mappings.push_back(std::move(mapping));
    }
    return make_media();
  }

  Status make_media() {
    base::MediaOptions options;
    options.test = test_;
    options.wait_until = base::wait_closely_until;
    t_.updates_in_place = test_.updates_in_place;
    t_.emulated = false;
    for (const auto& mapping : t_.mappings) {
      base::Media media;
      if (Status status = base::make_media(*mapping, options, &media); !status.ok()) {
        if (create_) remove_files();
        return status;
      }
      all_product_ = all_product_ && media.hooked == nullptr;
      t_.emulated = t_.emulated || media.emulated;
      if (t_.medium_text.empty()) t_.medium_text = media.text;
      t_.hooked_media.push_back(std::move(media.hooked));
    }
    return Status::OK();
  }

  // Takes back what an unfinished creation has made.
  void remove_files() {
    if (is_volatile()) return;
    for (const auto& mapping : t_.mappings) {
      std::error_code ignored;
      if (std::filesystem::is_regular_file(mapping->path(), ignored)) std::filesystem::remove(mapping->path(), ignored);
    }
  }

  std::unique_ptr<scale::VolumeOf<base::ProductMedium>> product_volume() {
    std::vector<base::ProductMedium*> media;
    for (const auto& mapping : t_.mappings) {
      t_.product_media.push_back(
          std::make_unique<base::ProductMedium>(mapping->data(), mapping->bytes(), mapping->domain()));
      media.push_back(t_.product_media.back().get());
    }
    return std::make_unique<scale::VolumeOf<base::ProductMedium>>(media);
  }

  // Targets of mixed kinds share one family of media: those that need no hook are synced like files.
  std::unique_ptr<scale::VolumeOf<base::HookedMedium>> hooked_volume() {
    std::vector<base::HookedMedium*> media;
    for (size_t i = 0; i < t_.hooked_media.size(); ++i) {
      auto& medium = t_.hooked_media[i];
      if (medium == nullptr) medium = std::make_unique<base::FileMedium>(*t_.mappings[i]);
      media.push_back(medium.get());
    }
    return std::make_unique<scale::VolumeOf<base::HookedMedium>>(media);
  }

  template <class Medium>
  Status wire(std::unique_ptr<scale::VolumeOf<Medium>> volume) {
    scale::VolumeOf<Medium>& typed = *volume;
    t_.volume = std::move(volume);
    if (create_) {
      const uint64_t pool_id[2] = {base::fresh_seed(), base::fresh_seed()};
      BONSAI_RETURN_IF_ERROR(persist::format_pool(typed, options_, pool_id));
    }
    BONSAI_RETURN_IF_ERROR(persist::read_pool(typed, paths_, &t_.pool));
    BONSAI_RETURN_IF_ERROR(check_key_format());
    if (options_.grow_bytes != 0 && !create_) BONSAI_RETURN_IF_ERROR(grow(typed));
    BONSAI_RETURN_IF_ERROR(persist::settle_superblocks(typed, t_.pool));
    t_.pool.add_targets(&t_.space);
    t_.dnodes = std::make_unique<persist::DnodeStore>(typed, t_.space, t_.pool.geometry());
    t_.dnodes->set_metadata(options_.metadata_upload);
    t_.dnodes->set_slots_ahead(std::min<uint64_t>(64, t_.space.capacity_bytes() / 16384));
    t_.large = std::make_unique<persist::LargeStore>(typed, t_.space);
    persist::Log::Config log = t_.pool.log_config(options_.durability == Durability::kBuffered);
    log.window_ms = options_.buffered_window_ms;
    t_.log = is_volatile() ? persist::make_no_log(std::move(log)) : persist::make_log(typed, std::move(log));
    t_.epochs = std::make_unique<base::EpochDomain>();
    typed.set_epochs(t_.epochs.get());
    index::Index::Config config{t_.pool.limits(), options_.snapshots_max == 0 ? SIZE_MAX : options_.snapshots_max};
    t_.index = std::make_unique<index::Index>(config, *t_.log, *t_.dnodes, *t_.large, *t_.epochs);
    return recover();
  }

  Status recover() {
    persist::Analysis analysis;
    BONSAI_RETURN_IF_ERROR(
        persist::analyse(*t_.volume, t_.pool, &analysis, {recovery_threads(), options_.open_progress}));
    if (!analysis.damages.empty()) return persist::damage_status(analysis.damages);
    std::vector<persist::RecoveredRange> ranges;
    BONSAI_RETURN_IF_ERROR(persist::recover(&analysis, t_.pool, t_.dnodes.get(), t_.log.get(), &ranges));
    t_.index->start(std::move(ranges), analysis.gen_max + 1, recovery_threads());
    return persist::write_run_state(*t_.volume, options_.durability == Durability::kBuffered
                                                    ? persist::RunState::kOpenBuffered
                                                    : persist::RunState::kOpenDurable);
  }

  // A refused growth gives the files their sizes back; the pool has not used more yet.
  Status grow(scale::Volume& volume) {
    Status status = persist::grow_pool(volume, &t_.pool);
    for (size_t i = 0; !status.ok() && i < paths_.size(); ++i) {
      std::error_code ignored;
      if (bytes_before_[i] < t_.mappings[i]->bytes()) {
        std::filesystem::resize_file(paths_[i], bytes_before_[i], ignored);
      }
    }
    return status;
  }

  // Small pools are read by one thread: making more would take longer.
  [[nodiscard]] unsigned recovery_threads() const {
    if (options_.recovery_threads != 0) return options_.recovery_threads;
    constexpr uint64_t kBytesPerThread = uint64_t{64} << 20;
    uint64_t bytes = 0;
    for (size_t i = 0; i < t_.volume->targets(); ++i) bytes += t_.volume->target_bytes(i);
    return static_cast<unsigned>(std::clamp<uint64_t>(bytes / kBytesPerThread, 1, base::processors()));
  }

  Status check_key_format() const {
    if (options_.any_key_format || t_.pool.key_format() == options_.key_format) return Status::OK();
    const bool fixed8 = t_.pool.key_format() == KeyFormat::kFixed8;
    return Status::InvalidArgument(paths_[0] + " was created with key=" + (fixed8 ? "fixed8" : "bytes") +
                                   "; open it with that key format");
  }

  const Options& options_;
  const TestOptions& test_;
  const std::vector<std::string> paths_;
  Tiers& t_;
  std::vector<uint64_t> bytes_before_;  // of files that may grow
  bool create_ = false;
  bool all_product_ = true;
};

}  // namespace

Status split_paths(const std::string& path, std::vector<std::string>* paths) {
  paths->clear();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t comma = std::min(path.find(',', begin), path.size());
    paths->push_back(path.substr(begin, comma - begin));
    if (comma == begin) {
      return Status::InvalidArgument(path.empty() ? "the pool's path is empty; name a file, e.g. /dev/shm/my.pool"
                                                  : "a part of the path list '" + path +
                                                        "' is empty; name one file per target, with one comma between");
    }
    begin = comma + 1;
  }
  if (paths->size() > scale::kTargetsMax) {
    return Status::InvalidArgument("a pool has at most " + std::to_string(scale::kTargetsMax) + " targets");
  }
  return Status::OK();
}

Status open_tiers(const Options& options, const TestOptions& test, const std::string& path,
                  std::unique_ptr<Tiers>* tiers) {
  std::vector<std::string> paths;
  BONSAI_RETURN_IF_ERROR(split_paths(path, &paths));
  auto opened = std::make_unique<Tiers>();
  BONSAI_RETURN_IF_ERROR(Opener(options, test, std::move(paths), opened.get()).open());
  *tiers = std::move(opened);
  return Status::OK();
}

Status open_tiers_on(const Options& options, std::vector<std::unique_ptr<base::HookedMedium>> media, bool create,
                     std::unique_ptr<Tiers>* tiers) {
  std::vector<std::string> names;
  for (size_t i = 0; i < media.size(); ++i) names.push_back("target " + std::to_string(i));
  auto opened = std::make_unique<Tiers>();
  BONSAI_RETURN_IF_ERROR(
      Opener(options, TestOptions(), std::move(names), opened.get()).open_on(std::move(media), create));
  *tiers = std::move(opened);
  return Status::OK();
}

}  // namespace store

Status DB::Open(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
  return OpenForTest(options, {}, path, db);
}

Status OpenForTest(const Options& options, const TestOptions& test, const std::string& path, std::unique_ptr<DB>* db) {
  std::unique_ptr<store::Tiers> tiers;
  BONSAI_RETURN_IF_ERROR(store::open_tiers(options, test, path, &tiers));
  *db = std::make_unique<store::DbImpl>(options, std::move(tiers));
  return Status::OK();
}

Status DescribeMedium(const std::string& path, std::string* text) {
  return base::describe_medium(path, PersistenceDomain::kAuto, text);
}

}  // namespace bonsai
