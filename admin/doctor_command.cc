// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string_view>

#include "admin/command.h"
#include "admin/doctor/probes.h"
#include "admin/doctor/report.h"
#include "admin/flags.h"
#include "admin/pool.h"

namespace bonsai::admin {
namespace {

constexpr std::string_view kNoPoolYet = "no pool yet";  // beginning of DescribeMedium()'s text about a node

// Whether this machine can use a target. A target that has an owner now counts as usable.
Finding examine_target(const std::string& target, const Options& options) {
  std::string text;
  const Status status = DescribeMedium(target, &text, options);
  Finding finding{.area = "pool", .name = target, .found = text, .remedy = "", .required = true};
  std::error_code ignored;
  const bool remote = is_remote(target);
  const bool missing = remote ? text.starts_with(kNoPoolYet) : !std::filesystem::exists(target, ignored);
  if (status.ok() && !missing) return finding;
  if (status.ok()) {
    finding.mark = Mark::kMissing;
    finding.found = remote ? text : std::string(kNoPoolYet) + "; it would be on " + text;
    finding.remedy = "to make it: bonsai create --pool=" + target + " --bytes=1G";
    return finding;
  }
  if (!status.IsBusy()) finding.mark = Mark::kMissing;
  finding.found = status.IsBusy() ? "it is in use" : "it cannot be reached";
  finding.remedy = status.message();
  return finding;
}

}  // namespace

Status run_doctor(const std::vector<std::string>&, ExitCode* exit) {
  const SysRoot root(FLAGS_root);
  if (!root.exists("/"))
    return Status::InvalidArgument("--root is " + FLAGS_root + ", which does not exist; name a folder");
  std::vector<Finding> findings = examine(root, read_cpu_flags());
  if (!FLAGS_pool.empty()) {
    Options options;
    if (Status status = options_from_flags(&options); !status.ok()) return status;
    for (const std::string& target : targets_of(FLAGS_pool)) findings.push_back(examine_target(target, options));
  }
  if (!can_run(findings)) *exit = kExitFailed;
  return print(FLAGS_json ? doctor_json(findings) : doctor_table(findings));
}

}  // namespace bonsai::admin
