// SPDX-License-Identifier: Apache-2.0
// Makes the medium of a mapping, and the test or emulation medium on top of it if one is requested.
#ifndef BONSAI_BASE_NVM_MEDIA_H_
#define BONSAI_BASE_NVM_MEDIA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/nvm/emulator.h"
#include "base/nvm/mapping.h"
#include "base/nvm/medium.h"
#include "bonsai/status.h"
#include "bonsai/testing.h"

namespace bonsai::base {

struct MediaOptions {
  TestOptions test;
  EmulatorMedium::WaitUntil wait_until = wait_politely_until;
};

struct Media {
  // Null, as for a mapping that is read-only: hot code uses ProductMedium(mapping.data(), mapping.bytes(),
  // mapping.domain()).
  std::unique_ptr<HookedMedium> hooked;
  // The stamp of results, e.g. "optane model on tmpfs (emulated NVM), flush clwb, domain ADR".
  std::string text;
  // Whether this is not real NVM: an emulated mapping, or a test or emulation medium on top of it.
  bool emulated = true;
  // Whether a fence may take as long as a disk does. If not, it takes no longer than memory and its model.
  bool fence_blocks = false;
};

// Requires: the mapping outlives *media.
// Errors: InvalidArgument (unknown preset; eADR declared for a plain file, which only msync makes durable; a canary or
// shadow that is impossible here), and those of ShadowMedium::make.
Status make_media(const Mapping& mapping, const MediaOptions& options, Media* media);

}  // namespace bonsai::base

#endif  // BONSAI_BASE_NVM_MEDIA_H_
