// SPDX-License-Identifier: Apache-2.0
// A program that a test starts, watches and ends. The program never outlives this object.
#ifndef BONSAI_BONSAID_TESTING_CHILD_H_
#define BONSAI_BONSAID_TESTING_CHILD_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace bonsai::bonsaid {

class Child {
 public:
  // Starts words[0]; its output and errors go to the files `out` and `err` below `folder`.
  Child(const std::string& folder, const std::vector<std::string>& words);
  ~Child();  // kills it
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;
  // Whether `text` appears in the program's output, within the bound and while it runs.
  bool prints(const std::string& text, uint64_t limit_ms = 30'000);
  void signal(int number);
  // Its exit code, or 128 + the signal that ended it, or -1 if it still runs after the bound.
  int wait(uint64_t limit_ms = 30'000);

 private:
  bool reap();

  std::string out_path_, err_path_;
  pid_t pid_ = 0;
  bool ended_ = false;
  int exit_code_ = -1;
};

struct Ran {
  int exit_code = -1;
  std::string out, err;
};
// Runs a program to its end.
Ran run(const std::vector<std::string>& words);

}  // namespace bonsai::bonsaid

#endif  // BONSAI_BONSAID_TESTING_CHILD_H_
