// SPDX-License-Identifier: Apache-2.0
// plan: what a pool for a workload needs.
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "admin/command.h"
#include "admin/flags.h"
#include "admin/plan.h"
#include "admin/text.h"

namespace bonsai::admin {
namespace {

uint64_t whole(double bytes) { return static_cast<uint64_t>(bytes); }

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  const bool few = seconds < 10;
  static_cast<void>(std::snprintf(text.data(), text.size(), few ? "%.1f s" : "%.0f s", seconds));
  return text.data();
}

std::string create_command(const Plan& plan) {
  return "bonsai create --pool=PATH" + std::string(FLAGS_targets > 1 ? "[,PATH...]" : "") +
         " --bytes=" + std::to_string(whole(plan.target) >> 20) + "M" + (FLAGS_key_bytes == 8 ? " [--key=fixed8]" : "");
}

std::string plan_table(const Workload& workload, const Plan& plan) {
  const auto records = static_cast<double>(workload.records);
  std::string text = row("records", std::to_string(workload.records) + " of " + std::to_string(workload.key_bytes) +
                                        " + " + std::to_string(workload.value_bytes) + " bytes" +
                                        (workload.sizes_differ ? " on average" : "")) +
                     row("NVM, records", human_size(whole(plan.records)) + ", " +
                                             std::to_string(whole(plan.records / records)) + " bytes a record") +
                     row("NVM, data area", human_size(whole(plan.data)) + ", of it free at rest " +
                                               human_size(whole(plan.data - plan.records))) +
                     row("NVM, log", human_size(whole(plan.log))) +
                     row("NVM, each target",
                         human_size(whole(plan.target)) + ", " + count_of(workload.targets, "target") +
                             (workload.members > 1 ? " on " + std::to_string(workload.members) + " nodes each" : "")) +
                     row("DRAM, at rest", "at most " + human_size(whole(plan.dram_settled))) +
                     row("DRAM, updating", "at most " + human_size(whole(plan.dram_most)));
  if (workload.updates_per_second != 0) {
    text += row("log lasts", seconds_text(plan.log_seconds) + " of updates, " + std::to_string(whole(plan.log_record)) +
                                 " bytes each") +
            row("NVM writes", human_size(whole(plan.nvm_per_second)) + " a second, " +
                                  std::to_string(whole(plan.update)) + " bytes an update on each member");
  }
  text += row("network, a get", human_size(whole(plan.network_per_get)) + ", if targets are remote");
  if (workload.updates_per_second != 0) {
    text += row("network, updates", human_size(whole(plan.nvm_per_second)) + " a second, if targets are remote");
  }
  return text + row("make it", create_command(plan));
}

std::string plan_json(const Workload& workload, const Plan& plan) {
  const nlohmann::ordered_json json = {{"records", workload.records},
                                       {"record_bytes", whole(plan.entry)},
                                       {"records_bytes", whole(plan.records)},
                                       {"data_bytes", whole(plan.data)},
                                       {"log_bytes", whole(plan.log)},
                                       {"target_bytes", whole(plan.target)},
                                       {"targets", workload.targets},
                                       {"members", workload.members},
                                       {"dram_bytes_settled", whole(plan.dram_settled)},
                                       {"dram_bytes_max", whole(plan.dram_most)},
                                       {"log_record_bytes", whole(plan.log_record)},
                                       {"log_seconds", plan.log_seconds},
                                       {"update_bytes", whole(plan.update)},
                                       {"written_bytes_per_second", whole(plan.nvm_per_second)},
                                       {"network_bytes_per_get", whole(plan.network_per_get)}};
  return json.dump(2) + "\n";
}

}  // namespace

Status run_plan(const std::vector<std::string>&, ExitCode*) {
  if (!flag_given("records")) {
    return Status::InvalidArgument("say how many records, e.g. bonsai plan --records=1000000 --value_bytes=100");
  }
  const Workload workload{.records = FLAGS_records,
                          .key_bytes = FLAGS_key_bytes,
                          .value_bytes = FLAGS_value_bytes,
                          .sizes_differ = FLAGS_sizes_differ,
                          .updates_per_second = FLAGS_updates_per_second,
                          .targets = FLAGS_targets,
                          .members = FLAGS_members};
  Plan plan;
  if (Status status = make_plan(workload, &plan); !status.ok()) return status;
  return print(FLAGS_json ? plan_json(workload, plan) : plan_table(workload, plan));
}

}  // namespace bonsai::admin
