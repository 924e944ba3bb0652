// SPDX-License-Identifier: Apache-2.0
#include "testing/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "base/check.h"

namespace bonsai::testing {

namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t up_to_page(size_t n) { return (n + kPageBytes - 1) / kPageBytes * kPageBytes; }

constexpr uint64_t kWithdrawn = 0;  // `ret` of an update that changed nothing; ordinals begin with 1

void* map(int fd, size_t bytes) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  BONSAI_CHECK(memory != MAP_FAILED);
  return memory;
}

}  // namespace

struct Recorder::Header {
  Bounds bounds;
  alignas(64) std::atomic<uint64_t> marks[8];
  alignas(64) std::atomic<uint64_t> ordinal;
};

struct alignas(64) Recorder::LaneHeader {
  std::atomic<uint64_t> operations;
  uint64_t cells;
};

size_t Recorder::bytes_of(const Bounds& bounds) {
  const size_t lane =
      kPageBytes + up_to_page(bounds.operations_max * sizeof(Operation)) + up_to_page(bounds.cells_max * sizeof(Cell));
  return kPageBytes + bounds.lanes * lane;
}

Recorder::Header* Recorder::header() const { return static_cast<Header*>(memory_); }

Recorder::LaneHeader* Recorder::lane_header(uint32_t number) const {
  const size_t lane_bytes = (bytes_ - kPageBytes) / header()->bounds.lanes;
  void* at = static_cast<std::byte*>(memory_) + kPageBytes + number * lane_bytes;
  return static_cast<LaneHeader*>(at);
}

Operation* Recorder::operations_of(uint32_t number) const {
  void* at = reinterpret_cast<std::byte*>(lane_header(number)) + kPageBytes;
  return static_cast<Operation*>(at);
}

Cell* Recorder::cells_of(uint32_t number) const {
  void* at = reinterpret_cast<std::byte*>(operations_of(number)) +
             up_to_page(header()->bounds.operations_max * sizeof(Operation));
  return static_cast<Cell*>(at);
}

std::unique_ptr<Recorder> Recorder::in_memory(const Bounds& bounds) {
  const size_t bytes = bytes_of(bounds);
  std::unique_ptr<Recorder> recorder(new Recorder(map(-1, bytes), bytes));
  recorder->header()->bounds = bounds;
  return recorder;
}

std::unique_ptr<Recorder> Recorder::create_file(const std::string& path, const Bounds& bounds) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  BONSAI_CHECK(fd >= 0);
  const size_t bytes = bytes_of(bounds);
  BONSAI_CHECK(ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  std::unique_ptr<Recorder> recorder(new Recorder(map(fd, bytes), bytes));
  close(fd);
  recorder->header()->bounds = bounds;
  return recorder;
}

std::unique_ptr<Recorder> Recorder::open_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  BONSAI_CHECK(fd >= 0);
  struct stat status {};
  BONSAI_CHECK(fstat(fd, &status) == 0);
  const size_t bytes = static_cast<size_t>(status.st_size);
  std::unique_ptr<Recorder> recorder(new Recorder(map(fd, bytes), bytes));
  close(fd);
  BONSAI_CHECK(bytes_of(recorder->header()->bounds) == bytes);
  return recorder;
}

Recorder::~Recorder() { munmap(memory_, bytes_); }

Recorder::Lane Recorder::lane(uint32_t number) {
  BONSAI_CHECK(number < header()->bounds.lanes);
  Lane lane;
  lane.recorder_ = this;
  lane.number_ = number;
  return lane;
}

uint64_t Recorder::tick() { return header()->ordinal.fetch_add(1) + 1; }

std::atomic<uint64_t>& Recorder::mark(size_t i) {
  BONSAI_CHECK(i < std::size(header()->marks));
  return header()->marks[i];
}

History Recorder::history() const {
  History all;
  for (uint32_t number = 0; number < header()->bounds.lanes; ++number) {
    const uint64_t count = lane_header(number)->operations.load(std::memory_order_acquire);
    for (uint64_t i = 0; i < count; ++i) {
      const Operation& op = operations_of(number)[i];
      const uint64_t ret = std::atomic_ref(operations_of(number)[i].ret).load(std::memory_order_acquire);
      if (ret == kWithdrawn) continue;
      all.add(op.kind, op.thread, op.invoke, ret, {cells_of(number) + op.cells_first, op.cells_count});
    }
  }
  return all;
}

bool Recorder::Lane::has_room(size_t cells, size_t operations) const {
  const LaneHeader* head = recorder_->lane_header(number_);
  const Bounds& bounds = recorder_->header()->bounds;
  return head->operations.load(std::memory_order_relaxed) + operations <= bounds.operations_max &&
         head->cells + cells <= bounds.cells_max;
}

uint64_t Recorder::Lane::append(OpKind kind, uint64_t invoke, uint64_t ret, std::span<const Cell> cells) {
  BONSAI_CHECK(has_room(cells.size()));
  LaneHeader* head = recorder_->lane_header(number_);
  const uint64_t operation = head->operations.load(std::memory_order_relaxed);
  std::copy(cells.begin(), cells.end(), recorder_->cells_of(number_) + head->cells);
  new (recorder_->operations_of(number_) + operation) Operation{invoke, ret, kind, number_, head->cells, cells.size()};
  head->cells += cells.size();
  head->operations.store(operation + 1, std::memory_order_release);
  return operation;
}

uint64_t Recorder::Lane::begin_update(OpKind kind, std::span<const Cell> cells) {
  return append(kind, recorder_->tick(), kOpen, cells);
}

void Recorder::Lane::end_update(uint64_t operation) {
  std::atomic_ref(recorder_->operations_of(number_)[operation].ret).store(recorder_->tick(), std::memory_order_release);
}

void Recorder::Lane::withdraw_update(uint64_t operation) {
  std::atomic_ref(recorder_->operations_of(number_)[operation].ret).store(kWithdrawn, std::memory_order_release);
}

void Recorder::Lane::end_read(OpKind kind, uint64_t invoke, std::span<const Cell> cells) {
  append(kind, invoke, recorder_->tick(), cells);
}

void Recorder::Lane::add_read(OpKind kind, uint64_t invoke, uint64_t ret, std::span<const Cell> cells) {
  append(kind, invoke, ret, cells);
}

}  // namespace bonsai::testing
