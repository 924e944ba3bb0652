// SPDX-License-Identifier: Apache-2.0
// Nodes that obey text commands: one line per command, one line per answer. So a test drives nodes of its own process,
// of another process and of another machine in the same way.
//
// A command is `VERB NODE ARGUMENTS`, the answer `OK VALUES` or the text of a Status. Bytes travel as hexadecimal
// digits, "-" for none.
//   make N read,write,atomic   -> OK address key base bytes      drop N
//   put N offset HEX           -> OK                             bytes N offset count  -> OK HEX
//   region N count rights      -> OK id key base bytes           unregister N id       -> OK HEX (what it held)
//   admit N epoch credential   -> OK (refuses less, and others)  traffic N             -> OK text
//   receive N limit_ms         -> OK from HEX (keeps the buffer) release N             -> OK (gives all back)
//   accept N limit_ms          -> OK index node                  close N index         -> OK
//   answer N index key address HEX  -> OK: WRITEs the bytes there, then SENDs them, to the accepted peer
//   begin N index VERB key address -> OK: posts add_seven() of the accepted peer, and does not wait for its end
//   agent N                    -> OK address: a flush agent serves the node's memory there, on a thread of its own
//   flushed N                  -> OK bytes (that the agent was asked to flush and did)
//   die                        -> none: the process is killed, as by a power cut
#ifndef BONSAI_RDMA_TESTING_PUPPET_H_
#define BONSAI_RDMA_TESTING_PUPPET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "rdma/testing/world.h"

namespace bonsai::rdma {

std::string to_hex(const std::string& bytes);
std::string from_hex(const std::string& text);

// Thread-safety: one thread. Requires: the world outlives it.
class Puppet {
 public:
  explicit Puppet(World& world);
  ~Puppet();

  // Never fails: the answer to an unknown command is "no such command".
  std::string obey(const std::string& command);

 private:
  struct Body;
  World& world_;
  std::map<uint32_t, std::unique_ptr<Body>> bodies_;
};

// A connection to a puppet.
class Channel {
 public:
  Channel() = default;
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Returns the answer; "gone" if there is none within 30 s or the puppet has ended.
  virtual std::string ask(const std::string& command) = 0;
};

// A puppet in this process.
std::unique_ptr<Channel> direct_channel(World& world);
// "tcp:HOST:PORT" connects to a puppet that listens there; anything else is a shell command that starts one, driven
// over its standard input and output, and ended with the channel.
std::unique_ptr<Channel> far_channel(const std::string& launch);

}  // namespace bonsai::rdma

#endif  // BONSAI_RDMA_TESTING_PUPPET_H_
