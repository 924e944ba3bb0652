// SPDX-License-Identifier: Apache-2.0
// Accesses to mapped files that another process may shorten. An access past the new end of the file raises SIGBUS,
// which would end the process. Here it ends the access alone.
//
// For programs that map files of several users. The library never uses it, because signals belong to the host program.
//
// Thread-safety: all functions.
#ifndef BONSAI_BASE_NVM_BUS_GUARD_H_
#define BONSAI_BASE_NVM_BUS_GUARD_H_

#include <functional>

namespace bonsai::base {

// Installs the handler. From now on a SIGBUS that the kernel raises inside survive_bus_error() ends that access; any
// other goes to the handler installed before.
void catch_bus_errors();

// Runs access(). False: it accessed bytes that the file no longer has, and was ended at that point. Requires:
// catch_bus_errors() was called; access() takes no locks and has nothing to destroy.
[[nodiscard]] bool survive_bus_error(const std::function<void()>& access);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_BUS_GUARD_H_
