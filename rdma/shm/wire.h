// SPDX-License-Identifier: Apache-2.0
// The messages of processes over a unix socket: to connect, and to map memory. Internal to rdma/shm/.
#ifndef BONSAI_RDMA_SHM_WIRE_H_
#define BONSAI_RDMA_SHM_WIRE_H_

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/nvm/os_file.h"
#include "rdma/fabric.h"

namespace bonsai::rdma {

enum class ShmSay : uint32_t {
  kHello = 1,  // connect; with the table of regions
  kAnswer,     // admitted, with the page that both share and the table of regions; or refused
  kMap,        // requests the region `key`
  kMapped,     // the region with its file; or none (ok = 0)
  kInbox,      // requests the worker's inbox
  kInboxIs,    // the inbox with its memory; or none
};

// One message. All have the same size, so that an invalid one is noticed. Plain data between programs of one machine.
struct ShmWire {
  static constexpr uint32_t kMagic = 0x42534d31;
  uint32_t magic = kMagic;
  ShmSay say{};
  uint32_t ok = 0;
  int32_t status = 0;  // Status::Code
  uint64_t key = 0, base = 0, bytes = 0, offset = 0, place = 0;
  uint32_t read = 0, write = 0, atomic = 0, spare = 0;
  Hello hello;
  std::array<char, 200> text{};
};
static_assert(std::is_trivially_copyable_v<ShmWire>);

// A stream of messages with descriptors. Never blocks.
class ShmSocket {
 public:
  enum class Read : uint8_t {
    kMessage,
    kNothing,
    kEnd,       // also for an invalid message
    kNoPlaces,  // a message whose descriptors found no place here (ulimit -n); they are lost
  };

  ShmSocket() = default;
  explicit ShmSocket(base::OsFile file) : file_(std::move(file)) {}

  [[nodiscard]] int fd() const { return file_.fd(); }
  // False when the other end is gone or does not read.
  bool send(const ShmWire& message, std::initializer_list<int> files) const;
  Read receive(ShmWire* message, std::vector<base::OsFile>* files) const;

  // Errors: InvalidArgument (too long a path), Busy (a living process listens there), IoError.
  static Status listen(const std::string& path, ShmSocket* socket, base::OsFile* lock);
  // Errors: Unavailable (no process listens), InvalidArgument (too long a path), IoError (no further descriptor).
  static Status connect(const std::string& path, ShmSocket* socket);
  // Not open (fd() < 0) when no connection waits.
  [[nodiscard]] ShmSocket accept() const;

 private:
  base::OsFile file_;
};

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_SHM_WIRE_H_
