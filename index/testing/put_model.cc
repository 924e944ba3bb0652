// SPDX-License-Identifier: Apache-2.0
// The model's state, and the steps of puts and reads; put_model_batch.cc has those of batches and
// replacement, put_model_change.cc those of conditional puts.
#include "index/testing/put_model.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace bonsai::index::model {

PutModel::PutModel(const Config& config, uint32_t left_out) : config_(config), left_out_(left_out) {
  BONSAI_CHECK(config.programs.size() <= kThreads);
  for (const auto& program : config.programs) {
    programs_.emplace_back();
    for (const Operation& operation : program) {
      programs_.back().push_back(static_cast<Byte>(operations_.size()));
      operations_.push_back(operation);
    }
  }
  BONSAI_CHECK(operations_.size() <= kOperations);
}

State PutModel::first() const {
  State s;
  std::memset(static_cast<void*>(&s), 0, sizeof s);
  s.version = kVersionFirst;
  s.bnode[0].over_dnode = s.bnode[kOuter].over_dnode = 1;
  return s;
}

bool PutModel::ended(const State& s, size_t thread) const {
  const Thread& t = s.thread[thread];
  return t.depth == 0 && t.next == programs_[thread].size();
}

bool PutModel::step(State* s, size_t thread) {
  Thread* t = &s->thread[thread];
  if (t->depth == 0) begin(s, t, thread);
  switch (t->frames[t->depth - 1].routine) {
    case kPutRoutine:
      return put(s, t);
    case kChangeRoutine:
      return change(s, t);
    case kWriteRoutine:
      return write(s, t);
    case kReadRoutine:
      return read(s, t);
    case kOffloadRoutine:
      return offload(s, t);
    case kSettle:
      return settle(s, t);
    case kComplete:
      return complete(s, t);
    default:
      return make_room(s, t);
  }
}

void PutModel::begin(State* s, Thread* t, size_t thread) const {
  const Byte operation = programs_[thread][t->next++];
  constexpr Routine kRoutines[] = {kPutRoutine,  kChangeRoutine, kWriteRoutine,
                                   kReadRoutine, kReadRoutine,   kOffloadRoutine};
  t->attempt = 0;
  Frame& f = call(t, kRoutines[static_cast<size_t>(operations_[operation].kind)]);
  f.operation = operation;
  while (operations_[operation].keys != 0 && (operations_[operation].keys >> f.key & 1) == 0) ++f.key;
  s->status[operation] = kRunning;
  for (Byte i = 0; i < kOperations; ++i) {
    if (s->status[i] == kDone) s->before[operation] |= static_cast<Byte>(1 << i);
  }
}

void PutModel::end(State* s, Thread* t) {
  Frame* f = &t->frames[--t->depth];
  if (t->depth == 0) s->status[f->operation] = kDone;
  *f = {};
}

Frame& PutModel::call(Thread* t, Routine routine) {
  BONSAI_CHECK(t->depth < kFrames);
  Frame& f = t->frames[t->depth++];
  f = {};
  f.routine = routine;
  return f;
}

Byte PutModel::version_of(const State& s, Byte node) const {
  const Node& n = s.node[node];
  if (!is_batch(n)) return n.version == kPending ? 0 : n.version;
  const Byte cell = s.batch[n.operation].cell;
  if (cell == kRefused) return kPassed;
  if (cell < kVersionFirst || cell == kHolds) return 0;
  return operations_[n.operation].checks_only(n.key) ? kPassed : cell;
}

bool PutModel::pending(const State& s, Byte node) const {
  return !is_batch(s.node[node]) && s.node[node].version == kPending;
}

Byte PutModel::update_from(const State& s, Byte node) const {
  while (node != 0 && version_of(s, node) == kPassed) node = head_of(s.node[node].next);
  return node;
}

Byte PutModel::value_from(const State& s, Byte bnode, Byte head, Byte key) const {
  for (Byte at = head;; at = head_of(s.bnode[--bnode].words[key])) {
    const Byte node = update_from(s, at);
    if (node != 0) return value_of(s.node[node].operation);
    if (bnode == 0 || bnode == kOuter) return 0;
  }
}

bool PutModel::publishing(const State& s, Byte node) const {
  const Byte cell = s.batch[s.node[node].operation].cell;
  return is_batch(s.node[node]) && (cell == kPublishing || cell == kHolds);
}

Byte PutModel::current_bnode(const State& s, Byte key) {
  if (is_outer(key)) return kOuter;
  Byte bnode = s.tree;
  while (s.bnode[bnode].installed != 0) ++bnode;
  return bnode;
}

bool PutModel::no_room(const State& s, const Frame& f) const {
  const bool full = s.bnode[f.bnode].used >= config_.capacity[f.bnode];
  return (f.word & kFrozen) != 0 || (f.word == 0 && full);
}

// Requires: the word is still the frame's.
Byte PutModel::push(State* s, const Frame& f, Byte operation) {
  const Byte node = ++s->nodes;
  BONSAI_CHECK(node < kNodes);
  for (Byte i = 1; i < node; ++i) {
    if (s->node[i].operation == operation && s->node[i].key == f.key) s->error = 1;
  }
  s->node[node] = {f.key, operation, f.bnode, f.token, 0, f.word};
  s->bnode[f.bnode].words[f.key] = node;
  if (f.word == 0) ++s->bnode[f.bnode].used;
  return node;
}

// One layer down: finds the newest head of the key below. True: it is found, or there is nothing to be looked for.
bool PutModel::look_below(const State& s, Frame* f, Rule rule) {
  if (!this->rule(rule)) return true;
  const bool pending = s.bnode[f->below].over_dnode == 0;
  if (!pending || s.bnode[f->below - 1].settled != 0) return true;
  --f->below;
  f->node = head_of(s.bnode[f->below].words[f->key]);
  return f->node != 0;
}

bool PutModel::put(State* s, Thread* t) {
  enum : Byte { kLive, kLook, kReserve, kPersist, kHead, kJudge, kBelow, kPush, kEnd };
  Frame* f = &t->frames[t->depth - 1];
  Bnode* bnode = &s->bnode[f->bnode];
  switch (f->pc) {
    case kLive:
      note_ = "put: load index";
      f->bnode = current_bnode(*s, f->key);
      f->pc = kLook;
      return true;
    case kLook:
      note_ = "put: load word";
      f->word = bnode->words[f->key];
      f->pc = kReserve;
      if (no_room(*s, *f)) {
        f->pc = kLive;
        make_room(t, f->bnode, For::kPut);
      }
      return true;
    case kReserve:
      note_ = "put: reserve token";
      f->token = ++bnode->tokens;
      f->pc = kPersist;
      return true;
    case kPersist:
      note_ = "put: persist record";
      BONSAI_CHECK(t->attempt < kAttempts);
      s->record[f->operation][t->attempt][0] = gen_of(f->bnode);
      s->record[f->operation][t->attempt++][1] = f->token;
      f->pc = kHead;
      return true;
    case kHead:
      note_ = "put: load head";
      f->word = bnode->words[f->key];
      f->node = head_of(f->word);
      f->pc = kJudge;
      if (f->node != 0 && version_of(*s, f->node) == 0 && (rule(kHelpBatch) || !publishing(*s, f->node))) {
        settle(t, f->node);
      } else {
        judge_put(s, t);
      }
      return true;
    case kJudge:
      note_ = "put: go on";
      judge_put(s, t);
      return true;
    case kBelow:
      note_ = "put: look below";
      if (!look_below(*s, f, kLookBelow)) return true;
      f->pc = kPush;
      if (f->node != 0 && version_of(*s, f->node) == 0) settle(t, f->node);
      return true;
    case kPush: {
      note_ = "put: publish";
      f->pc = kHead;
      if (bnode->words[f->key] != f->word) return true;
      f->pc = kEnd;
      settle(t, push(s, *f, f->operation));
      return true;
    }
    default:
      note_ = "put: return";
      end(s, t);
      return true;
  }
}

// A put judges by the head, which has its version now.
void PutModel::judge_put(State* s, Thread* t) {
  enum : Byte { kLive = 0, kBelow = 6, kPush };
  Frame* f = &t->frames[t->depth - 1];
  if (const Byte newest = update_from(*s, f->node); newest != 0 && s->node[newest].token > f->token) {
    const bool conditional = operations_[s->node[newest].operation].required != 0;
    if (!conditional || !rule(kOvertaken)) return end(s, t);
    f->pc = kLive;
    return;
  }
  f->below = f->bnode;
  f->pc = f->node != 0 ? kPush : kBelow;
  if ((f->word & kFrozen) == 0) return;
  f->pc = kLive;
  make_room(t, f->bnode, For::kPut);
}

bool PutModel::settle(State* s, Thread* t) {
  enum : Byte { kLoad, kSet };
  Frame* f = &t->frames[t->depth - 1];
  const Byte operation = s->node[f->node].operation;
  if (f->pc == kLoad) {
    note_ = "settle: load version, then the global one";
    if (version_of(*s, f->node) != 0) {
      end(s, t);
    } else if (pending(*s, f->node)) {
      settle_pending(s, t);
    } else if (publishing(*s, f->node)) {
      Frame& completing = call(t, kComplete);
      completing.operation = operation;
    } else {
      f->version = s->version;
      f->pc = kSet;
    }
    return true;
  }
  note_ = "settle: set version";
  if (version_of(*s, f->node) == 0) {
    (is_batch(s->node[f->node]) ? s->batch[operation].cell : s->node[f->node].version) = f->version;
  }
  end(s, t);
  return true;
}

// Gets and scans.
bool PutModel::read(State* s, Thread* t) {
  enum : Byte { kVersion, kLive, kWord, kNode, kNext };
  Frame* f = &t->frames[t->depth - 1];
  const Operation& operation = operations_[f->operation];
  if (f->pc == kVersion && operation.kind == Kind::kGet) {
    f->version = UINT8_MAX;
    f->pc = kLive;
  }
  switch (f->pc) {
    case kVersion:
      note_ = "scan: take version";
      f->version = s->version++;
      f->pc = kLive;
      return true;
    case kLive:
      note_ = "read: load index";
      f->bnode = current_bnode(*s, f->key);
      f->pc = kWord;
      return true;
    case kWord:
      note_ = "read: load word";
      f->node = head_of(s->bnode[f->bnode].words[f->key]);
      f->pc = kNode;
      return true;
    case kNode:
      note_ = "read: load version";
      if (f->node == 0 && f->bnode != 0 && f->bnode != kOuter) {
        --f->bnode;
        f->pc = kWord;
      } else if (f->node == 0) {
        f->pc = kNext;
      } else if (publishing(*s, f->node) || (pending(*s, f->node) && rule(kPendingHidden)) ||
                 version_of(*s, f->node) > f->version || version_of(*s, f->node) == kPassed) {
        f->node = head_of(s->node[f->node].next);
      } else if (version_of(*s, f->node) == 0 && !pending(*s, f->node)) {
        settle(t, f->node);
      } else {
        s->seen[f->operation][f->key] = value_of(s->node[f->node].operation);
        f->pc = kNext;
      }
      return true;
    default:
      note_ = "read: next key, or return";
      do ++f->key;
      while (f->key < kKeys && (operation.keys >> f->key & 1) == 0);
      f->pc = kLive;
      if (f->key == kKeys) end(s, t);
      return true;
  }
}

// A dnode has all of the generations up to its own; of the records above, the highest (generation, token) counts.
Byte PutModel::recovered(const State& s, Byte key) const {
  const Byte dnode_gen = is_outer(key) ? 0 : s.dnode_gen;
  Byte value = is_outer(key) ? 0 : s.dnode[key];
  int best = dnode_gen << 8 | 0xff;
  const auto offer = [&](Byte gen, Byte token, size_t operation) {
    const int order = gen << 8 | token;
    if (gen == 0 || order <= best) return;
    best = order;
    value = value_of(static_cast<Byte>(operation));
  };
  for (size_t i = 0; i < operations_.size(); ++i) {
    if ((operations_[i].keys >> key & 1) == 0) continue;
    if (operations_[i].kind == Kind::kBatch) offer(s.batch[i].gen[key], s.batch[i].token[key], i);
    if (operations_[i].kind > Kind::kPutIf) continue;
    for (const auto& [gen, token] : s.record[i]) offer(gen, token, i);
  }
  return value;
}

Byte PutModel::final_value(const State& s, Byte key) const {
  const Byte bnode = current_bnode(s, key);
  return value_from(s, bnode, head_of(s.bnode[bnode].words[key]), key);
}

const char* PutModel::broken(const State& s) const {
  if (s.error == 1) return "an update stands twice";
  if (s.error == 2) return "a record does not name the nodes that stand";
  for (Byte key = 0; key < kKeys; ++key) {
    bool top = true;
    Byte above = UINT8_MAX;
    for (Byte bnode = current_bnode(s, key);; --bnode) {
      for (Byte node = head_of(s.bnode[bnode].words[key]); node != 0; node = head_of(s.node[node].next)) {
        const Byte version = version_of(s, node);
        if (version == kPassed) {
          top = false;
          continue;
        }
        if (version > above || (version == 0 && !top)) return "versions rise downwards";
        if (version != 0) above = version;
        top = false;
      }
      if (bnode == 0 || bnode == kOuter) break;
    }
  }
  return nullptr;
}

}  // namespace bonsai::index::model
