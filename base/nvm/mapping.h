// SPDX-License-Identifier: Apache-2.0
// A file or device mapped as one NVM target.
#ifndef BONSAI_BASE_NVM_MAPPING_H_
#define BONSAI_BASE_NVM_MAPPING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/nvm/medium_kind.h"
#include "base/nvm/os_file.h"
#include "bonsai/options.h"
#include "bonsai/status.h"

namespace bonsai::base {

inline constexpr uint64_t kMappingBytesMin = 4096;

// Whether a file that begins with these bytes is one whose creation has not ended: its first word is the mark, and all
// given bytes after the first page are zeros. The creator replaces the mark by one atomic store, as the last step on
// the first page and before it writes the following pages. False for less than two pages.
bool is_marked(std::span<const std::byte> first_bytes, uint64_t mark);

struct MappingOptions {
  // 0: the file must exist and is mapped whole. Else the file must not exist; it is made with this size (hugetlb:
  // rounded up to whole pages) and zeros, its space is allocated at once, and it is removed again if anything fails. A
  // DAX device always exists: it is mapped whole and must have at least this size, unless that is kPoolBytesDefault;
  // its old content stays.
  uint64_t create_bytes = 0;
  // The first word of a new file from the moment at which it has a name (where the file system lets files be made
  // before they are named, and written: hugetlbfs does not), so that what an interrupted creation left is known.
  uint64_t create_mark = 0;
  // A new file has no name until take_name(), so that nothing is left of it if its process ends before. Where files
  // cannot be made without a name (hugetlbfs), it has one of its own, as PATH.PID.0.partial.
  bool name_later = false;
  // Not 0: an existing regular file that is smaller is enlarged to this size (hugetlb: to whole pages), its space
  // allocated at once; it keeps its size if that fails. Not together with create_bytes or read_only.
  uint64_t grow_bytes = 0;
  // Not negative: the file, open already under a descriptor of this process, instead of another open of its path. A
  // lock that this open file has is kept. Not together with create_bytes.
  int open_file = -1;
  bool read_only = false;
  // With read_only: this process may write to the mapped bytes, which changes copies of their pages in its memory and
  // never the file. Until then it sees the file's. Not of a DAX device, which the kernel maps shared only.
  bool own_copy = false;
  // Takes the file's advisory lock for as long as it is mapped: exclusive, or shared with other readers for read_only.
  bool lock = true;
  // Other processes get descriptors of the open file: the lock then lasts until none has it open or mapped.
  bool leave_lock = false;
  PersistenceDomain domain = PersistenceDomain::kAuto;  // as declared by the operator
};

// Guarantees: [data(), data() + bytes()) is mapped while the object lives, shared with the file (unless own_copy), at a
// multiple of 2 MiB when it is that large; in this process alone, not in children that it forks. Files created or
// enlarged on tmpfs have huge pages if the kernel gives them. Thread-safety: const members from any thread.
class Mapping {
 public:
  // Errors, each naming the path and the remedy; *mapping stays unchanged and no existing file is touched:
  //   IoError          missing, not permitted, a directory, mmap refused
  //   InvalidArgument  create_bytes or grow_bytes out of range or together with read_only, empty path
  //   NoSpace          the file system, quota or file size limit has no room for create_bytes, grow_bytes, or the
  //                    holes of a sparse copy, which are filled
  //   Busy             the lock is held by another opener; exists though it was to be created
  //   Corruption       existing, but smaller than kMappingBytesMin
  //   NotSupported     not something that can be mapped as a pool; own_copy of a DAX device
  static Status open(const std::string& path, const MappingOptions& options, std::unique_ptr<Mapping>* mapping);

  // Memory of the process instead of a file, all zeros; `name` is its path in messages. Errors: NoSpace.
  static Status make_in_memory(const std::string& name, uint64_t bytes, std::unique_ptr<Mapping>* mapping);

  // Gives a file that was made with name_later its name, path(), durably. Nothing to do for others. After an error it
  // does not have that name. Errors: Busy (the name is taken), IoError.
  Status take_name();
  // Removes the file's name, if it has one; a device and memory stay. The bytes stay mapped. Errors: as remove_name().
  Status remove();

  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Writes a plain file's pages to disk; other kinds have nothing to do. The destructor does it too, ignoring errors.
  // Errors: IoError.
  Status sync();

  // Gives a file that grow_bytes has enlarged its former size. Requires: the added bytes are not used, now or later.
  // Errors: IoError; the file has the larger size then.
  Status shrink_back();
  // Whether grow_bytes has enlarged the file, and shrink_back() was not called.
  [[nodiscard]] bool enlarged() const { return bytes_before_ < bytes_; }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] MediumKind kind() const { return kind_; }
  [[nodiscard]] bool emulated() const { return is_emulated(kind_); }
  [[nodiscard]] PersistenceDomain domain() const { return domain_; }  // never kAuto
  [[nodiscard]] bool read_only() const { return read_only_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return file_.fd(); }
  [[nodiscard]] std::string text() const { return describe_medium(kind_, domain_); }

 private:
  Mapping(std::string path, const MappingOptions& options);

  Status open_file(const MappingOptions& options);
  Status create_file(const MappingOptions& options);
  [[nodiscard]] bool create_unnamed(const MappingOptions& options);
  Status prepare(const MappingOptions& options);
  Status take_lock();
  Status find_bytes(uint64_t create_bytes);
  Status allocate(size_t old_bytes);
  [[nodiscard]] Status settle_cache() const;
  Status fill_holes();
  Status grow(uint64_t grow_bytes);
  Status keep_name();
  [[nodiscard]] int sharing() const;
  Status map();
  void undo_opening();

  const pid_t owner_;  // the process
  std::string path_;
  std::string name_;  // that the file has; empty: none
  bool read_only_;
  bool own_copy_;
  bool created_ = false;
  OsFile file_;
  MediumKind kind_ = MediumKind::kFile;
  PersistenceDomain domain_ = PersistenceDomain::kAdr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  size_t bytes_before_ = SIZE_MAX;  // it was enlarged
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_MAPPING_H_
