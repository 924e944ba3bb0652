// SPDX-License-Identifier: Apache-2.0
// Reports that the headers need C++20, before an older compiler mode prints other errors. For C there is bonsai/c.h.
#ifndef BONSAI_CXX20_H_
#define BONSAI_CXX20_H_

#if __cplusplus < 202002L
#error "Bonsai's headers need C++20: compile with -std=c++20, or use the C interface, bonsai/c.h"
#endif

#endif  // BONSAI_CXX20_H_
