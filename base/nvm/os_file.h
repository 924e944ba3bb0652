// SPDX-License-Identifier: Apache-2.0
// Files of the operating system: failed calls as statuses that state a remedy, limits, and removal of unused files.
#ifndef BONSAI_BASE_NVM_OS_FILE_H_
#define BONSAI_BASE_NVM_OS_FILE_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "base/nvm/descriptor.h"
#include "bonsai/status.h"

namespace bonsai::base {

// The status of a system call on `path` that failed with `error` (an errno value). `what` reads like "open".
// Codes: NoSpace for full file systems, quotas and file size limits, else IoError.
Status os_error(const std::string& what, const std::string& path, int error);

// The directory that holds `path`; "." for a bare name.
std::string directory_of(const std::string& path);

// Whether `path` itself, not what a link there points to, is a name of the open file.
bool is_name_of(const std::string& path, int fd);

// Removes the name `path` of the open file. If it is a symbolic link, what it points to is removed first. Looks at what
// has that name immediately before: another file stays. Errors: IoError (no name of that file, not permitted).
Status remove_name(const std::string& path, int fd);

// Renames the open file from `from` to `to`, or names it `to` if `from` is empty and it has no name (O_TMPFILE). Never
// replaces a file. Errors: Busy (`to` exists, if only as a link), IoError.
Status give_name(int fd, const std::string& from, const std::string& to);

// Removes a regular file that no mapping has locked, if `judge` accepts its first n bytes; a file that is shorter,
// but not empty, is judged as if zeros followed. False: it is still there.
bool remove_unused(const std::string& path, size_t n, const std::function<bool(std::span<const std::byte>)>& judge);

// Whether a file of `bytes` is within the limit of file sizes (ulimit -f). To write or enlarge one beyond it would end
// the process (SIGXFSZ).
[[nodiscard]] bool fits_file_size_limit(uint64_t bytes);

// Makes the names in the directory that holds `path` durable. Errors: IoError.
Status sync_directory_of(const std::string& path);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_OS_FILE_H_
