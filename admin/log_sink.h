// SPDX-License-Identifier: Apache-2.0
// The program's log: messages of the store (Options::log_sink) go to glog, and so to standard error.
#ifndef BONSAI_ADMIN_LOG_SINK_H_
#define BONSAI_ADMIN_LOG_SINK_H_

#include <string_view>

namespace bonsai::admin {

// Call it once, at the beginning of main().
void start_log(const char* program);

// Logs a message of severity 'I', 'W' or 'E'; others count as 'W'. Thread-safe.
void log_line(char severity, std::string_view message);

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_LOG_SINK_H_
