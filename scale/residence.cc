// SPDX-License-Identifier: Apache-2.0
#include "scale/residence.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "scale/await_read.h"

namespace bonsai::scale {

using base::FarReads;

namespace {

constexpr uint64_t kTogetherBytes = uint64_t{1} << 20;

// The pieces to fetch from one medium.
struct Fetch {
  FarReads* far;
  std::vector<FarReads::Piece> pieces = {};
  size_t next = 0;    // of them
  uint64_t done = 0;  // bytes of that one
  uint64_t ticket = 0;
  Status status = {};

  [[nodiscard]] bool begins() const { return next < pieces.size(); }
  void begin();
  // The bound is of all that is in flight together.
  void end(base::BoundedWait* wait);
};

void Fetch::begin() {
  BONSAI_CHECK(begins() && done <= pieces[next].bytes);
  std::vector<FarReads::Piece> together;
  for (uint64_t left = kTogetherBytes; left > 0 && begins();) {
    const FarReads::Piece& piece = pieces[next];
    const uint64_t n = std::min(piece.bytes - done, left);
    together.push_back({piece.offset + done, piece.to + done, n});
    left -= n;
    done += n;
    if (done < piece.bytes) continue;
    ++next;
    done = 0;
  }
  ticket = far->begin(together, nullptr);
}

void Fetch::end(base::BoundedWait* wait) { status = await_read(far, ticket, wait); }

// Ranges that follow each other become one.
Status open(std::span<const FarRange> ranges, std::vector<Fetch>* fetches, const FarReads** failed) {
  for (size_t i = 0; i < ranges.size();) {
    FarRange range = ranges[i++];
    for (; i < ranges.size() && ranges[i].far == range.far && ranges[i].offset == range.offset + range.bytes; ++i) {
      range.bytes += ranges[i].bytes;
    }
    auto of = std::find_if(fetches->begin(), fetches->end(), [&](const Fetch& each) { return each.far == range.far; });
    if (of == fetches->end()) of = fetches->insert(of, {range.far});
    *failed = range.far;
    BONSAI_RETURN_IF_ERROR(range.far->open_resident(range.offset, range.bytes, &of->pieces));
  }
  return Status::OK();
}

}  // namespace

Status make_resident(std::span<const FarRange> ranges, const FarReads** failed) {
  const FarReads* none = nullptr;
  if (failed == nullptr) failed = &none;
  std::vector<Fetch> fetches;
  BONSAI_RETURN_IF_ERROR(open(ranges, &fetches, failed));
  for (std::vector<Fetch*> begun;; begun.clear()) {
    for (Fetch& fetch : fetches) {
      if (fetch.begins()) begun.push_back(&fetch);
    }
    if (begun.empty()) break;
    for (Fetch* fetch : begun) fetch->begin();
    base::BoundedWait wait("bytes that become resident", begun.front()->far->limit_ms());
    for (Fetch* fetch : begun) fetch->end(&wait);
    for (const Fetch* fetch : begun) {
      *failed = fetch->far;
      BONSAI_RETURN_IF_ERROR(fetch->status);
    }
  }
  for (const Fetch& fetch : fetches) {
    BONSAI_INVARIANT(!fetch.begins() && fetch.status.ok());  // only bytes that were read become resident (7)
    fetch.far->close_resident(fetch.pieces);
  }
  return Status::OK();
}

}  // namespace bonsai::scale
