// SPDX-License-Identifier: Apache-2.0
#include "admin/log_sink.h"

#include <glog/logging.h>

namespace bonsai::admin {

void start_log(const char* program) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(program);
}

void log_line(char severity, std::string_view message) {
  const int level = severity == 'I' ? google::GLOG_INFO : severity == 'E' ? google::GLOG_ERROR : google::GLOG_WARNING;
  google::LogMessage("store", 0, level).stream() << message;
}

}  // namespace bonsai::admin
