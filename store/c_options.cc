// SPDX-License-Identifier: Apache-2.0
// The option setters of the C interface.
#include "store/c_types.h"

namespace bonsai::c {
namespace {

// Stores `value` as an enumerator of E, or has bonsai_open() refuse the options.
template <typename E>
void set_enum(bonsai_options_t* options, E* field, int value, E last, const char* name) noexcept {
  if (value >= 0 && value <= static_cast<int>(last)) {
    *field = static_cast<E>(value);
    return;
  }
  guarded(nullptr, [&] {
    options->refused = std::string(name) + " " + std::to_string(value) + " is not known; use a constant of bonsai/c.h";
    return Status::OK();
  });
}

}  // namespace
}  // namespace bonsai::c

extern "C" {

bonsai_options_t* bonsai_options_create(void) { return bonsai::c::make<bonsai_options_t>(); }
void bonsai_options_destroy(bonsai_options_t* options) { delete options; }

void bonsai_options_set_create_if_missing(bonsai_options_t* options, unsigned char on) {
  options->options.create_if_missing = on != 0;
}
void bonsai_options_set_error_if_exists(bonsai_options_t* options, unsigned char on) {
  options->options.error_if_exists = on != 0;
}
void bonsai_options_set_read_only(bonsai_options_t* options, unsigned char on) { options->options.read_only = on != 0; }
void bonsai_options_set_key_format(bonsai_options_t* options, int key_format) {
  bonsai::c::set_enum(options, &options->options.key_format, key_format, bonsai::KeyFormat::kFixed8, "key format");
}
void bonsai_options_set_any_key_format(bonsai_options_t* options, unsigned char on) {
  options->options.any_key_format = on != 0;
}
void bonsai_options_set_pool_bytes(bonsai_options_t* options, uint64_t bytes) { options->options.pool_bytes = bytes; }
void bonsai_options_set_grow_bytes(bonsai_options_t* options, uint64_t bytes) { options->options.grow_bytes = bytes; }
void bonsai_options_set_log_bytes(bonsai_options_t* options, uint64_t bytes) { options->options.log_bytes = bytes; }
void bonsai_options_set_layout(bonsai_options_t* options, int layout) {
  bonsai::c::set_enum(options, &options->options.layout, layout, bonsai::LayoutChoice::kHardware, "layout");
}
void bonsai_options_set_stripe_unit_bytes(bonsai_options_t* options, uint64_t bytes) {
  options->options.stripe_unit_bytes = bytes;
}
void bonsai_options_set_medium(bonsai_options_t* options, int medium) {
  bonsai::c::set_enum(options, &options->options.medium, medium, bonsai::MediumChoice::kDram, "medium");
}
void bonsai_options_set_persistence_domain(bonsai_options_t* options, int domain) {
  bonsai::c::set_enum(options, &options->options.persistence_domain, domain, bonsai::PersistenceDomain::kEadr,
                      "persistence domain");
}
void bonsai_options_set_durability(bonsai_options_t* options, int durability) {
  bonsai::c::set_enum(options, &options->options.durability, durability, bonsai::Durability::kVolatile, "durability");
}
void bonsai_options_set_buffered_window_ms(bonsai_options_t* options, uint32_t milliseconds) {
  options->options.buffered_window_ms = milliseconds;
}
void bonsai_options_set_background_threads(bonsai_options_t* options, uint32_t threads) {
  options->options.background_threads = threads;
}
void bonsai_options_set_recovery_threads(bonsai_options_t* options, uint32_t threads) {
  options->options.recovery_threads = threads;
}
void bonsai_options_set_open_progress(bonsai_options_t* options, bonsai_progress progress, void* arg) {
  options->options.open_progress = bonsai::c::progress_function(progress, arg);
}
void bonsai_options_set_stall_ms_max(bonsai_options_t* options, uint32_t milliseconds) {
  options->options.stall_ms_max = milliseconds;
}
void bonsai_options_set_snapshots_max(bonsai_options_t* options, uint32_t snapshots) {
  options->options.snapshots_max = snapshots;
}
void bonsai_options_set_metadata_upload(bonsai_options_t* options, unsigned char on) {
  options->options.metadata_upload = on != 0;
}

void bonsai_options_set_fabric_secret_file(bonsai_options_t* options, const char* path) {
  bonsai::c::guarded(nullptr, [&] {
    options->options.fabric_secret_file = path == nullptr ? "" : path;
    return bonsai::Status::OK();
  });
}
void bonsai_options_set_fabric_wait_ms_max(bonsai_options_t* options, uint32_t milliseconds) {
  options->options.fabric_wait_ms_max = milliseconds;
}
void bonsai_options_set_fabric_workers(bonsai_options_t* options, uint32_t workers) {
  options->options.fabric_workers = workers;
}
void bonsai_options_set_scrub_bytes_per_s(bonsai_options_t* options, uint64_t bytes) {
  options->options.scrub_bytes_per_s = bytes;
}
void bonsai_options_set_take_over(bonsai_options_t* options, unsigned char on) { options->options.take_over = on != 0; }

void bonsai_options_set_log_sink(bonsai_options_t* options, bonsai_log_sink sink, void* arg) {
  if (sink == nullptr) {
    options->options.log_sink = nullptr;
    return;
  }
  // Two pointers fit into the function object itself, so this allocates nothing.
  options->options.log_sink = [sink, arg](char severity, std::string_view message) {
    sink(arg, severity, message.data(), message.size());
  };
}

}  // extern "C"
