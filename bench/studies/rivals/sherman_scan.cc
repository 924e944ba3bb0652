// SPDX-License-Identifier: Apache-2.0
// Scans of the Sherman-like engine.
#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "bench/studies/rivals/sherman.h"
#include "bench/studies/rivals/sherman_scratch.h"

namespace bonsai::bench::rivals::sherman {

namespace {

// The expected number of records of a leaf.
size_t records_expected(const Layout& layout) { return std::max<size_t>(1, layout.records_max(0) * 69 / 100); }

}  // namespace

// All of them at the same time, each a list.
Status ShermanClient::read_leaves(const std::vector<Address>& leaves) {
  Status status;
  for (size_t i = 0; i < leaves.size() && status.ok(); ++i) {
    scan_batches_[i]->read(leaves[i], scratch(kScanAt + i * kPageBytes, kPageBytes));
    status = scan_batches_[i]->post();
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (const Status finished = scan_batches_[i]->finish(); status.ok()) status = finished;
  }
  return status;
}

Status ShermanClient::scan(std::string_view from, size_t records_max, std::vector<Found>* found) {
  BONSAI_RETURN_IF_ERROR(check_key(from));
  const Limit limit = limit_of("sherman.scan");
  found->clear();
  Place place{.key = Key::of(from)};
  const Key none = Key::none(layout_.key_bytes);
  while (found->size() < records_max && place.key != none) {
    if (limit.expired()) return limit.status();
    const size_t wanted =
        std::min(options_.reads_in_flight_max, (records_max - found->size()) / records_expected(layout_) + 1);
    std::vector<Address> leaves;
    if (node_->caches()) leaves = node_->cache().leaves_from(place.key, wanted);
    place.from_cache = !leaves.empty();
    if (leaves.empty()) {
      BONSAI_RETURN_IF_ERROR(descend(0, limit, &place));
      leaves = {place.page};
    }
    BONSAI_RETURN_IF_ERROR(read_leaves(leaves));
    for (size_t i = 0; i < leaves.size() && found->size() < records_max && place.key != none; ++i) {
      bool goes_on = false;
      BONSAI_RETURN_IF_ERROR(
          scan_leaf(kScanAt + i * kPageBytes, leaves[i], limit, &place, records_max, found, &goes_on));
      if (!goes_on) break;
    }
  }
  return Status::OK();
}

// Takes the records from the image of the leaf for place->key, and moves place->key to the leaf's end. *goes_on is
// false if the image is another leaf's: the cache is stale, and the scan searches the rest anew.
Status ShermanClient::scan_leaf(size_t image, Address leaf, const Limit& limit, Place* place, size_t records_max,
                                std::vector<Found>* found, bool* goes_on) {
  Seen seen;
  place->page = leaf;
  const Page read(layout_, leaf, scratch_->data() + image);
  if (!read.read_head(&seen.head) || !read.read_records(seen.head, &seen.records)) {
    ++counters_.pages_torn;
    BONSAI_RETURN_IF_ERROR(read_page(leaf, limit, &seen));
  }
  *goes_on = covers(seen.head, place->key);
  while (!covers(seen.head, place->key)) {
    BONSAI_RETURN_IF_ERROR(move_on(seen.head, limit, 0, place));
    BONSAI_RETURN_IF_ERROR(read_page(place->page, limit, &seen));
  }
  std::erase_if(seen.records, [&](const Record& one) {
    return one.word == 0 || one.key < place->key || one.key >= seen.head.highest;
  });
  std::sort(seen.records.begin(), seen.records.end(), [](const Record& a, const Record& b) { return a.key < b.key; });
  for (const Record& one : seen.records) {
    if (found->size() == records_max) break;
    found->push_back({layout_.text(one.key), std::string(reinterpret_cast<const char*>(&one.word), sizeof one.word)});
  }
  place->key = seen.head.highest;
  return Status::OK();
}

}  // namespace bonsai::bench::rivals::sherman
