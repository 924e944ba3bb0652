// SPDX-License-Identifier: Apache-2.0
// Registered memory of one client that no other node may access. What the client writes leaves from here. What it reads
// and the former values of words that it swaps arrive here.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_SCRATCH_H_
#define BONSAI_BENCH_STUDIES_RIVALS_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/nvm/racy_copy.h"
#include "bench/studies/rivals/connection.h"
#include "rdma/registered_memory.h"

namespace bonsai::bench::rivals {

// Offsets are in bytes. Requires: what slices name is in the memory; offsets of words are multiples of 8.
// Thread-safety: the connection's thread.
class Scratch {
 public:
  // Errors: those of RegisteredMemory::make.
  static Status make(Connection* connection, size_t bytes, std::unique_ptr<Scratch>* scratch) {
    std::unique_ptr<rdma::RegisteredMemory> memory;
    Status status = rdma::RegisteredMemory::make(connection->fabric(), bytes, rdma::Rights::none(), &memory);
    if (status.ok()) scratch->reset(new Scratch(std::move(memory)));
    return status;
  }

  [[nodiscard]] std::byte* data() const { return memory_->data(); }
  [[nodiscard]] rdma::Slice slice(size_t offset, size_t bytes) const { return memory_->slice(offset, bytes); }
  [[nodiscard]] rdma::Slice word(size_t offset) const { return slice(offset, sizeof(uint64_t)); }
  [[nodiscard]] uint64_t word_value(size_t offset) const { return base::word_at(data() + offset).load(); }

 private:
  explicit Scratch(std::unique_ptr<rdma::RegisteredMemory> memory) : memory_(std::move(memory)) {}

  std::unique_ptr<rdma::RegisteredMemory> memory_;
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_SCRATCH_H_
