// SPDX-License-Identifier: Apache-2.0
#include "admin/stop_signals.h"

#include <signal.h>

#include <atomic>

namespace bonsai::admin {
namespace {

std::atomic<int> noted{0}, received{0};
static_assert(std::atomic<int>::is_always_lock_free);  // they are set in a signal handler

void note(int signal) {
  if (received.fetch_add(1, std::memory_order_relaxed) < kStopSignalsNoted) {
    int none = 0;
    noted.compare_exchange_strong(none, signal, std::memory_order_relaxed);
    return;
  }
  static_cast<void>(::signal(signal, SIG_DFL));
  static_cast<void>(::raise(signal));  // delivered when this handler returns
}

}  // namespace

void watch_stop_signals() {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    struct sigaction before = {}, action = {};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    action.sa_handler = note;
    static_cast<void>(::sigaction(signal, &action, nullptr));
  }
}

int stop_signal() { return noted.load(std::memory_order_relaxed); }

void end_as_signalled() {
  const int signal = stop_signal();
  if (signal == 0) return;
  static_cast<void>(::signal(signal, SIG_DFL));
  static_cast<void>(::raise(signal));
}

}  // namespace bonsai::admin
