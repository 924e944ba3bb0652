// SPDX-License-Identifier: Apache-2.0
#include "admin/testing/run_program.h"

#include <memory>

#include "base/check.h"
#include "base/child_process.h"
#include "base/testing/temp_folder.h"

namespace bonsai::admin {
namespace {

ProgramResult run(const std::vector<std::string>& arguments, const std::string& in, const std::string& out_path) {
  const testing::TempFolder folder;
  const std::string in_path = folder.write("in", in), err_path = folder.file("err");
  std::vector<std::string> words = {BONSAI_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const base::ChildStreams streams{in_path, out_path.empty() ? folder.file("out") : out_path, err_path};
  std::unique_ptr<base::ChildProcess> child;
  BONSAI_CHECK(base::ChildProcess::start(words, streams, &child).ok());
  ProgramResult result;
  result.exit_code = child->wait(kProgramSecondsMax * 1'000).value_or(-1);
  if (out_path.empty()) result.out = testing::read_file(streams.out);
  result.err = testing::read_file(err_path);
  return result;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& in) {
  return run(arguments, in, "");
}

ProgramResult run_program_into(const std::string& out_path, const std::vector<std::string>& arguments) {
  return run(arguments, "", out_path);
}

}  // namespace bonsai::admin
