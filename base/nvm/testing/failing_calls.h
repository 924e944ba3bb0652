// SPDX-License-Identifier: Apache-2.0
// Lets system calls on files fail, one at a time: for tests of what an operation leaves when any of its calls fails.
//
// A test program that links failing_calls.cc has its own open, stat, lstat, fstat, ftruncate, truncate,
// posix_fallocate, mmap (of files), msync, fsync, flock, pwrite, link, linkat, rename, renameat2, unlink and remove, in
// place of the library's, for itself and for the libraries that it uses. They do the same, until a test lets one fail.
#ifndef BONSAI_BASE_NVM_TESTING_FAILING_CALLS_H_
#define BONSAI_BASE_NVM_TESTING_FAILING_CALLS_H_

#include <cstdint>
#include <string>

namespace bonsai::testing {

// From now on the calls of all threads on files below `folder` are counted, and every msync; the n-th one fails:
// nothing is done, errno says EIO (of calls that take space ENOSPC). n = 0: none fails. One test at a time.
void fail_call(const std::string& folder, uint64_t n);
// Ends that. Returns how many calls there were; *failed, if there is one, gets the name of the call that failed.
uint64_t end_failing(std::string* failed = nullptr);

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_NVM_TESTING_FAILING_CALLS_H_
