// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/bus_guard.h"

#include <setjmp.h>
#include <signal.h>

#include <mutex>

namespace bonsai::base {
namespace {

constinit thread_local sigjmp_buf* volatile armed = nullptr;  // the jump target that ends the thread's access
struct sigaction before = {};                                 // the handler installed before

void on_bus_error(int signal, siginfo_t* info, void* context) {
  sigjmp_buf* const jump = armed;
  if (jump != nullptr && info->si_code > 0) siglongjmp(*jump, 1);  // > 0: raised by the kernel
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // the access is repeated, and ends the process
}

}  // namespace

void catch_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;  // not blocked inside, so that the jump has no mask to restore
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &before);
  });
}

bool survive_bus_error(const std::function<void()>& access) {
  sigjmp_buf jump;
  if (sigsetjmp(jump, 0) != 0) {
    armed = nullptr;
    return false;
  }
  armed = &jump;
  access();
  armed = nullptr;
  return true;
}

}  // namespace bonsai::base
