// SPDX-License-Identifier: Apache-2.0
// Any bytes as a superblock, a dnode with its runs, a run, a log record: refused, or with all numbers within bounds.
// The first byte selects the checks that are computed anew over the others.
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

namespace bonsai::persist {
namespace {

using base::Fence;
using base::Key;
using bonsai::testing::fuzz_bytes;
using bonsai::testing::FuzzInput;
using bonsai::testing::FuzzRegistration;
using scale::Addr;
using testing::MemoryMedium;

constexpr uint64_t kBytes = uint64_t{128} << 10;
constexpr uint8_t kResealFirst = 1;
constexpr uint8_t kResealSecond = 2;

// A target of nothing but zeros, bound to a pool.
struct BareTarget {
  BareTarget() : medium(kBytes), volume({&medium}) { volume.bind(pool_identity(testing::kPoolId)); }
  MemoryMedium medium;
  scale::VolumeOf<base::HookedMedium> volume;
};

void put(MemoryMedium* medium, uint64_t at, std::string_view bytes) {
  BONSAI_CHECK(at + bytes.size() <= kBytes);
  if (bytes.empty()) return;  // without bytes there may be no pointer, which memcpy must not get
  std::memcpy(medium->view() + at, bytes.data(), bytes.size());
}

// ---- superblock

void run_superblock(std::string_view bytes) {
  FuzzInput input(bytes);
  const auto flags = input.take<uint8_t>();
  BareTarget target;
  for (uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
    auto superblock = input.take<Superblock>();
    if ((flags & (kResealFirst << copy)) != 0) superblock.seal();
    put(&target.medium, copy * kPageBytes, fuzz_bytes(superblock));
  }
  Pool pool;
  const Status status = read_pool(target.volume, {"fuzz"}, &pool);
  if (!status.ok()) {
    BONSAI_CHECK(!status.message().empty());
    return;
  }
  for (const Addr at : pool.segments()) BONSAI_CHECK(target.volume.contains(at, pool.segment_bytes()));
  for (const Addr at : pool.entries()) BONSAI_CHECK(target.volume.contains(at, sizeof(SegmentEntry)));
  for (const ExtentGeometry& extents : pool.geometry()) {
    BONSAI_CHECK(target.volume.contains({0, extents.table_offset}, 8 * extents.extents));
    BONSAI_CHECK(target.volume.contains({0, extents.data_offset}, extents.extents * extents.extent_bytes));
  }
  BONSAI_CHECK(pool.limits().dnode_bytes_max > 0);
  Analysis analysis;
  BONSAI_CHECK(analyse(target.volume, pool, &analysis).ok());
  BONSAI_CHECK(!analysis.damages.empty());
}

std::vector<std::string> seeds_of_superblocks() {
  MemoryMedium medium(kBytes);
  testing::Rig rig({&medium});
  BONSAI_CHECK(rig.format(kBytes / 4).ok());
  const std::string first = fuzz_bytes(std::span(medium.view(), sizeof(Superblock)));
  return {std::string(1, 3) + first + first, std::string(1, 0) + first + std::string(sizeof(Superblock), '\0'),
          std::string(1, 3) + std::string(sizeof(Superblock), '\xff') + first};
}

const FuzzRegistration superblock("superblock", run_superblock, seeds_of_superblocks);

// ---- dnode header, with what it refers to

constexpr uint64_t kSlot = 0x8000, kRuns = 0x9000;
constexpr uint64_t kRunsBytesMax = 8192;

void read_all(const scale::Volume& volume, const Dnode& dnode) {
  RunReader reader(volume);
  const Survey whole = survey(&reader, dnode, dnode.lo(), dnode.hi());
  for (const Entry& entry : whole.entries) BONSAI_CHECK(dnode.hi().above(entry.key));
  const std::unique_ptr<Dnode> uploaded = dnode.uploaded_copy(&reader);
  for (const Dnode* one : {&dnode, static_cast<const Dnode*>(uploaded.get())}) {
    if (one == nullptr) continue;
    std::vector<Key> keys;
    DnodeCursor cursor(volume, *one);
    for (cursor.seek(Key{}); cursor.valid() && keys.size() < 100; cursor.next()) keys.push_back(cursor.entry().key);
    Entry found;
    for (const Key& key : keys) {
      if (one->hi().above(key) && !(key < one->lo().key())) {
        static_cast<void>(DnodeSearch().run(&reader, *one, key, key.hash(), &found));
      }
    }
  }
}

void run_header(std::string_view bytes) {
  FuzzInput input(bytes);
  const auto flags = input.take<uint8_t>();
  auto header = input.take<DnodeHeader>();
  BareTarget target;
  const uint64_t identity = target.volume.identity();
  put(&target.medium, kRuns, input.rest().substr(0, kRunsBytesMax));
  if ((flags & kResealSecond) != 0) {
    for (const RunDesc& run : header.runs) {
      const Addr at = Addr::of_bits(run.addr);
      if (!RunView::well_formed(run) || !target.volume.contains(at, run.bytes) || at.offset() < kRuns) continue;
      testing::reseal_run(target.medium.view() + at.offset(), run, identity);
    }
  }
  if ((flags & kResealFirst) != 0) testing::reseal_header(&header, place_seed(identity, Addr(0, kSlot).bits()));
  put(&target.medium, kSlot, fuzz_bytes(header));
  const SlotRead read = read_slot(target.volume, Addr(0, kSlot), kFormatVersion);
  BONSAI_CHECK((read.state == SlotRead::State::kLive) == (read.dnode != nullptr));
  if (read.dnode != nullptr) read_all(target.volume, *read.dnode);
}

std::string header_seed(const testing::Entries& older, const testing::Entries& newer, const std::string& hi) {
  DnodeHeader header{};
  header.magic = kDnodeMagic;
  header.writes = 3;
  header.gen = 7;
  header.mark = 1;
  header.hi_bytes = hi.empty() ? kInfiniteFence : static_cast<uint16_t>(hi.size());
  std::memcpy(header.fences, hi.data(), hi.size());
  std::string runs;
  for (const testing::Entries* entries : {&older, &newer}) {
    if (entries->list().empty()) continue;
    std::vector<std::byte> bytes;
    const RunTie tie{pool_identity(testing::kPoolId), Addr(0, kRuns + runs.size()).bits(), 9};
    header.runs[header.runs_count++] = encode_run(entries->list(), tie, &bytes);
    runs += fuzz_bytes(std::span(bytes));
    runs.resize(round_up(runs.size(), kBlockBytes));
  }
  return std::string(1, 3) + fuzz_bytes(header) + runs;
}

std::vector<std::string> seeds_of_headers() {
  testing::Entries none, uniform, variable;
  for (const char* key : {"a1", "b2", "c3", "d4"}) uniform.put(key, "12345678");
  variable.put("a1", "a longer value");
  variable.del("b2");
  variable.put_large("c", {Addr(0, 0xc000).bits(), 100, 5});
  return {header_seed(uniform, none, ""), header_seed(uniform, variable, ""), header_seed(variable, uniform, "c3"),
          header_seed(none, none, "")};
}

const FuzzRegistration header("dnode_header", run_header, seeds_of_headers);

// ---- run

void run_run(std::string_view bytes) {
  FuzzInput input(bytes);
  const auto flags = input.take<uint8_t>();
  auto desc = input.take<RunDesc>();
  const std::string_view rest = input.rest().substr(0, kRunsBytesMax);
  desc.bytes = static_cast<uint32_t>(rest.size());
  if (!RunView::well_formed(desc)) return;
  std::vector<std::byte> memory(rest.size());  // as large as it says, for AddressSanitizer
  std::memcpy(memory.data(), rest.data(), rest.size());
  const uint64_t identity = pool_identity(testing::kPoolId);
  if ((flags & kResealFirst) != 0) testing::reseal_run(memory.data(), desc, identity);
  RunView run(memory.data(), desc, identity);
  if ((flags & kResealSecond) != 0) run.trust();
  Entry entry, found;
  uint32_t index = 0;
  for (uint32_t i = 0; i < run.count(); ++i) {
    if (!run.entry(i, &entry)) continue;
    BONSAI_CHECK(entry.key.bytes.size() >= kKeyBytesMin && entry.key.bytes.size() <= kKeyBytesMax);
    if (i % 8 != 0) continue;
    if (run.find(entry.key, &found) == Find::kFound) BONSAI_CHECK(found.key == entry.key);
    if (run.lower_bound(entry.key, &index)) BONSAI_CHECK(index <= run.count());
  }
}

std::vector<std::string> seeds_of_runs() {
  testing::Entries uniform, variable;
  for (int i = 0; i < 40; ++i) uniform.put("key." + std::to_string(1000 + i), "value");
  for (int i = 0; i < 9; ++i) variable.put(std::string(static_cast<size_t>(1 + i), 'k'), std::to_string(i));
  variable.del("last");
  variable.put_large("later", {1, 2, 3});
  std::vector<std::string> seeds;
  for (const testing::Entries* entries : {&uniform, &variable}) {
    std::vector<std::byte> bytes;
    const RunDesc desc = encode_run(entries->list(), {pool_identity(testing::kPoolId), 4096, 1}, &bytes);
    for (const char flags : {0, 1, 3})
      seeds.push_back(std::string(1, flags) + fuzz_bytes(desc) + fuzz_bytes(std::span(bytes)));
  }
  return seeds;
}

const FuzzRegistration run_of_entries("run", run_run, seeds_of_runs);

// ---- log record

constexpr uint32_t kRecordSeed = 12345;

void run_record(std::string_view bytes) {
  FuzzInput input(bytes);
  const auto flags = input.take<uint8_t>();
  const std::string_view rest = input.rest();
  std::vector<std::byte> memory(rest.size());
  if (!memory.empty()) std::memcpy(memory.data(), rest.data(), rest.size());
  if ((flags & kResealFirst) != 0 && memory.size() > sizeof(uint32_t)) {
    const uint32_t crc = base::crc32c(memory.data() + sizeof crc, memory.size() - sizeof crc, kRecordSeed);
    std::memcpy(memory.data(), &crc, sizeof crc);
  }
  RecordView view;
  if (!view.parse(memory.data(), memory.size(), kRecordSeed)) return;
  BONSAI_CHECK(view.bytes <= memory.size() && view.bytes % 8 == 0);
  for (const Update& update : view.updates) {
    BONSAI_CHECK(!update.key.empty() && update.key.size() <= kKeyBytesMax);
    BONSAI_CHECK(!update.large || update.value.size() == sizeof(LargeRef));
  }
  std::vector<std::byte> again(view.bytes);
  if (view.kind == RecordKind::kEpoch) encode_epoch(view.epoch, kRecordSeed, again.data());
  if (view.kind == RecordKind::kBatch) encode_batch(view.updates, kRecordSeed, again.data());
  if (view.kind == RecordKind::kShare) encode_share(view.updates, view.share, kRecordSeed, again.data());
  if (view.kind == RecordKind::kPut || view.kind == RecordKind::kDel) {
    encode_update(view.updates[0], kRecordSeed, again.data());
  }
}

std::vector<std::string> seeds_of_records() {
  Update one, gone;
  one.key = "12345678", one.value = "a value", one.gen = 300, one.token = 7;
  gone.key = "k", gone.gen = 2, gone.tombstone = true;
  const std::vector<Update> batch = {one, gone, one};
  std::vector<std::string> seeds;
  std::vector<std::byte> bytes(256);
  const auto add = [&](uint64_t encoded) {
    seeds.push_back(std::string(1, 1) + fuzz_bytes(std::span(bytes).first(encoded)));
  };
  add(encode_update(one, kRecordSeed, bytes.data()));
  add(encode_update(gone, kRecordSeed, bytes.data()));
  add(encode_batch(batch, kRecordSeed, bytes.data()));
  add(encode_share(batch, {1, 3}, kRecordSeed, bytes.data()));
  add(encode_epoch(77, kRecordSeed, bytes.data()));
  return seeds;
}

const FuzzRegistration record("log_record", run_record, seeds_of_records);

}  // namespace
}  // namespace bonsai::persist
