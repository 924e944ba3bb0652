// SPDX-License-Identifier: Apache-2.0
#include "bench/driver/apart.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "base/nvm/os_file.h"
#include "base/thread.h"
#include "base/wire_status.h"

namespace bonsai::bench {
namespace {

// Format of the pipe's data: frames of a kind, a length, and that many bytes.
enum class Kind : uint64_t { kMessage, kStatus };
struct Head {
  Kind kind;
  uint64_t bytes;
};

constexpr int kLookMs = 100;  // polling period of `stop`, which causes no wake-up

// The program's end of the pipe has gone when this fails; the child then gets SIGTERM.
void write_all(int fd, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd, at, bytes);
    if (written < 0 && errno != EINTR) return;
    if (written <= 0) continue;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

void send_frame(int fd, Kind kind, std::string_view bytes) {
  const Head head{kind, bytes.size()};
  write_all(fd, &head, sizeof head);
  write_all(fd, bytes.data(), bytes.size());
}

std::string frame_of(const Status& status) {
  return static_cast<char>('0' + static_cast<int>(status.code())) + std::string(status.message());
}

Status status_of(std::string_view frame) {
  const int code = frame.empty() ? -1 : frame[0] - '0';
  if (code < 0 || code > static_cast<int>(Status::Code::kConditionFailed)) {
    return Status::Unavailable("its child process sent no status");
  }
  if (code == static_cast<int>(Status::Code::kOk)) return Status::OK();
  return base::status_from_wire(code, std::string(frame.substr(1)));
}

[[noreturn]] void be_child(const std::function<Status(const Send& send)>& work, int fd, pid_t parent) {
  ::signal(SIGPIPE, SIG_IGN);  // the program's end comes as SIGTERM
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::raise(SIGTERM);
  const Status status = work([fd](std::string_view message) { send_frame(fd, Kind::kMessage, message); });
  std::fflush(nullptr);
  send_frame(fd, Kind::kStatus, frame_of(status));
  ::_exit(0);
}

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

// The program's side.
class Child {
 public:
  Child(pid_t pid, int fd, const Receive& receive, const std::atomic<bool>& stop)
      : pid_(pid), fd_(fd), receive_(receive), stop_(stop) {}

  Status wait() {
    while (why_killed_.ok() && read_some()) take_frames();
    if (!why_killed_.ok()) ::kill(pid_, SIGKILL);
    int how = 0;
    while (::waitpid(pid_, &how, 0) < 0 && errno == EINTR) continue;  // its pipe has ended: so has it, or does now
    if (!why_killed_.ok()) return why_killed_;
    if (WIFSIGNALED(how)) return Status::Unavailable("its process ended by " + signal_text(WTERMSIG(how)));
    if (!has_ended_) return Status::Unavailable("its process ended with code " + std::to_string(WEXITSTATUS(how)));
    return stop_ && ended_.ok() ? Status::Unavailable("it was stopped") : ended_;
  }

 private:
  // False: nothing more comes.
  bool read_some() {
    base::BoundedWait silence("child.message", kSilentMsMax);
    for (pollfd ready{fd_, POLLIN, 0};;) {
      ask_to_end_on_stop();
      const int found = ::poll(&ready, 1, kLookMs);
      if (found < 0 && errno != EINTR) return false;
      const bool asked = end_.has_value();
      base::BoundedWait& wait = asked ? *end_ : silence;
      static_cast<void>(wait.watch_ns());
      if (wait.expired() && (asked || found <= 0)) {
        why_killed_ = Status::Unavailable(std::string("it did not ") + (asked ? "end" : "go on") + " within " +
                                          std::to_string((asked ? kStopMsMax : kSilentMsMax) / 1000) +
                                          " s, so its process was killed");
        return false;
      }
      if (found > 0) break;
    }
    std::array<char, 65536> part{};
    const ssize_t count = ::read(fd_, part.data(), part.size());
    if (count > 0) got_.append(part.data(), static_cast<size_t>(count));
    return count > 0 || (count < 0 && errno == EINTR);
  }

  void ask_to_end_on_stop() {
    if (!stop_ || end_) return;
    ::kill(pid_, SIGTERM);
    end_.emplace("child.end", kStopMsMax);
  }

  void take_frames() {
    size_t at = 0;
    for (Head head{}; got_.size() - at >= sizeof head; at += sizeof head + head.bytes) {
      std::memcpy(&head, got_.data() + at, sizeof head);
      if (got_.size() - at - sizeof head < head.bytes) break;
      const std::string_view bytes(got_.data() + at + sizeof head, head.bytes);
      if (head.kind == Kind::kStatus) {
        ended_ = status_of(bytes);
        has_ended_ = true;
      } else if (!stop_) {
        why_killed_ = receive_(bytes);
        if (!why_killed_.ok()) return;
      }
    }
    got_.erase(0, at);
  }

  const pid_t pid_;
  const int fd_;
  const Receive& receive_;
  const std::atomic<bool>& stop_;
  std::optional<base::BoundedWait> end_;  // for its end; empty until it is asked to end
  std::string got_;                       // received bytes, from the beginning of a frame
  Status why_killed_;
  bool has_ended_ = false;
  Status ended_;
};

}  // namespace

Status run_apart(const std::function<Status(const Send& send)>& work, const Receive& receive,
                 const std::atomic<bool>& stop) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return base::os_error("make a pipe for", "a child process", errno);
  const base::OsFile ours(ends[0]);  // the child does not have it: a write fails once the program has gone
  const int theirs = ends[1];        // no OsFile, which would not be open in the child
  std::fflush(nullptr);              // else the child would print it, too
  const pid_t parent = ::getpid(), pid = ::fork();
  const int error = errno;
  if (pid == 0) be_child(work, theirs, parent);
  ::close(theirs);
  if (pid < 0) return base::os_error("make", "a child process", error);
  return Child(pid, ours.fd(), receive, stop).wait();
}

}  // namespace bonsai::bench
