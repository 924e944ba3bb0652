// SPDX-License-Identifier: Apache-2.0
#include "cursor.h"

#include <algorithm>
#include <string_view>

namespace bonsai::python {
namespace {

constexpr size_t kBatchRecordsMax = 1024;

std::string_view key_of(const bonsai_iterator_t* iterator) {
  size_t bytes = 0;
  const char* data = bonsai_iter_key(iterator, &bytes);
  return {data, bytes};
}

std::string_view value_of(const bonsai_iterator_t* iterator) {
  size_t bytes = 0;
  const char* data = bonsai_iter_value(iterator, &bytes);
  return {data, bytes};
}

}  // namespace

Cursor::Cursor(std::shared_ptr<Store> store, Snapshot* snapshot)
    : Lent(std::move(store)), options_(std::make_unique<ReadOptions>(snapshot)) {
  Lent::store().call([&](bonsai_t* db, char**) {
    iterator_ = bonsai_iter_create(db, options_->get());
    return iterator_ != nullptr ? BONSAI_OK : BONSAI_NO_SPACE;
  });
}

void Cursor::end() {
  bonsai_iter_destroy(std::exchange(iterator_, nullptr));
  options_.reset();
}

template <typename Move>
bool Cursor::move(Move&& move) {
  const Use use(*this);
  bool valid = false;
  store().call([&](bonsai_t*, char** error) {
    move(iterator_);
    valid = bonsai_iter_valid(iterator_) != 0;
    return valid ? BONSAI_OK : bonsai_iter_status(iterator_, error);
  });
  return valid;
}

bool Cursor::first() { return move(bonsai_iter_seek_to_first); }
bool Cursor::last() { return move(bonsai_iter_seek_to_last); }

bool Cursor::seek(Seek how, nb::handle key) {
  const Bytes bytes(key);
  return move([&](bonsai_iterator_t* iterator) {
    switch (how) {
      case Seek::kAt:
        return bonsai_iter_seek(iterator, bytes.data(), bytes.size());
      case Seek::kAfter:
        return bonsai_iter_seek_after(iterator, bytes.data(), bytes.size());
      case Seek::kForPrev:
        return bonsai_iter_seek_for_prev(iterator, bytes.data(), bytes.size());
      case Seek::kBefore:
        return bonsai_iter_seek_before(iterator, bytes.data(), bytes.size());
    }
  });
}

bool Cursor::valid() {
  const Use use(*this);
  return bonsai_iter_valid(iterator_) != 0;
}

void Cursor::require_record() {
  if (bonsai_iter_valid(iterator_) == 0)
    throw Failure{.code = BONSAI_INVALID_ARGUMENT, .text = "the cursor is at no record; seek first, and look at valid"};
}

bool Cursor::next() {
  {
    const Use use(*this);
    require_record();
  }
  return move(bonsai_iter_next);
}

bool Cursor::prev() {
  {
    const Use use(*this);
    require_record();
  }
  return move(bonsai_iter_prev);
}

nb::bytes Cursor::key() {
  const Use use(*this);
  require_record();
  return to_bytes(key_of(iterator_));
}

nb::bytes Cursor::value() {
  const Use use(*this);
  require_record();
  return to_bytes(value_of(iterator_));
}

std::vector<Cursor::Record> Cursor::take(size_t count, bool backwards, const std::optional<std::string>& bound) {
  const Use use(*this);
  std::vector<Record> records;
  records.reserve(count);
  const auto beyond = [&](std::string_view key) { return bound && (backwards ? key < *bound : key >= *bound); };
  store().call([&](bonsai_t*, char** error) {
    while (records.size() < count && bonsai_iter_valid(iterator_) != 0) {
      const std::string_view key = key_of(iterator_);
      if (beyond(key)) return static_cast<int>(BONSAI_OK);
      records.emplace_back(key, value_of(iterator_));
      backwards ? bonsai_iter_prev(iterator_) : bonsai_iter_next(iterator_);
    }
    return bonsai_iter_status(iterator_, error);
  });
  return records;
}

Items::Items(std::shared_ptr<Store> store, Snapshot* snapshot, std::optional<std::string> start,
             std::optional<std::string> end, bool backwards, bool keys_only)
    : cursor_(std::move(store), snapshot),
      start_(std::move(start)),
      end_(std::move(end)),
      backwards_(backwards),
      keys_only_(keys_only) {}

void Items::begin() {
  begun_ = true;
  const std::optional<std::string>& at = backwards_ ? end_ : start_;
  if (!at) {
    backwards_ ? cursor_.last() : cursor_.first();
  } else {
    cursor_.seek(backwards_ ? Cursor::Seek::kBefore : Cursor::Seek::kAt, to_bytes(*at));
  }
}

nb::object Items::next() {
  if (taken_ == ahead_.size()) {
    if (!begun_) begin();
    ahead_ = cursor_.take(batch_, backwards_, backwards_ ? start_ : end_);
    taken_ = 0;
    batch_ = std::min(2 * batch_, kBatchRecordsMax);
    if (ahead_.empty()) throw nb::stop_iteration();
  }
  const Cursor::Record& record = ahead_[taken_++];
  if (keys_only_) return to_bytes(record.first);
  return nb::make_tuple(to_bytes(record.first), to_bytes(record.second));
}

void add_cursors(nb::module_& module) {
  nb::class_<Cursor>(module, "Cursor", "A position among the records of one moment. See DB.cursor().")
      .def("first", &Cursor::first, "Moves to the first record; returns whether there is one.")
      .def("last", &Cursor::last, "Moves to the last record; returns whether there is one.")
      .def(
          "seek", [](Cursor& self, nb::handle key) { return self.seek(Cursor::Seek::kAt, key); }, nb::arg("key"),
          "Moves to the first record at or after key.")
      .def(
          "seek_after", [](Cursor& self, nb::handle key) { return self.seek(Cursor::Seek::kAfter, key); },
          nb::arg("key"), "Moves to the first record after key.")
      .def(
          "seek_for_prev", [](Cursor& self, nb::handle key) { return self.seek(Cursor::Seek::kForPrev, key); },
          nb::arg("key"), "Moves to the last record at or before key.")
      .def(
          "seek_before", [](Cursor& self, nb::handle key) { return self.seek(Cursor::Seek::kBefore, key); },
          nb::arg("key"), "Moves to the last record before key.")
      .def("next", &Cursor::next, "Moves to the next record; returns whether there is one.")
      .def("prev", &Cursor::prev, "Moves to the record before; returns whether there is one.")
      .def("close", &Cursor::finish, "Frees the cursor's snapshot. It must not be used afterwards.")
      .def_prop_ro("valid", &Cursor::valid, "Whether the cursor is at a record.")
      .def_prop_ro("key", &Cursor::key)
      .def_prop_ro("value", &Cursor::value);
  nb::class_<Items>(module, "_Items")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", &Items::next);
}

}  // namespace bonsai::python
