// SPDX-License-Identifier: Apache-2.0
// Any bytes as requests: whole or cut anywhere they give the same requests and the same error, and within the limits.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz.h"
#include "server/glob.h"
#include "server/request.h"
#include "server/testing/resp.h"

namespace bonsai::server {
namespace {

constexpr RequestLimits kLimits{.arguments_max = 64, .argument_bytes_max = 512, .request_bytes_max = 2'048};

// What `bytes` give when `step` of them arrive at a time.
std::string parse_by(std::string_view bytes, size_t step) {
  std::string all;
  RequestParser parser;
  size_t begin = 0;
  for (size_t end = 0;;) {
    const std::string piece(bytes.substr(begin, end - begin));  // a copy, so that reads outside are found
    switch (parser.parse(piece, kLimits)) {
      case RequestParser::Result::kMore:
        BONSAI_CHECK(parser.wanted() > piece.size());
        if (end == bytes.size()) return all;
        end = std::min(end + step, bytes.size());
        break;
      case RequestParser::Result::kBroken:
        return all + parser.error();
      case RequestParser::Result::kRequest: {
        std::vector<std::string_view> arguments;
        parser.arguments(piece, &arguments);
        BONSAI_CHECK(parser.size() > 0 && parser.size() <= std::max(kLimits.request_bytes_max, kInlineBytesMax + 2));
        BONSAI_CHECK(piece[0] != '*' || arguments.size() <= kLimits.arguments_max);
        for (const std::string_view each : arguments) all.append("[").append(each) += "]";
        all += ";";
        begin += parser.size();
        parser.next();
      }
    }
  }
}

void run_requests(std::string_view input) {
  if (input.size() > 4'096) input = input.substr(0, 4'096);
  const std::string whole = parse_by(input, input.size() + 1);
  for (const size_t step : {size_t{1}, size_t{7}}) BONSAI_CHECK(parse_by(input, step) == whole);
}

std::vector<std::string> seeds_of_requests() {
  return {request({"SET", "key", "value"}) + request({"GET", "key"}),
          "PING\r\nGET a\r\n*0\r\n",
          "*2\r\n$3\r\nGET\r\n$-1\r\n",
          "*65\r\n",
          request({std::string(512, 'x')}),
          "*1\r\n$600\r\n"};
}

// A pattern and a text: the prefix that the pattern promises, and a bounded time.
void run_globs(std::string_view input) {
  if (input.size() > 512) input = input.substr(0, 512);
  const size_t cut = input.find('\n');
  if (cut == std::string_view::npos) return;
  const std::string_view pattern = input.substr(0, cut), text = input.substr(cut + 1);
  const std::string prefix = glob_prefix(pattern);
  if (!glob_matches(pattern, text)) return;
  BONSAI_CHECK(text.starts_with(prefix));
  const std::string after = after_prefix(prefix);
  BONSAI_CHECK(after.empty() || text < after);
}

std::vector<std::string> seeds_of_globs() {
  return {"user:*\nuser:1", "a?[b-d]\\*\naxc*", "[^a]*b*c\nxbyc", "***a\nbbba", "[\n[", "\\\n\\"};
}

const testing::FuzzRegistration requests("resp_request", run_requests, seeds_of_requests);
const testing::FuzzRegistration globs("glob", run_globs, seeds_of_globs);

}  // namespace
}  // namespace bonsai::server
