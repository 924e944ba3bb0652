// SPDX-License-Identifier: Apache-2.0
// Shows on a terminal how much of a long job is done.
#ifndef BONSAI_ADMIN_PROGRESS_H_
#define BONSAI_ADMIN_PROGRESS_H_

#include <unistd.h>

#include <cstdio>

namespace bonsai::admin {

// Shows "what 42 %" on standard error if that is a terminal, and wipes it at the end.
class ProgressLine {
 public:
  explicit ProgressLine(const char* what) : what_(what) {}
  ~ProgressLine() {
    if (shown_ >= 0) std::fputs("\r\033[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(double done) {
    const int percent = static_cast<int>(done * 100);
    if (!on_terminal_ || percent == shown_) return;
    shown_ = percent;
    std::fprintf(stderr, "\r%s %d %%", what_, percent);
  }

 private:
  const char* const what_;
  const bool on_terminal_ = isatty(STDERR_FILENO) == 1;
  int shown_ = -1;
};

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_PROGRESS_H_
