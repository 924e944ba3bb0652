// SPDX-License-Identifier: Apache-2.0
#include "store.h"

#include <new>
#include <vector>

namespace bonsai::python {
namespace {

[[noreturn]] void closed() {
  throw Failure{.code = BONSAI_INVALID_ARGUMENT, .text = "the store is closed; open it again with bonsai.open()"};
}

}  // namespace

Store::~Store() {
  if (db_ == nullptr) return;
  const nb::gil_scoped_release release;
  (void)bonsai_close(db_, nullptr);
}

void Store::require_open() const {
  if (db_ == nullptr) closed();
}

void Store::close() {
  if (db_ == nullptr) return;
  const std::vector<Lent*> lent(lent_.begin(), lent_.end());
  bool used = calls_ > 0;
  for (const Lent* one : lent) used = used || one->used_;
  if (used)
    throw Failure{.code = BONSAI_BUSY, .text = "another thread is in a call of this store; join it before close()"};
  for (const bool last : {false, true}) {
    for (Lent* one : lent) {
      if (one->ends_last() == last) one->end();
    }
  }
  Message message;
  bonsai_t* db = std::exchange(db_, nullptr);
  int code = 0;
  {
    const nb::gil_scoped_release release;
    code = bonsai_close(db, message.out());
  }
  if (code == BONSAI_BUSY) db_ = db;  // it is still open
  message.require(code);
}

Lent::Lent(std::shared_ptr<Store> store) : store_(std::move(store)) {
  store_->require_open();
  store_->lent_.insert(this);
}

Lent::~Lent() { store_->lent_.erase(this); }

Lent::Use::Use(Lent& lent) : lent_(lent) {
  lent.store_->require_open();
  if (lent.used_)
    throw Failure{.code = BONSAI_BUSY, .text = "another thread uses this object; give each thread its own"};
  if (!lent.is_live())
    throw Failure{.code = BONSAI_INVALID_ARGUMENT, .text = "this object was closed; make a new one from its store"};
  lent.used_ = true;
}

void Lent::finish() {
  if (!is_live()) return;
  { const Use use(*this); }  // nobody else is in it
  end();
}

Snapshot::Snapshot(std::shared_ptr<Store> store) : Lent(std::move(store)) {
  Lent::store().call([&](bonsai_t* db, char** error) { return bonsai_snapshot_create(db, &snapshot_, error); });
}

void Snapshot::end() { bonsai_snapshot_release(std::exchange(snapshot_, nullptr)); }

void Snapshot::release() {
  if (readers_ > 0)
    throw Failure{.code = BONSAI_BUSY, .text = "a cursor or a read uses this snapshot; close the cursor first"};
  end();
}

const bonsai_snapshot_t* Snapshot::get() const {
  if (snapshot_ == nullptr) throw Failure{.code = BONSAI_INVALID_ARGUMENT, .text = "the snapshot was released"};
  return snapshot_;
}

ReadOptions::ReadOptions(Snapshot* snapshot, bool from_exclusive) : snapshot_(snapshot) {
  const bonsai_snapshot_t* of = snapshot != nullptr ? snapshot->get() : nullptr;
  if (of != nullptr || from_exclusive) {  // else the library's defaults
    options_ = bonsai_readoptions_create();
    if (options_ == nullptr) throw std::bad_alloc();
    bonsai_readoptions_set_snapshot(options_, of);
    bonsai_readoptions_set_from_exclusive(options_, from_exclusive ? 1 : 0);
  }
  if (snapshot != nullptr) ++snapshot->readers_;
}

ReadOptions::~ReadOptions() {
  bonsai_readoptions_destroy(options_);
  if (snapshot_ != nullptr) --snapshot_->readers_;
}

}  // namespace bonsai::python
