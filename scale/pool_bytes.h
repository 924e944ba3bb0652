// SPDX-License-Identifier: Apache-2.0
// The bytes of a pool that a server serves: the file's mapping, the medium that makes them durable, and the region by
// which owners reach them.
//
// Invariants
//   - When flush() answers kDone, the ranges are durable in the persistence domain of the pool's medium.
//   - A file that somebody cut short fails its flushes from then on, and nothing else.
//
// Thread-safety: one thread at a time; holds() beside flush() of another thread.
#ifndef BONSAI_SCALE_POOL_BYTES_H_
#define BONSAI_SCALE_POOL_BYTES_H_

#include <memory>
#include <span>
#include <string>

#include "base/nvm/mapping.h"
#include "base/nvm/media.h"
#include "rdma/fabric.h"
#include "rdma/remote_persist.h"

namespace bonsai::scale {

// Members in the order in which they need each other.
class PoolBytes {
 public:
  using Range = rdma::FlushRequest::Range;

  std::unique_ptr<base::Mapping> mapping;
  base::Media media;
  std::unique_ptr<rdma::Region> region;

  // Makes the bytes of the mapping and its medium reachable. Errors: those of register_file() and register_region().
  Status register_at(rdma::Fabric* fabric);
  // Whether the range is one of these bytes. Requires: they are registered.
  [[nodiscard]] bool holds(const Range& range) const;
  // Makes the ranges durable: one fence after all flushes. *note gets a line for the operator when the file is found
  // cut short. Requires: holds() each. Returns kDone or kFailed.
  [[nodiscard]] rdma::FlushResult flush(std::span<const Range> ranges, std::string* note);

 private:
  bool flush(const Range& range);
  bool fence();

  bool cut_short_ = false;  // it was found so
};

}  // namespace bonsai::scale

#endif  // BONSAI_SCALE_POOL_BYTES_H_
