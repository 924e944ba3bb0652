// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/experiments/subject.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "base/status_macros.h"

namespace bonsai::bench {

uint64_t cell_ms(Scale scale) { return scale == Scale::kPaper ? 5'000 : scale == Scale::kSmall ? 250 : 5; }

uint64_t log_bytes_for(uint64_t records, double bytes_per_record) {
  constexpr uint64_t kLogBytesMin = uint64_t{1} << 14;
  return std::max(kLogBytesMin, static_cast<uint64_t>(static_cast<double>(records) * bytes_per_record));
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

Status Subject::load(ExperimentResult* result) {
  EngineOptions options;
  options.records_max = 2 * records_;
  options.pool_dir = plan_.config.pool_dir;
  options.out_dir = plan_.config.out_dir;
  BONSAI_RETURN_IF_ERROR(engine_->open(options));
  if (result != nullptr) result->medium = engine_->medium();
  plan_.listener.on_phase("store", "load " + std::to_string(records_), records_);
  return load_for_team(engine_.get(), options.shape, records_, plan_.threads_max, *plan_.stop);
}

Status Subject::run(TeamPlan* plan, TeamResult* team) {
  plan_.listener.on_phase("store", std::to_string(plan->members.size()) + " threads on " + std::to_string(records_), 0);
  plan->records = records_;
  plan->all_loaded = !updated_;
  if (plan->ms == 0) plan->ms = cell_ms(plan_.scale);
  plan->seed = plan_.config.seed + ++cells_;
  plan->stop = plan_.stop;
  std::multimap<double, TeamResult> by_work;
  for (unsigned i = 0; i < plan_.repeat; ++i) {
    TeamResult one;
    BONSAI_RETURN_IF_ERROR(run_team(engine_.get(), *plan, &one));
    double records = 0;
    for (const uint64_t each : one.records) records += static_cast<double>(each);
    by_work.emplace(records / one.seconds, std::move(one));
  }
  for (const Member& member : plan->members) updated_ |= member.role == Role::kPut;
  auto middle = by_work.begin();
  std::advance(middle, by_work.size() / 2);
  *team = std::move(middle->second);
  return Status::OK();
}

Status Subject::rates(const std::vector<Member>& members, Role role, std::optional<double>* figure, Role other,
                      std::optional<double>* other_figure) {
  TeamPlan plan;
  plan.members = members;
  TeamResult team;
  BONSAI_RETURN_IF_ERROR(run(&plan, &team));
  *figure = team.records_m_per_s(plan, role);
  if (other_figure != nullptr) *other_figure = team.records_m_per_s(plan, other);
  return Status::OK();
}

}  // namespace bonsai::bench
