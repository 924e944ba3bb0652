// SPDX-License-Identifier: Apache-2.0
// Connections that a node has refused, for its operator: a line each, at a bounded rate, whoever knocks how often.
//
// Thread-safety: all methods.
#ifndef BONSAI_SCALE_REFUSALS_H_
#define BONSAI_SCALE_REFUSALS_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "bonsai/status.h"

namespace bonsai::scale {

class Refusals {
 public:
  static constexpr size_t kPerMinuteMax = 10;

  // `from`: the other end, as rdma::Arrival. The first kPerMinuteMax of a minute get a line; more are counted.
  void add(const std::string& from, const Status& why);
  // The lines since the last call. The number of those without a line comes when the next minute has begun.
  [[nodiscard]] std::vector<std::string> take();

 private:
  void begin_minute();

  std::mutex mutex_;
  uint64_t minute_ = 0;
  size_t in_minute_ = 0;
  std::vector<std::string> lines_;  // of two minutes at most: this one, and one that was not taken yet
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_REFUSALS_H_
