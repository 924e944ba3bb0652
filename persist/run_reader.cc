// SPDX-License-Identifier: Apache-2.0
#include "persist/run_reader.h"

#include "scale/mend.h"

namespace bonsai::persist {

using scale::Addr;

const std::byte* RunReader::find_whole(const RunDesc& run) const {
  const auto at = whole_->find({run.addr, run.birth});
  return at != whole_->end() ? at->second : nullptr;
}

const std::byte* RunReader::bytes(const RunDesc& run) {
  const Addr addr = Addr::of_bits(run.addr);
  if (reads_.mapped(addr) != nullptr) return reads_.issue(addr, run.bytes);
  if (whole_ == nullptr) whole_ = std::make_unique<Whole>();
  const std::byte*& bytes = (*whole_)[{run.addr, run.birth}];
  if (bytes == nullptr) bytes = reads_.issue(addr, run.bytes);
  return bytes;
}

const std::byte* RunReader::parts(const RunDesc& run, std::span<const ByteRange> parts) {
  if (parts.empty()) return nullptr;
  const Addr addr = Addr::of_bits(run.addr);
  const uint32_t begin = parts.front().begin;
  const std::byte* const place = reads_.place(addr + begin, parts.back().end - begin);
  for (const ByteRange& part : parts)
    reads_.read(addr + part.begin, part.end - part.begin, place + (part.begin - begin));
  return scale::begin_of(place, begin);
}

const std::byte* RunReader::mended(const RunDesc& run) {
  const auto is_sound = [&](const std::byte* bytes) { return RunView(bytes, run, volume_.identity()).verify(); };
  const std::byte* const bytes =
      scale::mended(volume_, Addr::of_bits(run.addr), run.bytes, is_sound, &reads_, &is_known_);
  if (bytes != nullptr && whole_ != nullptr) (*whole_)[{run.addr, run.birth}] = bytes;
  return bytes;
}

bool RunReader::mend(RunView* view) {
  const std::byte* const bytes = mended(view->desc());
  if (bytes != nullptr) view->move_to(bytes);
  return bytes != nullptr;
}

Status RunReader::wait_for_reads(uint64_t now_ns) {
  Status status = reads_.wait(now_ns);
  if (!status.ok() && whole_ != nullptr)
    std::erase_if(*whole_, [this](const auto& run) { return lost(run.first.first); });
  return status;
}

Trouble read_entries(RunReader* reader, const RunDesc& desc, std::vector<Entry>* entries) {
  RunView run = reader->run(desc);
  if (!reader->wait().ok()) return Trouble::kUnavailable;
  entries->resize(run.count());
  const bool is_sound = reader->read_soundly(&run, [&] {
    RunView trusted = run;  // a local copy: its fields stay in registers
    trusted.trust();
    for (uint32_t i = 0; i < trusted.count(); ++i) {
      if (!trusted.entry(i, &(*entries)[i])) return false;
    }
    return true;
  });
  return is_sound ? Trouble::kNone : reader->not_mended();
}

}  // namespace bonsai::persist
