// SPDX-License-Identifier: Apache-2.0
// Signals that request the end of the program (HUP, INT, QUIT, TERM), for commands that must undo something first. All
// other commands can end at any moment and leave nothing.
#ifndef BONSAI_ADMIN_STOP_SIGNALS_H_
#define BONSAI_ADMIN_STOP_SIGNALS_H_

namespace bonsai::admin {

// From now on the first such signals are recorded and do not end the process; waiting calls are interrupted (EINTR).
// Further signals end the process. A signal that was ignored stays ignored.
void watch_stop_signals();

// One stop may come as two signals: timeout(1) and service managers send it to the process and to its group.
inline constexpr int kStopSignalsNoted = 2;

// The first recorded signal; 0: none.
[[nodiscard]] int stop_signal();

// If a signal was recorded, ends the process as that signal would have, so that the shell sees the reason.
void end_as_signalled();

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_STOP_SIGNALS_H_
