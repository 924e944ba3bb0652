// SPDX-License-Identifier: Apache-2.0
#include "admin/doctor/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace bonsai::admin {
namespace {

const std::vector<Finding> kFindings = {
    {"cpu", "flush instruction", Mark::kOk, "clwb", "", true},
    {"memory", "huge pages", Mark::kWarn, "0 reserved", "sysctl", false},
    {"energy", "energy counters", Mark::kMissing, "none", "cannot be repaired here", false},
};

TEST(DoctorReport, TableHasALinePerFindingAndRemedy) {
  EXPECT_EQ(doctor_table(kFindings),
            "ok       cpu     flush instruction       clwb\n"
            "warn     memory  huge pages              0 reserved\n"
            "         -> sysctl\n"
            "missing  energy  energy counters         none\n"
            "         -> cannot be repaired here\n"
            "\n1 ok, 1 warn, 1 missing. Bonsai can run here.\n");
}

TEST(DoctorReport, OnlyRequiredThingsStopBonsai) {
  EXPECT_TRUE(can_run(kFindings));
  std::vector<Finding> findings = kFindings;
  findings[2].required = true;
  EXPECT_FALSE(can_run(findings));
  EXPECT_NE(doctor_table(findings).find("cannot run here"), std::string::npos);
}

TEST(DoctorReport, JsonSaysTheSame) {
  const auto json = nlohmann::json::parse(doctor_json(kFindings));
  EXPECT_EQ(json["can_run"], true);
  EXPECT_EQ(json["ok"], 1);
  EXPECT_EQ(json["findings"].size(), 3u);
  EXPECT_EQ(json["findings"][1]["mark"], "warn");
  EXPECT_EQ(json["findings"][1]["remedy"], "sysctl");
}

}  // namespace
}  // namespace bonsai::admin
