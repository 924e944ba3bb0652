// SPDX-License-Identifier: Apache-2.0
// Records the operations of threads, cheaply enough to leave races alone, in memory that outlives a killed process if
// the test wants it.
//
// One lane per thread, each a fixed part of one mapping: private memory for tests within a process, or a shared file
// (for example in /dev/shm) for a writer that will be killed with SIGKILL. Everything that a lane stored before the
// kill is in the file, because the kernel keeps the pages. An update is in the log from before its call (begin) and
// marked when it returned (end); an update that has a begin and no end was in flight.
//
// Thread-safety: a Lane belongs to one thread; distinct lanes are independent except for one fetch-and-add per mark.
// Memory order: the ordinal counter is sequentially consistent, so ordinals agree with real time. An operation's fields
// are stored before the lane's count is released; a reader in another process reads after this one is dead.
#ifndef BONSAI_TESTING_RECORDER_H_
#define BONSAI_TESTING_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "testing/history.h"

namespace bonsai::testing {

class Recorder {
 public:
  struct Bounds {
    uint32_t lanes = 1;
    uint64_t operations_max = 1 << 20;  // per lane
    uint64_t cells_max = 1 << 22;       // per lane
  };

  class Lane {
   public:
    // False when `operations` more operations of `cells` cells altogether would not fit: the thread should stop.
    [[nodiscard]] bool has_room(size_t cells, size_t operations = 1) const;

    // Call before an update. Returns its number for end_update.
    uint64_t begin_update(OpKind kind, std::span<const Cell> cells);
    uint64_t begin_update(OpKind kind, const Cell& cell) { return begin_update(kind, std::span(&cell, 1)); }
    // Call after it returned OK. An update that failed stays open, unless its answer says that nothing was changed.
    void end_update(uint64_t operation);
    // Call after such a result: from then on the update is no part of the history, and no read may return its values.
    void withdraw_update(uint64_t operation);

    // Call before a read; hand the result to end_read.
    uint64_t begin_read() { return recorder_->tick(); }
    // Call after a read returned. Its moment is between `invoke` and now.
    void end_read(OpKind kind, uint64_t invoke, std::span<const Cell> cells);
    void end_read(OpKind kind, uint64_t invoke, const Cell& cell) { end_read(kind, invoke, std::span(&cell, 1)); }
    // A read through a snapshot: its moment is between the call and the return of GetSnapshot.
    void add_read(OpKind kind, uint64_t invoke, uint64_t ret, std::span<const Cell> cells);

   private:
    friend class Recorder;
    uint64_t append(OpKind kind, uint64_t invoke, uint64_t ret, std::span<const Cell> cells);

    Recorder* recorder_ = nullptr;
    uint32_t number_ = 0;
  };

  // Errors: broken invariant when the memory cannot be had.
  static std::unique_ptr<Recorder> in_memory(const Bounds& bounds);
  // Creates the file (it must not exist) or maps an existing one.
  static std::unique_ptr<Recorder> create_file(const std::string& path, const Bounds& bounds);
  static std::unique_ptr<Recorder> open_file(const std::string& path);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Requires: number < bounds.lanes; one thread per lane.
  [[nodiscard]] Lane lane(uint32_t number);
  // The next ordinal.
  uint64_t tick();
  // A word of shared memory for the test's own marks (e.g. "the pool is open now"), initially 0. Requires: i < 8.
  [[nodiscard]] std::atomic<uint64_t>& mark(size_t i);

  // All that was recorded. Requires: no lane is in use, or its process is dead.
  [[nodiscard]] History history() const;

 private:
  struct Header;
  struct LaneHeader;

  Recorder(void* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}
  static size_t bytes_of(const Bounds& bounds);
  [[nodiscard]] Header* header() const;
  [[nodiscard]] LaneHeader* lane_header(uint32_t number) const;
  [[nodiscard]] Operation* operations_of(uint32_t number) const;
  [[nodiscard]] Cell* cells_of(uint32_t number) const;

  void* memory_;
  size_t bytes_;
};

}  // namespace bonsai::testing

#endif  // BONSAI_TESTING_RECORDER_H_
