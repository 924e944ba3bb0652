// SPDX-License-Identifier: Apache-2.0
// Patches applied to whole pools (store/golden): analysis and recovery end, and their results can be read. A patch: u8
// kind, u8 bytes, u32 offset, the bytes. Kinds: without further changes; with a new check of the word, header,
// superblock or run there.
#include <zlib.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz.h"
#include "persist/survey.h"
#include "persist/testing.h"
#include "persist/testing/reseal.h"
#include "persist/words.h"

namespace bonsai::persist {
namespace {

using bonsai::testing::fuzz_bytes;
using bonsai::testing::FuzzInput;
using bonsai::testing::FuzzRegistration;
using scale::Addr;
using testing::MemoryMedium;
using testing::Rig;

constexpr uint64_t kPoolBytes = uint64_t{128} << 10;
constexpr size_t kPatchesMax = 16;
constexpr const char* kPools[] = {"closed", "crashed-durable", "crashed-buffered", "several-runs"};
constexpr uint64_t kVersions = kFormatVersion - kFormatVersionMin + 1;
enum Kind : uint8_t { kPlain, kWord, kHeader, kSuperblock, kRun, kKinds };

std::vector<std::byte> unpacked(uint64_t version, const std::string& name) {
  const std::string path =
      std::string(BONSAI_SOURCE_DIR) + "/store/golden/v" + std::to_string(version) + "-" + name + ".gz";
  std::vector<std::byte> bytes(kPoolBytes);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  BONSAI_CHECK(file != nullptr && gzread(file.get(), bytes.data(), kPoolBytes) == static_cast<int>(kPoolBytes));
  return bytes;
}

// The newest version's first.
const std::vector<std::byte>& golden(size_t i) {
  static const std::vector<std::vector<std::byte>> all = [] {
    std::vector<std::vector<std::byte>> pools;
    for (uint64_t version = kFormatVersion; version >= kFormatVersionMin; --version) {
      for (const char* const name : kPools) pools.push_back(unpacked(version, name));
    }
    return pools;
  }();
  return all[i % all.size()];
}

uint64_t identity_of(const MemoryMedium& medium) {
  uint64_t id[2];
  std::memcpy(id, medium.view() + offsetof(Superblock, pool_id), sizeof id);
  return pool_identity(id);
}

void reseal_runs(MemoryMedium* medium, const DnodeHeader& header, uint64_t identity) {
  for (const RunDesc& run : header.runs) {
    const Addr at = Addr::of_bits(run.addr);
    const bool inside = at.target() == 0 && at.offset() >= kPageBytes && at.offset() + run.bytes <= kPoolBytes;
    if (inside && RunView::well_formed(run)) {
      testing::reseal_run(medium->view() + at.offset(), run, identity);
      return;
    }
  }
}

void reseal(MemoryMedium* medium, Kind kind, uint64_t offset) {
  const uint64_t identity = identity_of(*medium);
  std::byte* const view = medium->view();
  if (kind == kWord) {
    const uint64_t at = std::min(offset / 8 * 8, kPoolBytes - 8);
    uint64_t word;
    std::memcpy(&word, view + at, sizeof word);
    word = checked_word(word & kCheckedWordMax, place_seed(identity, Addr(0, at).bits()));
    std::memcpy(view + at, &word, sizeof word);
  } else if (kind == kHeader || kind == kRun) {
    const uint64_t at = std::min(offset / kDnodeHeaderBytes * kDnodeHeaderBytes, kPoolBytes - kDnodeHeaderBytes);
    DnodeHeader header;
    std::memcpy(&header, view + at, sizeof header);
    if (header.magic != kDnodeMagic) return;
    if (kind == kRun) return reseal_runs(medium, header, identity);
    testing::reseal_header(&header, place_seed(identity, Addr(0, at).bits()));
    std::memcpy(view + at, &header, sizeof header);
  } else if (kind == kSuperblock) {
    const uint64_t at = offset % kSuperblockCopies * kPageBytes;
    Superblock superblock;
    std::memcpy(&superblock, view + at, sizeof superblock);
    superblock.seal();
    std::memcpy(view + at, &superblock, sizeof superblock);
  }
}

void read_all(const Rig& rig) {
  for (const Tile& tile : rig.analysis.tiles) {
    RunReader reader(rig.volume);
    static_cast<void>(survey(&reader, *rig.analysis.dnodes[tile.dnode], tile.lo, tile.hi));
  }
  static_cast<void>(testing::analysed_content(rig));
}

void run(std::string_view bytes) {
  FuzzInput input(bytes);
  MemoryMedium medium(golden(input.take<uint8_t>()));
  for (size_t i = 0; i < kPatchesMax && !input.empty(); ++i) {
    const auto kind = static_cast<Kind>(input.take<uint8_t>() % kKinds);
    const auto length = input.take<uint8_t>();
    const uint64_t offset = input.take<uint32_t>() % kPoolBytes;
    const std::string_view patch = input.take_bytes(std::min<uint64_t>(length, kPoolBytes - offset));
    if (!patch.empty()) std::memcpy(medium.view() + offset, patch.data(), patch.size());
    reseal(&medium, kind, offset);
  }
  Rig reader({&medium});
  if (const Status status = reader.analyse_only(); !status.ok()) {
    BONSAI_CHECK(!status.message().empty());
    return;
  }
  read_all(reader);
  const bool damaged = !reader.analysis.damages.empty();
  Rig rig({&medium});
  const Status status = rig.open();
  BONSAI_CHECK(!damaged || !status.ok());
  if (status.ok()) static_cast<void>(testing::recovered_content(rig));
}

std::string patch(Kind kind, uint64_t offset, std::string_view bytes) {
  return fuzz_bytes(uint8_t{kind}) + fuzz_bytes(static_cast<uint8_t>(bytes.size())) +
         fuzz_bytes(static_cast<uint32_t>(offset)) + std::string(bytes);
}

// Each golden pool without changes; then, at each header, a patch of its generation and of its runs.
std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  for (uint8_t pool = 0; pool < std::size(kPools) * kVersions; ++pool) {
    const std::string first = fuzz_bytes(pool);
    seeds.push_back(first);
    seeds.push_back(first + patch(kWord, kStateRunOffset, "\1"));
    seeds.push_back(first + patch(kSuperblock, offsetof(Superblock, segments), std::string("\5\0", 2)));
    const std::vector<std::byte>& bytes = golden(pool);
    for (uint64_t at = kPageBytes; at < bytes.size() && seeds.size() < 32; at += kDnodeHeaderBytes) {
      uint64_t magic;
      std::memcpy(&magic, bytes.data() + at, sizeof magic);
      if (magic != kDnodeMagic) continue;
      seeds.push_back(first + patch(kHeader, at + offsetof(DnodeHeader, gen), "\7") +
                      patch(kRun, at + offsetof(DnodeHeader, runs), ""));
    }
  }
  return seeds;
}

const FuzzRegistration pool("pool", run, seeds);

}  // namespace
}  // namespace bonsai::persist
