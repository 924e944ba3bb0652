// SPDX-License-Identifier: Apache-2.0
// An open store, and what it has lent to Python: cursors, snapshots, sessions.
//
// Thread-safety: every function is called with the interpreter's lock held; Store::call releases it while the library
// works. Any number of threads may be in calls of one store. A lent object serves one thread at a time (Lent::Use).
#ifndef BONSAI_PYTHON_BINDING_STORE_H_
#define BONSAI_PYTHON_BINDING_STORE_H_

#include <bonsai/c.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "error.h"

namespace bonsai::python {

class Lent;

class Store {
 public:
  explicit Store(bonsai_t* db) : db_(db) {}
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  // Runs `function(db, errptr)`, which returns a code, without the interpreter's lock. Returns OK or NOT_FOUND.
  // Errors: Failure, also when the store is closed.
  template <typename Function>
  int call(Function&& function);

  // Ends all that was lent, then closes. A closed store stays closed.
  // Errors: Busy, if another thread is in a call; what bonsai_close() reports.
  void close();
  [[nodiscard]] bool is_open() const { return db_ != nullptr; }
  [[nodiscard]] bonsai_t* db() const { return db_; }

 private:
  friend class Lent;
  void require_open() const;

  bonsai_t* db_;
  size_t calls_ = 0;  // in flight
  std::unordered_set<Lent*> lent_;
};

// An object that a store has lent. It is freed when its Python object goes, or when the store is closed, whichever is
// first.
class Lent {
 public:
  explicit Lent(std::shared_ptr<Store> store);
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  virtual ~Lent();

  // Marks the object as used by this thread. Errors: Failure, if another thread uses it, or if it or its store is
  // closed.
  class Use {
   public:
    explicit Use(Lent& lent);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { lent_.used_ = false; }

   private:
    Lent& lent_;
  };

  // Frees the library's objects. Called once or more, by the destructor of the derived class among others.
  virtual void end() = 0;
  [[nodiscard]] virtual bool is_live() const = 0;
  // As end(), on request of the user; nothing where it has ended. Errors: Failure, if another thread uses it.
  void finish();
  // Snapshots end last, since cursors read them.
  [[nodiscard]] virtual bool ends_last() const { return false; }

 protected:
  [[nodiscard]] Store& store() const { return *store_; }

 private:
  friend class Store;
  std::shared_ptr<Store> store_;
  bool used_ = false;
};

class Snapshot : public Lent {
 public:
  explicit Snapshot(std::shared_ptr<Store> store);
  ~Snapshot() override { end(); }
  void end() override;
  [[nodiscard]] bool is_live() const override { return snapshot_ != nullptr; }
  [[nodiscard]] bool ends_last() const override { return true; }
  // Errors: Failure, while a read or a cursor uses it.
  void release();
  // Errors: Failure, if it was released.
  [[nodiscard]] const bonsai_snapshot_t* get() const;
  [[nodiscard]] bool is_of(const Store& store) const { return &Lent::store() == &store; }

 private:
  friend class ReadOptions;
  bonsai_snapshot_t* snapshot_ = nullptr;
  size_t readers_ = 0;
};

// The options of one read, or of one cursor. `snapshot` may be null; it is not released before these options are gone.
class ReadOptions {
 public:
  explicit ReadOptions(Snapshot* snapshot, bool from_exclusive = false);
  ReadOptions(const ReadOptions&) = delete;
  ReadOptions& operator=(const ReadOptions&) = delete;
  ~ReadOptions();
  [[nodiscard]] const bonsai_readoptions_t* get() const { return options_; }

 private:
  Snapshot* snapshot_;
  bonsai_readoptions_t* options_ = nullptr;
};

template <typename Function>
int Store::call(Function&& function) {
  require_open();
  Message message;
  int code = 0;
  ++calls_;
  {
    const nb::gil_scoped_release release;
    code = function(db_, message.out());
  }
  --calls_;
  message.require(code);
  return code;
}

}  // namespace bonsai::python

#endif  // BONSAI_PYTHON_BINDING_STORE_H_
