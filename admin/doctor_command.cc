#include "admin/command.h"
#include "admin/doctor/probes.h"
#include "admin/doctor/report.h"
#include "admin/flags.h"

namespace bonsai::admin {

Status run_doctor(const std::vector<std::string>&, ExitCode* exit) {
  const SysRoot root(FLAGS_root);
  if (!root.exists("/"))
    return Status::InvalidArgument("--root is " + FLAGS_root + ", which does not exist; name a folder");
  const std::vector<Finding> findings = examine(root, read_cpu_flags());
  if (!can_run(findings)) *exit = kExitFailed;
  return print(FLAGS_json ? doctor_json(findings) : doctor_table(findings));
}

}  // namespace bonsai::admin
