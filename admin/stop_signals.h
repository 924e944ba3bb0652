// SPDX-License-Identifier: Apache-2.0
// Signals that ask the program to stop (HUP, INT, QUIT, TERM), for commands that have something to take back first. All
// other commands leave nothing if they end at any moment.
#ifndef BONSAI_ADMIN_STOP_SIGNALS_H_
#define BONSAI_ADMIN_STOP_SIGNALS_H_

namespace bonsai::admin {

// From now on the first such signal is noted instead of ending the process; calls that wait are interrupted (EINTR).
// The second one ends it. A signal that was ignored stays so.
void watch_stop_signals();

// The signal that was noted; 0: none.
[[nodiscard]] int stop_signal();

// Ends the process as the signal that was noted would have, if there is one: the shell sees why it has ended.
void end_as_signalled();

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_STOP_SIGNALS_H_
