// SPDX-License-Identifier: Apache-2.0
// The doctor's findings as a table for people and as JSON for programs.
#ifndef BONSAI_ADMIN_DOCTOR_REPORT_H_
#define BONSAI_ADMIN_DOCTOR_REPORT_H_

#include <string>
#include <vector>

#include "admin/doctor/probes.h"

namespace bonsai::admin {

const char* mark_name(Mark mark);  // "ok", "warn", "missing"

// Whether Bonsai can run: no required finding is missing.
bool can_run(const std::vector<Finding>& findings);

std::string doctor_table(const std::vector<Finding>& findings);
std::string doctor_json(const std::vector<Finding>& findings);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_DOCTOR_REPORT_H_
