// SPDX-License-Identifier: Apache-2.0
// The program's log: what the store reports (Options::log_sink) goes to glog, and so to standard error.
#ifndef BONSAI_ADMIN_LOG_SINK_H_
#define BONSAI_ADMIN_LOG_SINK_H_

#include <string_view>

namespace bonsai::admin {

// To be called once, first thing in main().
void start_log(const char* program);

// One message of severity 'I', 'W' or 'E'; others count as 'W'. Thread-safe.
void log_line(char severity, std::string_view message);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_LOG_SINK_H_
