// A pool that is not open, mapped for reading: nothing of it changes.
#ifndef BONSAI_STORE_READ_ONLY_POOL_H_
#define BONSAI_STORE_READ_ONLY_POOL_H_

#include <memory>
#include <string>
#include <vector>

#include "base/nvm/mapping.h"
#include "base/nvm/product.h"
#include "base/status_macros.h"
#include "persist/pool.h"
#include "scale/volume.h"
#include "store/tiers.h"

namespace bonsai::store {

class ReadOnlyPool {
 public:
  // Errors: as DB::Open.
  Status open(const std::string& path) {
    std::vector<std::string> paths;
    BONSAI_RETURN_IF_ERROR(split_paths(path, &paths));
    std::vector<base::ProductMedium*> media;
    for (const std::string& target : paths) {
      base::MappingOptions options;
      options.read_only = true;
      mappings_.emplace_back();
      BONSAI_RETURN_IF_ERROR(base::Mapping::open(target, options, &mappings_.back()));
      const base::Mapping& mapping = *mappings_.back();
      media_.push_back(std::make_unique<base::ProductMedium>(mapping.data(), mapping.bytes(), mapping.domain()));
      media.push_back(media_.back().get());
    }
    volume_ = std::make_unique<scale::VolumeOf<base::ProductMedium>>(media);
    return persist::read_pool(*volume_, paths, &pool_);
  }

  // Requires: open() succeeded.
  [[nodiscard]] scale::Volume& volume() const { return *volume_; }
  [[nodiscard]] const persist::Pool& pool() const { return pool_; }

 private:
  std::vector<std::unique_ptr<base::Mapping>> mappings_;
  std::vector<std::unique_ptr<base::ProductMedium>> media_;
  std::unique_ptr<scale::Volume> volume_;
  persist::Pool pool_;
};

}  // namespace bonsai::store

#endif  // BONSAI_STORE_READ_ONLY_POOL_H_
