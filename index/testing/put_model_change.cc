// SPDX-License-Identifier: Apache-2.0
// The model's steps of conditional puts (index/change.cc).
#include "base/check.h"
#include "index/testing/put_model.h"

namespace bonsai::index::model {

// Index::attempt.
bool PutModel::change(State* s, Thread* t) {
  enum : Byte { kLive, kWord, kBelow, kJudge, kToken, kPush, kRecord };
  Frame* f = &t->frames[t->depth - 1];
  Bnode* bnode = &s->bnode[f->bnode];
  switch (f->pc) {
    case kLive:
      note_ = "change: load index";
      f->bnode = f->below = current_bnode(*s, f->key);
      f->pc = kWord;
      return true;
    case kWord:
      note_ = "change: load word";
      f->word = bnode->words[f->key];
      f->node = head_of(f->word);
      f->below = f->bnode;
      f->pc = f->node != 0 ? kJudge : kBelow;
      if (f->node != 0 && version_of(*s, f->node) == 0 && (rule(kHelpPending) || !pending(*s, f->node))) {
        settle(t, f->node);
      }
      return true;
    case kBelow:
      note_ = "change: look below";
      if (!look_below(*s, f, kLookBelow)) return true;
      f->pc = kJudge;
      if (f->node != 0 && version_of(*s, f->node) == 0) settle(t, f->node);
      return true;
    case kJudge:
      note_ = "change: judge";
      judge_change(s, t);
      return true;
    case kToken:
      note_ = "change: reserve token";
      f->token = ++bnode->tokens;
      if (!rule(kPlaceFirst)) {
        s->record[f->operation][0][0] = gen_of(f->bnode);
        s->record[f->operation][0][1] = f->token;
      }
      f->pc = kPush;
      return true;
    case kPush:
      note_ = "change: place the node, pending";
      f->pc = kWord;
      if (bnode->words[f->key] != f->word) return true;
      f->node = push(s, *f, f->operation);
      s->node[f->node].version = kPending;
      f->pc = kRecord;
      return true;
    default:
      return end_change(s, t);
  }
}

// By the head, or by what is below it. The frame's version says whether it was judged before.
void PutModel::judge_change(State* s, Thread* t) {
  enum : Byte { kLive = 0, kToken = 4 };
  Frame* f = &t->frames[t->depth - 1];
  Byte head = head_of(f->word);
  if (head != 0 && pending(*s, head)) head = head_of(s->node[head].next);
  const bool holds = value_from(*s, f->bnode, head, f->key) == operations_[f->operation].expected;
  if (!holds && (f->version == 0 || rule(kJudgeEachPush))) {
    s->refused[f->operation] = 1;
    return end(s, t);
  }
  f->version = 1;
  f->pc = kToken;
  if (!no_room(*s, *f)) return;
  f->pc = kLive;
  make_room(t, f->bnode, For::kPut);
}

// From the moment at which the node stands.
bool PutModel::end_change(State* s, Thread* t) {
  enum : Byte { kRecord = 6, kPublish, kEnd };
  Frame* f = &t->frames[t->depth - 1];
  if (f->pc == kRecord) {
    note_ = "change: persist record";
    s->record[f->operation][0][0] = gen_of(f->bnode);
    s->record[f->operation][0][1] = f->token;
    f->pc = kPublish;
  } else if (f->pc == kPublish) {
    note_ = "change: publish";
    if (s->node[f->node].version == kPending) s->node[f->node].version = 0;
    f->pc = kEnd;
    settle(t, f->node);
  } else {
    note_ = "change: return";
    end(s, t);
  }
  return true;
}

// Index::make_durable, of a helper: the record, then the version.
void PutModel::settle_pending(State* s, Thread* t) {
  Frame* f = &t->frames[t->depth - 1];
  const Node& node = s->node[f->node];
  if (f->token == 0) {
    note_ = "settle: persist a pending node's record";
    s->record[node.operation][0][0] = gen_of(node.bnode);
    s->record[node.operation][0][1] = node.token;
    f->token = 1;
    return;
  }
  note_ = "settle: publish a pending node";
  s->node[f->node].version = 0;
}

}  // namespace bonsai::index::model
