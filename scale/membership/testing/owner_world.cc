// SPDX-License-Identifier: Apache-2.0
#include "scale/membership/testing/owner_world.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace bonsai::scale::membership::testing {
namespace {

using Type = Move::Type;
using Answer = OwnerRegister::Answer;
using Work = OwnerRegister::Work;

constexpr size_t kNode = kOwners;  // among the machines
constexpr std::array<uint64_t, 2> kPool = {0xb0, 0x17};
constexpr size_t kTornBytes = 48;  // of a write that was interrupted: amid the owner's record
constexpr size_t kUnansweredMax = 2, kMessagesMax = 64;

// Whether a connection carries the message in order: a WRITE, or the flush request after it. On shm, WRITEs are the
// owner's own stores and end with its mapping, and the flush request is not sent before them.
bool is_posted(const Message& message) {
  return !message.is_answer && (message.kind == Kind::kWrite || message.kind == Kind::kFlush);
}

}  // namespace

World::World(const Setup& setup) : setup_(setup) {
  make_node();
  if (!setup.owned) return;
  // Owner 0 has just got the pool, and everything about it has arrived.
  setup_ = Setup();
  setup_.drift_percent = setup.drift_percent;
  setup_.lease_ns = setup.lease_ns;
  open(0);
  connect(0);
  ask(0);
  // Its fence arrives, the node does its work, looks again, and answers.
  for (const Type type : {Type::kDeliver, Type::kEnd, Type::kDeliver, Type::kDeliver, Type::kRecover}) make({type, 0});
  BONSAI_CHECK(owns(0));
  setup_ = setup;
}

void World::make_node() {
  if (!setup_.recorded) {
    node_.reg = OwnerRegister(OwnerRecord(), clock(kNode));
    return;
  }
  Page page;
  page.pool = kPool;
  page.owner = {1, SessionId(), setup_.lease_ns};
  std::optional<PageWriter::Write> write = node_.writer.begin(page);
  for (; write; write = node_.writer.written()) node_.slots[write->slot].set(write->bytes);
  node_.reg = OwnerRegister(page.owner, clock(kNode));
}

void World::StoredSlot::set(const Slot& slot) {
  bytes = std::make_shared<const Slot>(slot);
  hash = std::hash<std::string_view>()({reinterpret_cast<const char*>(slot.data()), kSlotBytes});
}

// ---- time

uint64_t World::clock(size_t machine) const {
  const auto rate = static_cast<uint64_t>(100 + setup_.drift_percent[machine]);
  return (machine + 1) * 1'000'000'000'000 + (real_ns_ - stood_ns_[machine]) / 100 * rate;
}

// The first moment, among the multiples of 100 ns, at which the machine's clock shows clock_ns.
uint64_t World::real_at(size_t machine, uint64_t clock_ns) const {
  const auto rate = static_cast<uint64_t>(100 + setup_.drift_percent[machine]);
  const uint64_t begin_ns = (machine + 1) * 1'000'000'000'000;
  return clock_ns <= begin_ns ? 0 : (clock_ns - begin_ns + rate - 1) / rate * 100 + stood_ns_[machine];
}

// The ends of leases, as the node and the owners see them, and the last moments of them at the owners.
std::optional<uint64_t> World::next_moment() const {
  std::optional<uint64_t> next;
  const auto consider = [&](size_t machine, uint64_t clock_ns, uint64_t before_ns) {
    const uint64_t at = real_at(machine, clock_ns) - before_ns;
    if (clock_ns != 0 && at > real_ns_ && (!next || at < *next)) next = at;
  };
  if (node_.reg) {
    consider(kNode, node_.reg->lease_until_ns(), 0);
    consider(kNode, node_.reg->denied_until_ns(), 0);
  }
  for (size_t i = 0; i < kOwners; ++i) {
    if (!owners_[i].lease || (setup_.reads == 0 && !owners_[i].reading)) continue;  // it matters to reads alone
    consider(i, owners_[i].lease->until_ns(), 0);
    consider(i, owners_[i].lease->until_ns(), 100);
  }
  return next;
}

void World::pass(uint64_t ns, const std::array<bool, kOwners>& paused) {
  ns = ns / 100 * 100;
  real_ns_ += ns;
  for (size_t i = 0; i < kOwners; ++i) stood_ns_[i] += setup_.clocks_stand && paused[i] ? ns : 0;
}

// ---- moves

std::vector<Move> World::moves() const {
  std::vector<Move> moves;
  list_messages(&moves);
  for (size_t i = 0; i < kOwners; ++i) list_owner(i, &moves);
  list_node(&moves);
  if (setup_.times > 0 && next_moment()) moves.push_back({Type::kTime});
  return moves;
}

// Messages that are posted on one connection are carried out in order.
bool World::may_deliver(size_t message) const {
  const Message& each = messages_[message];
  if (each.waits && node_.up && node_.reg->work() != Work::kNone) return false;
  if (!is_posted(each)) return true;
  return std::none_of(
      messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(message),
      [&](const Message& other) { return is_posted(other) && other.sender.connection == each.sender.connection; });
}

void World::list_messages(std::vector<Move>* moves) const {
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (may_deliver(i)) moves->push_back({Type::kDeliver, i});
    const bool repeats = !is_posted(messages_[i]);
    if (repeats && setup_.duplicates > 0) moves->push_back({Type::kDuplicate, i});
    if (repeats && setup_.losses > 0) moves->push_back({Type::kLose, i});
  }
}

void World::list_owner(size_t owner, std::vector<Move>* moves) const {
  const Owner& own = owners_[owner];
  const auto add = [&](bool possible, Type type) {
    if (possible) moves->push_back({type, owner});
  };
  add(own.stage == Stage::kDown && setup_.openings > 0, Type::kOpen);
  if (own.stage == Stage::kDown) return;
  const bool connected = own.sender.connection != 0;
  const bool alive = is_connected(own);
  const bool ended = own.state == State::kEnded;
  const bool owns = own.stage == Stage::kOwning;
  add(!connected && !ended && node_.up && messages_.size() < kMessagesMax, Type::kConnect);
  const bool waits = setup_.eager && std::any_of(messages_.begin(), messages_.end(), [&](const Message& each) {
                       return each.sender.session == own.sender.session && !is_posted(each) && each.value == 0;
                     });
  add(connected && !ended && !waits && setup_.requests > 0 && messages_.size() < kMessagesMax, Type::kAsk);
  add(own.stage == Stage::kRecovering && alive && node_.up && own.state == State::kInSync, Type::kRecover);
  const bool posts = owns && connected && takes_updates(own.state) && own.unanswered.size() < kUnansweredMax;
  add(posts && setup_.updates > 0 && messages_.size() < kMessagesMax, Type::kPut);
  const bool reads = owns || own.stage == Stage::kLeaving;  // threads of a host may be late
  add(reads && !own.reading && setup_.reads > 0, Type::kRead);
  add(own.reading.has_value(), Type::kAnswer);
  add(connected && !ended && (setup_.breaks > 0 || !alive || is_late(own)), Type::kBreak);
  add(owns && setup_.give_ups > 0 && own.state == State::kSilent, Type::kGiveUp);
  add(owns && own.state == State::kInSync && own.unanswered.empty() && setup_.leaves > 0, Type::kLeave);
  add(setup_.deaths > 0 || (ended && !own.reading), Type::kDeath);
}

void World::list_node(std::vector<Move>* moves) const {
  if (!node_.up) {
    moves->push_back({Type::kStart});
    if (setup_.records_lost > 0) moves->push_back({Type::kLoseRecord});
    for (size_t slot = 0; slot < kSlots && setup_.damages > 0 && !node_.interrupted; ++slot)
      moves->push_back({Type::kDamage, slot});
    return;
  }
  if (node_.write) moves->push_back({Type::kWritten});
  if (node_.reg->work() == Work::kEndEarlier && can_end()) moves->push_back({Type::kEnd});
  // A crash leaves none, a part or all of a write in flight.
  const size_t lefts = node_.write ? 3 : 1;
  for (size_t left = 0; left < lefts; ++left) {
    if (setup_.restarts > 0) moves->push_back({Type::kDie, left});
    if (setup_.cuts > 0) moves->push_back({Type::kCut, left});
  }
}

void World::make(const Move& move) {
  if (move.type <= Type::kLose) {
    const Message message = messages_[move.which];
    if (move.type != Type::kDuplicate) messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(move.which));
    if (move.type == Type::kDuplicate) --setup_.duplicates;
    if (move.type == Type::kLose) --setup_.losses;
    if (move.type != Type::kLose) deliver(message);
  } else if (move.type < Type::kWritten) {
    make_of_owner(move);
  } else if (move.type < Type::kTime) {
    make_of_node(move);
  } else {
    --setup_.times;
    real_ns_ = *next_moment();
  }
  for (size_t i = 0; i < kOwners && setup_.eager; ++i) reconnect(i);
}

// An owner that has no connection, or one that has ended, gets one at once if it can.
void World::reconnect(size_t owner) {
  Owner& own = owners_[owner];
  if (own.stage == Stage::kDown || own.state == State::kEnded || !node_.up) return;
  if (own.sender.connection != 0 && !is_connected(own)) apply(owner, Event::kBroken);
  if (own.sender.connection == 0) connect(owner);
}

// Whether an answer will never come, so that the owner's wait for it ends by its bound.
bool World::is_late(const Owner& own) const {
  if (own.unanswered.empty() || own.state != State::kInSync) return false;
  return std::none_of(messages_.begin(), messages_.end(), [&](const Message& each) {
    return each.kind >= Kind::kWrite && each.sender.connection == own.sender.connection;
  });
}

bool World::is_at_work(size_t owner) const {
  const Owner& own = owners_[owner];
  return own.stage == Stage::kOwning && !own.failed && (own.state == State::kInSync || own.state == State::kSilent);
}

bool World::is_connected(const Owner& own) const {
  return own.sender.connection >= node_.first_connection &&
         std::any_of(node_.connections.begin(), node_.connections.end(),
                     [&](const Connection& each) { return each.number == own.sender.connection; });
}

// ---- owners

void World::make_of_owner(const Move& move) {
  Owner& own = owners_[move.which];
  switch (move.type) {
    case Type::kOpen:
      return open(move.which);
    case Type::kConnect:
      return connect(move.which);
    case Type::kAsk:
      return ask(move.which);
    case Type::kRecover:
      judge_stored("at an opening");
      own.mirror = node_.stored;
      own.stage = Stage::kOwning;
      return;
    case Type::kPut:
      return put(move.which);
    case Type::kRead:
      --setup_.reads;
      own.reading = {own.mirror, acknowledged_};
      return;
    case Type::kAnswer:
      return answer_read(move.which);
    case Type::kBreak:
      if (setup_.breaks > 0 && is_connected(own) && !is_late(own)) --setup_.breaks;
      return apply(move.which, is_late(own) ? Event::kLate : Event::kBroken);
    case Type::kGiveUp:
      --setup_.give_ups;
      return apply(move.which, Event::kGivenUp);
    case Type::kLeave:
      --setup_.leaves;
      own.stage = Stage::kLeaving;
      own.lease->end();
      return;
    default:
      if (own.state != State::kEnded) --setup_.deaths;
      return end_process(move.which);
  }
}

void World::open(size_t owner) {
  --setup_.openings;
  Owner& own = owners_[owner];
  own = Owner();
  own.stage = Stage::kFencing;
  own.state = State::kConnecting;
  own.sender.session = {{++sessions_, owner + 1}};
  own.lease.emplace(1, 1);
}

void World::connect(size_t owner) {
  Owner& own = owners_[owner];
  own.sender.connection = ++connections_;
  node_.connections.push_back({connections_, owner, own.sender.session});
  // The node's greeting says which epoch is the newest.
  if (own.stage == Stage::kFencing && own.sender.epoch == 0) see(&own, node_.reg->record().epoch);
}

void World::ask(size_t owner) {
  Owner& own = owners_[owner];
  --setup_.requests;
  if (own.stage == Stage::kFencing) return send(owner, Kind::kFence);
  if (own.stage == Stage::kLeaving) return send(owner, Kind::kLeave);
  send(owner, own.state == State::kInSync || own.state == State::kReadOnly ? Kind::kRenew : Kind::kResume);
}

void World::send(size_t owner, Kind kind, uint64_t value) {
  const Owner& own = owners_[owner];
  Message message;
  message.kind = kind;
  message.owner = static_cast<uint8_t>(owner);
  message.sender = own.sender;
  message.seen = own.seen;
  message.value = value;
  message.sent_ns = clock(owner);
  messages_.push_back(message);
}

void World::put(size_t owner) {
  --setup_.updates;
  owners_[owner].unanswered.push_back({++values_, false});
  post(owner, values_);
}

void World::post(size_t owner, uint64_t value) {
  send(owner, Kind::kWrite, value);
  send(owner, Kind::kFlush, value);
}

void World::answer_read(size_t owner) {
  Owner& own = owners_[owner];
  const Reading reading = *std::exchange(own.reading, std::nullopt);
  if (!own.lease->valid(clock(owner))) return;  // it would wait, or fail
  judge_answer(own.sender, "a read was answered");
  if (reading.value < reading.acknowledged) accuse("a read shows an older value than one that was acknowledged");
}

void World::apply(size_t owner, Event event) {
  Owner& own = owners_[owner];
  const Transition to = next(own.state, event, true);
  own.state = to.to;
  if ((to.actions & kConnect) != 0) {
    if (setup_.shm) {  // it unmaps the pool by itself
      std::erase_if(node_.connections, [&](const Connection& each) { return each.number == own.sender.connection; });
      std::erase_if(messages_, [&](const Message& each) {
        return is_posted(each) && each.sender.connection == own.sender.connection;
      });
    }
    own.sender.connection = 0;
  }
  if ((to.actions & kFailUpdates) != 0) {
    own.failed = true;
    own.unanswered.clear();
  }
  if ((to.actions & kSendAgain) != 0) {
    for (Update& each : own.unanswered) {
      each.answered = false;
      post(owner, each.value);
    }
  }
  if ((to.actions & kEndEverything) != 0) own.lease->end();
}

void World::end_process(size_t owner) {
  owners_[owner].stage = Stage::kDown;
  owners_[owner].state = State::kEnded;
  owners_[owner].reading.reset();
  owners_[owner].sender.connection = 0;
  if (!setup_.shm) return;
  std::erase_if(node_.connections, [&](const Connection& each) { return each.owner == owner; });
  std::erase_if(messages_, [&](const Message& each) { return is_posted(each) && each.owner == owner; });
}

void World::deliver(const Message& message) {
  if (message.is_answer) {
    const Owner& own = owners_[message.owner];
    if (own.stage != Stage::kDown && own.sender.session == message.sender.session) hear(message);
  } else if (message.kind == Kind::kWrite) {
    land(message);
  } else if (node_.up && message.sender.connection >= node_.first_connection) {
    serve(message);
  }
}

// An answer over an earlier connection says nothing about this one, except that a grant counts.
void World::hear(const Message& answer) {
  Owner& own = owners_[answer.owner];
  if (own.state == State::kEnded) return;
  if (answer.sender.connection != own.sender.connection) return note_grant(&own, answer);
  if (answer.kind == Kind::kFence) return hear_opening(&own, answer);
  if (answer.reply.answer == Answer::kReplaced) return apply(answer.owner, Event::kReplaced);
  if (answer.kind == Kind::kLeave) {
    if (answer.reply.answer == Answer::kDone) end_process(answer.owner);
    return;
  }
  const bool served = answer.reply.answer == Answer::kGranted || answer.reply.answer == Answer::kDenied;
  if (answer.kind == Kind::kResume) {
    if (!served) return;
    note_grant(&own, answer);
    return apply(answer.owner, Event::kConfirmed);
  }
  if (!served) return apply(answer.owner, Event::kBroken);
  note_grant(&own, answer);
  if (answer.kind == Kind::kFlush) hear_flush(&own, answer);
}

void World::hear_opening(Owner* owner, const Message& answer) {
  const bool is_asked = owner->stage == Stage::kFencing && answer.sender.epoch == owner->sender.epoch;
  if (!is_asked) return note_grant(owner, answer);
  if (answer.reply.answer == Answer::kReplaced) see(owner, answer.reply.epoch);
  if (answer.reply.answer != Answer::kGranted) return;
  note_grant(owner, answer);
  owner->stage = Stage::kRecovering;
  apply(answer.owner, Event::kConfirmed);
}

void World::see(Owner* owner, uint64_t epoch) {
  owner->seen = epoch;
  owner->sender.epoch = epoch + 1;
}

void World::hear_flush(Owner* owner, const Message& answer) {
  for (Update& each : owner->unanswered) each.answered = each.answered || each.value == answer.value;
  while (!owner->unanswered.empty() && owner->unanswered.front().answered) {
    owner->mirror = owner->unanswered.front().value;
    owner->unanswered.erase(owner->unanswered.begin());
    acknowledged_ = std::max(acknowledged_, owner->mirror);
    if (owner->failed) accuse("an update was acknowledged after one that had failed");
  }
}

void World::note_grant(Owner* owner, const Message& answer) {
  if (answer.reply.answer != Answer::kGranted) return;
  // A refused grant is a lease that does not get longer; nothing more.
  static_cast<void>(owner->lease->granted(0, answer.sent_ns, clock(answer.owner), answer.reply.ns));
}

// ---- the node

void World::make_of_node(const Move& move) {
  switch (move.type) {
    case Type::kWritten:
      return written();
    case Type::kEnd:
      if (!setup_.shm) {
        const uint64_t served = node_.reg->served_connection();
        std::erase_if(node_.connections, [&](const Connection& each) { return each.number != served; });
      }
      node_.reg->earlier_ended(node_.reg->served_connection());
      return judge_confirmed();
    case Type::kStart:
      return start_node();
    case Type::kDie:
      --setup_.restarts;
      return stop_node(move.which);
    case Type::kCut:
      --setup_.cuts;
      stop_node(move.which);
      node_.stored = node_.flushed;
      node_.connections.clear();
      if (setup_.disk_lies) node_.slots = node_.slots_before;
      return judge_stored("after a power cut");
    case Type::kLoseRecord:
      --setup_.records_lost;
      node_.slots = {};
      return;
    default: {
      --setup_.damages;
      node_.interrupted = true;  // no more than one slot is damaged before the copies are made equal
      Slot slot = node_.slots[move.which].get();
      slot[100] ^= std::byte{0x10};
      node_.slots[move.which].set(slot);
    }
  }
}

void World::serve(Message message) {
  OwnerRegister& reg = *node_.reg;
  const uint64_t now_ns = clock(kNode);
  message.is_answer = true;
  switch (message.kind) {
    case Kind::kFence:
      message.reply =
          reg.fence(message.sender, message.seen, setup_.lease_ns, setup_.forced && message.owner == 1, now_ns);
      break;
    case Kind::kResume:
      message.reply = reg.resume(message.sender, now_ns);
      break;
    case Kind::kLeave:
      message.reply = reg.leave(message.sender);
      break;
    default:
      if (message.kind == Kind::kFlush && reg.serves(message.sender)) {
        node_.flushed = node_.stored;
        judge_answer(message.sender, "a flush was carried out");
      }
      message.reply = reg.renew(message.sender, now_ns);
  }
  judge_confirmed();
  node_works();
  // A request that comes too early is looked at again.
  const bool waits =
      message.reply.answer == Answer::kAgain && message.kind != Kind::kFlush && message.kind != Kind::kRenew;
  message.is_answer = !waits;
  message.waits = waits;
  messages_.push_back(message);
}

void World::node_works() {
  if (node_.reg->work() != Work::kPersist || node_.writer.is_writing()) return;
  Page page;
  page.pool = kPool;
  page.owner = node_.reg->record();
  node_.slots_before = node_.slots;
  node_.write = node_.writer.begin(page);
  // Nothing can come between.
  while (node_.write && setup_.restarts + setup_.cuts == 0) written();
}

void World::written() {
  node_.slots[node_.write->slot].set(node_.write->bytes);
  node_.write = node_.writer.written();
  if (node_.write) return;
  node_.reg->persisted();
  judge_confirmed();
  node_works();
}

bool World::can_end() const {
  if (!setup_.shm) return true;
  return std::all_of(node_.connections.begin(), node_.connections.end(),
                     [&](const Connection& each) { return each.session == node_.reg->record().session; });
}

void World::land(const Message& message) {
  const bool reaches = std::any_of(node_.connections.begin(), node_.connections.end(),
                                   [&](const Connection& each) { return each.number == message.sender.connection; });
  if (!reaches || (!node_.up && !setup_.shm)) {  // nor does anything that was posted after it
    std::erase_if(messages_, [&](const Message& each) {
      return is_posted(each) && each.sender.connection == message.sender.connection;
    });
    return;
  }
  const bool confirmed = tenure_.epoch != 0;
  if (confirmed && (message.sender.session != tenure_.session || message.sender.epoch != tenure_.epoch)) {
    accuse("bytes of an earlier owner arrived after the next one was confirmed");
  }
  node_.stored = message.value;
  judge_stored("when bytes arrived");
}

void World::stop_node(size_t left) {
  if (left != 0) {
    Slot slot = node_.slots[node_.write->slot].get();
    std::copy_n(node_.write->bytes.begin(), left == 1 ? kTornBytes : kSlotBytes, slot.begin());
    node_.slots[node_.write->slot].set(slot);
  }
  node_.interrupted = node_.write.has_value();
  node_.up = false;
  node_.reg.reset();
  node_.write.reset();
  if (!setup_.shm) node_.connections.clear();
}

void World::start_node() {
  node_.up = true;
  node_.first_connection = connections_ + 1;
  FoundPage found;
  const Status status = find_page({node_.slots[0].get(), node_.slots[1].get()}, kPool, &found);
  if (status.IsNotFound()) {
    node_.writer = PageWriter();
    node_.slots = {};
    node_.reg = OwnerRegister::without_record(clock(kNode));
    return;
  }
  if (!status.ok()) return accuse("the owner's record cannot be read: " + status.ToString());
  node_.writer = PageWriter(found);
  // Before anything else it makes the two copies equal.
  if (!found.whole) {
    std::optional<PageWriter::Write> write = node_.writer.begin(found.page);
    for (; write; write = node_.writer.written()) node_.slots[write->slot].set(write->bytes);
  }
  node_.reg = OwnerRegister(found.page.owner, clock(kNode));
}

}  // namespace bonsai::scale::membership::testing
