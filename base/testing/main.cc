// SPDX-License-Identifier: Apache-2.0
// The main function of the test programs: GoogleTest's own, and a program that crashes prints where.
#include <absl/debugging/failure_signal_handler.h>
#include <absl/debugging/symbolize.h>
#include <gtest/gtest.h>

#include <csignal>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their runtimes print the stack themselves
  absl::InitializeSymbolizer(argv[0]);
  absl::InstallFailureSignalHandler(absl::FailureSignalHandlerOptions());
  // An abort has printed its reason already, and tests end their children by SIGTERM.
  std::signal(SIGABRT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
#endif
  return RUN_ALL_TESTS();
}
