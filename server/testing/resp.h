// SPDX-License-Identifier: Apache-2.0
// The tests' own side of the Redis protocol: requests as bytes, replies as values.
#ifndef BONSAI_SERVER_TESTING_RESP_H_
#define BONSAI_SERVER_TESTING_RESP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::server {

// Words as an array of bulk strings.
std::string request(const std::vector<std::string>& words);

struct Value {
  char type = 0;      // as on the wire: + - : $ * _ % ~ =
  bool null = false;  // of RESP2
  std::string text;
  std::vector<Value> elements;  // of a map: keys and values in turn

  // E.g. "+OK", ":3", "$apple", "null", "*[$a $b]", "%[$a :1]".
  [[nodiscard]] std::string show() const;
};

// Takes one reply from the beginning of *bytes. False: it is not complete, and *bytes stays. Malformed bytes end the
// process.
bool take_reply(std::string_view* bytes, Value* value);

// All replies in `bytes`, which must end with one, e.g. "+OK $apple".
std::string show_replies(std::string_view bytes);

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_TESTING_RESP_H_
