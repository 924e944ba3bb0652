// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/descriptor.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/nvm/mapping.h"
#include "base/nvm/os_file.h"
#include "base/nvm/testing.h"
#include "base/testing/temp_folder.h"

namespace bonsai::base {
namespace {

using nvm_testing::in_child;
using testing::TempFolder;

// Closes some of the descriptors 0 to 2.
void close_standard(unsigned subset) {
  for (int fd = 0; fd <= 2; ++fd) {
    if ((subset >> fd & 1) != 0) ::close(fd);
  }
}

// Makes one descriptor by each function, and says which are not above 2.
std::string open_each(const std::string& folder) {
  std::string wrong;
  const auto look = [&](const char* what, const OsFile& file) {
    if (!file.is_open()) wrong += std::string(what) + " failed; ";
    if (file.is_open() && file.fd() <= 2) wrong += std::string(what) + " is " + std::to_string(file.fd()) + "; ";
    if ((::fcntl(file.fd(), F_GETFD) & FD_CLOEXEC) == 0) wrong += std::string(what) + " survives exec; ";
  };
  look("open_file", open_file(folder + "/file", O_RDWR | O_CREAT, 0600));
  look("make_event", make_event());
  look("make_memory_file", make_memory_file("test", 0));
  const auto [read_end, write_end] = make_pipe();
  look("a read end", read_end);
  look("a write end", write_end);
  const OsFile listener = make_socket(AF_UNIX, SOCK_SEQPACKET);
  look("make_socket", listener);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder + "/socket." + std::to_string(::getpid());
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  const OsFile client = make_socket(AF_UNIX, SOCK_SEQPACKET);
  if (::bind(listener.fd(), at, sizeof address) != 0 || ::listen(listener.fd(), 1) != 0 ||
      ::connect(client.fd(), at, sizeof address) != 0) {
    return wrong + "no connection";
  }
  look("accept_connection", accept_connection(listener.fd()));
  return wrong.empty() ? "none" : wrong;
}

TEST(Descriptor, IsAboveTheStandardOnesWhicheverAreClosed) {
  TempFolder folder;
  for (unsigned subset = 0; subset < 8; ++subset) {
    EXPECT_EQ(in_child([&] {
                close_standard(subset);
                std::string found = open_each(folder.path());
                for (unsigned fd = 0; fd <= 2; ++fd) {
                  const bool was_closed = ((subset >> fd) & 1) != 0;
                  const bool is_closed = ::fcntl(static_cast<int>(fd), F_GETFD) < 0;
                  if (is_closed != was_closed) found += ", and " + std::to_string(fd) + " was changed";
                }
                return found;
              }),
              "none")
        << "closed: " << subset;
  }
}

TEST(Descriptor, ThatComesByAMessageOrFromTheCallerIsAboveTheStandardOnes) {
  EXPECT_EQ(in_child([] {
              int ends[2];
              if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return std::string("no sockets");
              const OsFile sender(ends[0]), receiver(ends[1]), sent = make_memory_file("sent", 0);
              char byte = 'x';
              iovec part{&byte, 1};
              alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
              msghdr header{};
              header.msg_iov = &part;
              header.msg_iovlen = 1;
              header.msg_control = control;
              header.msg_controllen = sizeof control;
              cmsghdr* const rights = CMSG_FIRSTHDR(&header);
              rights->cmsg_level = SOL_SOCKET;
              rights->cmsg_type = SCM_RIGHTS;
              rights->cmsg_len = CMSG_LEN(sizeof(int));
              const int fd = sent.fd();
              std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
              if (::sendmsg(sender.fd(), &header, 0) != 1) return std::string("not sent");
              close_standard(7);
              std::vector<OsFile> files;
              const ssize_t n = receive_message(receiver.fd(), &header, &files);
              const OsFile adopted(::dup(fd));
              return std::to_string(n) + ", " + std::to_string(files.size()) + ", " +
                     (files.empty() || files[0].fd() > 2 ? "above" : "below") + ", " +
                     (adopted.fd() > 2 ? "above" : "below");
            }),
            "1, 1, above, above");
}

// Output that another thread prints to a closed stream meanwhile reaches no file.
TEST(Descriptor, IsNeverForAMomentOneThatSomebodyPrintsTo) {
  TempFolder folder;
  const std::string path = folder.file("file");
  EXPECT_EQ(in_child([&] {
              close_standard(7);
              std::atomic<bool> stop{false};
              std::atomic<uint64_t> written{0};
              std::thread printer([&] {
                while (!stop.load()) written += ::write(STDOUT_FILENO, "x", 1) == 1 ? 1 : 0;
              });
              for (int i = 0; i < 3000; ++i) static_cast<void>(open_file(path, O_RDWR | O_CREAT, 0600));
              stop.store(true);
              printer.join();
              return std::to_string(written.load());
            }),
            "0");
  EXPECT_EQ(testing::read_file(path), "");
}

TEST(StandardPlaces, AreTakenWhileOthersOpenAndFreeAfterwards) {
  EXPECT_EQ(in_child([] {
              close_standard(7);
              std::string found;
              {
                const StandardPlaces outer;
                const StandardPlaces inner;
                const int opened = ::eventfd(0, 0);
                found = (opened > 2 ? "above" : "below");
                found += ::write(1, "x", 1) < 0 && errno == EBADF ? ", not written" : ", written";
                ::close(opened);
              }
              return found + (::fcntl(0, F_GETFD) < 0 && ::fcntl(2, F_GETFD) < 0 ? ", free" : ", taken");
            }),
            "above, not written, free");
}

TEST(OsFile, IsClosedInAChild) {
  TempFolder folder;
  OsFile file = open_file(folder.file("file"), O_RDWR | O_CREAT, 0600);
  const OsFile event = make_event();
  const int number = file.fd();
  OsFile moved = std::move(file);
  EXPECT_EQ(in_child([&] {
              const std::string found = std::string(moved.is_open() || event.is_open() ? "open" : "not open") +
                                        (::fcntl(number, F_GETFD) < 0 ? ", closed" : ", there");
              const int reused = ::dup2(2, number);  // which is the child's, whatever the object does at its end
              moved = OsFile();
              return found + (::fcntl(reused, F_GETFD) < 0 ? ", and another one's is closed" : "");
            }),
            "not open, closed");
  EXPECT_GE(::fcntl(moved.fd(), F_GETFD), 0) << "the parent keeps it";
}

// A child that does nothing continues to run while the parent closes the file, or dies.
TEST(OsFile, IsNotLockedByAChildThatLivesOn) {
  TempFolder folder;
  const std::string path = folder.file("file");
  OsFile file = open_file(path, O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(file.try_lock(true));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  OsFile other = open_file(path, O_RDWR);
  EXPECT_FALSE(other.try_lock(true)) << "the parent has it";
  EXPECT_EQ(errno, EWOULDBLOCK);
  file = OsFile();
  EXPECT_TRUE(other.try_lock(true));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(OsFile, LeavesItsLockToCopiesIfAskedTo) {
  TempFolder folder;
  const std::string path = folder.file("file");
  OsFile file = open_file(path, O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(file.try_lock(true));
  file.leave_lock();
  OsFile copy = duplicate(file.fd());
  ASSERT_TRUE(copy.is_open());
  file = OsFile();
  OsFile other = open_file(path, O_RDWR);
  EXPECT_FALSE(other.try_lock(true)) << "the copy has it";
  copy = OsFile();
  EXPECT_TRUE(other.try_lock(true));
}

// A child that was not made by the C library's fork() has a copy of the descriptor.
TEST(OsFile, ReleasesItsLockEvenIfSomebodyHasACopy) {
  TempFolder folder;
  const std::string path = folder.file("file");
  OsFile file = open_file(path, O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(file.try_lock(true));
  const int copy = ::dup(file.fd());
  file = OsFile();
  OsFile other = open_file(path, O_RDWR);
  EXPECT_TRUE(other.try_lock(true));
  ::close(copy);
}

TEST(OsFile, InAChildOfTheBareSystemCallDoesNotReleaseTheParentsLock) {
  TempFolder folder;
  const std::string path = folder.file("file");
  OsFile file = open_file(path, O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(file.try_lock(true));
  const auto child = static_cast<pid_t>(::syscall(SYS_fork));
  if (child == 0) {
    file = OsFile();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  OsFile other = open_file(path, O_RDWR);
  EXPECT_FALSE(other.try_lock(true));
}

// Threads that open and close while others fork: a child never has one of them.
TEST(OsFile, OpenedDuringAForkIsInNoChild) {
  TempFolder folder;
  std::atomic<bool> stop{false};
  std::thread opener([&] {
    while (!stop.load()) {
      OsFile file = make_memory_file("bonsai-race", 0);
      OsFile moved = std::move(file);
    }
  });
  std::string found;
  for (int i = 0; i < 50 && found.empty(); ++i) {
    const std::string held = in_child([] {
      std::string names;
      for (const std::string& number : names_in("/proc/self/fd")) {
        char target[256] = {};
        if (::readlink(("/proc/self/fd/" + number).c_str(), target, sizeof target - 1) < 0) continue;
        if (std::strstr(target, "bonsai-race") != nullptr) names += std::string(target) + " ";
      }
      return names.empty() ? std::string("none") : names;
    });
    if (held != "none") found = held;
  }
  stop.store(true);
  opener.join();
  EXPECT_EQ(found, "");
}

// The range of a mapping is free in a child, and may be used there for something else.
TEST(Mapping, ThatEndsInAChildTouchesNothingThere) {
  TempFolder folder;
  std::unique_ptr<Mapping> mapping = nvm_testing::create(folder.file("pool"), 1 << 20);
  EXPECT_EQ(in_child([&] {
              void* const mine = ::mmap(mapping->data(), mapping->bytes(), PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
              if (mine == MAP_FAILED) return std::string("no memory");
              std::memcpy(mine, "mine", 5);
              mapping.reset();
              return std::string(static_cast<const char*>(mine));
            }),
            "mine");
}

TEST(ReadText, ReadsFilesOfAnySizeUpToABound) {
  TempFolder folder;
  const std::string content(10'000, 'a'), path = folder.write("text", content);
  std::string text;
  EXPECT_TRUE(read_text(path, SIZE_MAX, &text));
  EXPECT_EQ(text, content);
  EXPECT_TRUE(read_text(path, 5000, &text));
  EXPECT_EQ(text.size(), 5000u);
  EXPECT_TRUE(read_text("/proc/self/maps", SIZE_MAX, &text));
  EXPECT_NE(text.find("[stack]"), std::string::npos);
  EXPECT_FALSE(read_text(folder.file("none"), 10, &text));
  EXPECT_FALSE(read_text(folder.path(), 10, &text)) << "a directory";
}

TEST(NamesIn, ListsADirectory) {
  TempFolder folder;
  for (int i = 0; i < 300; ++i) folder.write("a longer name of file " + std::to_string(i), "x");
  std::vector<std::string> names = names_in(folder.path());
  EXPECT_EQ(names.size(), 300u);
  EXPECT_NE(std::find(names.begin(), names.end(), "a longer name of file 299"), names.end());
  EXPECT_TRUE(names_in(folder.file("none")).empty());
}

}  // namespace
}  // namespace bonsai::base
