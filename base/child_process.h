// SPDX-License-Identifier: Apache-2.0
// Starts another program and watches it. The program never outlives the object.
#ifndef BONSAI_BASE_CHILD_PROCESS_H_
#define BONSAI_BASE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::base {

// Paths of the files that serve as standard streams. The files that are written to are created or emptied first.
struct ChildStreams {
  std::string in = "/dev/null";
  std::string out;
  std::string err = {};  // empty: standard error goes to `out` too, in the order of writing
};

// Thread-safety: one owner.
class ChildProcess {
 public:
  // Starts words[0], looked up in PATH, with the other words as its arguments.
  // Errors: NotFound (no such program, or no such file for its input), IoError.
  static Status start(const std::vector<std::string>& words, const ChildStreams& streams,
                      std::unique_ptr<ChildProcess>* child);
  // Kills the program if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] bool ended();
  // Returns the exit code, or 128 + the signal that ended the program; nothing if it still runs after `limit_ms`.
  [[nodiscard]] std::optional<int> wait(uint64_t limit_ms);
  // Sends a signal. Does nothing if the program has ended. After SIGSTOP no thread of the program runs any more, unless
  // it has not stopped within ten seconds.
  void signal(int number);
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  const pid_t pid_;
  std::optional<int> exit_code_;  // set when the program was reaped; pid_ may belong to another process from then on
};

}  // namespace bonsai::base

#endif  // BONSAI_BASE_CHILD_PROCESS_H_
