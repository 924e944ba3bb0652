// SPDX-License-Identifier: Apache-2.0
#include "store/target.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "base/coro/scheduler.h"
#include "base/nvm/hooked_product.h"
#include "base/nvm/media.h"
#include "base/nvm/os_file.h"
#include "base/status_macros.h"
#include "persist/pool.h"
#include "scale/remote_target.h"
#include "scale/volume.h"

namespace bonsai::store {
namespace {

// A DAX device exists before its pool does: it is there to be made one when nobody has written to its beginning, or the
// creation of one was interrupted.
bool is_blank_device(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_character_file(path, ignored)) return false;
  base::MappingOptions options;
  options.read_only = true;
  std::unique_ptr<base::Mapping> device;
  if (!base::Mapping::open(path, options, &device).ok()) return false;
  const std::span first_bytes(device->data(), std::min<size_t>(device->bytes(), persist::kFirstBytes));
  return persist::is_unfinished(first_bytes) ||
         std::all_of(first_bytes.begin(), first_bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

Status find_remote(const Options& options, scale::RemoteLinks* links, Target* target, bool* exists) {
  scale::RemoteLink* link = nullptr;
  BONSAI_RETURN_IF_ERROR(links->link_of(target->name, &link));
  const uint64_t mark = options.create_if_missing ? persist::kCreatingMagic : 0;
  const Status status = link->open(target->name, scale::PoolOp::kOpen, persist::kFirstBytes, mark, &target->number);
  *exists = status.ok();
  if (status.ok()) target->link = link;
  return status.IsNotFound() ? Status::OK() : status;
}

Status take_remote(const Options& options, bool create, scale::RemoteLinks* links, Target* target) {
  if (create) {
    scale::RemoteLink* link = nullptr;
    BONSAI_RETURN_IF_ERROR(links->link_of(target->name, &link));
    BONSAI_RETURN_IF_ERROR(link->open(target->name, scale::PoolOp::kCreateUnnamed, target->create_bytes,
                                      persist::kCreatingMagic, &target->number));
    target->link = link;
    return Status::OK();
  }
  const uint64_t bytes = target->link->pool(target->number).region.bytes;
  if (options.grow_bytes <= bytes || target->name.role == scale::TargetRole::kLog) return Status::OK();
  target->bytes_before = bytes;
  return target->link->resize(target->number, options.grow_bytes);
}

}  // namespace

Status parse_targets(const std::string& path, std::vector<scale::TargetName>* names) {
  names->clear();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t comma = std::min(path.find(',', begin), path.size());
    if (comma == begin) {
      return Status::InvalidArgument(path.empty() ? "the pool's path is empty; name a file, e.g. /dev/shm/my.pool"
                                                  : "a part of the path list '" + path +
                                                        "' is empty; name one file per target, with one comma between");
    }
    scale::TargetName name;
    BONSAI_RETURN_IF_ERROR(scale::parse_target_name(path.substr(begin, comma - begin), &name));
    for (const scale::TargetName& other : *names) {
      if (other.text == name.text) {
        return Status::InvalidArgument(name.text + " is named twice; name each target once");
      }
    }
    names->push_back(std::move(name));
    begin = comma + 1;
  }
  if (names->size() > scale::kTargetsMax) {
    return Status::InvalidArgument("a pool has at most " + std::to_string(scale::kTargetsMax) + " targets, " +
                                   std::to_string(names->size()) + " were named");
  }
  return Status::OK();
}

Status find_target(const Options& options, scale::RemoteLinks* links, Target* target, bool* exists) {
  if (target->name.is_remote()) return find_remote(options, links, target, exists);
  const std::string& path = target->name.text;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Status::IoError(path + " is a directory; name a file in it");
  if (options.create_if_missing) {
    static_cast<void>(base::remove_unused(path, persist::kFirstBytes, persist::is_unfinished));
  }
  std::error_code error;
  *exists = std::filesystem::exists(path, error) && !is_blank_device(path);
  return error ? base::os_error("examine", path, error.value()) : Status::OK();
}

Status take_target(const Options& options, bool create, scale::RemoteLinks* links, Target* target) {
  const std::string& path = target->name.text;
  if (options.medium == MediumChoice::kDram) {
    return base::Mapping::make_in_memory(path, target->create_bytes, &target->mapping);
  }
  if (target->name.is_remote()) return take_remote(options, create, links, target);
  base::MappingOptions mapping;
  mapping.create_bytes = create ? target->create_bytes : 0;
  mapping.create_mark = persist::kCreatingMagic;
  mapping.name_later = create;
  mapping.grow_bytes = create || target->name.role == scale::TargetRole::kLog ? 0 : options.grow_bytes;
  mapping.domain = options.persistence_domain;
  return base::Mapping::open(path, mapping, &target->mapping);
}

Status make_medium(const TestOptions& test, Target* target) {
  if (target->link == nullptr) {
    base::MediaOptions options;
    options.test = test;
    options.wait_until = base::wait_closely_until;
    base::Media media;
    BONSAI_RETURN_IF_ERROR(base::make_media(*target->mapping, options, &media));
    target->hooked = std::move(media.hooked);
    target->text = std::move(media.text);
    target->emulated = media.emulated;
    return Status::OK();
  }
  if (test.medium != TestMedium::kNone) {
    return Status::InvalidArgument(target->name.text + " is on another node, where no test medium can be put on it; " +
                                   "give bonsaid there the medium, or name a file of this machine");
  }
  std::unique_ptr<scale::RemoteTarget> medium;
  BONSAI_RETURN_IF_ERROR(scale::RemoteTarget::make(target->link, target->number, &medium));
  target->hooked = std::move(medium);
  target->text = target->link->pool(target->number).text;
  target->emulated = target->link->pool(target->number).emulated;
  return Status::OK();
}

std::unique_ptr<scale::VolumeOf<base::HookedMedium>> hooked_volume(std::vector<Target>* targets) {
  std::vector<base::HookedMedium*> media;
  for (Target& target : *targets) {
    if (target.hooked == nullptr) target.hooked = std::make_unique<base::HookedProduct>(*target.mapping);
    media.push_back(target.hooked.get());
  }
  return std::make_unique<scale::VolumeOf<base::HookedMedium>>(media);
}

Status name_targets(std::span<Target> targets) {
  for (Target& target : targets) {
    if (target.link != nullptr) BONSAI_RETURN_IF_ERROR(target.link->complete(target.number));
    if (target.mapping != nullptr) BONSAI_RETURN_IF_ERROR(target.mapping->take_name());
  }
  return Status::OK();
}

Status remove_target(Target* target) {
  target->hooked.reset();
  if (scale::RemoteLink* const link = std::exchange(target->link, nullptr); link != nullptr) {
    return link->remove(target->number);
  }
  return target->mapping == nullptr ? Status::OK() : target->mapping->remove();
}

bool is_enlarged(const Target& target) {
  return target.bytes_before != 0 || (target.mapping != nullptr && target.mapping->enlarged());
}

void shrink_target(const Target& target) {
  if (!is_enlarged(target)) return;
  if (target.link != nullptr) {
    static_cast<void>(target.link->resize(target.number, target.bytes_before));
  } else {
    static_cast<void>(target.mapping->shrink_back());
  }
}

std::string describe_targets(const std::vector<Target>& targets) {
  std::vector<std::string> texts;
  for (const Target& target : targets) {
    const bool one_role = target.name.role == scale::TargetRole::kLog || target.name.role == scale::TargetRole::kDnodes;
    const std::string text = target.text + (one_role ? ", for " + std::string(role_text(target.name.role)) : "");
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

}  // namespace bonsai::store
