// SPDX-License-Identifier: Apache-2.0
// Listening sockets.
#ifndef BONSAI_SERVER_SOCKETS_H_
#define BONSAI_SERVER_SOCKETS_H_

#include <string>

#include "bonsai/status.h"
#include "server/config.h"

namespace bonsai::server {

// What a socket is bound to, TCP or Unix. False: something else, or nothing.
bool address_of_socket(int descriptor, Address* address);

// A socket that listens, and the file of a Unix socket, which goes with it.
class ListeningSocket {
 public:
  // Errors: Busy (another program listens there), IoError (the address is not of this machine, the file cannot be
  // made, no right), with the remedy. A file that a server left behind is replaced; one that somebody answers at, or
  // that is no socket, is not. A socket that was passed is taken over, and its file is left to who made it.
  static Status open(const Address& address, ListeningSocket* socket);
  ListeningSocket() = default;
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  // With the port that the system chose.
  [[nodiscard]] const Address& address() const { return address_; }
  // A new connection, which does not block; negative: none, and errno says why.
  [[nodiscard]] int accept(std::string* peer) const;

 private:
  // Requires: a socket that was passed.
  explicit ListeningSocket(const Address& address) : descriptor_(address.descriptor), address_(address) {}

  int descriptor_ = -1;
  Address address_;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_SOCKETS_H_
