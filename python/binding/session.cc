// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <string>
#include <string_view>
#include <utility>

namespace bonsai::python {
namespace {

constexpr size_t kFirstBufferBytes = 128;  // larger values are read a second time

}  // namespace

struct Session::Outcome {
  bonsai_result_t result{};
  std::string value;  // the buffer of a get
};

Session::Session(std::shared_ptr<Store> store, size_t depth) : Lent(std::move(store)) {
  Lent::store().call([&](bonsai_t* db, char** error) { return bonsai_session_create(db, depth, &session_, error); });
}

void Session::end() { bonsai_session_destroy(std::exchange(session_, nullptr)); }

size_t Session::add(Kind kind, nb::handle key, std::optional<Bytes> value) {
  const Use use(*this);
  operations_.push_back({.kind = kind, .key = Bytes(key), .value = std::move(value)});
  return operations_.size() - 1;
}

size_t Session::get(nb::handle key) { return add(Kind::kGet, key, std::nullopt); }
size_t Session::put(nb::handle key, nb::handle value) { return add(Kind::kPut, key, std::optional<Bytes>(value)); }
size_t Session::remove(nb::handle key) { return add(Kind::kDelete, key, std::nullopt); }

int Session::settle(bonsai_t* db, std::vector<Outcome>& outcomes, size_t from, size_t to, char** error) {
  (void)bonsai_session_wait(session_, error);  // each operation has its own code, which decides
  for (size_t i = from; i < to; ++i) {
    Outcome& outcome = outcomes[i];
    const Operation& operation = operations_[i];
    if (operation.kind == Kind::kGet && outcome.result.code == BONSAI_INVALID_ARGUMENT &&
        outcome.result.value_bytes > outcome.value.size()) {
      char* value = nullptr;
      size_t bytes = 0;
      outcome.result.code = bonsai_get(db, nullptr, operation.key.data(), operation.key.size(), &value, &bytes, error);
      if (outcome.result.code == BONSAI_OK) outcome.value.assign(value, bytes);
      bonsai_free(value);
      outcome.result.value_bytes = bytes;
    }
    if (outcome.result.code != BONSAI_OK && outcome.result.code != BONSAI_NOT_FOUND) return outcome.result.code;
  }
  return BONSAI_OK;
}

int Session::run(bonsai_t* db, std::vector<Outcome>& outcomes, char** error) {
  // A get whose value does not fit is repeated, so nothing may update its key before it has been settled.
  std::unordered_set<std::string_view> read;
  size_t settled = 0;
  for (size_t i = 0; i < operations_.size(); ++i) {
    const Operation& operation = operations_[i];
    Outcome& outcome = outcomes[i];
    if (operation.kind != Kind::kGet && read.contains(operation.key.view())) {
      if (const int code = settle(db, outcomes, settled, i, error); code != BONSAI_OK) return code;
      settled = i;
      read.clear();
    }
    switch (operation.kind) {
      case Kind::kGet:
        outcome.value.resize(kFirstBufferBytes);
        read.insert(operation.key.view());
        bonsai_session_get(session_, operation.key.data(), operation.key.size(), outcome.value.data(),
                           outcome.value.size(), &outcome.result);
        break;
      case Kind::kPut:
        bonsai_session_put(session_, operation.key.data(), operation.key.size(), operation.value->data(),
                           operation.value->size(), &outcome.result);
        break;
      case Kind::kDelete:
        bonsai_session_delete(session_, operation.key.data(), operation.key.size(), &outcome.result);
        break;
    }
  }
  return settle(db, outcomes, settled, operations_.size(), error);
}

nb::list Session::wait() {
  const Use use(*this);
  std::vector<Outcome> outcomes(operations_.size());
  const auto forget = [this](const void*) { operations_.clear(); };
  const std::unique_ptr<const void, decltype(forget)> afterwards(this, forget);
  store().call([&](bonsai_t* db, char** error) { return run(db, outcomes, error); });
  nb::list results;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    const bool has_value = operations_[i].kind == Kind::kGet && outcome.result.code == BONSAI_OK;
    results.append(has_value ? nb::object(nb::bytes(outcome.value.data(), outcome.result.value_bytes)) : nb::none());
  }
  return results;
}

void add_sessions(nb::module_& module) {
  nb::class_<Session>(module, "Session", "Many operations of one thread in flight at once. See DB.session().")
      .def("get", &Session::get, nb::arg("key"), "Queues a get; returns its place in the list that wait() returns.")
      .def("put", &Session::put, nb::arg("key"), nb::arg("value"), "Queues a put; returns its place.")
      .def("delete", &Session::remove, nb::arg("key"), "Queues a delete; returns its place.")
      .def("wait", &Session::wait,
           "Carries out what is queued. Returns a list: a get's value, or None; None for updates, which are durable.")
      .def("close", &Session::finish, "Frees the session; what is queued is dropped.")
      .def("__len__", &Session::queued, "The operations that are queued.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__exit__",
          [](Session& self, nb::handle kind, nb::handle, nb::handle) {
            if (kind.is_none() && self.is_live() && self.queued() > 0) self.wait();
            self.finish();
          },
          nb::arg("kind").none(), nb::arg("error").none(), nb::arg("trace").none());
}

}  // namespace bonsai::python
