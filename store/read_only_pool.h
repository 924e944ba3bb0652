// SPDX-License-Identifier: Apache-2.0
// Reads a pool that is not open, without changing it. Files are mapped; a remote target is fetched whole.
#ifndef BONSAI_STORE_READ_ONLY_POOL_H_
#define BONSAI_STORE_READ_ONLY_POOL_H_

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/nvm/mapping.h"
#include "base/nvm/product.h"
#include "base/status_macros.h"
#include "persist/pool.h"
#include "scale/remote_links.h"
#include "scale/residence.h"
#include "scale/volume.h"
#include "store/target.h"

namespace bonsai::store {

class ReadOnlyPool {
 public:
  // `options`: how remote targets are reached. Of those at most `bytes_max` are fetched. Errors: as DB::Open.
  Status open(const std::string& path, const Options& options, uint64_t bytes_max = UINT64_MAX) {
    std::vector<scale::TargetName> names;
    BONSAI_RETURN_IF_ERROR(parse_targets(path, &names));
    links_ = std::make_unique<scale::RemoteLinks>(options.fabric_secret_file, options.fabric_wait_ms_max,
                                                  options.fabric_workers);
    std::vector<base::ProductMedium*> media;
    std::vector<scale::FarRange> remote;
    std::vector<std::string> texts;
    for (scale::TargetName& name : names) {
      texts.push_back(name.text);
      targets_.emplace_back().name = std::move(name);
      Target& target = targets_.back();
      BONSAI_RETURN_IF_ERROR(target.name.is_remote() ? find(&target) : map(&target));
      media.push_back(target.product.get());
      if (target.hooked == nullptr) continue;
      remote.push_back({target.hooked->far(), 0, std::min<uint64_t>(target.hooked->bytes(), bytes_max)});
    }
    BONSAI_RETURN_IF_ERROR(scale::make_resident(remote));
    volume_ = std::make_unique<scale::VolumeOf<base::ProductMedium>>(media);
    return persist::read_pool(*volume_, texts, &pool_);
  }

  // Requires: open() succeeded.
  [[nodiscard]] scale::Volume& volume() const { return *volume_; }
  [[nodiscard]] const persist::Pool& pool() const { return pool_; }

 private:
  static Status map(Target* target) {
    base::MappingOptions options;
    options.read_only = true;
    BONSAI_RETURN_IF_ERROR(base::Mapping::open(target->name.text, options, &target->mapping));
    const base::Mapping& mapping = *target->mapping;
    target->product = std::make_unique<base::ProductMedium>(mapping.data(), mapping.bytes(), mapping.domain());
    return Status::OK();
  }

  Status find(Target* target) {
    bool exists = false;
    BONSAI_RETURN_IF_ERROR(find_target(Options(), links_.get(), target, &exists));
    if (!exists) return Status::IoError(target->name.text + " does not exist: its node serves no such pool");
    BONSAI_RETURN_IF_ERROR(make_medium(TestOptions(), target));
    const std::span<std::byte> mirror = target->link->target(target->number)->mirror->addresses();
    target->product = std::make_unique<base::ProductMedium>(mirror.data(), mirror.size(), PersistenceDomain::kAdr);
    return Status::OK();
  }

  std::unique_ptr<scale::RemoteLinks> links_;
  std::vector<Target> targets_;
  std::unique_ptr<scale::Volume> volume_;
  persist::Pool pool_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_READ_ONLY_POOL_H_
