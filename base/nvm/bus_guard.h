// SPDX-License-Identifier: Apache-2.0
// Accesses to mapped files that somebody may cut short: what is not in the file any more raises SIGBUS, which ends the
// process. Here it ends the access alone.
//
// For programs that map files of several users; a library leaves the signals of its host alone.
//
// Thread-safety: all functions.
#ifndef BONSAI_BASE_NVM_BUS_GUARD_H_
#define BONSAI_BASE_NVM_BUS_GUARD_H_

#include <functional>

namespace bonsai::base {

// From now on SIGBUS that the kernel raises inside survive_bus_error() ends that access; any other goes to who took it
// before.
void catch_bus_errors();

// Runs access(). False: it met bytes that its file does not have, and was given up there. Requires: catch_bus_errors()
// was called; access() takes no locks and has nothing to destroy.
[[nodiscard]] bool survive_bus_error(const std::function<void()>& access);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_BUS_GUARD_H_
