// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/rivals/rcuckoo.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/nvm/racy_copy.h"
#include "base/status_macros.h"
#include "base/step.h"

namespace bonsai::bench::rivals::rcuckoo {

namespace {

constexpr size_t kFieldBytes = sizeof(uint32_t);
constexpr size_t kSearchesMax = 3;  // in vain, before the table counts as full

// Key or value. Errors: InvalidArgument.
Status parse(std::string_view text, const char* what, uint32_t* field) {
  if (text.size() != kFieldBytes) {
    return Status::InvalidArgument(std::string("a ") + what + " of " + std::to_string(text.size()) +
                                   " bytes; the RCuckoo-like engine stores records of 4 + 4 bytes");
  }
  std::memcpy(field, text.data(), kFieldBytes);
  return Status::OK();
}

Status parse_key(std::string_view key, uint32_t* parsed) {
  Status status = parse(key, "key", parsed);
  if (status.ok() && *parsed == 0) {
    return Status::InvalidArgument("a key of zeros; the RCuckoo-like engine marks free entries by it");
  }
  return status;
}

}  // namespace

size_t fixed_bytes(const TableOptions& options) { return Table(options).bytes(); }

void make_table(const TableOptions& options, MemoryNode* node) {
  const Table table(options);
  const std::vector<std::byte> zeros(table.row_at(0).offset);
  base::racy_store(node->data(), zeros.data(), zeros.size());
  for (uint64_t number = 0; number < options.rows; ++number) {
    const Row empty{{}, Row::seal_of(number, {}, 0)};
    base::racy_store(node->data() + table.row_at(number).offset, &empty, sizeof empty);
  }
}

Status CuckooClient::make(Connection* connection, const ClientOptions& options, std::unique_ptr<CuckooClient>* client) {
  std::unique_ptr<CuckooClient> made(new CuckooClient(connection, options));
  const size_t covered_bytes = options.threshold_bytes / kRowBytes * kRowBytes;
  BONSAI_RETURN_IF_ERROR(made->make_scratch(std::max(covered_bytes, 2 * kRowBytes)));
  made->own_cache_ = std::make_unique<RowCache>(options.cache == nullptr ? options.cache_bytes / kRowBytes : 1);
  made->cache_ = options.cache == nullptr ? made->own_cache_.get() : options.cache;
  BONSAI_RETURN_IF_ERROR(Repairer::make(connection, made->table_, options.locks, &made->repairer_));
  const size_t blocks_max = options.search.moves_max + 3;
  const size_t rows_of_read_max = options.locks.covering_reads
                                      ? std::min(kLocksPerWord * options.table.rows_per_lock, options.table.rows)
                                      : options.table.rows_per_lock;
  const size_t rows_max = std::max(blocks_max * rows_of_read_max, 2 + options.threshold_bytes / kRowBytes);
  BONSAI_RETURN_IF_ERROR(LockedRows::make(
      connection, made->table_, options.locks, rows_max, &made->backoff_,
      [repairer = made->repairer_.get()](uint64_t lock, const Limit& limit) { return repairer->run(lock, limit); },
      &made->locks_));
  *client = std::move(made);
  return Status::OK();
}

// Reads the two rows of a key. Not whole: one of them is torn.
Status CuckooClient::look(const Place& place, std::array<Row, 2>* rows, bool* whole) {
  const uint64_t low = std::min(place.first, place.second);
  const bool one_read = covered(place);
  const size_t second_at = one_read ? place.distance() * kRowBytes : kRowBytes;
  if (one_read) {
    batch_.read(table_.row_at(low), scratch(0, second_at + kRowBytes));
  } else {
    batch_.read(table_.row_at(low), scratch(0, kRowBytes));
    batch_.read(table_.row_at(std::max(place.first, place.second)), scratch(kRowBytes, kRowBytes));
  }
  BONSAI_RETURN_IF_ERROR(batch_.run());
  std::memcpy(&(*rows)[0], scratch_->data(), kRowBytes);
  std::memcpy(&(*rows)[1], scratch_->data() + second_at, kRowBytes);
  *whole = (*rows)[0].sealed(low) && (*rows)[1].sealed(std::max(place.first, place.second));
  if (*whole) {
    cache_->put(low, (*rows)[0].entries);
    cache_->put(std::max(place.first, place.second), (*rows)[1].entries);
  }
  return Status::OK();
}

Status CuckooClient::get(std::string_view key, std::string* value) {
  const Limit limit = limit_of("rcuckoo.get");
  uint32_t wanted = 0;
  BONSAI_RETURN_IF_ERROR(parse_key(key, &wanted));
  const Place place = table_.place(wanted);
  std::array<Row, 2> rows{}, earlier{};
  for (bool missed = false;; ++counters_.looks_repeated) {
    if (limit.expired()) return limit.status();
    bool whole = false;
    BONSAI_RETURN_IF_ERROR(look(place, &rows, &whole));
    if (!whole) continue;
    for (const Row& row : rows) {
      const size_t slot = entry_of(row.entries, wanted);
      if (slot == kEntriesPerRow) continue;
      const uint32_t found = Entry::value(row.entries[slot]);
      value->assign(reinterpret_cast<const char*>(&found), sizeof found);
      return Status::OK();
    }
    // The rows are of two moments, and the key may have moved between them.
    if (missed && rows == earlier) return Status::NotFound();
    missed = true;
    earlier = rows;
  }
}

void CuckooClient::remember_rows() {
  for (const auto& [first, rows] : locks_->reads()) {
    for (uint64_t number = first; number < first + rows; ++number) {
      const Row* const row = locks_->row(number);
      if (row->sealed(number)) cache_->put(number, row->entries);
    }
  }
}

// The blocks of the path's rows, and of the key's own two if others may insert it; all their rows.
Status CuckooClient::lock_path(const Place& place, const Path& path, const Limit& limit) {
  std::vector<uint64_t> blocks;
  for (const Step& step : path) blocks.push_back(table_.block(step.row));
  if (!options_.keys_are_new || path.empty()) {
    blocks.push_back(table_.block(place.first));
    blocks.push_back(table_.block(place.second));
  }
  std::sort(blocks.begin(), blocks.end(),
            [&](uint64_t a, uint64_t b) { return std::pair(table_.lock(a), a) < std::pair(table_.lock(b), b); });
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  locks_->clear();
  for (const uint64_t block : blocks) {
    locks_->add_block(block);
    locks_->add_read(table_.first_row(block), table_.rows_of(block));
  }
  BONSAI_RETURN_IF_ERROR(locks_->take(limit));
  remember_rows();
  return Status::OK();
}

// The two rows of a key, and nothing else unless one READ covers both.
Status CuckooClient::lock_place(const Place& place, const Limit& limit) {
  uint64_t low = place.first, high = place.second;
  if (std::pair(table_.lock(table_.block(low)), low) > std::pair(table_.lock(table_.block(high)), high)) {
    std::swap(low, high);
  }
  locks_->clear();
  locks_->add_block(table_.block(low));
  if (!covered(place)) locks_->add_read(low, 1);
  if (table_.lock(table_.block(low)) != table_.lock(table_.block(high))) locks_->add_block(table_.block(high));
  if (covered(place)) {
    locks_->add_read(std::min(low, high), place.distance() + 1);
  } else {
    locks_->add_read(high, 1);
  }
  BONSAI_RETURN_IF_ERROR(locks_->take(limit));
  remember_rows();
  return Status::OK();
}

bool CuckooClient::find_entry(const Place& place, uint32_t key, Step* at) {
  for (const uint64_t number : {place.first, place.second}) {
    const Row* const row = locks_->row(number);
    if (row == nullptr) continue;
    *at = {number, entry_of(row->entries, key)};
    if (at->slot < kEntriesPerRow) return true;
  }
  return false;
}

Status CuckooClient::insert(std::string_view key, std::string_view value) {
  const Limit limit = limit_of("rcuckoo.insert");
  uint32_t parsed_key = 0, parsed_value = 0;
  BONSAI_RETURN_IF_ERROR(parse_key(key, &parsed_key));
  BONSAI_RETURN_IF_ERROR(parse(value, "value", &parsed_value));
  return insert_entry(parsed_key, Entry::of(parsed_key, parsed_value), limit);
}

Status CuckooClient::insert_entry(uint32_t key, uint64_t entry, const Limit& limit) {
  const Place place = table_.place(key);
  std::unordered_map<uint64_t, Entries> met;  // by this insert in vain: the cache may have no room for it
  const Look remembered = [&](uint64_t number) {
    if (const Entries* const entries = cache_->find(number)) return Sight{Sight::Kind::kKnown, entries};
    const auto known = met.find(number);
    return known == met.end() ? Sight{Sight::Kind::kGuessedFree} : Sight{Sight::Kind::kKnown, &known->second};
  };
  Path path;
  for (size_t in_vain = 0;;) {
    if (limit.expired()) return limit.status();
    const bool promising = find_path(table_, options_.search, place, remembered, &path);
    if (!promising) path.clear();
    const uint64_t messages = locks_->counters().messages;
    BONSAI_RETURN_IF_ERROR(lock_path(place, path, limit));
    Step at{};
    if (!options_.keys_are_new && find_entry(place, key, &at)) {
      locks_->row(at.row)->entries[at.slot] = entry;
      locks_->write(at.row);
      return locks_->release();
    }
    if (find_fresh(place, &path)) {
      if (locks_->counters().messages - messages == 1) ++counters_.inserts_one_message;
      move_along(path, entry);
      return locks_->release();
    }
    for (const auto& [first, rows] : locks_->reads()) {
      for (uint64_t number = first; number < first + rows; ++number) met[number] = locks_->row(number)->entries;
    }
    BONSAI_RETURN_IF_ERROR(locks_->release());
    ++counters_.paths_outdated;
    if (!promising && ++in_vain == kSearchesMax) {
      ++counters_.inserts_full;
      return Status::NoSpace("no path of the permitted length leads to a free entry");
    }
  }
}

// Whether each entry of the path may move on, and the last one is free.
bool CuckooClient::holds(const Path& path) {
  for (size_t i = 0; i < path.size(); ++i) {
    const Row* const row = locks_->row(path[i].row);
    if (row == nullptr) return false;
    const uint32_t key = Entry::key(row->entries[path[i].slot]);
    const bool last = i + 1 == path.size();
    if (last != (key == 0) || (!last && table_.place(key).other(path[i].row) != path[i + 1].row)) return false;
  }
  return !path.empty();
}

// A path among the locked rows. By chance none would be found twice: that one is taken if it still holds.
bool CuckooClient::find_fresh(const Place& place, Path* path) {
  if (options_.search.kind == SearchOptions::Kind::kRandom) return holds(*path);
  const Look locked = [this](uint64_t number) {
    const Row* const row = locks_->locked_row(number);
    return row == nullptr ? Sight{} : Sight{Sight::Kind::kKnown, &row->entries};
  };
  return find_path(table_, options_.search, place, locked, path);
}

void CuckooClient::move_along(const Path& path, uint64_t entry) {
  for (size_t i = path.size(); i-- > 0;) {
    Row* const row = locks_->row(path[i].row);
    row->entries[path[i].slot] = i > 0 ? locks_->row(path[i - 1].row)->entries[path[i - 1].slot] : entry;
    cache_->put(path[i].row, row->entries);
  }
  for (size_t i = path.size(); i-- > 0;) locks_->write(path[i].row);
  counters_.entries_moved += path.size() - 1;
}

Status CuckooClient::update(std::string_view key, std::string_view value) {
  uint32_t parsed_key = 0, parsed_value = 0;
  BONSAI_RETURN_IF_ERROR(parse_key(key, &parsed_key));
  BONSAI_RETURN_IF_ERROR(parse(value, "value", &parsed_value));
  return change("rcuckoo.update", parsed_key, Entry::of(parsed_key, parsed_value));
}

Status CuckooClient::remove(std::string_view key) {
  uint32_t parsed_key = 0;
  BONSAI_RETURN_IF_ERROR(parse_key(key, &parsed_key));
  return change("rcuckoo.remove", parsed_key, 0);
}

Status CuckooClient::change(const char* name, uint32_t key, uint64_t entry) {
  const Limit limit = limit_of(name);
  const Place place = table_.place(key);
  BONSAI_RETURN_IF_ERROR(lock_place(place, limit));
  Step at{};
  const bool found = find_entry(place, key, &at);
  if (found) {
    locks_->row(at.row)->entries[at.slot] = entry;
    locks_->write(at.row);
    cache_->put(at.row, locks_->row(at.row)->entries);
  }
  BONSAI_RETURN_IF_ERROR(locks_->release());
  return found ? Status::OK() : Status::NotFound();
}

}  // namespace bonsai::bench::rivals::rcuckoo
