// SPDX-License-Identifier: Apache-2.0
#include "testing/child.h"

#include "base/check.h"
#include "base/testing/temp_folder.h"
#include "base/thread.h"
#include "testing/scratch.h"

namespace bonsai::testing {

Child::Child(const std::string& folder, const std::vector<std::string>& words)
    : streams_{.out = folder + "/out", .err = folder + "/err"} {
  BONSAI_CHECK(base::ChildProcess::start(words, streams_, &process_).ok());
}

std::string Child::out() const { return read_file(streams_.out); }
std::string Child::err() const { return read_file(streams_.err); }

bool Child::prints(const std::string& text, uint64_t limit_ms) {
  const auto printed = [&] { return (out() + err()).find(text) != std::string::npos; };
  for (base::BoundedWait wait("child.prints", limit_ms); !printed(); wait.pause()) {
    if (process_->ended() || wait.expired()) return printed();
  }
  return true;
}

void Child::signal(int number) { process_->signal(number); }

int Child::wait(uint64_t limit_ms) { return process_->wait(limit_ms).value_or(-1); }

Ran run(const std::vector<std::string>& words) {
  const ScratchFolder folder;
  Child child(folder.file(""), words);
  Ran ran;
  ran.exit_code = child.wait(60'000);
  ran.out = child.out();
  ran.err = child.err();
  return ran;
}

}  // namespace bonsai::testing
