// SPDX-License-Identifier: Apache-2.0
// One client of the server, without its socket: what it sent, what it gets, and what was agreed with it.
#ifndef BONSAI_SERVER_CLIENT_H_
#define BONSAI_SERVER_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "bonsai/status.h"
#include "server/bytes.h"
#include "server/request.h"
#include "server/transaction.h"

namespace bonsai::server {

// Thread-safety: one owner, the thread that serves it.
struct Client {
  uint64_t id = 0;
  std::string address;  // of the client, for people
  std::string name;
  int protocol = 2;
  bool authenticated = false;
  bool ending = false;  // once its replies are sent, the connection ends; no further request is read
  bool lost = false;    // memory ran out amid its replies: the connection ends at once
  Transaction transaction;
  std::string last_command;
  uint64_t connected_ns = 0;

  Bytes in;
  RequestParser parser;
  std::string out;     // replies
  size_t sent = 0;     // bytes of `out` that are sent
  size_t pending = 0;  // replies, or parts of one, that wait for the operations in flight
  size_t joined = 0;   // of these, such as wait for the batch

  size_t array_from = 0;  // where the last array begins in `out`
  // The sum and the first error of a command over several keys.
  int64_t sum = 0;
  Status failed;

  [[nodiscard]] size_t unsent() const { return out.size() - sent; }
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_CLIENT_H_
