// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "base/huge_range.h"
#include "base/nvm/lock_holder.h"
#include "base/sizes.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace bonsai::base {
namespace {

// The bytes of a file of this size that have no space on the file system yet, for a file that is created or enlarged,
// and for a sparse copy.
uint64_t missing_bytes(int fd, uint64_t bytes) {
  constexpr uint64_t kBlockOfStat = 512;
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return bytes;
  return bytes - std::min(bytes, static_cast<uint64_t>(info.st_blocks) * kBlockOfStat);
}

// A number in a file of one line, as sysfs has them; 0 when it cannot be read.
uint64_t number_in(const std::string& path) {
  constexpr size_t kNumberBytesMax = 64;
  std::string text;
  return read_text(path, kNumberBytesMax, &text) ? std::strtoull(text.c_str(), nullptr, 10) : 0;
}

std::string sysfs_of_device(int fd) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return "";
  return "/sys/dev/char/" + std::to_string(major(info.st_rdev)) + ":" + std::to_string(minor(info.st_rdev));
}

// The size of a mapping's pages on hugetlb, where files must be whole pages.
size_t page_bytes_of(int fd) {
  struct statfs system = {};
  return ::fstatfs(fd, &system) == 0 && system.f_bsize > 0 ? static_cast<size_t>(system.f_bsize) : kPageBytes;
}

// Whether the file system reports fewer than `bytes` left. Asking first keeps a hopeless attempt from filling
// it up on the way; posix_fallocate has the last word.
bool is_too_full_for(int fd, uint64_t bytes) {
  struct statfs system = {};
  return ::fstatfs(fd, &system) == 0 && system.f_blocks > 0 &&
         bytes / static_cast<uint64_t>(system.f_bsize) > static_cast<uint64_t>(system.f_bfree);
}

// Fills the holes of a tmpfs file in [begin, end) with huge pages as far as the kernel gives them (since Linux 6.1,
// whatever the mount options): random reads of a pool take a fraction of the time. Requires: the range is in the file.
// One call fills all of it, because each call waits for all processors. This comes before the rest is allocated,
// because an existing small page would have to be copied.
void allocate_huge(int fd, size_t begin, size_t end) {
  begin = round_up(begin, kHugePageBytes);
  end = end / kHugePageBytes * kHugePageBytes;
  if (begin >= end) return;
  std::byte* const range = reserve_range(end - begin, kHugePageBytes);
  if (range == nullptr) return;
  const int flags = MAP_SHARED | MAP_FIXED;
  bool ready = ::mmap(range, end - begin, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(begin)) != MAP_FAILED;
  for (size_t at = begin; at < end && ready; at += kHugePageBytes) {  // a hole has nothing that could be joined
    ready = ::posix_fallocate(fd, static_cast<off_t>(at), kPageBytes) == 0;
  }
  if (ready) static_cast<void>(::madvise(range, end - begin, MADV_COLLAPSE));
  ::munmap(range, end - begin);
}

Status check_options(const std::string& path, const MappingOptions& options) {
  if (path.empty()) return Status::InvalidArgument("the path is empty: name a file or a DAX device");
  if (options.own_copy && !options.read_only) {
    return Status::InvalidArgument("an own copy of " + path + " is only read from it: open it read-only, too");
  }
  if (options.grow_bytes != 0 && (options.read_only || options.create_bytes != 0)) {
    return Status::InvalidArgument("cannot enlarge " + path + " and create it or open it read-only at once");
  }
  if (options.grow_bytes > kPoolBytesMax) {
    return Status::InvalidArgument("cannot enlarge " + path + " to " + std::to_string(options.grow_bytes) +
                                   " bytes: it takes less than 2^62");
  }
  if (options.create_bytes == 0) return Status::OK();
  if (options.read_only) return Status::InvalidArgument("cannot create " + path + " and open it read-only at once");
  if (options.create_bytes < kMappingBytesMin || options.create_bytes > kPoolBytesMax) {
    return Status::InvalidArgument("cannot create " + path + " with " + std::to_string(options.create_bytes) +
                                   " bytes: it takes at least " + std::to_string(kMappingBytesMin) +
                                   " and less than 2^62");
  }
  return Status::OK();
}

}  // namespace

Status Mapping::open(const std::string& path, const MappingOptions& options, std::unique_ptr<Mapping>* mapping) {
  BONSAI_RETURN_IF_ERROR(check_options(path, options));
  std::unique_ptr<Mapping> opened(new Mapping(path, options));
  struct stat info = {};
  const bool is_device = ::stat(path.c_str(), &info) == 0 && S_ISCHR(info.st_mode);
  opened->created_ = options.create_bytes > 0 && !is_device;
  BONSAI_RETURN_IF_ERROR(opened->created_ ? opened->create_file(options) : opened->open_file(options));
  // Runs also when memory runs out.
  struct Undo {
    Mapping* made;
    ~Undo() {
      if (made != nullptr) made->undo_opening();
    }
  } undo{opened.get()};
  BONSAI_RETURN_IF_ERROR(opened->prepare(options));
  undo.made = nullptr;
  *mapping = std::move(opened);
  return Status::OK();
}

Status Mapping::make_in_memory(const std::string& name, uint64_t bytes, std::unique_ptr<Mapping>* mapping) {
  std::unique_ptr<Mapping> made(new Mapping(name, MappingOptions()));
  made->bytes_ = round_up(bytes, kPageBytes);
  made->kind_ = MediumKind::kMemory;
  made->domain_ = PersistenceDomain::kEadr;
  made->data_ = map_huge(made->bytes_);
  if (made->data_ == nullptr) {
    return Status::NoSpace("no address space for " + std::to_string(bytes) + " bytes of memory for " + name +
                           "; give a smaller pool_bytes");
  }
  *mapping = std::move(made);
  return Status::OK();
}

bool is_marked(std::span<const std::byte> first_bytes, uint64_t mark) {
  uint64_t first;
  if (first_bytes.size() < 2 * kPageBytes) return false;
  std::memcpy(&first, first_bytes.data(), sizeof first);
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  return first == mark && std::all_of(first_bytes.begin() + kPageBytes, first_bytes.end(), is_zero);
}

Mapping::Mapping(std::string path, const MappingOptions& options)
    : owner_(::getpid()), path_(std::move(path)), read_only_(options.read_only), own_copy_(options.own_copy) {}

Mapping::~Mapping() {
  // A forked child has no such mapping, and may have something else there.
  if (data_ == nullptr || owner_ != ::getpid()) return;
  if (created_ && name_ != path_) static_cast<void>(remove());
  static_cast<void>(sync());
  ::munmap(data_, bytes_);
}

Status Mapping::sync() {
  if (kind_ != MediumKind::kFile || read_only_) return Status::OK();
  return ::msync(data_, bytes_, MS_SYNC) == 0 ? Status::OK() : os_error("write back", path_, errno);
}

namespace {

// Why there is nothing to open, or something that cannot be created over, though the path leads nowhere.
bool is_dangling(const std::string& path, std::string* text) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return false;
  if (::stat(path.c_str(), &info) == 0 || errno != ENOENT) return false;
  std::error_code ignored;
  const std::string to = std::filesystem::read_symlink(path, ignored).string();
  *text =
      path + " is a link to " + to + ", which does not exist; restore or mount that, or remove the link: rm " + path;
  return true;
}

bool is_place_of_devices(const std::string& path) { return directory_of(path) == "/dev"; }

// A file made in its place would be no NVM, and lost with the machine.
Status no_device(const std::string& path) {
  return Status::IoError("there is no device " + path +
                         "; name one of those that ls /dev/dax* shows, or a file elsewhere");
}

}  // namespace

Status Mapping::open_file(const MappingOptions& options) {
  if (options.open_file >= 0) {
    file_ = duplicate(options.open_file);
    name_ = path_;
    return file_.is_open() ? Status::OK() : os_error("share", path_, errno);
  }
  // O_NONBLOCK: opening a pipe by mistake must fail, not wait.
  file_ = base::open_file(path_, (read_only_ ? O_RDONLY : O_RDWR) | O_NONBLOCK);
  const int error = errno;
  name_ = path_;
  if (file_.is_open()) return Status::OK();
  std::string dangling;
  if (error == ENOENT && is_dangling(path_, &dangling)) return Status::IoError("cannot open: " + dangling);
  if (error == ENOENT && is_place_of_devices(path_)) return no_device(path_);
  return os_error("open", path_, error);
}

Status Mapping::create_file(const MappingOptions& options) {
  if (!fits_file_size_limit(options.create_bytes)) return os_error("create", path_, EFBIG);
  std::string dangling;
  if (is_dangling(path_, &dangling)) return Status::IoError("cannot create: " + dangling);
  struct stat info = {};
  const bool exists = ::lstat(path_.c_str(), &info) == 0;
  if (!exists && is_place_of_devices(path_)) return no_device(path_);
  if (!exists && create_unnamed(options)) return Status::OK();
  constexpr int kNamesMax = 1000;
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK;
  int error = EEXIST;
  for (int i = 0; i < kNamesMax && !exists && error == EEXIST && !file_.is_open(); ++i) {
    name_ = path_;
    if (options.name_later) name_ += "." + std::to_string(::getpid()) + "." + std::to_string(i) + ".partial";
    file_ = base::open_file(name_, flags, 0600);
    error = errno;
    if (!options.name_later) break;
  }
  if (file_.is_open()) return Status::OK();
  if (error == EEXIST) {
    return Status::Busy("cannot create " + path_ + ": it exists; open it without creating, or name a new file");
  }
  if (error == ENOENT) {
    return Status::IoError("cannot create " + path_ + ": there is no directory " + directory_of(path_) +
                           "; create it (mkdir -p) first");
  }
  return os_error("create", path_, error);
}

// Makes the file with its mark and its lock, and then names it if that is to be. False: it must be made otherwise, or
// cannot be.
bool Mapping::create_unnamed(const MappingOptions& options) {
  OsFile unnamed = base::open_file(directory_of(path_), O_RDWR | O_TMPFILE, 0600);
  const uint64_t mark = options.create_mark;
  if (!unnamed.is_open() || ::pwrite(unnamed.fd(), &mark, sizeof mark, 0) != sizeof mark) return false;
  if (options.lock && !unnamed.try_lock(/*exclusive=*/true)) return false;
  if (options.name_later) {
    // Only through here the file can be named later.
    if (::access(("/proc/self/fd/" + std::to_string(unnamed.fd())).c_str(), F_OK) != 0) return false;
  } else {
    if (!give_name(unnamed.fd(), "", path_).ok()) return false;
    name_ = path_;
  }
  file_ = std::move(unnamed);
  return true;
}

Status Mapping::take_name() {
  if (!created_ || name_ == path_) return Status::OK();
  BONSAI_RETURN_IF_ERROR(give_name(file_.fd(), name_, path_));
  const std::string before = std::exchange(name_, path_);
  const Status kept = keep_name();
  if (kept.ok()) return kept;
  // Nobody has had the answer that the name is there.
  if (!before.empty() && give_name(file_.fd(), path_, before).ok()) {
    name_ = before;
  } else if (remove_name(path_, file_.fd()).ok()) {
    name_.clear();
  }
  return kept;
}

Status Mapping::remove() {
  struct stat info = {};
  if (name_.empty() || ::fstat(file_.fd(), &info) != 0 || !S_ISREG(info.st_mode)) return Status::OK();
  BONSAI_RETURN_IF_ERROR(remove_name(name_, file_.fd()));
  name_.clear();
  return Status::OK();
}

Status Mapping::prepare(const MappingOptions& options) {
  BONSAI_RETURN_IF_ERROR(detect_medium_kind(file_.fd(), path_, &kind_));
  if (own_copy_ && kind_ == MediumKind::kDevdax) {
    return Status::NotSupported(path_ + " is a DAX device, of which no copies of pages can be made, so it cannot be " +
                                "opened read-only: open it for updates, or look at it by `bonsai check`");
  }
  domain_ = resolve_domain(kind_, options.domain);
  if (options.lock) BONSAI_RETURN_IF_ERROR(take_lock());
  if (options.leave_lock) file_.leave_lock();
  BONSAI_RETURN_IF_ERROR(find_bytes(options.create_bytes));
  if (created_) BONSAI_RETURN_IF_ERROR(allocate(0));
  if (!created_ && options.grow_bytes > bytes_) BONSAI_RETURN_IF_ERROR(grow(options.grow_bytes));
  if (!created_) BONSAI_RETURN_IF_ERROR(settle_cache());
  if (!created_) BONSAI_RETURN_IF_ERROR(fill_holes());
  BONSAI_RETURN_IF_ERROR(map());
  return created_ && name_ == path_ ? keep_name() : Status::OK();
}

// A new file survives a crash only when its size and its name in the directory were written too.
Status Mapping::keep_name() {
  if (::fsync(file_.fd()) != 0) return os_error("write back", path_, errno);
  return sync_directory_of(path_);
}

// The page cache of a plain file may differ from the disk: a process that was killed had not synced it, and a failed
// write-back leaves pages that count as clean. A process that opens the file must read what a crash would leave.
Status Mapping::settle_cache() const {
  if (kind_ != MediumKind::kFile) return Status::OK();
  if (::fsync(file_.fd()) != 0) return os_error("write back", path_, errno);
  static_cast<void>(::posix_fadvise(file_.fd(), 0, 0, POSIX_FADV_DONTNEED));
  return Status::OK();
}

Status Mapping::take_lock() {
  if (file_.try_lock(/*exclusive=*/!read_only_)) return Status::OK();
  if (errno != EWOULDBLOCK) return os_error("lock", path_, errno);
  return Status::Busy(path_ + " " + open_elsewhere(file_.fd()) + ": close it there first");
}

Status Mapping::find_bytes(uint64_t create_bytes) {
  if (kind_ == MediumKind::kDevdax) {
    bytes_ = number_in(sysfs_of_device(file_.fd()) + "/size");
    const uint64_t least = create_bytes == kPoolBytesDefault ? kMappingBytesMin : create_bytes;
    if (bytes_ >= std::max(least, kMappingBytesMin)) return Status::OK();
    return Status::NoSpace(path_ + " has " + std::to_string(bytes_) + " bytes, fewer than the " +
                           std::to_string(create_bytes) + " asked for: choose a smaller size or a larger device");
  }
  if (created_) {
    bytes_ = round_up(create_bytes, kind_ == MediumKind::kHugetlb ? page_bytes_of(file_.fd()) : kPageBytes);
    return fits_file_size_limit(bytes_) ? Status::OK() : os_error("create", path_, EFBIG);
  }
  struct stat info = {};
  if (::fstat(file_.fd(), &info) != 0) return os_error("examine", path_, errno);
  bytes_ = static_cast<size_t>(info.st_size);
  if (bytes_ >= kMappingBytesMin) return Status::OK();
  return Status::Corruption(
      path_ + " has only " + std::to_string(bytes_) +
      " bytes, fewer than any pool: it is no pool, or was truncated; check the path, or restore " +
      "the whole file from a copy");
}

// Takes the space after the first `old_bytes` now: a hole that cannot be filled later would end the process (SIGBUS).
Status Mapping::allocate(size_t old_bytes) {
  const std::string what = "allocate " + std::to_string(bytes_) + " bytes for";
  if (is_too_full_for(file_.fd(), missing_bytes(file_.fd(), bytes_))) return os_error(what, path_, ENOSPC);
  if (kind_ == MediumKind::kTmpfs && ::ftruncate(file_.fd(), static_cast<off_t>(bytes_)) == 0) {
    allocate_huge(file_.fd(), old_bytes, bytes_);
  }
  // In pieces: a call that a signal interrupts has done nothing on tmpfs, and a timer may interrupt each longer one.
  constexpr int kInterruptionsMax = 100;
  constexpr size_t kPieceBytes = size_t{2} << 20;
  int error = 0;
  for (size_t at = 0; at < bytes_ && error == 0; at += kPieceBytes) {
    const size_t n = std::min(kPieceBytes, bytes_ - at);
    error = EINTR;
    for (int i = 0; i < kInterruptionsMax && error == EINTR; ++i) {
      error = ::posix_fallocate(file_.fd(), static_cast<off_t>(at), static_cast<off_t>(n));
    }
  }
  return error == 0 ? Status::OK() : os_error(what, path_, error);
}

// The holes of a sparse copy would be filled as they are touched, and there may be no room by then. On tmpfs that holds
// for reading, too, and a reader cannot fill them.
Status Mapping::fill_holes() {
  const bool fills = kind_ == MediumKind::kTmpfs || (kind_ == MediumKind::kFile && !read_only_);
  const uint64_t missing = fills ? missing_bytes(file_.fd(), bytes_) : 0;
  if (missing == 0) return Status::OK();
  if (is_too_full_for(file_.fd(), missing) || (!read_only_ && !allocate(bytes_).ok())) {
    return Status::NoSpace(path_ + " is a sparse copy: " + std::to_string(missing) + " of its " +
                           std::to_string(bytes_) + " bytes have no space yet, and its file system has no room for " +
                           "them; free some there, or copy the file to another");
  }
  return Status::OK();
}

Status Mapping::grow(uint64_t grow_bytes) {
  if (kind_ == MediumKind::kDevdax) {
    return Status::NotSupported(path_ + " is a device of " + std::to_string(bytes_) + " bytes and cannot grow");
  }
  bytes_before_ = bytes_;
  bytes_ = round_up(grow_bytes, kind_ == MediumKind::kHugetlb ? page_bytes_of(file_.fd()) : kPageBytes);
  Status status = fits_file_size_limit(bytes_) ? allocate(bytes_before_) : os_error("enlarge", path_, EFBIG);
  if (status.ok() && ::fsync(file_.fd()) != 0) status = os_error("write back", path_, errno);
  return status;
}

void Mapping::undo_opening() {
  static_cast<void>(shrink_back());
  if (!created_) return;
  try {
    static_cast<void>(remove());
  } catch (const std::bad_alloc&) {  // a file that is left is marked as unfinished: the next opening removes it
  }
}

// A refused allocation may have enlarged the file in part, too. Should this fail, the pool is sound all the same.
Status Mapping::shrink_back() {
  if (!enlarged()) return Status::OK();
  const size_t bytes = std::exchange(bytes_before_, SIZE_MAX);
  return ::ftruncate(file_.fd(), static_cast<off_t>(bytes)) == 0 ? Status::OK() : os_error("shrink", path_, errno);
}

// Few pages of an own copy are ever written, so memory is not reserved for all. (Huge pages are: a lack of one would
// end the process.)
int Mapping::sharing() const {
  if (own_copy_) return MAP_PRIVATE | (kind_ == MediumKind::kHugetlb ? 0 : MAP_NORESERVE);
  return kind_ == MediumKind::kFsdax ? MAP_SHARED_VALIDATE | MAP_SYNC : MAP_SHARED;
}

Status Mapping::map() {
  size_t align = kHugePageBytes;
  if (kind_ == MediumKind::kHugetlb) align = std::max(align, page_bytes_of(file_.fd()));
  if (kind_ == MediumKind::kDevdax) align = std::max(align, number_in(sysfs_of_device(file_.fd()) + "/device/align"));
  const bool whole_pages = kind_ == MediumKind::kHugetlb || kind_ == MediumKind::kDevdax;
  const size_t reserved = round_up(bytes_, whole_pages ? align : kPageBytes);
  std::byte* const hint = bytes_ >= kHugePageBytes || whole_pages ? reserve_range(reserved, align) : nullptr;

  const int protection = read_only_ && !own_copy_ ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const mapped = ::mmap(hint, bytes_, protection, sharing() | (hint != nullptr ? MAP_FIXED : 0), file_.fd(), 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    if (hint != nullptr) ::munmap(hint, reserved);
    return os_error("map " + std::to_string(bytes_) + " bytes of", path_, error);
  }
  data_ = static_cast<std::byte*>(mapped);
  static_cast<void>(::madvise(data_, bytes_, MADV_DONTFORK));  // the file is this process's alone
  // allocate() took huge pages where it could; on a tmpfs mounted with huge=advise files of others get them with time.
  if (kind_ == MediumKind::kTmpfs) static_cast<void>(::madvise(data_, bytes_, MADV_HUGEPAGE));
  return Status::OK();
}

}  // namespace bonsai::base
