// SPDX-License-Identifier: Apache-2.0
// A small world of ownership: two owners, one node with one pool of one word, and messages between them, which are
// late, lost or repeated. Everything that happens is a move. The world lists the moves that are possible, makes the one
// that its user chooses, and judges the outcome; owner_life.h explores all choices, or draws them by a seed.
//
// The owners and the node decide by the product's pure parts: Lease, OwnerRegister, PageWriter, next(). An owner that
// is paused makes no moves; its clock goes on.
//
// Judged
//   1. No read is answered, and no update made durable, for an owner after another one was confirmed.
//   2. No byte of an owner arrives after another one was confirmed.
//   3. An acknowledged update is never lost: the word does not go back to before it, and a read that begins
//      afterwards shows it.
//   4. No owner that has recovered is confirmed again after somebody else was.
//   5. After an update was failed, its owner acknowledges none.
#ifndef BONSAI_SCALE_MEMBERSHIP_TESTING_OWNER_WORLD_H_
#define BONSAI_SCALE_MEMBERSHIP_TESTING_OWNER_WORLD_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scale/membership/lease.h"
#include "scale/membership/member_state.h"
#include "scale/membership/owner_register.h"
#include "scale/membership/page.h"

namespace bonsai::scale::membership::testing {

inline constexpr size_t kOwners = 2;

// The events that are possible in a world, with the most of each.
struct Setup {
  bool shm = false;      // mappings outlive the node's process and cannot be ended by the node
  bool recorded = true;  // the pool had an owner before, who left
  bool owned = false;    // owner 0 has the pool from the beginning
  bool eager = false;    // owners connect as soon as they can, and have one request in flight: fewer states
  bool forced = false;   // owner 1 takes the pool over by force
  // Canaries: worlds that break an assumption of docs/nodes.md.
  bool disk_lies = false;                        // what the node made durable is lost with its power
  bool clocks_stand = false;                     // an owner's clock stands while its machine is suspended
  std::array<int, kOwners + 1> drift_percent{};  // of the owners' clocks and of the node's
  uint64_t lease_ns = 1'000'000'000;

  int updates = 1, reads = 1, requests = 6, openings = 2, times = 4;
  int breaks = 0, restarts = 0, cuts = 0, deaths = 0, leaves = 0, give_ups = 0;
  int duplicates = 0, losses = 0;  // of messages
  int records_lost = 0, damages = 0;
};

enum class Kind : uint8_t { kFence, kResume, kRenew, kLeave, kWrite, kFlush };

struct Message {
  Kind kind = Kind::kFence;
  bool is_answer = false;
  bool waits = false;  // for the node's work
  uint8_t owner = 0;
  Sender sender;
  uint64_t seen = 0;     // fence
  uint64_t value = 0;    // write, flush
  uint64_t sent_ns = 0;  // of the request, by the owner's clock
  OwnerRegister::Reply reply{};
};

struct Move {
  enum class Type : uint8_t {
    kDeliver,
    kDuplicate,
    kLose,  // a message
    kOpen,
    kConnect,
    kAsk,
    kRecover,
    kPut,
    kRead,
    kAnswer,  // an owner
    kBreak,
    kGiveUp,
    kLeave,
    kDeath,  // trouble of an owner
    kWritten,
    kEnd,
    kStart,
    kDie,
    kCut,
    kLoseRecord,
    kDamage,  // the node
    kTime,    // to the next moment at which a lease ends
  };
  Type type;
  size_t which = 0;  // message or owner; kDie, kCut: what is left of a slot; kDamage: which slot
};

class World {
 public:
  explicit World(const Setup& setup);

  [[nodiscard]] std::vector<Move> moves() const;
  void make(const Move& move);
  // Real time passes, besides the moves of type kTime. A paused owner's machine is suspended meanwhile.
  void pass(uint64_t ns, const std::array<bool, kOwners>& paused);

  // The first broken rule; empty: none.
  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  // A digest of all state that influences later moves.
  [[nodiscard]] uint64_t digest() const;
  [[nodiscard]] std::string describe(const Move& move) const;

  [[nodiscard]] uint64_t real_ns() const { return real_ns_; }
  [[nodiscard]] bool owns(size_t owner) const { return owners_[owner].stage == Stage::kOwning; }
  [[nodiscard]] bool is_alive(size_t owner) const { return owners_[owner].stage != Stage::kDown; }
  // It has recovered, nothing failed, and it does not know that it was replaced.
  [[nodiscard]] bool is_at_work(size_t owner) const;
  [[nodiscard]] uint64_t acknowledged() const { return acknowledged_; }
  [[nodiscard]] uint64_t answers() const { return answers_; }
  // Trouble ends; the budgets are as in `setup`.
  void set_budgets(const Setup& setup) { setup_ = setup; }
  [[nodiscard]] const Setup& setup() const { return setup_; }

 private:
  enum class Stage : uint8_t { kDown, kFencing, kRecovering, kOwning, kLeaving };
  struct Update {
    uint64_t value;
    bool answered;
  };
  struct Reading {
    uint64_t value, acknowledged;  // at its begin
  };
  struct Owner {
    Stage stage = Stage::kDown;
    State state = State::kEnded;
    Sender sender;  // its connection; 0: none
    uint64_t seen = 0;
    std::optional<Lease> lease;
    std::vector<Update> unanswered;
    uint64_t mirror = 0;
    bool failed = false;
    std::optional<Reading> reading;
  };
  struct Connection {
    uint64_t number;
    size_t owner;
    SessionId session;
  };
  // Shared, since worlds are copied.
  struct StoredSlot {
    std::shared_ptr<const Slot> bytes;  // null: zeros
    uint64_t hash = 0;

    void set(const Slot& slot);
    [[nodiscard]] Slot get() const { return bytes == nullptr ? Slot{} : *bytes; }
  };
  struct Node {
    bool up = true;
    std::optional<OwnerRegister> reg;
    std::array<StoredSlot, kSlots> slots, slots_before;
    PageWriter writer;
    std::optional<PageWriter::Write> write;  // not durable yet
    std::vector<Connection> connections;
    uint64_t first_connection = 0;  // of this process: a request over an earlier one cannot arrive
    uint64_t stored = 0, flushed = 0;
    bool interrupted = false;  // the copies of its page may differ
  };

  [[nodiscard]] uint64_t clock(size_t machine) const;
  [[nodiscard]] uint64_t real_at(size_t machine, uint64_t clock_ns) const;
  [[nodiscard]] std::optional<uint64_t> next_moment() const;
  [[nodiscard]] bool arrives(const Message& message) const;
  [[nodiscard]] bool may_deliver(size_t message) const;
  void list_messages(std::vector<Move>* moves) const;
  void list_owner(size_t owner, std::vector<Move>* moves) const;
  void list_node(std::vector<Move>* moves) const;

  void make_of_owner(const Move& move);
  void open(size_t owner);
  void connect(size_t owner);
  void ask(size_t owner);
  void put(size_t owner);
  void post(size_t owner, uint64_t value);
  void answer_read(size_t owner);
  void apply(size_t owner, Event event);
  void end_process(size_t owner);
  void deliver(const Message& message);
  void hear(const Message& answer);
  void hear_opening(Owner* owner, const Message& answer);
  static void see(Owner* owner, uint64_t epoch);
  void hear_flush(Owner* owner, const Message& answer);
  void note_grant(Owner* owner, const Message& answer);

  void make_of_node(const Move& move);
  void serve(Message message);
  void land(const Message& message);
  void node_works();
  void written();
  void start_node();
  void stop_node(size_t left);
  [[nodiscard]] bool can_end() const;
  void send(size_t owner, Kind kind, uint64_t value = 0);
  void make_node();
  void reconnect(size_t owner);
  [[nodiscard]] bool is_connected(const Owner& own) const;
  [[nodiscard]] bool is_late(const Owner& own) const;

  void accuse(const std::string& what);
  void judge_confirmed();
  void judge_answer(const Sender& sender, const char* what);
  void judge_stored(const char* when);

  Setup setup_;
  uint64_t real_ns_ = 1'000'000'000;
  std::array<uint64_t, kOwners + 1> stood_ns_{};  // how long the clocks stood
  std::array<Owner, kOwners> owners_;
  Node node_;
  std::vector<Message> messages_;
  uint64_t connections_ = 0, sessions_ = 0, values_ = 0, answers_ = 0;
  uint64_t acknowledged_ = 0;
  OwnerRecord tenure_;                // of the last one that was confirmed
  std::vector<OwnerRecord> tenures_;  // and of those before
  std::string wrong_;
};

}  // namespace bonsai::scale::membership::testing

#endif  // BONSAI_SCALE_MEMBERSHIP_TESTING_OWNER_WORLD_H_
