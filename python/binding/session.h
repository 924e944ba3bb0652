// SPDX-License-Identifier: Apache-2.0
// Many operations of one thread in flight at once. Operations are queued, and carried out together by wait().
#ifndef BONSAI_PYTHON_BINDING_SESSION_H_
#define BONSAI_PYTHON_BINDING_SESSION_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "bytes.h"
#include "store.h"

namespace bonsai::python {

class Session : public Lent {
 public:
  Session(std::shared_ptr<Store> store, size_t depth);
  ~Session() override { end(); }
  void end() override;
  [[nodiscard]] bool is_live() const override { return session_ != nullptr; }

  // Each queues an operation and returns its place in the result of the next wait().
  size_t get(nb::handle key);
  size_t put(nb::handle key, nb::handle value);
  size_t remove(nb::handle key);

  // Carries out the queued operations; operations of one key take effect in the order of their calls. Returns the
  // result of each: for a get its value, or None; for an update None. Errors: Failure, if an operation failed; the
  // queue is empty then, and operations queued after the failed one may not have been carried out.
  nb::list wait();
  [[nodiscard]] size_t queued() const { return operations_.size(); }

 private:
  enum class Kind { kGet, kPut, kDelete };
  struct Operation {
    Kind kind;
    Bytes key;
    std::optional<Bytes> value;
  };
  struct Outcome;

  size_t add(Kind kind, nb::handle key, std::optional<Bytes> value);
  // Without the interpreter's lock. Returns a code.
  int run(bonsai_t* db, std::vector<Outcome>& outcomes, char** error);
  // Waits for operations [from, to), then repeats the gets whose values did not fit into their buffers.
  int settle(bonsai_t* db, std::vector<Outcome>& outcomes, size_t from, size_t to, char** error);

  bonsai_session_t* session_ = nullptr;
  std::vector<Operation> operations_;
};

void add_sessions(nb::module_& module);

}  // namespace bonsai::python

#endif  // BONSAI_PYTHON_BINDING_SESSION_H_
