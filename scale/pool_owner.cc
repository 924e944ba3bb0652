// SPDX-License-Identifier: Apache-2.0
#include "scale/pool_owner.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/boot_clock.h"
#include "base/calendar.h"
#include "base/clock.h"
#include "base/nvm/descriptor.h"
#include "base/nvm/os_file.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "base/thread.h"

namespace bonsai::scale {
namespace {

using membership::OwnerRecord;
using membership::Page;
using membership::Slot;

constexpr mode_t kRecordMode = 0600;  // it holds a session, which nobody else may know

std::array<uint64_t, 2> identity_of(const std::string& pool) {
  uint64_t mixed = base::splitmix64(pool.size());
  for (const char each : pool) mixed = base::splitmix64(mixed ^ static_cast<unsigned char>(each));
  return {mixed, base::splitmix64(mixed) | 1};
}

}  // namespace

PoolOwner::PoolOwner(const std::string& folder, const std::string& pool, uint64_t started_ns)
    : path_(record_path(folder, pool)),
      identity_(identity_of(pool)),
      started_ns_(started_ns),
      register_(OwnerRecord(), started_ns) {}

std::string PoolOwner::record_path(const std::string& folder, const std::string& pool) {
  return folder + "/." + pool + ".owner";
}

std::string PoolOwner::recorded_holder(const std::string& folder, const std::string& pool) {
  std::array<Slot, membership::kSlots> slots;
  membership::FoundPage found;
  const PoolOwner owner(folder, pool, 0);
  const bool known = owner.read_slots(&slots).ok() && membership::find_page(slots, owner.identity_, &found).ok();
  return known && !found.page.owner.session.is_nobody() ? found.page.holder : "";
}

Status PoolOwner::recorded_page(const std::string& folder, const std::string& pool, uint64_t* epoch,
                                VersionedPage* page) {
  std::array<Slot, membership::kSlots> slots;
  membership::FoundPage found;
  const PoolOwner owner(folder, pool, 0);
  BONSAI_RETURN_IF_ERROR(owner.read_slots(&slots));
  const Status status = membership::find_page(slots, owner.identity_, &found);
  if (!status.ok() && !status.IsNotFound()) return status;
  *epoch = status.ok() ? found.page.owner.epoch : 0;
  *page = status.ok() ? group_page_of(found.page) : VersionedPage();
  return Status::OK();
}

// Bytes that the file does not have are zeros.
Status PoolOwner::read_slots(std::array<Slot, membership::kSlots>* slots) const {
  for (Slot& slot : *slots) slot.fill(std::byte{0});
  const base::OsFile file = base::open_file(path_, O_RDONLY);
  if (!file.is_open()) return errno == ENOENT ? Status::OK() : base::os_error("open", path_, errno);
  for (size_t i = 0; i < membership::kSlots; ++i) {
    const auto at = static_cast<off_t>(i * membership::kSlotBytes);
    for (size_t read = 0; read < membership::kSlotBytes;) {
      const ssize_t n =
          ::pread(file.fd(), (*slots)[i].data() + read, membership::kSlotBytes - read, at + static_cast<off_t>(read));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return base::os_error("read", path_, errno);
      if (n == 0) break;
      read += static_cast<size_t>(n);
    }
  }
  return Status::OK();
}

Status PoolOwner::write_page(const Page& page) {
  const base::OsFile file = base::open_file(path_, O_WRONLY | O_CREAT, kRecordMode);
  if (!file.is_open()) return base::os_error("make", path_, errno);
  std::optional<membership::PageWriter::Write> write = writer_.begin(page);
  for (; write.has_value(); write = writer_.written()) {
    const auto at = static_cast<off_t>(write->slot * membership::kSlotBytes);
    for (size_t written = 0; written < membership::kSlotBytes;) {
      const ssize_t n = ::pwrite(file.fd(), write->bytes.data() + written, membership::kSlotBytes - written,
                                 at + static_cast<off_t>(written));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return base::os_error("write", path_, n < 0 ? errno : ENOSPC);
      written += static_cast<size_t>(n);
    }
    if (::fsync(file.fd()) != 0) return base::os_error("make durable", path_, errno);
  }
  return base::sync_directory_of(path_);
}

Status PoolOwner::load() {
  std::array<Slot, membership::kSlots> slots;
  membership::FoundPage found;
  Status status = read_slots(&slots);
  if (status.ok()) status = membership::find_page(slots, identity_, &found);
  const bool has_file = status.ok();
  if (!has_file && !status.IsNotFound()) {
    if (!status.IsCorruption()) return status;
    return Status::Corruption(path_ + ": " + std::string(status.message()));
  }
  {
    const std::lock_guard lock(mutex_);
    const bool is_known = known_ == (has_file ? found.page.owner : OwnerRecord()) && has_file_ == has_file;
    group_page_ = has_file ? group_page_of(found.page) : VersionedPage();
    if (is_known && (!has_file || found.whole)) return Status::OK();
    writer_ = has_file ? membership::PageWriter(found) : membership::PageWriter();
    if (!is_known) {
      const uint64_t since_ns = known_.has_value() ? base::boot_ns() : started_ns_;  // it has granted leases since
      known_ = found.page.owner;
      has_file_ = has_file;
      holder_ = found.page.holder;
      register_ = has_file ? Register(found.page.owner, base::boot_ns())
                           : Register::without_record(since_ns, kServedLeaseNsMax);
    }
  }
  if (!has_file || found.whole) return Status::OK();
  status = write_page(found.page);
  if (!status.ok()) known_.reset();
  return status;
}

uint64_t PoolOwner::begin_new() {
  std::array<Slot, membership::kSlots> slots;
  membership::FoundPage found;
  const bool has_file = read_slots(&slots).ok() && membership::find_page(slots, identity_, &found).ok();
  OwnerRecord record;
  if (has_file) record = {found.page.owner.epoch, {}, found.page.owner.lease_ns};
  const std::lock_guard lock(mutex_);
  writer_ = has_file ? membership::PageWriter(found) : membership::PageWriter();
  known_ = record;
  has_file_ = has_file;
  holder_.clear();
  group_page_ = {};
  register_ = Register(record, base::boot_ns());
  return record.epoch;
}

Status PoolOwner::take_over() {
  BONSAI_RETURN_IF_ERROR(load());
  if (group_page().page.members != 0) {
    return Status::InvalidArgument(
        "the pool is a member of a group, whose members hold the same bytes: open the group through its nodes, or open "
        "this pool for reading alone");
  }
  OwnerRecord record;
  uint64_t until_ns = 0;
  {
    const std::lock_guard lock(mutex_);
    record = register_.record();
    until_ns = register_.lease_until_ns();
    if (!has_file_ || record.session.is_nobody()) return Status::OK();
  }
  const uint64_t now_ns = base::boot_ns();
  if (until_ns > now_ns) base::sleep_ms(std::min(until_ns - now_ns, kServedLeaseNsMax) / base::kNsPerMs + 1);
  {
    const std::lock_guard lock(mutex_);
    register_ = Register({record.epoch + 1, {}, record.lease_ns}, base::boot_ns());
  }
  return write();
}

PoolOwner::Register::Reply PoolOwner::note(const Register::Reply& reply) {
  if (reply.answer == Register::Answer::kGranted) granted_ns_ = base::boot_ns();
  return reply;
}

PoolOwner::Register::Reply PoolOwner::fence(const Sender& sender, uint64_t seen, uint64_t lease_ns, bool force,
                                            const std::string& holder) {
  const std::lock_guard lock(mutex_);
  if (lease_ns > kServedLeaseNsMax) return {Register::Answer::kInvalid, register_.record().epoch};
  const OwnerRecord before = register_.record();
  const Register::Reply reply = register_.fence(sender, seen, lease_ns, force, base::boot_ns());
  if (register_.record() != before) {
    holder_ = (holder + " since " + base::calendar_text(static_cast<uint64_t>(base::wall_seconds())))
                  .substr(0, Page::kHolderBytesMax);
  }
  return note(reply);
}

PoolOwner::Register::Reply PoolOwner::resume(const Sender& sender) {
  const std::lock_guard lock(mutex_);
  return note(register_.resume(sender, base::boot_ns()));
}

PoolOwner::Register::Reply PoolOwner::renew(const Sender& sender) {
  const std::lock_guard lock(mutex_);
  return note(register_.renew(sender, base::boot_ns()));
}

PoolOwner::Register::Reply PoolOwner::leave(const Sender& sender) {
  const std::lock_guard lock(mutex_);
  return register_.leave(sender);
}

bool PoolOwner::serves(const Sender& sender) const {
  const std::lock_guard lock(mutex_);
  return register_.serves(sender);
}

void PoolOwner::earlier_ended(uint64_t connection) {
  const std::lock_guard lock(mutex_);
  register_.earlier_ended(connection);
}

Page PoolOwner::page() const {
  Page page;
  page.pool = identity_;
  page.owner = register_.record();
  page.holder = page.owner.session.is_nobody() ? "" : holder_;
  set_group_page(group_page_, &page);
  return page;
}

Status PoolOwner::persist() {
  {
    const std::lock_guard lock(mutex_);
    if (register_.work() != Register::Work::kPersist) return Status::OK();
  }
  BONSAI_RETURN_IF_ERROR(write());
  skip_record();
  return Status::OK();
}

void PoolOwner::skip_record() {
  const std::lock_guard lock(mutex_);
  if (register_.work() == Register::Work::kPersist) register_.persisted();
}

Status PoolOwner::write() {
  Page written;
  {
    const std::lock_guard lock(mutex_);
    written = page();
  }
  const Status status = write_page(written);
  const std::lock_guard lock(mutex_);
  known_.reset();
  if (status.ok()) known_ = written.owner;
  has_file_ = true;
  return status;
}

Status PoolOwner::set_page(const Sender& sender, const VersionedPage& next, bool unnamed) {
  VersionedPage before;
  {
    const std::lock_guard lock(mutex_);
    before = group_page_;
    if (!register_.serves(sender)) return Status::Busy("the pool is not served to this owner over this connection");
    if (next == before) return Status::OK();  // it was written, and the answer was lost
    BONSAI_RETURN_IF_ERROR(may_follow(before, next));
    group_page_ = next;
  }
  const Status status = unnamed ? Status::OK() : write();
  if (status.ok()) return status;
  const std::lock_guard lock(mutex_);
  group_page_ = before;
  return status;
}

VersionedPage PoolOwner::group_page() const {
  const std::lock_guard lock(mutex_);
  return group_page_;
}

std::string PoolOwner::holder() const {
  const std::lock_guard lock(mutex_);
  return register_.record().session.is_nobody() ? "" : holder_;
}

std::string PoolOwner::text() const {
  const std::string who = holder();
  const std::lock_guard lock(mutex_);
  if (who.empty()) return "one that this node does not know, since it has no record of it";
  if (granted_ns_ == 0) return who + ", not seen since this node's start";
  return who + ", seen " + std::to_string((base::boot_ns() - granted_ns_) / base::kNsPerSecond) + " s ago";
}

bool PoolOwner::has_record() const {
  const std::lock_guard lock(mutex_);
  return has_file_;
}

uint64_t PoolOwner::unseen_ns() const {
  const std::lock_guard lock(mutex_);
  return granted_ns_ == 0 ? UINT64_MAX : base::boot_ns() - granted_ns_;
}

uint64_t PoolOwner::lease_left_ns() const {
  const std::lock_guard lock(mutex_);
  const uint64_t now_ns = base::boot_ns(), until_ns = register_.lease_until_ns();
  return register_.record().session.is_nobody() || until_ns <= now_ns ? 0 : until_ns - now_ns;
}

PoolOwners::PoolOwners(std::string folder) : folder_(std::move(folder)), started_ns_(base::boot_ns()) {}

std::shared_ptr<PoolOwner> PoolOwners::make(const std::string& pool) const {
  return std::make_shared<PoolOwner>(folder_, pool, started_ns_);
}

std::shared_ptr<PoolOwner> PoolOwners::of(const std::string& pool) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<PoolOwner>& owner = owners_[pool];
  if (owner == nullptr) owner = make(pool);
  return owner;
}

std::shared_ptr<PoolOwner> PoolOwners::find(const std::string& pool) {
  const std::lock_guard lock(mutex_);
  const auto found = owners_.find(pool);
  return found != owners_.end() ? found->second : nullptr;
}

void PoolOwners::keep(const std::string& pool, std::shared_ptr<PoolOwner> owner) {
  const std::lock_guard lock(mutex_);
  owners_[pool] = std::move(owner);
}

Status PoolOwners::remove(const std::string& pool) {
  {
    const std::lock_guard lock(mutex_);
    owners_.erase(pool);
  }
  const std::string path = PoolOwner::record_path(folder_, pool);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return base::os_error("remove", path, errno);
  return Status::OK();
}

Status take_over_record(const std::string& path) {
  const auto take_over = [](const std::filesystem::path& pool) {
    return PoolOwner(base::directory_of(pool.string()), pool.filename().string(), base::boot_ns()).take_over();
  };
  BONSAI_RETURN_IF_ERROR(take_over(path));
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return Status::OK();
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  return error ? base::os_error("examine", path, error.value()) : take_over(file);
}

}  // namespace bonsai::scale
