// SPDX-License-Identifier: Apache-2.0
// Opening and creating pools: mappings, media, volume, recovery, tiers.
//
// A new pool gets its names last, so that a killed creation leaves no file. In two cases it does, and a user must
// remove the files: if it is killed while a pool of several targets gets its names, and on a file system where a file
// cannot be made without a name (base::MappingOptions::name_later).
#include <algorithm>
#include <span>

#include "base/random.h"
#include "base/sizes.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "base/units.h"
#include "persist/analysis.h"
#include "persist/old_copy.h"
#include "persist/opening.h"
#include "persist/recovery.h"
#include "persist/removal.h"
#include "persist/superblock.h"
#include "store/db_impl.h"
#include "store/options.h"
#include "store/target_config.h"
#include "store/tiers.h"

namespace bonsai {
namespace store {
namespace {

class Opener {
 public:
  Opener(const Options& options, const TestOptions& test, Tiers* tiers, bool name_later = false)
      : options_(options), test_(test), t_(*tiers), name_later_(name_later) {}

  Status open(const std::string& path) {
    std::vector<scale::TargetName> names;
    BONSAI_RETURN_IF_ERROR(scale::parse_target_names(path, &names));
    BONSAI_RETURN_IF_ERROR(check_options(names));
    scale::TargetConfig config = target_config(options_);
    config.in_memory = is_volatile();
    config.media.test = test_;
    t_.targets = std::make_unique<scale::Targets>(std::move(config));
    for (scale::TargetName& name : names) BONSAI_RETURN_IF_ERROR(t_.targets->add(std::move(name)));
    BONSAI_RETURN_IF_ERROR(check_test_options());
    BONSAI_RETURN_IF_ERROR(decide_creation());
    const Status status = with_memory([this] {
      BONSAI_RETURN_IF_ERROR(t_.memory.take());
      BONSAI_RETURN_IF_ERROR(take());
      t_.leases = t_.targets->leases();
      BONSAI_RETURN_IF_ERROR(t_.targets->need_hooks() ? wire(t_.targets->hooked_volume())
                                                      : wire(t_.targets->product_volume()));
      return create_ && !name_later_ ? t_.targets->complete() : Status::OK();
    });
    if (!status.ok() && create_) take_back();
    if (!status.ok() && !create_ && !writes_) shrink_back();
    return status;
  }

  Status open_on(std::vector<std::unique_ptr<base::HookedMedium>> media, bool create,
                 const std::vector<scale::TargetRole>& roles) {
    create_ = create;
    t_.targets = std::make_unique<scale::Targets>();
    for (size_t i = 0; i < media.size(); ++i) {
      scale::TargetName name;
      name.text = "target " + std::to_string(i);
      if (i < roles.size()) name.role = roles[i];
      t_.targets->add(std::move(name), std::move(media[i]));
    }
    return wire(t_.targets->hooked_volume());
  }

 private:
  [[nodiscard]] Status check_options(std::span<const scale::TargetName> names) const {
    if (is_volatile() && options_.durability != Durability::kVolatile) {
      return Status::InvalidArgument(
          "a store in DRAM is lost when it is closed: set durability to volatile, too, or medium to auto to keep it");
    }
    if (!is_volatile() && options_.durability == Durability::kVolatile) {
      return Status::InvalidArgument(
          "only a store in DRAM can be volatile: set medium to DRAM, too, or durability to durable or buffered");
    }
    if (options_.allow_missing) {
      return Status::InvalidArgument("allow_missing is of Check and Salvage; a pool is opened with all its targets");
    }
    if (options_.read_only &&
        (is_volatile() || options_.create_if_missing || options_.error_if_exists || options_.grow_bytes != 0)) {
      return Status::InvalidArgument(
          "read_only opens a pool that exists and stays as it is: set it without create_if_missing, error_if_exists, "
          "grow_bytes and a medium in DRAM");
    }
    const bool said = std::any_of(names.begin(), names.end(), [](const scale::TargetName& name) {
      return name.role != scale::TargetRole::kUnsaid;
    });
    if (is_volatile() && options_.layout != LayoutChoice::kNone) {
      return Status::InvalidArgument("a store in DRAM is not striped: use layout none");
    }
    if (is_volatile() && said) {
      return Status::InvalidArgument("a store in DRAM has no log, so its targets have no roles: name it without");
    }
    return Status::OK();
  }

  [[nodiscard]] Status check_test_options() const {
    if (is_volatile() && test_.medium != TestMedium::kNone) {
      return Status::InvalidArgument("a store in DRAM writes no NVM that could be played; give another medium");
    }
    return Status::OK();
  }

  [[nodiscard]] bool is_volatile() const { return options_.medium == MediumChoice::kDram; }

  // All targets exist, or none does and this opening creates them.
  Status decide_creation() {
    if (options_.read_only) return Status::OK();  // what is missing cannot be opened
    if (is_volatile()) {
      create_ = true;
      return Status::OK();
    }
    size_t existing = 0;
    std::string missing;
    for (const auto& target : *t_.targets) {
      bool exists = false;
      const Status found = target->exists(options_.create_if_missing, &exists);
      exists = exists || (found.IsBusy() && options_.error_if_exists);
      if (!exists) BONSAI_RETURN_IF_ERROR(found);
      if (exists && options_.error_if_exists) {
        return Status::InvalidArgument(target->name() + " exists already, and a new pool was asked for " +
                                       "(error_if_exists): name a new file");
      }
      existing += exists ? 1 : 0;
      if (!exists && missing.empty()) missing = target->name();
    }
    if (existing == 0 && options_.create_if_missing) {
      create_ = true;
    } else if (existing != 0 && !missing.empty()) {
      return Status::IoError("some targets of the pool are missing, " + missing +
                             " is one; name existing targets, or new ones only");
    }
    return Status::OK();
  }

  Status take() {
    for (size_t i = 0; i < t_.targets->size(); ++i) {
      scale::Target& target = (*t_.targets)[i];
      if (create_) {
        BONSAI_RETURN_IF_ERROR(create(&target, i));
      } else if (options_.read_only) {
        BONSAI_RETURN_IF_ERROR(target.open_own_copy());
      } else {
        const bool keeps_size = target.role() == scale::TargetRole::kLog;
        BONSAI_RETURN_IF_ERROR(target.open(keeps_size ? 0 : options_.grow_bytes));
      }
    }
    t_.emulated = t_.targets->emulated();
    return Status::OK();
  }

  Status create(scale::Target* target, size_t number) const {
    uint64_t wanted = 0;
    BONSAI_RETURN_IF_ERROR(persist::new_target_bytes(options_, roles(), number, &wanted));
    BONSAI_RETURN_IF_ERROR(target->create(wanted));
    const bool as_asked = target->bytes() == base::round_up(wanted, base::kPageBytes) || wanted == kPoolBytesDefault;
    if (as_asked || !options_.log_sink) return Status::OK();
    options_.log_sink('W', target->name() + " is taken whole: it has " + std::to_string(target->bytes()) + " bytes, " +
                               std::to_string(wanted) + " were asked for");
    return Status::OK();
  }

  // The roles for which the targets were named; without a role they are for all.
  [[nodiscard]] std::vector<uint64_t> roles() const {
    static_assert(static_cast<uint64_t>(scale::TargetRole::kLog) == persist::kRoleLog &&
                  static_cast<uint64_t>(scale::TargetRole::kDnodes) == persist::kRoleDnodes);
    std::vector<uint64_t> roles;
    for (const auto& target : *t_.targets) {
      const auto said = static_cast<uint64_t>(target->role());
      roles.push_back(said != 0 ? said : persist::kRolesAll);
    }
    return roles;
  }

  // A role that was named is the target's own; one that was not becomes known.
  Status settle_roles() {
    for (size_t i = 0; i < t_.targets->size(); ++i) {
      scale::Target& target = (*t_.targets)[i];
      const auto own = static_cast<scale::TargetRole>(t_.pool.superblocks[i].roles);
      if (target.role() != scale::TargetRole::kUnsaid && target.role() != own) {
        return Status::InvalidArgument(target.name() + " was created with role=" + std::string(role_text(own)) +
                                       "; name it without a role, or with that one");
      }
      target.set_role(own);
    }
    t_.medium_text = t_.targets->medium_text();
    return Status::OK();
  }

  // Takes back what an unfinished creation has made.
  void take_back() {
    if (is_volatile()) return;
    t_.index.reset();
    t_.log.reset();
    t_.large.reset();
    t_.dnodes.reset();
    // A device stays, and is not to be a pool.
    for (size_t i = 0; t_.volume != nullptr && i < t_.volume->targets(); ++i) {
      static_cast<void>(with_memory([&] { return persist::wipe_target(*t_.volume, i); }));
    }
    t_.volume.reset();
    for (const auto& target : *t_.targets) static_cast<void>(with_memory([&] { return target->remove(); }));
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& target : *t_.targets) all.push_back(target->name());
    return all;
  }

  template <class Medium>
  Status wire(std::unique_ptr<scale::VolumeOf<Medium>> volume) {
    scale::VolumeOf<Medium>& typed = *volume;
    t_.volume = std::move(volume);
    if (create_) {
      const uint64_t pool_id[2] = {base::fresh_seed(), base::fresh_seed()};
      BONSAI_RETURN_IF_ERROR(persist::format_pool(typed, options_, pool_id, roles()));
    }
    BONSAI_RETURN_IF_ERROR(persist::read_pool(typed, names(), &t_.pool));
    BONSAI_RETURN_IF_ERROR(settle_roles());
    BONSAI_RETURN_IF_ERROR(check_key_format());
    BONSAI_RETURN_IF_ERROR(check_layout());
    persist::Pool wanted;
    BONSAI_RETURN_IF_ERROR(plan(&wanted));
    // All that can be verified is verified before the first byte is written.
    persist::Analysis analysis;
    BONSAI_RETURN_IF_ERROR(
        persist::analyse(*t_.volume, t_.pool, &analysis, {recovery_threads(), options_.open_progress}));
    if (!analysis.damages.empty()) return persist::damage_status(analysis.damages);
    make_tiers(typed, wanted);
    BONSAI_RETURN_IF_ERROR(persist::claim_space(&analysis, wanted, t_.dnodes.get()));
    writes_ = true;
    BONSAI_RETURN_IF_ERROR(persist::grow_pool(typed, wanted, &t_.pool));
    return recover(&analysis);
  }

  // Sets *wanted to the pool's plan after growth.
  Status plan(persist::Pool* wanted) {
    if (options_.grow_bytes == 0 || create_) {
      *wanted = t_.pool;
      return Status::OK();
    }
    BONSAI_RETURN_IF_ERROR(check_growth());
    return persist::plan_growth(*t_.volume, t_.pool, wanted);
  }

  // Writes nothing to the pool.
  template <class Medium>
  void make_tiers(scale::VolumeOf<Medium>& typed, const persist::Pool& pool) {
    pool.add_targets(&t_.space);
    t_.dnodes = std::make_unique<persist::DnodeStore>(typed, t_.space, pool.geometry());
    t_.dnodes->set_metadata(options_.metadata_upload);
    // At least the number of slots that some threads write at once: a small, full pool has no room for an extent.
    t_.dnodes->set_slots_ahead(std::clamp<uint64_t>(t_.space.capacity_bytes() / 16384, 16, 64));
    t_.large = std::make_unique<persist::LargeStore>(typed, t_.space);
    pool.spread_log(&typed);
    persist::Log::Config log = pool.log_config(options_.durability == Durability::kBuffered);
    log.window_ms = options_.buffered_window_ms;
    t_.log = is_volatile() ? persist::make_no_log(std::move(log)) : persist::make_log(typed, std::move(log));
    t_.epochs = std::make_unique<base::EpochDomain>();
    typed.set_epochs(t_.epochs.get());
    index::Index::Config config{pool.limits(), options_.snapshots_max == 0 ? SIZE_MAX : options_.snapshots_max};
    t_.index = std::make_unique<index::Index>(config, *t_.log, *t_.dnodes, *t_.large, *t_.epochs);
  }

  Status recover(persist::Analysis* analysis) {
    BONSAI_RETURN_IF_ERROR(persist::note_opening(*t_.volume, t_.pool));
    BONSAI_RETURN_IF_ERROR(persist::note_marks(*t_.volume, t_.pool, analysis->sequence_max));
    t_.log->set_marks(persist::log_marks(*t_.volume, t_.pool));
    std::vector<persist::RecoveredRange> ranges;
    BONSAI_RETURN_IF_ERROR(persist::recover(analysis, t_.pool, t_.dnodes.get(), t_.log.get(), &ranges));
    t_.index->start(std::move(ranges), analysis->gen_max + 1, recovery_threads());
    return persist::write_run_state(*t_.volume, t_.pool,
                                    options_.durability == Durability::kBuffered ? persist::RunState::kOpenBuffered
                                                                                 : persist::RunState::kOpenDurable);
  }

  // Gives the targets that were enlarged their sizes back. Nothing states the new ones yet.
  void shrink_back() {
    for (const auto& target : *t_.targets) target->shrink_back();
  }

  // A target whose name has the role log keeps its size. If it stores only the log and was named without its role, it
  // was enlarged, and the new bytes would be of no use.
  [[nodiscard]] Status check_growth() const {
    for (const auto& target : *t_.targets) {
      if (target->role() != scale::TargetRole::kLog || !target->enlarged()) continue;
      return Status::InvalidArgument(target->name() + " keeps the log alone, which does not grow; name it " +
                                     target->name() + "?role=log to leave it as it is");
    }
    return Status::OK();
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
    return Status::InvalidArgument((*t_.targets)[0].name() + " was created with key=" + (fixed8 ? "fixed8" : "bytes") +
                                   "; open it with that key format");
  }

  // What was asked for is what the pool has, and one link reaches all targets over which it is striped.
  Status check_layout() const {
    const scale::Layout layout = t_.pool.layout();
    const uint64_t unit = t_.pool.superblocks[0].unit_bytes;
    const std::string& first = (*t_.targets)[0].name();
    if (options_.layout != LayoutChoice::kNone && options_.layout != layout.kind()) {
      return Status::InvalidArgument(first +
                                     " was created with layout=" + std::string(scale::layout_text(layout.kind())) +
                                     "; open it without a layout, or with that one");
    }
    if (options_.stripe_unit_bytes != 0 && unit == 0 && create_) {
      return Status::InvalidArgument(
          "stripe_unit_bytes is of striped pools, and this one is none; give a layout, too, or no stripe_unit_bytes");
    }
    if (options_.stripe_unit_bytes != 0 && options_.stripe_unit_bytes != unit) {
      return Status::InvalidArgument(
          first +
          (unit == 0 ? " is not striped; open it"
                     : " has stripe units of " + std::to_string(unit) + " bytes; open it with those, or") +
          " without stripe_unit_bytes");
    }
    return layout.striped() ? t_.targets->check_one_way(layout.ring()) : Status::OK();
  }

  const Options& options_;
  const TestOptions& test_;
  Tiers& t_;
  const bool name_later_;
  bool create_ = false;
  bool writes_ = false;  // the opening has begun to write to an existing pool
};

}  // namespace

Status open_tiers(const Options& options, const TestOptions& test, const std::string& path, Tiers* tiers,
                  bool name_later) {
  return Opener(options, test, tiers, name_later).open(path);
}

Status open_tiers_on(const Options& options, std::vector<std::unique_ptr<base::HookedMedium>> media, bool create,
                     std::unique_ptr<Tiers>* tiers, const std::vector<scale::TargetRole>& roles) {
  auto opened = std::make_unique<Tiers>();
  BONSAI_RETURN_IF_ERROR(Opener(options, TestOptions(), opened.get()).open_on(std::move(media), create, roles));
  *tiers = std::move(opened);
  return Status::OK();
}

Status open_store(const Options& options, const TestOptions& test, const std::string& path, bool name_later,
                  std::unique_ptr<DbImpl>* db) {
  return with_memory([&] {
    BONSAI_RETURN_IF_ERROR(check_bounds(options));
    BONSAI_RETURN_IF_ERROR(check_bounds(test));
    BackgroundThreads threads;
    if (!options.read_only) BONSAI_RETURN_IF_ERROR(BackgroundThreads::reserve(options, &threads));
    auto made = std::make_unique<DbImpl>(options);
    BONSAI_RETURN_IF_ERROR(open_tiers(options, test, path, &made->tiers(), name_later));
    made->start(std::move(threads));
    BONSAI_RETURN_IF_ERROR(made->start_scrubbing());
    *db = std::move(made);
    return Status::OK();
  });
}

}  // namespace store

Status DB::Open(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
  return OpenForTest(options, {}, path, db);
}

Status OpenForTest(const Options& options, const TestOptions& test, const std::string& path, std::unique_ptr<DB>* db) {
  std::unique_ptr<store::DbImpl> opened;
  BONSAI_RETURN_IF_ERROR(store::open_store(options, test, path, /*name_later=*/false, &opened));
  *db = std::move(opened);
  return Status::OK();
}

namespace {

Status describe(const std::string& path, std::string* text, const Options& options) {
  BONSAI_RETURN_IF_ERROR(store::check_bounds(options));
  scale::TargetName name;
  BONSAI_RETURN_IF_ERROR(scale::parse_target_name(path, &name));
  scale::Targets targets(store::target_config(options));
  BONSAI_RETURN_IF_ERROR(targets.add(name));
  BONSAI_RETURN_IF_ERROR(targets[0].describe(text));
  if (name.role != scale::TargetRole::kUnsaid) *text += ", for " + std::string(role_text(name.role));
  return Status::OK();
}

}  // namespace

Status DescribeMedium(const std::string& path, std::string* text, const Options& options) {
  return store::with_memory([&] { return describe(path, text, options); });
}

}  // namespace bonsai
