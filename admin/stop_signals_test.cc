// SPDX-License-Identifier: Apache-2.0
#include "admin/stop_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace bonsai::admin {
namespace {

// Ends with 1 if a signal that is to be recorded is not.
void receive(int signals) {
  watch_stop_signals();
  for (int i = 0; i < signals; ++i) {
    ::raise(i == 0 ? SIGHUP : SIGTERM);
    if (stop_signal() != SIGHUP) ::_exit(1);
  }
  end_as_signalled();
}

TEST(StopSignals, TheFirstTwoAreRecordedAndTheFirstIsTheReason) {
  EXPECT_EXIT(receive(1), ::testing::KilledBySignal(SIGHUP), "");
  EXPECT_EXIT(receive(kStopSignalsNoted), ::testing::KilledBySignal(SIGHUP), "");
}

TEST(StopSignals, TheNextEndsTheProcess) {
  EXPECT_EXIT(receive(kStopSignalsNoted + 1), ::testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignals, WithoutOneNothingEnds) {
  EXPECT_EXIT(
      {
        receive(0);
        ::_exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace bonsai::admin
