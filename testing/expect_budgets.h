// SPDX-License-Identifier: Apache-2.0
// The expectation that all tests of budgets share.
#ifndef BONSAI_TESTING_EXPECT_BUDGETS_H_
#define BONSAI_TESTING_EXPECT_BUDGETS_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "base/testing/figures.h"
#include "testing/remote_budgets.h"

namespace bonsai::testing {

// Expects that all operations were counted and that each keeps its budget; prints them.
inline void expect_kept(const std::vector<BudgetRow>& rows) {
  for (const BudgetRow& row : rows) {
    std::printf("%s\n", row.text().c_str());
    EXPECT_TRUE(row.kept()) << row.text();
    add_figure("verb_budgets", 1);
  }
  EXPECT_EQ(rows.size(), 9U);
}

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_EXPECT_BUDGETS_H_
