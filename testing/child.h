// SPDX-License-Identifier: Apache-2.0
// A program that a test starts, watches and ends. The program never outlives this object.
#ifndef BONSAI_TESTING_CHILD_H_
#define BONSAI_TESTING_CHILD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/child_process.h"

namespace bonsai::testing {

class Child {
 public:
  // Starts words[0]; its output and errors go to the files `out` and `err` below `folder`.
  Child(const std::string& folder, const std::vector<std::string>& words);

  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;
  // Whether `text` appears in the program's output, within the bound and while it runs.
  bool prints(const std::string& text, uint64_t limit_ms = 30'000);
  void signal(int number);
  [[nodiscard]] int pid() const { return process_->pid(); }
  // Its exit code, or 128 + the signal that ended it, or -1 if it still runs after the bound.
  int wait(uint64_t limit_ms = 30'000);

 private:
  base::ChildStreams streams_;
  std::unique_ptr<base::ChildProcess> process_;
};

struct Ran {
  int exit_code = -1;
  std::string out, err;
};
// Runs a program to its end.
Ran run(const std::vector<std::string>& words);

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_CHILD_H_
