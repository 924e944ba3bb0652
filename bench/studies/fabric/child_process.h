// SPDX-License-Identifier: Apache-2.0
// Another program, started and watched: its standard output and error are read together, it never outlives the object.
#ifndef BONSAI_BENCH_STUDIES_FABRIC_CHILD_PROCESS_H_
#define BONSAI_BENCH_STUDIES_FABRIC_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/nvm/os_file.h"
#include "bonsai/status.h"

namespace bonsai::bench {

// Thread-safety: one owner.
class ChildProcess {
 public:
  // Starts words[0], looked up in PATH, with the other words. Its standard input is empty. Errors: NotFound (there is
  // no such program), IoError.
  static Status start(const std::vector<std::string>& words, std::unique_ptr<ChildProcess>* child);
  // Kills it if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Reads what it printed until it has ended. Errors: Unavailable (it did not end within the bound), IoError (exit code
  // other than 0; the message has its last line).
  Status finish(uint64_t limit_ms, std::string* output);
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  ChildProcess(pid_t pid, base::OsFile output) : pid_(pid), output_(std::move(output)) {}
  bool ended(int* status);

  pid_t pid_;  // 0: it was reaped
  base::OsFile output_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_FABRIC_CHILD_PROCESS_H_
