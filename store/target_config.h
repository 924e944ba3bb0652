// SPDX-License-Identifier: Apache-2.0
// The configuration of a pool's targets, from the public options.
#ifndef BONSAI_STORE_TARGET_CONFIG_H_
#define BONSAI_STORE_TARGET_CONFIG_H_

#include <string>

#include "base/coro/scheduler.h"
#include "bonsai/options.h"
#include "persist/format.h"
#include "persist/pool.h"
#include "scale/target.h"

namespace bonsai::store {

inline scale::TargetConfig target_config(const Options& options) {
  scale::TargetConfig config;
  config.mark = persist::kCreatingMagic;
  config.first_bytes = persist::kFirstBytes;
  config.domain = options.persistence_domain;
  config.media.wait_until = base::wait_closely_until;
  config.secret_file = options.fabric_secret_file;
  config.limit_ms = options.fabric_wait_ms_max;
  config.workers = options.fabric_workers;
  config.take_over = options.take_over;
  config.note = [sink = options.log_sink](const std::string& text) {
    if (sink) sink('W', text);
  };
  return config;
}

}  // namespace bonsai::store

#endif  // BONSAI_STORE_TARGET_CONFIG_H_
