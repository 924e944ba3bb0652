// SPDX-License-Identifier: Apache-2.0
// A world as an observer sees it: what distinguishes its states, the names of its moves, and which owner is right.
#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "scale/membership/testing/owner_world.h"

namespace bonsai::scale::membership::testing {

// ---- states and texts

uint64_t World::digest() const {
  std::string all;
  const auto add = [&](auto... values) {
    const uint64_t words[] = {static_cast<uint64_t>(values)...};
    all.append(reinterpret_cast<const char*>(words), sizeof words);
  };
  const auto add_sender = [&](const Sender& each) { add(each.session.bits[0], each.epoch, each.connection); };
  add(real_ns_, stood_ns_[0], stood_ns_[1], setup_.updates, setup_.reads, setup_.requests, setup_.openings,
      setup_.times, setup_.breaks);
  add(setup_.restarts, setup_.cuts, setup_.deaths, setup_.leaves, setup_.give_ups, setup_.duplicates, setup_.losses);
  add(setup_.records_lost, setup_.damages, acknowledged_, tenure_.epoch, tenure_.session.bits[0]);
  for (const Owner& own : owners_) {
    add(own.stage, own.state, own.seen, own.lease ? own.lease->until_ns() : 0, own.mirror, own.failed);
    add_sender(own.sender);
    for (const Update& each : own.unanswered) add(each.value, each.answered);
    if (own.reading) add(own.reading->value, own.reading->acknowledged);
    add(own.reading.has_value(), own.unanswered.size());
  }
  add(node_.up, node_.stored, node_.flushed, node_.write.has_value() ? node_.write->slot + 1 : 0, node_.interrupted,
      node_.first_connection);
  for (const StoredSlot& slot : node_.slots) add(slot.hash);
  for (const Connection& each : node_.connections) add(each.number, each.owner, each.session.bits[0]);
  if (node_.reg) {
    const OwnerRecord& record = node_.reg->record();
    const Sender served = {record.session, record.epoch, node_.reg->served_connection()};
    add(node_.reg->work(), node_.reg->serves(served), node_.reg->lease_until_ns(), node_.reg->denied_until_ns());
    add(record.lease_ns);
    add_sender(served);
  }
  for (const Message& each : messages_) {
    add(each.kind, each.is_answer, each.waits, each.owner, each.seen, each.value, each.sent_ns);
    add(each.reply.answer, each.reply.epoch, each.reply.ns);
    add_sender(each.sender);
  }
  return std::hash<std::string_view>()(all);
}

std::string World::describe(const Move& move) const {
  static constexpr std::array<const char*, 6> kKinds = {"fence", "resume", "renew", "leave", "write", "flush"};
  static constexpr std::array<const char*, 22> kMoves = {"arrives",
                                                         "arrives, and will again",
                                                         "is lost",
                                                         "opens the pool",
                                                         "connects",
                                                         "asks",
                                                         "recovers",
                                                         "puts",
                                                         "reads",
                                                         "answers its read",
                                                         "loses its connection",
                                                         "gives up",
                                                         "leaves",
                                                         "dies",
                                                         "a record is durable",
                                                         "earlier connections have ended",
                                                         "the node starts",
                                                         "the node's process dies",
                                                         "the node loses power",
                                                         "the record is lost",
                                                         "a slot is damaged",
                                                         "a lease ends"};
  const auto owner = [](size_t number) { return std::string(number == 0 ? "A" : "B"); };
  const char* const what = kMoves[static_cast<size_t>(move.type)];
  if (move.type >= Move::Type::kWritten) return what;
  if (move.type > Move::Type::kLose) return owner(move.which) + " " + what;
  const Message& message = messages_[move.which];
  std::string name = kKinds[static_cast<size_t>(message.kind)];
  if (message.value != 0) name += " of " + std::to_string(message.value);
  name += " over " + std::to_string(message.sender.connection);
  return owner(message.owner) + "'s " + name + (message.is_answer ? " answer " : " ") + what;
}

// ---- judging

void World::accuse(const std::string& what) {
  if (wrong_.empty()) wrong_ = what;
}

void World::judge_confirmed() {
  const OwnerRecord& record = node_.reg->record();
  if (!node_.reg->serves({record.session, record.epoch, node_.reg->served_connection()}) || record == tenure_) return;
  tenures_.push_back(tenure_);
  tenure_ = record;
  const bool again = std::find(tenures_.begin(), tenures_.end(), record) != tenures_.end();
  const auto knows = [&](const Owner& own) {
    return own.sender.session == record.session && own.stage > Stage::kFencing;
  };
  if (again && std::any_of(owners_.begin(), owners_.end(), knows)) {
    accuse("an owner that had been replaced was confirmed again");
  }
}

void World::judge_answer(const Sender& sender, const char* what) {
  ++answers_;
  if (sender.session == tenure_.session && sender.epoch == tenure_.epoch) return;
  accuse(std::string(what) + " for an owner that is not the one that was confirmed last");
}

void World::judge_stored(const char* when) {
  if (node_.stored < acknowledged_) accuse(std::string("an acknowledged update is lost ") + when);
}

}  // namespace bonsai::scale::membership::testing
