// SPDX-License-Identifier: Apache-2.0
// Lets files pass for DAX devices, for tests on machines without one.
//
// A test program that links devices.cc has its own stat, fstat, open and readlink in place of the library's, for itself
// and for the libraries that it uses. They answer for such a file as the kernel does for a device, in sysfs, too.
#ifndef BONSAI_BASE_NVM_TESTING_DEVICES_H_
#define BONSAI_BASE_NVM_TESTING_DEVICES_H_

#include <string>

namespace bonsai::testing {

// From now on the file is a device of its size, under all its names. Requires: it exists and stays; nobody uses it yet.
void make_device(const std::string& path);

}  // namespace bonsai::testing

#endif  // BONSAI_BASE_NVM_TESTING_DEVICES_H_
