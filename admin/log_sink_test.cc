// SPDX-License-Identifier: Apache-2.0
// Messages of the store reach standard error through glog, with their severity.
#include "admin/log_sink.h"

#include <gtest/gtest.h>

#include <string>

namespace bonsai::admin {
namespace {

std::string logged(char severity, const char* message) {
  testing::internal::CaptureStderr();
  log_line(severity, message);
  std::string text = testing::internal::GetCapturedStderr();
  // glog prints once that it was not initialised.
  return text.starts_with("WARNING: Logging before") ? text.substr(text.find('\n') + 1) : text;
}

TEST(LogSink, WritesSeverityAndMessage) {
  for (const char severity : {'I', 'W', 'E'}) {
    const std::string text = logged(severity, "offloading: no space");
    EXPECT_EQ(text.substr(0, 1), std::string(1, severity)) << text;
    EXPECT_NE(text.find("offloading: no space\n"), std::string::npos) << text;
  }
}

TEST(LogSink, WhatHasNoKnownSeverityIsAWarning) { EXPECT_EQ(logged('F', "x").substr(0, 1), "W"); }

TEST(LogSink, AMessageOfNothingIsALine) { EXPECT_TRUE(logged('I', "").ends_with("] \n")); }

}  // namespace
}  // namespace bonsai::admin
