// SPDX-License-Identifier: Apache-2.0
// Hosts that are hostile to a store: environments in which a process may run. Each is imposed on a child of a test.
#ifndef BONSAI_TESTING_HOSTILE_H_
#define BONSAI_TESTING_HOSTILE_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bonsai::testing {

struct Hostility {
  std::string name;
  // In the child. False: this machine or user cannot be made so.
  std::function<bool()> impose;
};

// Each subset of the descriptors 0 to 2 closed.
std::vector<Hostility> closed_descriptors();
// Few descriptors, threads, bytes of files, locked memory and address space; an unprivileged user without a further
// process. Under a sanitizer the limits that it cannot work with are left out.
std::vector<Hostility> tight_limits();
// The address space that the child may take in addition. Not imposed under sanitizers.
Hostility more_address_space(uint64_t bytes);

// How a child ended: "" for exit code 0, else in words.
std::string wait_for(pid_t child);

// Runs `body` in a child in which `hostility` was imposed, and returns how it ended: "" when `body` returned true;
// "not imposed" when the machine cannot.
std::string in_hostile_child(const Hostility& hostility, const std::function<bool()>& body);

// The user without privileges, to whom such a child's files must belong.
inline constexpr uid_t kNobody = 65534;

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_HOSTILE_H_
