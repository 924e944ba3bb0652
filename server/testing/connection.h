// SPDX-License-Identifier: Apache-2.0
// A client of the tests, over a socket. Nothing in it waits longer than kReplyMsMax.
#ifndef BONSAI_SERVER_TESTING_CONNECTION_H_
#define BONSAI_SERVER_TESTING_CONNECTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/testing/resp.h"

namespace bonsai::server {

class TestConnection {
 public:
  static constexpr int kReplyMsMax = 30'000;

  // HOST:PORT, or unix:PATH. `receive_bytes` bounds what the system holds for it; 0: as usual.
  explicit TestConnection(const std::string& address, int receive_bytes = 0);
  ~TestConnection();
  TestConnection(TestConnection&& other) noexcept;
  TestConnection& operator=(TestConnection&&) = delete;

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  // Sends all bytes. False: the server has closed the connection.
  bool send(const std::string& bytes);
  // Sends what the system takes without waiting; returns the number of bytes.
  size_t send_some(const std::string& bytes);
  // The next reply; none: the server has closed the connection, or nothing came in time.
  std::optional<Value> receive();
  // The next reply as text; "closed" without one.
  std::string next();
  std::string ask(const std::vector<std::string>& words);
  // Whether the server closes the connection within the bound; drops what it still sends.
  bool is_closed_within(int ms);

 private:
  bool fill(int ms);

  int descriptor_ = -1;
  std::string bytes_;
  size_t used_ = 0;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_TESTING_CONNECTION_H_
