// SPDX-License-Identifier: Apache-2.0
// A position among the records of one moment, and iteration from it.
#ifndef BONSAI_PYTHON_BINDING_CURSOR_H_
#define BONSAI_PYTHON_BINDING_CURSOR_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytes.h"
#include "store.h"

namespace bonsai::python {

class Cursor : public Lent {
 public:
  // Reads as of `snapshot`, which outlives the cursor; null: as of now.
  Cursor(std::shared_ptr<Store> store, Snapshot* snapshot);
  ~Cursor() override { end(); }
  void end() override;
  [[nodiscard]] bool is_live() const override { return iterator_ != nullptr; }

  enum class Seek { kAt, kAfter, kForPrev, kBefore };
  // Each moves the cursor and returns whether it stands at a record. Errors: Failure.
  bool first();
  bool last();
  bool seek(Seek how, nb::handle key);
  bool next();
  bool prev();

  [[nodiscard]] bool valid();
  // Errors: Failure, if the cursor is at no record.
  [[nodiscard]] nb::bytes key();
  [[nodiscard]] nb::bytes value();

  // Copies up to `count` records from here on, in the direction, that are on this side of `bound` (exclusive going
  // forward, inclusive going backwards), and moves past them.
  using Record = std::pair<std::string, std::string>;
  std::vector<Record> take(size_t count, bool backwards, const std::optional<std::string>& bound);

 private:
  template <typename Move>
  bool move(Move&& move);
  void require_record();

  std::unique_ptr<ReadOptions> options_;
  bonsai_iterator_t* iterator_ = nullptr;
};

// The iterator of `for key, value in db.items(...)`. Reads some records ahead: all are of one moment.
class Items {
 public:
  Items(std::shared_ptr<Store> store, Snapshot* snapshot, std::optional<std::string> start,
        std::optional<std::string> end, bool backwards, bool keys_only);
  [[nodiscard]] nb::object next();

 private:
  void begin();

  Cursor cursor_;
  std::optional<std::string> start_, end_;
  bool backwards_, keys_only_, begun_ = false;
  size_t batch_ = 8;  // grows: who takes few records pays for few
  std::vector<Cursor::Record> ahead_;
  size_t taken_ = 0;
};

void add_cursors(nb::module_& module);

}  // namespace bonsai::python

#endif  // BONSAI_PYTHON_BINDING_CURSOR_H_
