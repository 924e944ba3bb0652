// SPDX-License-Identifier: Apache-2.0
// The targets of a pool: files, devices and memory of this machine, and pools that other nodes serve. Their callers do
// not know which. `Target` is one of them; `Targets` are those of one pool, with the links to the nodes of remote ones.
//
// Order of calls: exists(); then one of create(), open(), open_read_only() and open_own_copy(), which makes the medium.
// A new target has no name before complete(), and is gone if it is destroyed before (a device keeps its name and its
// bytes).
//
// Thread-safety: one owner; Targets::traffic() and groups() from any thread.
#ifndef BONSAI_SCALE_TARGET_H_
#define BONSAI_SCALE_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/nvm/media.h"
#include "base/nvm/medium.h"
#include "base/nvm/product.h"
#include "bonsai/groups.h"
#include "bonsai/options.h"
#include "bonsai/status.h"
#include "rdma/traffic.h"
#include "scale/remote_links.h"
#include "scale/scrub_state.h"
#include "scale/target_name.h"
#include "scale/volume.h"

namespace bonsai::scale {

// Configuration that is common to all targets of a pool.
struct TargetConfig {
  // The first word of a new target until its creation is done, and how many first bytes show that it was not
  // (base::is_marked()).
  uint64_t mark = 0;
  uint64_t first_bytes = 0;
  // For targets of this machine.
  bool in_memory = false;  // memory of this process, whatever the name
  PersistenceDomain domain = PersistenceDomain::kAuto;
  base::MediaOptions media;
  // For remote targets: as RemoteLinks.
  std::string secret_file;
  uint64_t limit_ms = 5'000;
  size_t workers = 4;
  uint64_t member_ms = 0;
  bool take_over = false;                                       // an existing pool, also from an owner that is alive
  std::function<void(const std::string& text)> note = nullptr;  // for the operator, of a pool that is taken over
};

class Target {
 public:
  virtual ~Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // As the user wrote it, without the role.
  [[nodiscard]] const std::string& name() const { return name_.text; }
  [[nodiscard]] TargetRole role() const { return name_.role; }
  [[nodiscard]] const std::string& scheme() const { return name_.scheme; }  // empty: of this machine
  // Requires: the pool's superblock states this role.
  void set_role(TargetRole role) { name_.role = role; }

  // Whether the target exists. A device whose first bytes are all zeros does not. With `discard_unfinished` a target
  // whose creation was interrupted does not exist either, and such a file is removed. (Without it, a device of this
  // machine does not exist then, and a device of another node does.) A target that exists may be this process's from
  // now on. Errors: IoError, Busy, Unavailable, InvalidArgument (secret).
  virtual Status exists(bool discard_unfinished, bool* exists) = 0;

  // Creates it with `bytes` zeros. A device keeps its bytes and its size; memory is rounded up to pages.
  // Errors: those of base::Mapping::open(), make_media() and RemoteLink::open().
  virtual Status create(uint64_t bytes) = 0;
  // Opens it for reading and writing, and enlarges it if it is smaller than `grow_bytes`. Errors: as create(), and
  // IoError (it does not exist).
  virtual Status open(uint64_t grow_bytes) = 0;
  // Opens it for reading alone: nothing is written through its media. Errors: as open().
  virtual Status open_read_only() = 0;
  // Opens it so that what is written through its media changes copies in this process's memory and never the target.
  // Errors: as open(), and NotSupported (it is not a file of this machine).
  virtual Status open_own_copy() {
    return Status::NotSupported(name() +
                                " is not a file of this machine, and only those can be opened read-only: open "
                                "it for updates, or look at it by `bonsai check`");
  }

  // Requires, as what follows: created or open.
  [[nodiscard]] virtual uint64_t bytes() const = 0;
  // The medium without virtual calls; null: the target needs hooked(). The target owns its media.
  [[nodiscard]] virtual base::ProductMedium* product() = 0;
  // The medium with the virtual interface.
  [[nodiscard]] virtual base::HookedMedium* hooked() = 0;
  // The stamp of results, as base::Media.
  [[nodiscard]] const std::string& medium_text() const { return medium_text_; }
  [[nodiscard]] bool emulated() const { return emulated_; }

  // Whether open() has enlarged it, and shrink_back() was not called.
  [[nodiscard]] virtual bool enlarged() const { return false; }
  // Gives it its former size. Requires: the added part was not used. A failure leaves the larger size.
  virtual void shrink_back() {}
  // Writes the pages that this machine's page cache has of it to disk. Errors: IoError.
  virtual Status sync() { return Status::OK(); }
  // Gives a created target its name, durably. Errors: Busy (the name is taken by now), IoError, Unavailable.
  virtual Status complete() { return Status::OK(); }
  // Removes it, complete or not, and its media; a device stays. Requires: no other user.
  // Errors: IoError, Unavailable.
  virtual Status remove() { return Status::OK(); }

  // The medium that it has, or would have. Creates and changes nothing. Requires: neither created nor open.
  // Errors: those of base::describe_medium() and of exists().
  virtual Status describe(std::string* text) = 0;

  // Compares its members from now on, if it is a target of several (scrubber.h): as many bytes of each a second, or 0:
  // only in scrub_now(). `judge` may be called until stop_scrubbing() returns. Requires: created or open. Errors:
  // NoSpace (no thread).
  virtual Status start_scrubbing(uint64_t, ScrubJudge) { return Status::OK(); }
  virtual void stop_scrubbing() {}
  // Scrubber::scrub_now() of such a target. Requires: start_scrubbing() has succeeded.
  virtual Status scrub_now() { return Status::OK(); }

  // Adds what its owner knows of its members, if it is a target of several. Requires: created or open. Any thread.
  virtual void add_group(std::vector<GroupInfo>*) const {}
  // Adds what the records of its members' owners say, whoever owns them, or the record of one member that is named
  // alone. Changes nothing. Requires: neither created nor open. Errors: those of RemoteLink::status_of() if no node
  // answers, of PoolOwner::recorded_page().
  virtual Status look_at_group(std::vector<GroupInfo>*) { return Status::OK(); }

 protected:
  explicit Target(TargetName name) : name_(std::move(name)) {}

  TargetName name_;
  std::string medium_text_;
  bool emulated_ = true;
};

class Targets {
 public:
  explicit Targets(TargetConfig config = {});
  Targets(const Targets&) = delete;
  Targets& operator=(const Targets&) = delete;

  // Adds the target of that name. Errors: InvalidArgument (a target in memory with a remote name).
  Status add(TargetName name);
  // Adds one that exists, on a medium of the caller.
  void add(TargetName name, std::unique_ptr<base::HookedMedium> medium);

  [[nodiscard]] size_t size() const { return targets_.size(); }
  [[nodiscard]] Target& operator[](size_t target) const {
    BONSAI_CHECK(target < targets_.size());
    return *targets_[target];
  }
  [[nodiscard]] auto begin() const { return targets_.begin(); }
  [[nodiscard]] auto end() const { return targets_.end(); }
  [[nodiscard]] Target& back() const { return *targets_.back(); }
  void pop_back() { targets_.pop_back(); }

  // Target::open_read_only() of all. An IoError or Unavailable of some of several names each of them, so it comes after
  // all were tried. With `missing` these are no error, unless it is of all targets: it gets their numbers.
  Status open_read_only(std::vector<size_t>* missing = nullptr);
  // Memory of this process, all zeros, in the place of a target that is missing. Errors: NoSpace.
  Status stand_in(size_t target, uint64_t bytes);
  // OK: no other owner has had the pool until now, so that what was read is the pool's content. Requires: open. Errors:
  // Unavailable.
  Status confirm_reads() const;
  // Target::complete() of all. After an error some have their names, and the caller removes all.
  Status complete();

  // Whether the same scheme names all of these targets, so that one list of reads reaches them and one pool of memory
  // takes the bytes. Errors: InvalidArgument.
  [[nodiscard]] Status check_one_way(std::span<const uint8_t> targets) const;

  // Whether a medium needs the virtual interface. Requires, as what follows: all are created or open.
  [[nodiscard]] bool need_hooks() const;
  // A volume over their media. Requires: the targets outlive it. product_volume() also: no medium needs a hook.
  [[nodiscard]] std::unique_ptr<VolumeOf<base::HookedMedium>> hooked_volume() const;
  [[nodiscard]] std::unique_ptr<VolumeOf<base::ProductMedium>> product_volume() const;
  // Whether some medium only stands for NVM.
  [[nodiscard]] bool emulated() const;
  // The label of a pool's results: each medium once, with its role if it has only one.
  [[nodiscard]] std::string medium_text() const;

  // Without a valid one of them nothing that was read may be returned. Null: some target is of this machine, so no
  // other owner opens the pool while this process has that target's lock.
  [[nodiscard]] Leases* leases() const { return has_local_ ? nullptr : &links_.leases(); }

  // Traffic with all nodes, since the links to them were made, except for leases.
  [[nodiscard]] rdma::Traffic traffic() const { return links_.traffic(); }

  // Target::start_scrubbing() of all, whose judge gets the number of the target, too. Requires: all are created or
  // open, and stop_scrubbing() is called before they are destroyed. Errors: NoSpace (no thread).
  using Judge = std::function<void(size_t target, std::span<ScrubBlock> blocks)>;
  Status start_scrubbing(uint64_t bytes_per_s, const Judge& judge) const;
  void stop_scrubbing() const;
  // Target::scrub_now() of all.
  Status scrub_now() const;

  // Of those with several members, what this owner knows. Requires: all are created or open.
  [[nodiscard]] std::vector<GroupInfo> groups() const;

 private:
  const TargetConfig config_;
  TargetConfig of_stand_ins_;
  RemoteLinks links_;
  std::vector<std::unique_ptr<Target>> targets_;
  bool has_local_ = false;
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_TARGET_H_
