// SPDX-License-Identifier: Apache-2.0
// Signals that request the end of the program (HUP, INT, QUIT, TERM), for commands that must undo something first. All
// other commands can end at any moment and leave nothing.
#ifndef BONSAI_ADMIN_STOP_SIGNALS_H_
#define BONSAI_ADMIN_STOP_SIGNALS_H_

namespace bonsai::admin {

// From now on the first such signal is recorded and does not end the process; waiting calls are interrupted (EINTR).
// The second signal ends the process. A signal that was ignored stays ignored.
void watch_stop_signals();

// The recorded signal; 0: none.
[[nodiscard]] int stop_signal();

// If a signal was recorded, ends the process as that signal would have, so that the shell sees the reason.
void end_as_signalled();

}  // namespace bonsai::admin

#endif  // BONSAI_ADMIN_STOP_SIGNALS_H_
