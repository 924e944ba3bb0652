// SPDX-License-Identifier: Apache-2.0
// The providers of the fabric that can be measured, with the properties that the measurement depends on.
#ifndef BONSAI_BENCH_STUDIES_FABRIC_PROVIDERS_H_
#define BONSAI_BENCH_STUDIES_FABRIC_PROVIDERS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace bonsai::bench {

// Where the far side of a measurement is, and how it is addressed.
enum class FarSide : uint8_t {
  kSameThread,  // both ends are on one thread, in virtual time
  kProcess,     // another process of this machine; the address is FOLDER/NAME
  kNetwork,     // a process of any machine with an RDMA device; the address is HOST:PORT
};

struct FabricProvider {
  std::string_view name;
  FarSide far_side;
  uint64_t cell_ns;            // of each measurement, unless the user chooses
  const char* label;           // in what sense its times are real
  const char* emulated_label;  // the same if its capabilities say `emulated`
};

[[nodiscard]] const std::array<FabricProvider, 3>& fabric_providers();

// Null if there is none of this name.
[[nodiscard]] const FabricProvider* find_fabric_provider(std::string_view name);

// The provider whose far side is there.
[[nodiscard]] const FabricProvider& fabric_provider(FarSide far_side);

// All names, as in a list of the command line.
[[nodiscard]] std::string fabric_provider_names();

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_STUDIES_FABRIC_PROVIDERS_H_
