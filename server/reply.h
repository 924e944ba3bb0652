// SPDX-License-Identifier: Apache-2.0
// Replies of the Redis protocol, in its versions 2 and 3 (RESP2, RESP3).
#ifndef BONSAI_SERVER_REPLY_H_
#define BONSAI_SERVER_REPLY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "bonsai/status.h"

namespace bonsai::server {

// Appends replies to a string. A function that begins an aggregate is followed by so many further replies.
class Reply {
 public:
  // Requires: protocol is 2 or 3.
  Reply(std::string* out, int protocol) : out_(*out), protocol_(protocol) {}

  void ok() { out_ += "+OK\r\n"; }
  // Requires: no line ends in `text`.
  void simple(std::string_view text);
  // `text` begins with a code in capitals. Line ends in it become blanks.
  void error(std::string_view text);
  void integer(int64_t value);
  void bulk(std::string_view bytes);
  void null() { out_ += protocol_ == 3 ? "_\r\n" : "$-1\r\n"; }
  // In place of an array: the transaction had no effect.
  void null_array() { out_ += protocol_ == 3 ? "_\r\n" : "*-1\r\n"; }
  void array(size_t count) { head('*', count); }
  // Pairs of a key and a value: 2 * count further replies.
  void map(size_t count) { protocol_ == 3 ? head('%', count) : head('*', 2 * count); }
  void set(size_t count) { head(protocol_ == 3 ? '~' : '*', count); }
  // Text for people.
  void text(std::string_view bytes);

 private:
  void head(char type, size_t count);

  std::string& out_;
  const int protocol_;
};

// The error reply for a status that is not OK: "OOM ..." for NoSpace, so that clients know it as a full server; "ERR
// ..." with the status's code and message for all others.
[[nodiscard]] std::string error_text(const Status& status);

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_REPLY_H_
