// SPDX-License-Identifier: Apache-2.0
// The model's steps of batches and of replacement.
#include "base/check.h"
#include "index/testing/put_model.h"

namespace bonsai::index::model {

bool PutModel::write(State* s, Thread* t) {
  enum : Byte { kBegin, kVersion, kEnd };
  Frame* f = &t->frames[t->depth - 1];
  if (f->pc == kBegin) {
    f->pc = kVersion;
    call(t, kComplete).operation = f->operation;
    return complete(s, t);
  }
  if (f->pc == kVersion && s->batch[f->operation].cell == kRefused) {
    s->refused[f->operation] = 1;
  } else if (f->pc == kVersion) {
    f->pc = kEnd;
    settle(t, s->batch[f->operation].node[f->key]);
    return settle(s, t);
  }
  note_ = "batch: return";
  end(s, t);
  return true;
}

// Index::complete, push_item and make_durable; the frame's key is the item.
bool PutModel::complete(State* s, Thread* t) {
  enum : Byte { kItem, kLive, kWord, kBelow, kJudge, kRoom, kToken, kPush, kNote, kDecide, kRefuse, kSegment };
  Frame* f = &t->frames[t->depth - 1];
  BatchState* batch = &s->batch[f->operation];
  const Operation& operation = operations_[f->operation];
  const Byte keys = rule(kPinChecks) ? operation.items() : operation.keys;
  Bnode* bnode = &s->bnode[f->bnode];
  switch (f->pc) {
    case kItem:
      note_ = "batch: load cell and item";
      while (f->key < kKeys && ((keys >> f->key & 1) == 0 || batch->node[f->key] != 0)) ++f->key;
      f->pc = f->key < kKeys ? kLive : operation.required != 0 && rule(kDecideFirst) ? kDecide : kSegment;
      if (batch->cell == kHolds) {
        f->pc = kSegment;
      } else if (batch->cell != kPublishing && rule(kReadyLast)) {
        end(s, t);
      }
      return true;
    case kLive:
      note_ = "batch: load index";
      f->bnode = f->below = current_bnode(*s, f->key);
      f->pc = kWord;
      return true;
    case kWord:
      note_ = "batch: load word";
      f->word = bnode->words[f->key];
      f->node = head_of(f->word);
      f->pc = f->word == 0 ? kBelow : kJudge;
      return true;
    case kBelow:
      note_ = "batch: look below";
      if (look_below(*s, f, kItemBelow)) f->pc = kJudge;
      return true;
    case kJudge:
      note_ = "batch: load cell again";
      judge_item(*s, t);
      return true;
    case kRoom:
      note_ = "batch: judge, see whether there is room";
      judge_conditions(*s, f);
      if (f->pc == kToken && no_room(*s, *f)) {
        f->pc = kItem;
        const Byte first = static_cast<Byte>(__builtin_ctz(keys));
        make_room(t, f->bnode, batch->node[first] != 0 ? For::kBegunBatch : For::kPut);
      }
      return true;
    case kToken:
      note_ = "batch: reserve token";
      f->token = ++bnode->tokens;
      f->pc = kPush;
      return true;
    case kPush:
      note_ = "batch: publish item";
      f->pc = kItem;
      if (bnode->words[f->key] != f->word) return true;
      f->node = push(s, *f, f->operation);
      f->pc = kNote;
      return true;
    case kNote:
      note_ = "batch: note item's node";
      if (batch->node[f->key] == 0) batch->node[f->key] = f->node;
      if (batch->cell == kPublishing && !rule(kReadyLast)) batch->cell = kReady;
      f->pc = kItem;
      return true;
    default:
      return decide(s, t);
  }
}

// The last steps: refused, or all hold, the record, ready.
bool PutModel::decide(State* s, Thread* t) {
  enum : Byte { kItem = 0, kDecide = 9, kRefuse, kSegment };
  Frame* f = &t->frames[t->depth - 1];
  BatchState* batch = &s->batch[f->operation];
  if (f->pc == kRefuse) {
    note_ = "batch: refuse";
    if (batch->cell == kPublishing) batch->cell = kRefused;
    f->pc = kItem;
  } else if (f->pc == kDecide) {
    note_ = "batch: all hold";
    if (batch->cell == kPublishing) batch->cell = kHolds;
    f->pc = batch->cell == kHolds ? kSegment : kItem;
  } else {
    record(s, f);
    if (f->pc == kItem && batch->cell != kPublishing) end(s, t);
  }
  return true;
}

// By the head that was found, or by what is below. A refusal is an exchange of the cell, a step later.
void PutModel::judge_conditions(const State& s, Frame* f) const {
  enum : Byte { kToken = 6, kRefuse = 10 };
  const Operation& operation = operations_[f->operation];
  f->pc = kToken;
  bool holds = true;
  const auto judge = [&](Byte key, Byte bnode, Byte head) {
    if ((operation.required >> key & 1) != 0) holds = holds && value_from(s, bnode, head, key) == operation.expected;
  };
  judge(f->key, f->bnode, head_of(f->word));
  if (!rule(kPinChecks)) {  // all that have no item, now
    for (Byte key = 0; key < kKeys; ++key) {
      const Byte bnode = current_bnode(s, key);
      if (operation.checks_only(key)) judge(key, bnode, head_of(s.bnode[bnode].words[key]));
    }
  }
  if (!holds) f->pc = kRefuse;
}

// A helper judges the item by the head that it found.
void PutModel::judge_item(const State& s, Thread* t) {
  enum : Byte { kItem, kLive, kWord, kBelow, kJudge, kRoom, kToken, kPush, kNote };
  Frame* f = &t->frames[t->depth - 1];
  if (f->node != 0 && s.node[f->node].operation == f->operation) {
    f->pc = kNote;
  } else if (s.batch[f->operation].cell != kPublishing && rule(kCellAfterHead) && rule(kReadyLast)) {
    f->pc = kItem;
  } else {
    f->pc = kRoom;
    if (f->node != 0 && version_of(s, f->node) == 0) settle(t, f->node);
  }
}

// The record, then the cell.
void PutModel::record(State* s, Frame* f) {
  enum : Byte { kItem = 0, kSegment = 11, kAppend, kReadyStep };
  BatchState* batch = &s->batch[f->operation];
  const Byte keys = operations_[f->operation].keys;
  if (f->pc == kSegment) {
    note_ = "batch: load segment";
    f->pc = batch->recorded != 0 ? kReadyStep : kAppend;
    if (!rule(kReadyAfterRecord)) f->pc = kReadyStep;
  } else if (f->pc == kAppend) {
    note_ = "batch: persist record";
    for (Byte key = 0; key < kKeys; ++key) {
      const Byte node = batch->node[key];
      if ((keys >> key & 1) == 0) continue;
      if (batch->recorded != 0 && batch->token[key] != s->node[node].token) s->error = 2;
      batch->gen[key] = gen_of(s->node[node].bnode);
      batch->token[key] = s->node[node].token;
    }
    batch->recorded = 1;
    f->pc = rule(kReadyAfterRecord) ? kReadyStep : kItem;
  } else {
    note_ = "batch: ready";
    if (batch->cell == kPublishing || batch->cell == kHolds) batch->cell = kReady;
    f->pc = rule(kReadyAfterRecord) || batch->recorded != 0 ? kItem : kAppend;
  }
}

void PutModel::make_room(Thread* t, Byte bnode, For whom) {
  Frame& f = call(t, kMakeRoom);
  f.bnode = bnode;
  f.version = static_cast<Byte>(whom);
}

// Index::make_room, plan and install.
bool PutModel::make_room(State* s, Thread* t) {
  enum : Byte { kPlan, kFreeze, kSettleHeads, kInstall };
  Frame* f = &t->frames[t->depth - 1];
  Bnode* bnode = &s->bnode[f->bnode];
  switch (f->pc) {
    case kPlan:
      note_ = "replace: name a layer";
      if (bnode->named == 0) {
        const bool stacks = f->version == static_cast<Byte>(For::kBegunBatch) && rule(kBegunStacks);
        if (bnode->pending != 0 && !stacks) return false;
        BONSAI_CHECK(f->bnode + 1 < kOuter);
        bnode->named = 1;
        s->bnode[f->bnode + 1].pending = 1;
      }
      f->key = 1;
      f->pc = kFreeze;
      if (bnode->installed != 0) end(s, t);
      return true;
    case kFreeze:
      note_ = "replace: freeze a word";
      bnode->words[f->key] |= kFrozen;
      f->pc = is_outer(++f->key) ? kSettleHeads : kFreeze;
      return true;
    case kSettleHeads:
      note_ = "replace: settle heads";
      f->pc = kInstall;
      settle_layer(s, t);
      return true;
    default:
      note_ = "replace: install";
      bnode->installed = 1;
      end(s, t);
      return true;
  }
}

// Gives heads their versions, which the caller calls for again; then says so, unless a batch is still publishing.
void PutModel::settle_layer(State* s, Thread* t) {
  Frame* f = &t->frames[t->depth - 1];
  Bnode* bnode = &s->bnode[f->bnode];
  bool settled = bnode->over_dnode != 0 || s->bnode[f->bnode - 1].settled != 0 || !rule(kSettledBelow);
  for (const Byte word : bnode->words) {
    const Byte head = head_of(word);
    if (head == 0 || version_of(*s, head) != 0) continue;
    if (!publishing(*s, head) && !pending(*s, head)) {
      --f->pc;
      return settle(t, head);
    }
    settled = false;
  }
  if (settled) bnode->settled = 1;
}

// The layer to offload: the lowest that is installed. A range without one gets one.
bool PutModel::take(State* s, Thread* t) {
  Frame* f = &t->frames[t->depth - 1];
  for (Byte i = s->tree; i < kOuter; ++i) {
    Bnode& bnode = s->bnode[i];
    if (bnode.installed == 0 || bnode.taken != 0 || (bnode.pending != 0 && rule(kPendingWaits))) continue;
    bnode.taken = 1;
    f->bnode = i;
    ++f->pc;
    return true;
  }
  if (s->bnode[s->tree].named != 0 || s->bnode[s->tree].pending != 0) return false;
  make_room(t, s->tree, For::kPut);
  return make_room(s, t);
}

bool PutModel::offload(State* s, Thread* t) {
  enum : Byte { kTake, kSettleHeads, kPersist, kBase, kTree, kGrow };
  Frame* f = &t->frames[t->depth - 1];
  Bnode* bnode = &s->bnode[f->bnode];
  switch (f->pc) {
    case kTake:
      note_ = "offload: take a layer";
      return take(s, t);
    case kSettleHeads:
      note_ = "offload: settle heads";
      for (const Byte word : bnode->words) {
        const Byte head = head_of(word);
        if (head == 0 || bnode->settled != 0 || version_of(*s, head) != 0 || !rule(kSettleAtOffload)) continue;
        settle(t, head);
        return true;
      }
      bnode->settled = 1;
      f->pc = kPersist;
      return true;
    case kPersist:
      note_ = "offload: persist dnode";
      for (Byte key = 0; key < kKeys; ++key) {
        const Byte head = update_from(*s, head_of(bnode->words[key]));
        if (head != 0) s->dnode[key] = value_of(s->node[head].operation);
      }
      s->dnode_gen = gen_of(f->bnode);
      f->pc = kBase;
      return true;
    case kBase:
      note_ = "offload: switch base";
      s->bnode[f->bnode + 1].over_dnode = 1;
      f->pc = kTree;
      return true;
    case kTree:
      note_ = "offload: update index";
      s->tree = static_cast<Byte>(f->bnode + 1);
      f->pc = kGrow;
      return true;
    default:
      note_ = "offload: the successor grows up";
      s->bnode[f->bnode + 1].pending = 0;
      end(s, t);
      return true;
  }
}

}  // namespace bonsai::index::model
