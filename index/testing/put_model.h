// SPDX-License-Identifier: Apache-2.0
// A model of the put protocol for batches over successors that are not offloaded, and for conditional updates: explicit
// states, every access to shared memory a step of its own (docs/put-protocol.md, 3 (d) and (f), and section 9).
//
// One range of three keys, whose bnodes take few keys each and pile up 0, 1, 2, ... as they are replaced, and one wide
// outer bnode with a key below and a key above them, which batches begin or end with. Programs of puts, batches, gets,
// scans and offloads run on it; helping is a stack of frames per thread. Left out are pruning, residues (a bnode that
// was offloaded stays readable), splits and merges.
//
// Steps of one thread are combined where no other thread can observe a difference: loads of values that never change
// again, and the walk to the newest bnode, whose last load decides.
#ifndef BONSAI_INDEX_TESTING_PUT_MODEL_H_
#define BONSAI_INDEX_TESTING_PUT_MODEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace bonsai::index::model {

using Byte = uint8_t;

inline constexpr Byte kKeys = 5;  // 0 and 4 are the outer ones
inline constexpr Byte kBnodes = 6, kOuter = kBnodes - 1;
inline constexpr Byte kNodes = 12, kThreads = 4, kOperations = 8, kFrames = 8, kAttempts = 4;
inline constexpr Byte kVersionFirst = 2;

enum class Kind : Byte { kPut, kPutIf, kBatch, kGet, kScan, kOffload };
constexpr bool is_update(Kind kind) { return kind <= Kind::kBatch; }

struct Operation {
  Kind kind;
  Byte keys = 0;      // bits; an offload has none
  Byte required = 0;  // bits of the keys that must have the value `expected`, or the update is refused
  Byte expected = 0;  // 0: the initial value

  [[nodiscard]] Byte items() const { return keys | required; }
  [[nodiscard]] bool has(Byte key) const { return (items() >> key & 1) != 0; }
  [[nodiscard]] bool checks_only(Byte key) const { return (required & ~keys) >> key & 1; }
};

// Rules that can be left out.
enum Rule : uint32_t {
  kSettledBelow = 1u << 0,      // a layer is settled only if those below it are, too
  kLookBelow = 1u << 1,         // who puts a key first into a successor settles its head below
  kItemBelow = 1u << 2,         // a helper looks for a batch's item below, too
  kCellAfterHead = 1u << 3,     // a helper looks whether the batch is still publishing after it loaded the head
  kHelpBatch = 1u << 4,         // nobody pushes on top of a batch that is publishing
  kReadyLast = 1u << 5,         // a batch is ready when all items stand
  kReadyAfterRecord = 1u << 6,  // ... and its record is durable
  kPendingWaits = 1u << 7,      // a layer on a successor is not offloaded before that is settled
  kBegunStacks = 1u << 8,       // a begun batch does not wait for the predecessor's offload
  kSettleAtOffload = 1u << 9,   // an offload completes the batches on its range
  kJudgeEachPush = 1u << 10,    // a conditional put is judged by the head on which it is pushed
  kHelpPending = 1u << 11,      // nobody pushes on top of a pending node
  kPendingHidden = 1u << 12,    // a pending node is not read
  kPlaceFirst = 1u << 13,       // a conditional put has no record before its node stands
  kOvertaken = 1u << 14,        // a put that a conditional update has superseded takes a newer token
  kDecideFirst = 1u << 15,      // a batch with conditions has no record before they are known to hold
  kPinChecks = 1u << 16,        // a key that a batch only checks has a node, too
};

// Runs a thread alone before the exploration begins.
struct Lead {
  Byte thread;
  enum class Until : Byte { kRecorded, kNodeStands, kDone } until;  // a put's record; one more node; the program's end
};

struct Config {
  const char* name;
  std::vector<std::vector<Operation>> programs;
  std::vector<Lead> lead = {};
  std::array<Byte, kBnodes> capacity = {1, 1, kKeys, kKeys, kKeys, kKeys};  // keys that each bnode takes
};

#pragma pack(push, 1)
struct Node {
  Byte key, operation, bnode, token, version, next;
};

// Bnode b, and the layer on it, which names bnode b + 1.
struct Bnode {
  Byte words[kKeys];  // head | kFrozen
  Byte tokens, used, pending, over_dnode;
  Byte named, installed, settled, taken;
};

struct BatchState {
  Byte cell;  // as Batch::cell; of one with conditions also kHolds and kRefused
  Byte recorded;
  Byte node[kKeys];
  Byte gen[kKeys], token[kKeys];  // in the record
};

struct Frame {
  Byte routine, pc, operation, key, bnode, below, node, word, token, version;
};

struct Thread {
  Byte next, depth, attempt;
  Frame frames[kFrames];
};

struct State {
  Byte version, tree, nodes, error;
  Byte dnode_gen, dnode[kKeys];  // what is durable
  Node node[kNodes];             // from 1 on
  Bnode bnode[kBnodes];
  BatchState batch[kOperations];
  Byte record[kOperations][kAttempts][2];  // generation and token of puts
  Thread thread[kThreads];
  Byte status[kOperations];  // kIdle, kRunning, kDone
  Byte before[kOperations];  // bits of the operations that had ended when it began
  Byte seen[kOperations][kKeys];
  Byte refused[kOperations];
};
#pragma pack(pop)

inline constexpr Byte kFrozen = 0x80;
inline constexpr Byte kPublishing = 0, kReady = 1, kHolds = 0xfd, kRefused = 0xfe;
inline constexpr Byte kPending = 0xff;  // in place of a node's version
inline constexpr Byte kPassed = 0xfe;
inline constexpr Byte kIdle = 0, kRunning = 1, kDone = 2;

// The head in a word of a bnode, or in a node's link.
inline Byte head_of(Byte word) { return word & static_cast<Byte>(~kFrozen); }

// The value that an operation writes; 0 is the initial value.
constexpr Byte value_of(Byte operation) { return static_cast<Byte>(operation + 1); }
constexpr bool is_outer(Byte key) { return key == 0 || key + 1 == kKeys; }
constexpr Byte gen_of(Byte bnode) { return bnode == kOuter ? 1 : static_cast<Byte>(bnode + 1); }

class PutModel {
 public:
  explicit PutModel(const Config& config, uint32_t left_out);

  [[nodiscard]] State first() const;
  [[nodiscard]] size_t threads() const { return config_.programs.size(); }
  [[nodiscard]] size_t operations() const { return operations_.size(); }
  [[nodiscard]] const Operation& operation(size_t i) const { return operations_[i]; }
  [[nodiscard]] bool ended(const State& s, size_t thread) const;
  // One step of a thread whose program has not ended. False: it must wait for others, nothing was changed.
  bool step(State* s, size_t thread);
  // A description of the last step.
  [[nodiscard]] const char* note() const { return note_; }
  // The value of a key that recovery finds if a crash is now.
  [[nodiscard]] Byte recovered(const State& s, Byte key) const;
  // The value of a key when all programs have ended.
  [[nodiscard]] Byte final_value(const State& s, Byte key) const;
  // A broken invariant, or null.
  [[nodiscard]] const char* broken(const State& s) const;

 private:
  enum Routine : Byte {
    kPutRoutine,
    kChangeRoutine,
    kWriteRoutine,
    kReadRoutine,
    kOffloadRoutine,
    kSettle,
    kComplete,
    kMakeRoom
  };
  enum class For : Byte { kPut, kBegunBatch };

  [[nodiscard]] bool rule(Rule rule) const { return (left_out_ & rule) == 0; }
  [[nodiscard]] bool is_batch(const Node& node) const { return operations_[node.operation].kind == Kind::kBatch; }
  // 0: none yet; kPassed: the node is no update.
  [[nodiscard]] Byte version_of(const State& s, Byte node) const;
  [[nodiscard]] bool pending(const State& s, Byte node) const;
  // The first update from `node` on, in its chain.
  [[nodiscard]] Byte update_from(const State& s, Byte node) const;
  // The value of a key in `bnode`, from `head` downwards.
  [[nodiscard]] Byte value_from(const State& s, Byte bnode, Byte head, Byte key) const;
  [[nodiscard]] bool publishing(const State& s, Byte node) const;
  [[nodiscard]] bool no_room(const State& s, const Frame& f) const;
  [[nodiscard]] static Byte current_bnode(const State& s, Byte key);
  static Byte push(State* s, const Frame& f, Byte operation);

  static Frame& call(Thread* t, Routine routine);
  static void settle(Thread* t, Byte node) { call(t, kSettle).node = node; }
  static void make_room(Thread* t, Byte bnode, For whom);
  void begin(State* s, Thread* t, size_t thread) const;
  static void end(State* s, Thread* t);

  // One step each, of the topmost frame.
  bool put(State* s, Thread* t);
  void judge_put(State* s, Thread* t);
  bool change(State* s, Thread* t);
  void judge_change(State* s, Thread* t);
  bool end_change(State* s, Thread* t);
  void settle_pending(State* s, Thread* t);
  bool write(State* s, Thread* t);
  bool complete(State* s, Thread* t);
  bool decide(State* s, Thread* t);
  void judge_item(const State& s, Thread* t);
  void judge_conditions(const State& s, Frame* f) const;
  void record(State* s, Frame* f);
  bool look_below(const State& s, Frame* f, Rule rule);
  bool settle(State* s, Thread* t);
  bool make_room(State* s, Thread* t);
  void settle_layer(State* s, Thread* t);
  bool read(State* s, Thread* t);
  bool offload(State* s, Thread* t);
  bool take(State* s, Thread* t);

  const Config config_;
  const uint32_t left_out_;
  std::vector<Operation> operations_;
  std::vector<std::vector<Byte>> programs_;  // numbers of operations
  const char* note_ = "";
};

}  // namespace bonsai::index::model

#endif  // BONSAI_INDEX_TESTING_PUT_MODEL_H_
