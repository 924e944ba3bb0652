// SPDX-License-Identifier: Apache-2.0
// Snapshots of the store that have a name and a time to live. All connections know them. They end with the server: a
// snapshot is a moment of an open store.
//
// What is overwritten or deleted while one is there stays for it, in DRAM or in the pool, so both their number and
// their time have bounds. What has ended holds nothing, but for the command that reads through it at that moment.
#ifndef BONSAI_SERVER_SNAPSHOTS_H_
#define BONSAI_SERVER_SNAPSHOTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "bonsai/db.h"

namespace bonsai::server {

inline constexpr size_t kSnapshotNameBytesMax = 128;
inline constexpr uint32_t kSnapshotsLimit = 10'000;

// Thread-safety: any number of threads.
class Snapshots {
 public:
  using Shared = std::shared_ptr<const Snapshot>;
  struct Row {
    std::string name;
    uint64_t left_ms = 0;
  };

  // `count_max`: at a time, at most kSnapshotsLimit. Requires: *db outlives it.
  Snapshots(DB* db, uint32_t count_max) : db_(*db), count_max_(count_max) {}

  // The store as of a moment within the call, for `life_ms`. Errors: InvalidArgument (the name is in use, empty or too
  // long), Unavailable (there are too many, here or in the store), NoSpace (no memory), each with the remedy.
  Status create(std::string_view name, uint64_t life_ms);
  // Null: there is none of that name, or it has expired.
  [[nodiscard]] Shared find(std::string_view name) const;
  // False: there was none.
  bool drop(std::string_view name);
  // Ends those whose time has come. Costs one load where there are none.
  void drop_expired();
  // In the order of names.
  [[nodiscard]] std::vector<Row> list() const;
  [[nodiscard]] size_t size() const;

 private:
  struct Entry {
    Shared snapshot;
    uint64_t end_ns = 0;
  };

  void set_next_end();

  DB& db_;
  const size_t count_max_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::atomic<uint64_t> next_end_ns_{UINT64_MAX};  // of the first to expire
};

}  // namespace bonsai::server

#endif  // BONSAI_SERVER_SNAPSHOTS_H_
