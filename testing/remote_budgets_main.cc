// SPDX-License-Identifier: Apache-2.0
// Counts what a store asks of the node that serves POOL, which is made and removed, through the public interface only.
//   remote_budgets POOL    prints a line for each operation; exit code 1 if a budget is exceeded, or why it cannot
//   count
#include <cstdio>
#include <memory>
#include <vector>

#include "testing/remote_budgets.h"

namespace {

bonsai::Status count(const char* pool, std::vector<bonsai::testing::BudgetRow>* rows) {
  bonsai::Options options = bonsai::testing::budget_options();
  options.create_if_missing = options.error_if_exists = true;
  std::unique_ptr<bonsai::DB> db;
  bonsai::Status status = bonsai::DB::Open(options, pool, &db);
  if (status.ok())
    status = bonsai::testing::count_remote_budgets(
        db.get(), [&] { return bonsai::testing::asked_by(db.get()); }, rows);
  db.reset();
  if (status.ok()) status = bonsai::Remove(pool);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: remote_budgets POOL\n");
    return 2;
  }
  std::vector<bonsai::testing::BudgetRow> rows;
  const bonsai::Status status = count(argv[1], &rows);
  bool kept = status.ok();
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  for (const bonsai::testing::BudgetRow& row : rows) {
    std::printf("%s\n", row.text().c_str());
    kept = kept && row.kept();
  }
  return kept ? 0 : 1;
}
