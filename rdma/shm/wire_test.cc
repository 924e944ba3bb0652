// SPDX-License-Identifier: Apache-2.0
// Messages between processes of one machine: anything but a whole message of the fixed size is rejected.
#include "rdma/shm/wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace bonsai::rdma {
namespace {

// The other end's result for `bytes` bytes that begin like a message.
ShmSocket::Read received(size_t bytes) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
  const base::OsFile sender(ends[0]);
  const ShmSocket receiver{base::OsFile(ends[1])};
  const ShmWire message;
  std::vector<char> sent(bytes);
  std::memcpy(sent.data(), &message, std::min(bytes, sizeof message));
  EXPECT_EQ(::send(sender.fd(), sent.data(), sent.size(), MSG_NOSIGNAL), static_cast<ssize_t>(sent.size()));
  ShmWire taken;
  std::vector<base::OsFile> files;
  return receiver.receive(&taken, &files);
}

TEST(ShmWire, OnlyAMessageOfTheOneSizeIsTaken) {
  EXPECT_EQ(received(sizeof(ShmWire)), ShmSocket::Read::kMessage);
  EXPECT_EQ(received(sizeof(ShmWire) - 1), ShmSocket::Read::kEnd);
  EXPECT_EQ(received(sizeof(ShmWire) + 1), ShmSocket::Read::kEnd);
  EXPECT_EQ(received(2 * sizeof(ShmWire)), ShmSocket::Read::kEnd);
}

// As of a node that refuses a connection before it has read the greeting.
TEST(ShmWire, WhatWasSentBeforeTheOtherEndClosedIsReceived) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
  ShmSocket other{base::OsFile(ends[0])};
  const ShmSocket receiver{base::OsFile(ends[1])};
  ASSERT_TRUE(receiver.send({}, {}));
  ASSERT_TRUE(other.send({}, {}));
  other = ShmSocket();  // closes
  ShmWire taken;
  std::vector<base::OsFile> files;
  EXPECT_EQ(receiver.receive(&taken, &files), ShmSocket::Read::kMessage);
  EXPECT_EQ(receiver.receive(&taken, &files), ShmSocket::Read::kEnd);
}

}  // namespace
}  // namespace bonsai::rdma
