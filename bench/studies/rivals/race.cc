// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/race.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"
#include "base/step.h"

namespace bonsai::bench::rivals::race {

namespace {

// The scratch memory: blocks to write, the answers of CASes, two combined buckets, the directory, blocks to read.
constexpr size_t kBlockBytesMax = RemoteHeap::kUnitsMax * kUnitBytes;
constexpr size_t kWordsAt = kBlockBytesMax;
constexpr size_t kWordsMax = 32;
constexpr size_t kBucketsAt = kWordsAt + kWordsMax * sizeof(uint64_t);
constexpr size_t kDirectoryAt = kBucketsAt + 2 * kCombinedBytes;
constexpr size_t kBlocksAt = kDirectoryAt + (sizeof(Directory) + kUnitBytes - 1) / kUnitBytes * kUnitBytes;

uint64_t sub_table_bytes(const TableOptions& options) { return options.groups_per_sub_table * kGroupBytes; }

constexpr size_t kSubTablesAt = (sizeof(Directory) + kUnitBytes - 1) / kUnitBytes * kUnitBytes;

Address sub_table_at(const TableOptions& options, size_t index, size_t nodes) {
  return {static_cast<uint16_t>(index % nodes), kSubTablesAt + index / nodes * sub_table_bytes(options)};
}

}  // namespace

size_t fixed_bytes(const TableOptions& options, size_t nodes) {
  const size_t sub_tables = size_t{1} << options.global_depth;
  return kSubTablesAt + (sub_tables + nodes - 1) / nodes * sub_table_bytes(options);
}

void make_table(const TableOptions& options, const std::vector<MemoryNode*>& nodes) {
  const size_t sub_tables = size_t{1} << options.global_depth;
  BONSAI_CHECK(sub_tables <= kSubTablesMax && options.groups_per_sub_table > 0);
  Directory directory{};
  directory.global_depth = options.global_depth;
  for (size_t i = 0; i < sub_tables; ++i) {
    const Address at = sub_table_at(options, i, nodes.size());
    directory.entries[i] = Entry::of(static_cast<uint8_t>(options.global_depth), at);
    const Bucket empty{options.global_depth, static_cast<uint32_t>(i), {}};
    for (uint64_t bucket = 0; bucket < 3 * options.groups_per_sub_table; ++bucket) {
      base::racy_store(nodes[at.node]->data() + at.offset + bucket * kBucketBytes, &empty, sizeof empty);
    }
  }
  base::racy_store(nodes[0]->data(), &directory, sizeof directory);
}

Status RaceClient::make(Connection* connection, const ClientOptions& options, std::unique_ptr<RaceClient>* client) {
  std::unique_ptr<RaceClient> made(new RaceClient(connection, options));
  BONSAI_RETURN_IF_ERROR(RemoteHeap::make(connection, options.heap, &made->heap_));
  BONSAI_RETURN_IF_ERROR(made->make_scratch(kBlocksAt + kCandidatesMax * kBlockBytesMax));
  BONSAI_RETURN_IF_ERROR(made->read_directory());
  made->counters_ = {};
  *client = std::move(made);
  return Status::OK();
}

Address RaceClient::sub_table(const View& view) const {
  return address_in(directory_.entries[view.place.suffix(static_cast<uint32_t>(directory_.global_depth))]);
}

Status RaceClient::read_directory() {
  const rdma::Slice to = scratch(kDirectoryAt, sizeof directory_);
  batch_.read({0, 0}, to);
  BONSAI_RETURN_IF_ERROR(batch_.run());
  std::memcpy(&directory_, to.data(), sizeof directory_);
  ++counters_.directory_reads;
  return Status::OK();
}

void RaceClient::add_bucket_reads(View* view) {
  view->read_ns = base::now_ns();
  for (size_t i = 0; i < 2; ++i) {
    batch_.read(sub_table(*view) + view->place.combined_offset(i, options_.table.groups_per_sub_table),
                scratch(kBucketsAt + i * kCombinedBytes, kCombinedBytes));
  }
}

Status RaceClient::read_buckets(View* view) {
  add_bucket_reads(view);
  BONSAI_RETURN_IF_ERROR(batch_.run());
  std::memcpy(view->images.data(), scratch(kBucketsAt, 2 * kCombinedBytes).data(), 2 * kCombinedBytes);
  return Status::OK();
}

Status RaceClient::check_headers(const View& view, bool* current) {
  const uint64_t entry = directory_.entries[view.place.suffix(static_cast<uint32_t>(directory_.global_depth))];
  const uint32_t depth = Entry::local_depth(entry);
  *current = true;
  for (const Combined& image : view.images) {
    for (const Bucket& bucket : image) {
      *current = *current && bucket.local_depth == depth && bucket.suffix == view.place.suffix(depth);
    }
  }
  return *current ? Status::OK() : read_directory();
}

// The slots that may be the key's, each once though the two combined buckets may share one, the lowest first.
std::vector<RaceClient::Candidate> RaceClient::candidates(const View& view) const {
  std::vector<Candidate> slots;
  for (size_t i = 0; i < 2; ++i) {
    const uint64_t image_offset = view.place.combined_offset(i, options_.table.groups_per_sub_table);
    for (size_t half = 0; half < 2; ++half) {
      for (size_t slot = 0; slot < kSlotsPerBucket; ++slot) {
        const uint64_t word = view.images[i][half].slots[slot];
        if (word == 0 || Slot::fingerprint(word) != view.place.fingerprint()) continue;
        const uint64_t offset = image_offset + half * kBucketBytes + (1 + slot) * sizeof word;
        const Candidate found{offset, word};
        const auto same_slot = [&](const Candidate& known) { return known.offset == offset; };
        if (std::any_of(slots.begin(), slots.end(), same_slot)) continue;
        if (std::find(view.others.begin(), view.others.end(), found) == view.others.end()) slots.push_back(found);
      }
    }
  }
  std::sort(slots.begin(), slots.end(), [](const Candidate& a, const Candidate& b) { return a.offset < b.offset; });
  return slots;
}

// Reads their blocks: view->found and view->others. *whole is false when a block was
// torn or may have been reused, and then nothing is known.
Status RaceClient::read_candidates(View* view, bool* whole) {
  const std::vector<Candidate> unknown = candidates(*view);
  view->found.clear();
  *whole = true;
  for (size_t i = 0; i < unknown.size(); ++i) {
    if (unknown[i].word == view->own_word) continue;
    const size_t bytes = Slot::units(unknown[i].word) * kUnitBytes;
    batch_.read(address_in(unknown[i].word), scratch(kBlocksAt + i * kBlockBytesMax, bytes));
  }
  BONSAI_RETURN_IF_ERROR(batch_.run());
  *whole = base::now_ns() - view->read_ns < heap_->reuse_after_ns();
  for (size_t i = 0; i < unknown.size() && *whole; ++i) {
    if (unknown[i].word == view->own_word) {
      view->found.push_back(unknown[i]);
      continue;
    }
    std::string_view key, value;
    const std::byte* const block = scratch_->data() + kBlocksAt + i * kBlockBytesMax;
    *whole = decode_block(block, Slot::units(unknown[i].word), true, &key, &value);
    if (!*whole) break;
    if (key == view->key) {
      if (view->found.empty()) view->value = value;
      view->found.push_back(unknown[i]);
    } else {
      view->others.push_back(unknown[i]);
      ++counters_.fingerprints_deceived;
    }
  }
  return Status::OK();
}

Status RaceClient::judge(View* view, Look* look) {
  *look = Look::kAgain;
  bool current = false, whole = false;
  BONSAI_RETURN_IF_ERROR(check_headers(*view, &current));
  if (!current) return Status::OK();
  BONSAI_RETURN_IF_ERROR(read_candidates(view, &whole));
  if (!whole) {
    view->others.clear();
    ++counters_.looks_repeated;
    return Status::OK();
  }
  *look = view->found.empty() ? Look::kAbsent : Look::kFound;
  return Status::OK();
}

// Found, or absent for sure. The images come from the caller's first list, or are read here.
Status RaceClient::look_up(View* view, const Limit& limit, Look* look) {
  for (bool have_images = view->read_ns != 0;; have_images = false) {
    if (limit.expired()) return limit.status();
    if (!have_images) BONSAI_RETURN_IF_ERROR(read_buckets(view));
    BONSAI_RETURN_IF_ERROR(judge(view, look));
    if (*look == Look::kFound) return Status::OK();
    if (*look == Look::kAbsent) {
      const bool same = std::memcmp(&view->earlier, &view->images, sizeof view->images) == 0;
      if (view->missed && same) return Status::OK();
      view->missed = true;
      view->earlier = view->images;
      ++counters_.looks_repeated;
    }
  }
}

Status RaceClient::get(std::string_view key, std::string* value) {
  const Limit limit = limit_of("race.get");
  View view(key);
  Look look = Look::kAgain;
  BONSAI_RETURN_IF_ERROR(look_up(&view, limit, &look));
  if (look == Look::kAbsent) return Status::NotFound();
  value->assign(view.value);
  return Status::OK();
}

// Encodes a block, adds its WRITE to the batch, and makes the word of its slot.
Status RaceClient::write_block(std::string_view key, std::string_view value, uint64_t* block_word) {
  const size_t units = units_of(key, value);
  if (units > RemoteHeap::kUnitsMax) {
    return Status::InvalidArgument("a record of " + std::to_string(key.size() + value.size()) +
                                   " bytes; the RACE-like engine stores up to " +
                                   std::to_string(kBlockBytesMax - sizeof(BlockHead) - sizeof(uint32_t)));
  }
  Address block;
  BONSAI_RETURN_IF_ERROR(heap_->allocate(units, &block));
  encode_block(scratch_->data(), key, value);
  batch_.write(scratch(0, units * kUnitBytes), block);
  *block_word = Slot::of(Place(key).fingerprint(), units, block);
  return Status::OK();
}

Status RaceClient::with_block_returned(Status status, uint64_t block_word) {
  if (status.IsNotFound() || status.IsNoSpace()) heap_->give_back(address_in(block_word), Slot::units(block_word));
  return status;
}

Status RaceClient::swap(const View& view, const Candidate& slot, uint64_t desired, bool* swapped) {
  base::step("race.swap");
  batch_.cas(sub_table(view) + slot.offset, slot.word, desired, scratch_->word(kWordsAt));
  BONSAI_RETURN_IF_ERROR(batch_.run());
  *swapped = scratch_->word_value(kWordsAt) == slot.word;
  if (!*swapped) ++counters_.cas_lost;
  backoff_.after(*swapped);
  return Status::OK();
}

// Frees the slots, the highest first: readers take the lowest, and must not fall back to an older value. Requires:
// ascending. Whoever cleared a slot owns its block.
Status RaceClient::clear(const View& view, const std::vector<Candidate>& slots, bool* all_cleared) {
  BONSAI_CHECK(slots.size() <= kWordsMax);
  base::step("race.clear");
  for (size_t i = slots.size(); i > 0; --i) {
    batch_.cas(sub_table(view) + slots[i - 1].offset, slots[i - 1].word, 0,
               scratch_->word(kWordsAt + (i - 1) * sizeof(uint64_t)));
  }
  BONSAI_RETURN_IF_ERROR(batch_.run());
  *all_cleared = true;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (scratch_->word_value(kWordsAt + i * sizeof(uint64_t)) == slots[i].word) {
      free_block(slots[i].word);
    } else {
      *all_cleared = false;
      ++counters_.cas_lost;
    }
  }
  backoff_.after(*all_cleared);
  return Status::OK();
}

// The lowest free slot of the less loaded combined bucket, main bucket first; or the first free one of all.
bool RaceClient::choose_slot(const View& view, uint64_t* offset) const {
  const uint64_t groups = options_.table.groups_per_sub_table;
  const auto free_in = [&](size_t which, size_t half) {
    const auto& slots = view.images[which][half].slots;
    const auto at = std::find(slots.begin(), slots.end(), 0);
    if (at == slots.end()) return false;
    *offset = view.place.combined_offset(which, groups) + half * kBucketBytes +
              (1 + static_cast<size_t>(at - slots.begin())) * sizeof(uint64_t);
    return true;
  };
  const auto load = [&](size_t which) {
    size_t used = 0;
    for (const Bucket& bucket : view.images[which]) {
      used +=
          static_cast<size_t>(std::count_if(bucket.slots.begin(), bucket.slots.end(), [](uint64_t w) { return w; }));
    }
    return used;
  };
  const size_t main0 = view.place.main_half(0, groups), main1 = view.place.main_half(1, groups);
  if (options_.position == ClientOptions::Position::kFirstFree) {
    return free_in(0, main0) || free_in(1, main1) || free_in(0, 1 - main0) || free_in(1, 1 - main1);
  }
  const size_t which = load(1) < load(0) ? 1 : 0;
  const size_t main = which == 0 ? main0 : main1;
  return free_in(which, main) || free_in(which, 1 - main);
}

Status RaceClient::insert(std::string_view key, std::string_view value) {
  const Limit limit = limit_of("race.insert");
  View view(key);
  uint64_t block_word = 0;
  BONSAI_RETURN_IF_ERROR(write_block(key, value, &block_word));
  return with_block_returned(insert_block(&view, block_word, limit), block_word);
}

Status RaceClient::insert_block(View* view, uint64_t block_word, const Limit& limit) {
  for (bool have_images = false;;) {
    if (limit.expired()) return limit.status();
    if (!have_images) BONSAI_RETURN_IF_ERROR(read_buckets(view));
    have_images = false;
    Look look = Look::kAgain;
    BONSAI_RETURN_IF_ERROR(judge(view, &look));
    bool swapped = false;
    if (look == Look::kFound) {
      const Candidate old = view->found.front();
      BONSAI_RETURN_IF_ERROR(swap(*view, old, block_word, &swapped));
      if (!swapped) continue;
      free_block(old.word);
      return Status::OK();
    }
    if (look == Look::kAgain) continue;
    uint64_t offset = 0;
    if (!choose_slot(*view, &offset)) return Status::NoSpace("both combined buckets of the key are full");
    BONSAI_RETURN_IF_ERROR(swap(*view, {offset, 0}, block_word, &swapped));
    if (swapped) view->own_word = block_word;
    BONSAI_RETURN_IF_ERROR(read_buckets(view));
    have_images = true;
    if (swapped) return resolve_duplicates(view, limit);
  }
}

// If the key has several slots, one by this client among them, the lowest stays. The images are from after its CAS.
Status RaceClient::resolve_duplicates(View* view, const Limit& limit) {
  for (bool have_images = true;; have_images = false) {
    if (limit.expired()) return limit.status();
    if (!have_images) BONSAI_RETURN_IF_ERROR(read_buckets(view));
    if (candidates(*view).size() <= 1) return Status::OK();  // the usual case
    Look look = Look::kAgain;
    BONSAI_RETURN_IF_ERROR(judge(view, &look));
    if (look == Look::kAgain) continue;
    if (view->found.size() <= 1) return Status::OK();
    bool all_cleared = false;
    BONSAI_RETURN_IF_ERROR(clear(*view, {view->found.begin() + 1, view->found.end()}, &all_cleared));
    ++counters_.duplicates_resolved;
    if (all_cleared) return Status::OK();
  }
}

Status RaceClient::update(std::string_view key, std::string_view value) {
  const Limit limit = limit_of("race.update");
  View view(key);
  uint64_t block_word = 0;
  BONSAI_RETURN_IF_ERROR(write_block(key, value, &block_word));
  BONSAI_RETURN_IF_ERROR(read_buckets(&view));
  for (;; view.read_ns = 0) {
    Look look = Look::kAgain;
    BONSAI_RETURN_IF_ERROR(look_up(&view, limit, &look));
    if (look == Look::kAbsent) return with_block_returned(Status::NotFound(), block_word);
    const Candidate old = view.found.front();
    bool swapped = false;
    BONSAI_RETURN_IF_ERROR(swap(view, old, block_word, &swapped));
    if (swapped) {
      free_block(old.word);
      return Status::OK();
    }
    view.missed = false;
  }
}

Status RaceClient::remove(std::string_view key) {
  const Limit limit = limit_of("race.remove");
  for (View view(key);; view.read_ns = 0) {
    Look look = Look::kAgain;
    BONSAI_RETURN_IF_ERROR(look_up(&view, limit, &look));
    if (look == Look::kAbsent) return Status::NotFound();
    bool all_cleared = false;
    BONSAI_RETURN_IF_ERROR(clear(view, view.found, &all_cleared));
    if (all_cleared) return Status::OK();
    view.missed = false;
  }
}

}  // namespace bonsai::bench::rivals::race
