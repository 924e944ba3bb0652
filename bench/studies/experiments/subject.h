// SPDX-License-Identifier: Apache-2.0
// A loaded store on which teams work in turn, and parts that experiments with teams share.
#ifndef BONSAI_BENCH_STUDIES_EXPERIMENTS_SUBJECT_H_
#define BONSAI_BENCH_STUDIES_EXPERIMENTS_SUBJECT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/driver/team.h"
#include "bench/engines/bonsai.h"
#include "bench/studies/experiments/experiment.h"

namespace bonsai::bench {

// Time that a team works for one figure.
[[nodiscard]] uint64_t cell_ms(Scale scale);

// The log of an experiment: this many bytes per record. The default is just below a tenth of what records of 8 + 8
// bytes take in dnodes, the bound of docs/design.md, section 6.
[[nodiscard]] uint64_t log_bytes_for(uint64_t records, double bytes_per_record = 2.045);

// A share as text, such as "95 %".
[[nodiscard]] std::string percent(double share);

// Records are 8-byte keys, spread over the key space, and 8-byte values. Thread-safety: one owner.
class Subject {
 public:
  // Requires: the plan outlives it.
  Subject(const ExperimentPlan& plan, uint64_t records, std::unique_ptr<Engine> engine = make_bonsai_engine({}))
      : plan_(plan), records_(records), engine_(std::move(engine)) {}
  ~Subject() { static_cast<void>(engine_->close()); }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  // Opens and loads the store; *result, if not null, gets the medium. Errors: those of the store.
  Status load(ExperimentResult* result);

  // Runs the team plan.repeat times; *team is the run whose total work is the median. In *plan the caller sets
  // `members`, `samples_memory` and `zipfian`; run() sets the rest, but `ms` only if it is 0.
  Status run(TeamPlan* plan, TeamResult* team);

  // As run(); the result is millions of records per second of one part or two.
  Status rates(const std::vector<Member>& members, Role role, std::optional<double>* figure, Role other = Role::kGet,
               std::optional<double>* other_figure = nullptr);

  [[nodiscard]] Engine& engine() { return *engine_; }

 private:
  const ExperimentPlan& plan_;
  const uint64_t records_;
  const std::unique_ptr<Engine> engine_;
  bool updated_ = false;
  uint64_t cells_ = 0;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_EXPERIMENTS_SUBJECT_H_
