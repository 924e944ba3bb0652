// SPDX-License-Identifier: Apache-2.0
#include "store/options.h"

#include <bit>
#include <string>
#include <string_view>

#include "base/status_macros.h"

namespace bonsai::store {
namespace {

Status check_range(std::string_view name, uint64_t value, uint64_t min, uint64_t max, std::string_view unit = "") {
  if (value >= min && value <= max) return Status::OK();
  const std::string text(name);
  return Status::InvalidArgument(text + " is " + std::to_string(value) + "; " + (value > max ? "lower " : "raise ") +
                                 text + ", it may be " + std::to_string(min) + " to " + std::to_string(max) +
                                 std::string(unit));
}

// A value that was cast into the enumeration, or is uninitialised.
template <class Enum>
Status check_enum(std::string_view name, Enum value, Enum last) {
  if (value <= last) return Status::OK();
  return Status::InvalidArgument(std::string(name) + " has the value " + std::to_string(static_cast<uint64_t>(value)) +
                                 ", which is none of its constants; use one of them");
}

}  // namespace

Status check_bounds(const Options& options) {
  BONSAI_RETURN_IF_ERROR(check_enum("key_format", options.key_format, KeyFormat::kFixed8));
  BONSAI_RETURN_IF_ERROR(check_enum("medium", options.medium, MediumChoice::kDram));
  BONSAI_RETURN_IF_ERROR(check_enum("durability", options.durability, Durability::kVolatile));
  BONSAI_RETURN_IF_ERROR(check_enum("persistence_domain", options.persistence_domain, PersistenceDomain::kEadr));
  BONSAI_RETURN_IF_ERROR(check_range("pool_bytes", options.pool_bytes, kPoolBytesMin, kPoolBytesMax, " bytes"));
  BONSAI_RETURN_IF_ERROR(check_range("grow_bytes", options.grow_bytes, 0, kPoolBytesMax, " bytes"));
  BONSAI_RETURN_IF_ERROR(check_range("log_bytes", options.log_bytes, 0, kPoolBytesMax, " bytes"));
  BONSAI_RETURN_IF_ERROR(check_range("background_threads", options.background_threads, 0, kThreadsMax));
  BONSAI_RETURN_IF_ERROR(check_range("recovery_threads", options.recovery_threads, 0, kThreadsMax));
  BONSAI_RETURN_IF_ERROR(check_range("fabric_workers", options.fabric_workers, 1, kFabricWorkersMax));
  BONSAI_RETURN_IF_ERROR(check_enum("layout", options.layout, LayoutChoice::kHardware));
  if (const uint64_t unit = options.stripe_unit_bytes; unit != 0) {
    BONSAI_RETURN_IF_ERROR(check_range("stripe_unit_bytes", unit, kStripeUnitMin, kStripeUnitMax, " bytes"));
    if (!std::has_single_bit(unit)) {
      return Status::InvalidArgument("stripe_unit_bytes is " + std::to_string(unit) + ", no power of two; use " +
                                     std::to_string(std::bit_floor(unit)) + " bytes");
    }
  }
  if (options.durability == Durability::kBuffered && options.buffered_window_ms == 0) {
    return Status::InvalidArgument("buffered_window_ms must be at least 1; use mode durable for no loss window");
  }
  return Status::OK();
}

Status check_bounds(const TestOptions& options) {
  return check_enum("medium of the test options", options.medium, TestMedium::kFar);
}

Status check_bounds_of_copy(const Options& options) {
  Options sized = options;
  if (sized.pool_bytes == 0) sized.pool_bytes = kPoolBytesMin;
  return check_bounds(sized);
}

}  // namespace bonsai::store
