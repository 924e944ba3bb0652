// SPDX-License-Identifier: Apache-2.0
// Requests of the Redis protocol: an array of bulk strings, or one line of words ("inline").
#ifndef BONSAI_SERVER_REQUEST_H_
#define BONSAI_SERVER_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bonsai::server {

// Bounds of one request. Each is at most kRequestBytesLimit.
struct RequestLimits {
  size_t arguments_max = size_t{1} << 20;
  size_t argument_bytes_max = size_t{16} << 20;
  size_t request_bytes_max = size_t{64} << 20;  // with all that frames the arguments
};
inline constexpr size_t kRequestBytesLimit = size_t{1} << 30;
inline constexpr size_t kInlineBytesMax = size_t{64} << 10;

// Parses one request after the other from bytes that arrive in pieces. It keeps where it is, so that each byte is
// looked at a bounded number of times however the pieces are cut, and it keeps no bytes. Memory: 8 bytes for each
// argument that has arrived.
// Thread-safety: one owner.
class RequestParser {
 public:
  enum class Result : uint8_t {
    kMore,     // the request is not complete
    kRequest,  // it is complete: size(), arguments()
    kBroken,   // it breaks the protocol or a limit: error(); nothing after it can be understood
  };

  // Goes on with the request that `bytes` begin with. Requires: `bytes` begin with those of the call before, unless
  // next() was called since.
  Result parse(std::string_view bytes, const RequestLimits& limits);

  // After kMore: the request has at least so many bytes.
  [[nodiscard]] size_t wanted() const { return wanted_; }
  // After kRequest: the bytes of the request.
  [[nodiscard]] size_t size() const { return at_; }
  // After kRequest: its arguments, as views of `bytes`; none for an empty request, which gets no reply.
  void arguments(std::string_view bytes, std::vector<std::string_view>* arguments) const;
  // After kBroken: what is wrong, as Redis says it.
  [[nodiscard]] const std::string& error() const { return error_; }

  // Forgets the request, for the next one.
  void next();

 private:
  Result parse_line(std::string_view bytes, std::string_view* line, size_t bytes_max);
  Result parse_inline(std::string_view bytes);
  Result parse_argument(std::string_view bytes, const RequestLimits& limits);
  Result broken(std::string error);

  size_t at_ = 0;        // up to here all is parsed
  size_t searched_ = 0;  // up to here there is no end of the line
  size_t wanted_ = 1;
  int64_t arguments_left_ = -1;                       // -1: the number is not known yet
  int64_t argument_bytes_ = -1;                       // of the argument at `at_`; -1: not known yet
  std::vector<std::pair<uint32_t, uint32_t>> found_;  // place and length
  std::string error_;
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_REQUEST_H_
