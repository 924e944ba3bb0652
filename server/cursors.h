// SPDX-License-Identifier: Apache-2.0
// The cursors of SCAN. Clients expect a number; a scan in key order goes on after a key. So the server keeps the keys
// of the last kCursorsMax cursors that it gave, whichever connection goes on with them.
#ifndef BONSAI_SERVER_CURSORS_H_
#define BONSAI_SERVER_CURSORS_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::server {

inline constexpr uint64_t kCursorsMax = 16'384;

// Thread-safety: any number of threads.
class Cursors {
 public:
  // `first`: the number of the first cursor; not 0. A number that differs from run to run makes it unlikely that a
  // cursor of an earlier one is taken for one of this.
  explicit Cursors(uint64_t first) : first_(first), next_(first) {}

  // A cursor that goes on after `key`.
  uint64_t give(std::string_view key);
  // False: it was not given, or kCursorsMax newer ones were.
  bool find(uint64_t cursor, std::string* key) const;

 private:
  const uint64_t first_;
  mutable std::mutex mutex_;
  uint64_t next_;
  std::vector<std::string> keys_;  // of cursor n at n % kCursorsMax
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_CURSORS_H_
