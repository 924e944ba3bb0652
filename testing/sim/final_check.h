// SPDX-License-Identifier: Apache-2.0
// The examination of a simulated pool at the end of a life.
#ifndef BONSAI_TESTING_SIM_FINAL_CHECK_H_
#define BONSAI_TESTING_SIM_FINAL_CHECK_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "testing/scratch.h"

namespace bonsai::testing::sim {

// Checks the pool whose targets have these durable bytes. `image`: those of target i. Returns what is wrong, or
// nothing.
std::string check_images(const ScratchFolder& scratch, size_t targets,
                         const std::function<std::span<const std::byte>(size_t)>& image);

}  // namespace bonsai::testing::sim

#endif  // BONSAI_TESTING_SIM_FINAL_CHECK_H_
