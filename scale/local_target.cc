// SPDX-License-Identifier: Apache-2.0
#include "scale/local_target.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/nvm/hooked_product.h"
#include "base/nvm/medium_kind.h"
#include "base/nvm/os_file.h"
#include "base/status_macros.h"
#include "scale/pool_owner.h"

namespace bonsai::scale {
namespace {

// A DAX device has its name before it holds a pool. It holds none if its beginning is blank, or the creation of a pool
// was interrupted.
bool is_blank_device(const std::string& path, const TargetConfig& config) {
  std::error_code ignored;
  if (!std::filesystem::is_character_file(path, ignored)) return false;
  base::MappingOptions options;
  options.read_only = true;
  std::unique_ptr<base::Mapping> device;
  if (!base::Mapping::open(path, options, &device).ok()) return false;
  const std::span first_bytes(device->data(), std::min<size_t>(device->bytes(), config.first_bytes));
  return base::is_marked(first_bytes, config.mark) ||
         std::all_of(first_bytes.begin(), first_bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

Status LocalTarget::exists(bool discard_unfinished, bool* exists) {
  const std::string& path = name();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Status::IoError(path + " is a directory; name a file in it");
  if (discard_unfinished) {
    const auto unfinished = [this](std::span<const std::byte> first) { return base::is_marked(first, config_.mark); };
    static_cast<void>(base::remove_unused(path, config_.first_bytes, unfinished));
  }
  std::error_code error;
  *exists = std::filesystem::exists(path, error) && !is_blank_device(path, config_);
  return error ? base::os_error("examine", path, error.value()) : Status::OK();
}

Status LocalTarget::create(uint64_t bytes) {
  if (config_.in_memory) {
    BONSAI_RETURN_IF_ERROR(base::Mapping::make_in_memory(name(), bytes, &mapping_));
    return make_medium();
  }
  base::MappingOptions options;
  options.create_bytes = bytes;
  options.create_mark = config_.mark;
  options.name_later = true;
  return map(options);
}

Status LocalTarget::open(uint64_t grow_bytes) {
  base::MappingOptions options;
  options.grow_bytes = grow_bytes;
  return map(options);
}

Status LocalTarget::open_read_only() {
  base::MappingOptions options;
  options.read_only = true;
  return base::Mapping::open(name(), options, &mapping_);
}

Status LocalTarget::open_own_copy() {
  base::MappingOptions options;
  options.read_only = options.own_copy = true;
  options.domain = config_.domain;
  BONSAI_RETURN_IF_ERROR(base::Mapping::open(name(), options, &mapping_));
  BONSAI_RETURN_IF_ERROR(make_medium());
  medium_text_ += ", read-only";
  return Status::OK();
}

Status LocalTarget::map(const base::MappingOptions& options) {
  base::MappingOptions declared = options;
  declared.domain = config_.domain;
  // From here on shrink_back() knows it, whatever fails below.
  BONSAI_RETURN_IF_ERROR(base::Mapping::open(name(), declared, &mapping_));
  std::error_code ignored;
  // A new file has its name, and with it a record, later.
  if (options.create_bytes == 0 || std::filesystem::is_character_file(name(), ignored)) {
    const Status status = take_over_record(name());
    if (!status.ok()) {
      shrink_back();
      mapping_.reset();
      return status;
    }
  }
  return make_medium();
}

// An earlier file of that name may have left a record. It is this file's, and may be written, once the file has the
// name and is locked.
Status LocalTarget::complete() {
  BONSAI_RETURN_IF_ERROR(mapping_->take_name());
  if (config_.in_memory) return Status::OK();
  const Status status = take_over_record(name());
  if (!status.ok()) static_cast<void>(mapping_->remove());
  return status;
}

Status LocalTarget::make_medium() {
  BONSAI_CHECK(mapping_ != nullptr && hooked_ == nullptr && product_ == nullptr);
  base::Media media;
  BONSAI_RETURN_IF_ERROR(base::make_media(*mapping_, config_.media, &media));
  needs_hook_ = media.hooked != nullptr;
  hooked_ = std::move(media.hooked);
  medium_text_ = std::move(media.text);
  emulated_ = media.emulated;
  return Status::OK();
}

base::ProductMedium* LocalTarget::product() {
  BONSAI_CHECK(mapping_ != nullptr);  // created or open
  if (needs_hook_) return nullptr;
  if (product_ == nullptr) {
    product_ = std::make_unique<base::ProductMedium>(mapping_->data(), mapping_->bytes(), mapping_->domain());
  }
  return product_.get();
}

base::HookedMedium* LocalTarget::hooked() {
  BONSAI_CHECK(mapping_ != nullptr && (hooked_ != nullptr || !needs_hook_));
  if (hooked_ == nullptr) hooked_ = std::make_unique<base::HookedProduct>(*mapping_);
  return hooked_.get();
}

void LocalTarget::shrink_back() {
  if (enlarged()) static_cast<void>(mapping_->shrink_back());
}

Status LocalTarget::remove() {
  hooked_.reset();
  product_.reset();
  return mapping_ == nullptr ? Status::OK() : mapping_->remove();
}

Status LocalTarget::look_at_group(std::vector<GroupInfo>* groups) {
  const std::filesystem::path path(name());
  uint64_t epoch = 0;
  VersionedPage page;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Status::OK();
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  BONSAI_RETURN_IF_ERROR(PoolOwner::recorded_page(folder, path.filename().string(), &epoch, &page));
  if (page.page.members != 0) groups->push_back(info_of(page, name()));
  return Status::OK();
}

Status LocalTarget::describe(std::string* text) {
  return base::describe_medium(name(), PersistenceDomain::kAuto, text);
}

}  // namespace bonsai::scale
