// SPDX-License-Identifier: Apache-2.0
// `shm` with a modelled network, in programs that link this file. BONSAI_SHM_LATENCY_NS delays each request of this
// process to others. BONSAI_SHM_BYTES_PER_SECOND delays it by the time of its bytes on such a link; each thread has its
// own link. Results are labelled as modelled.
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/status_macros.h"
#include "scale/fabrics.h"

namespace bonsai::bench {
namespace {

constexpr uint64_t kModelLatencyNsMax = 1'000'000'000;

// Reads a number from the environment; 0 if it is not set. Errors: InvalidArgument.
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
