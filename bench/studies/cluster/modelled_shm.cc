// SPDX-License-Identifier: Apache-2.0
// `shm` with a modelled network, for programs that link this file: BONSAI_SHM_LATENCY_NS delays what this process asks
// of others by so much, BONSAI_SHM_BYTES_PER_SECOND by the time that its bytes take on such a link (each thread has a
// link of its own). Results say that it is modelled.
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/status_macros.h"
#include "scale/fabrics.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kModelLatencyNsMax = 1'000'000'000;

// A number in the environment; 0 without one. Errors: InvalidArgument.
Status number_from(const char* variable, uint64_t max, uint64_t* number) {
  const char* const text = std::getenv(variable);
  *number = 0;
  if (text == nullptr || *text == '\0') return Status::OK();
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, *number);
  if (error == std::errc() && stopped == end && *number <= max) return Status::OK();
  return Status::InvalidArgument(std::string(variable) + " is '" + text + "'; give a whole number up to " +
                                 std::to_string(max));
}

Status open_modelled(std::shared_ptr<rdma::Fabric>* fabric) {
  rdma::ShmOptions options;
  BONSAI_RETURN_IF_ERROR(number_from("BONSAI_SHM_LATENCY_NS", kModelLatencyNsMax, &options.latency_ns));
  BONSAI_RETURN_IF_ERROR(number_from("BONSAI_SHM_BYTES_PER_SECOND", UINT64_MAX, &options.bytes_per_second));
  return scale::open_shm(options, fabric);
}

const bool registered = [] {
  scale::register_fabric("shm", open_modelled, scale::FabricReach::kMachine);
  return true;
}();

}  // namespace
}  // namespace bonsai::bench
