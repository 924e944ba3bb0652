// SPDX-License-Identifier: Apache-2.0
// Says which language the headers are in, before an older one stumbles over them. For C there is bonsai/c.h.
#ifndef BONSAI_CXX20_H_
#define BONSAI_CXX20_H_

#if __cplusplus < 202002L
#error "Bonsai's headers need C++20: compile with -std=c++20, or use the C interface, bonsai/c.h"
#endif

#endif  // BONSAI_CXX20_H_
