// SPDX-License-Identifier: Apache-2.0
#include "base/nvm/media.h"

#include "base/nvm/far.h"
#include "base/nvm/file.h"
#include "base/nvm/shadow.h"
#include "base/status_macros.h"

namespace bonsai::base {
namespace {

Status make_automatic(const Mapping& mapping, Media* media) {
  if (mapping.kind() != MediumKind::kFile || mapping.read_only()) return Status::OK();
  if (mapping.domain() == PersistenceDomain::kEadr) {
    return Status::InvalidArgument("domain eADR is declared, but " + mapping.path() +
                                   " is a plain file, whose stores do not survive a power cut: declare auto or adr, or "
                                   "put the pool on NVM or tmpfs");
  }
  media->hooked = std::make_unique<FileMedium>(mapping);
  media->fence_blocks = true;
  return Status::OK();
}

void label(const Mapping& mapping, const std::string& name, Media* media) {
  media->text = name + " on " + describe_medium(mapping.kind(), mapping.domain(), /*by_msync=*/false);
  media->emulated = true;
}

Status make_shadow(const Mapping& mapping, const MediaOptions& options, Media* media) {
  ShadowOptions shadow;
  shadow.drops_flushes = options.test.shadow_drops_flushes;
  shadow.eviction_seed = options.test.shadow_eviction_seed;
  std::unique_ptr<ShadowMedium> made;
  BONSAI_RETURN_IF_ERROR(ShadowMedium::make(mapping, shadow, &made));
  media->hooked = std::move(made);
  label(mapping, options.test.shadow_drops_flushes ? "shadow without flushes" : "shadow", media);
  return Status::OK();
}

Status make_emulator(const Mapping& mapping, const MediaOptions& options, Media* media) {
  EmulatorModel model;
  BONSAI_RETURN_IF_ERROR(emulator_preset(options.test.emulator_preset, &model));
  media->hooked = std::make_unique<EmulatorMedium>(mapping, model, options.wait_until);
  label(mapping, options.test.emulator_preset + " model", media);
  return Status::OK();
}

// The near medium is a shadow, so stores that were not fenced are lost there, too.
Status make_far(const Mapping& mapping, const MediaOptions& options, Media* media) {
  BONSAI_RETURN_IF_ERROR(make_shadow(mapping, options, media));
  media->hooked = std::make_unique<FarMedium>(std::move(media->hooked), FarOptions{.seed = options.test.far_seed});
  label(mapping, "far medium", media);
  return Status::OK();
}

}  // namespace

Status make_media(const Mapping& mapping, const MediaOptions& options, Media* media) {
  Media made{nullptr, mapping.text(), mapping.emulated()};
  switch (options.test.medium) {
    case TestMedium::kNone:
      BONSAI_RETURN_IF_ERROR(make_automatic(mapping, &made));
      break;
    case TestMedium::kShadow:
      BONSAI_RETURN_IF_ERROR(make_shadow(mapping, options, &made));
      break;
    case TestMedium::kEmulator:
      BONSAI_RETURN_IF_ERROR(make_emulator(mapping, options, &made));
      break;
    case TestMedium::kFar:
      BONSAI_RETURN_IF_ERROR(make_far(mapping, options, &made));
      break;
  }
  *media = std::move(made);
  return Status::OK();
}

}  // namespace bonsai::base
