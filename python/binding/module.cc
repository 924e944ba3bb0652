// SPDX-License-Identifier: Apache-2.0
// The module bonsai._bonsai: the store, batches and snapshots; cursors, sessions and pools add themselves.
#include <bonsai/c.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytes.h"
#include "condition.h"
#include "cursor.h"
#include "error.h"
#include "pools.h"
#include "scan.h"
#include "session.h"
#include "store.h"

namespace bonsai::python {
namespace {

using Class = nb::class_<Store>;

class Batch {
 public:
  Batch() : batch_(bonsai_writebatch_create()) {
    if (batch_ == nullptr) throw std::bad_alloc();
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() { bonsai_writebatch_destroy(batch_); }

  void put(nb::handle key, nb::handle value) {
    const Bytes k(key), v(value);
    Message message;
    require_idle();
    message.require(bonsai_writebatch_put(batch_, k.data(), k.size(), v.data(), v.size(), message.out()));
  }
  void remove(nb::handle key) {
    const Bytes k(key);
    Message message;
    require_idle();
    message.require(bonsai_writebatch_delete(batch_, k.data(), k.size(), message.out()));
  }
  void require(nb::handle key, const Condition& condition) {
    const Bytes k(key);
    Message message;
    require_idle();
    const bonsai_condition_t required = condition.get();
    message.require(bonsai_writebatch_require(batch_, &required, k.data(), k.size(), message.out()));
    if (condition.snapshot().snapshot() != nullptr) snapshots_.push_back(condition.snapshot());
  }
  void clear() {
    require_idle();
    bonsai_writebatch_clear(batch_);
    snapshots_.clear();
  }
  [[nodiscard]] size_t count() const { return bonsai_writebatch_count(batch_); }

  void write(Store& store) {
    require_idle();
    writing_ = true;
    const auto idle = [](bool* writing) { *writing = false; };
    const std::unique_ptr<bool, decltype(idle)> afterwards(&writing_, idle);
    std::deque<ReadOptions> readers;  // keep the snapshots
    for (const SnapshotName& name : snapshots_) readers.emplace_back(name.of(store));
    size_t failed = 0;
    try {
      store.call([&](bonsai_t* db, char** error) { return bonsai_write_if(db, batch_, &failed, error); });
    } catch (Failure& failure) {
      if (failure.code == BONSAI_CONDITION_FAILED) failure.failed = failed;
      throw;
    }
  }

 private:
  void require_idle() const {
    if (writing_) throw Failure{.code = BONSAI_BUSY, .text = "another thread is writing this batch"};
  }

  bonsai_writebatch_t* batch_;
  std::vector<SnapshotName> snapshots_;  // that conditions name; a write asks whether they are live
  bool writing_ = false;
};

void put(Store& store, nb::handle key, nb::handle value) {
  const Bytes k(key), v(value);
  store.call([&](bonsai_t* db, char** error) { return bonsai_put(db, k.data(), k.size(), v.data(), v.size(), error); });
}

void remove(Store& store, nb::handle key) {
  const Bytes k(key);
  store.call([&](bonsai_t* db, char** error) { return bonsai_delete(db, k.data(), k.size(), error); });
}

nb::object get(Store& store, nb::handle key, nb::handle fallback, Snapshot* snapshot) {
  const Bytes k(key);
  const ReadOptions options(snapshot);
  char* value = nullptr;
  size_t bytes = 0;
  const int code = store.call([&](bonsai_t* db, char** error) {
    return bonsai_get(db, options.get(), k.data(), k.size(), &value, &bytes, error);
  });
  if (code == BONSAI_NOT_FOUND) return nb::borrow(fallback);
  const std::unique_ptr<char, decltype(&bonsai_free)> owner(value, bonsai_free);
  return nb::bytes(value, bytes);
}

nb::object item(Store& store, nb::handle key) {
  nb::object value = get(store, key, nb::none(), nullptr);
  if (value.is_none()) {
    PyErr_SetObject(PyExc_KeyError, key.ptr());
    throw nb::python_error();
  }
  return value;
}

bool exists(Store& store, nb::handle key, Snapshot* snapshot) {
  const Bytes k(key);
  const ReadOptions options(snapshot);
  return store.call([&](bonsai_t* db, char** error) {
    return bonsai_exists(db, options.get(), k.data(), k.size(), error);
  }) == BONSAI_OK;
}

// None: the key has no value; else the value's size, also where the buffer is too small for it.
std::optional<size_t> get_into(Store& store, nb::handle key, nb::handle buffer, Snapshot* snapshot) {
  const Bytes k(key);
  const ReadOptions options(snapshot);
  Py_buffer target{};
  if (PyObject_GetBuffer(buffer.ptr(), &target, PyBUF_WRITABLE) != 0) throw nb::python_error();
  const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> owner(&target, PyBuffer_Release);
  size_t bytes = 0;
  const int code = store.call([&](bonsai_t* db, char** error) {
    const int got = bonsai_get_into(db, options.get(), k.data(), k.size(), static_cast<char*>(target.buf),
                                    static_cast<size_t>(target.len), &bytes, error);
    const bool too_small = got == BONSAI_INVALID_ARGUMENT && bytes > static_cast<size_t>(target.len);
    return too_small ? static_cast<int>(BONSAI_OK) : got;
  });
  if (code == BONSAI_NOT_FOUND) return std::nullopt;
  return bytes;
}

nb::dict stats(Store& store) {
  bonsai_stats_t* all = nullptr;
  store.call([&](bonsai_t* db, char**) {
    all = bonsai_stats_create(db);
    return all != nullptr ? BONSAI_OK : BONSAI_NO_SPACE;
  });
  const std::unique_ptr<bonsai_stats_t, decltype(&bonsai_stats_destroy)> owner(all, bonsai_stats_destroy);
  nb::dict result;
  for (size_t i = 0; i < bonsai_stats_count(all); ++i) result[bonsai_stats_name(all, i)] = bonsai_stats_value(all, i);
  result["medium"] = bonsai_stats_medium(all);
  result["emulated"] = bonsai_stats_emulated(all) != 0;
  return result;
}

uint64_t checkpoint(Store& store, nb::handle to, Snapshot* snapshot, const nb::kwargs& keywords) {
  const std::string path = path_of(to);
  const OpenOptions options(true, keywords);
  const ReadOptions reader(snapshot);  // keeps the snapshot
  uint64_t records = 0;
  store.call([&](bonsai_t* db, char** error) {
    return bonsai_checkpoint(db, options.get(), path.c_str(), snapshot != nullptr ? snapshot->get() : nullptr, &records,
                             error);
  });
  return records;
}

nb::object items(const std::shared_ptr<Store>& store, nb::handle start, nb::handle end, bool reverse,
                 Snapshot* snapshot, bool keys_only) {
  const auto bound = [](nb::handle key) {
    return key.is_none() ? std::nullopt : std::optional<std::string>(Bytes(key).view());
  };
  return nb::cast(std::make_unique<Items>(store, snapshot, bound(start), bound(end), reverse, keys_only));
}

void add_single(Class& db) {
  db.def("put", put, nb::arg("key"), nb::arg("value"), "Stores the value; durable when it returns.")
      .def("get", get, nb::arg("key"), nb::arg("default") = nb::none(), nb::arg("snapshot") = nb::none(),
           "The value of key, or the default.")
      .def("get_into", get_into, nb::arg("key"), nb::arg("buffer"), nb::arg("snapshot") = nb::none(),
           "Copies the value into a writable buffer. Returns its size, or None; a larger value is not copied.")
      .def("delete", remove, nb::arg("key"), "Removes the key, if it is there.")
      .def("exists", exists, nb::arg("key"), nb::arg("snapshot") = nb::none())
      .def("__setitem__", put)
      .def("__getitem__", item)
      .def("__delitem__", remove)
      .def("__contains__", [](Store& store, nb::handle key) { return exists(store, key, nullptr); });
}

void add_many(Class& db) {
  db.def("put_many", put_many, nb::arg("records"),
         "Puts a dict, or pairs of key and value, in groups that share fences. Not atomic. Returns how many.")
      .def("get_many", get_many, nb::arg("keys"), nb::arg("snapshot") = nb::none(),
           "A list of the values of the keys, None for those that are absent.")
      .def(
          "write", [](Store& store, Batch& batch) { batch.write(store); }, nb::arg("batch"),
          "Applies a batch: whole or not at all, for readers and for crashes. Raises ConditionFailedError if a\n"
          "condition does not hold; its member failed is the number of one that does not, in the order of require().")
      .def(
          "scan",
          [](Store& store, nb::handle start, nb::handle end, std::optional<uint64_t> limit, Snapshot* snapshot) {
            return scan(store, make_range(start, end, limit), snapshot);
          },
          nb::arg("start") = nb::none(), nb::arg("end") = nb::none(), nb::arg("limit") = nb::none(),
          nb::arg("snapshot") = nb::none(), "A list of (key, value) from start up to end (exclusive), of one moment.")
      .def(
          "scan_columns",
          [](Store& store, nb::handle start, nb::handle end, std::optional<uint64_t> limit, Snapshot* snapshot) {
            return scan_columns(store, make_range(start, end, limit), snapshot);
          },
          nb::arg("start") = nb::none(), nb::arg("end") = nb::none(), nb::arg("limit") = nb::none(),
          nb::arg("snapshot") = nb::none(),
          "Records of equal sizes as (keys, values, key size, value size), for numpy.frombuffer.")
      .def(
          "count",
          [](Store& store, nb::handle start, nb::handle end, std::optional<uint64_t> limit, Snapshot* snapshot) {
            return count(store, make_range(start, end, limit), snapshot);
          },
          nb::arg("start") = nb::none(), nb::arg("end") = nb::none(), nb::arg("limit") = nb::none(),
          nb::arg("snapshot") = nb::none(), "How many records a scan would visit.")
      .def(
          "delete_range",
          [](Store& store, nb::handle start, nb::handle end, std::optional<uint64_t> limit) {
            return delete_range(store, make_range(start, end, limit));
          },
          nb::arg("start") = nb::none(), nb::arg("end") = nb::none(), nb::arg("limit") = nb::none(),
          "Deletes the records that a scan would visit, at one moment; returns their number. Where they are more than\n"
          "one batch has, InvalidArgument has a limit that fits: repeat with it until 0 are left.");
}

void add_lent(Class& db) {
  db.def(
        "items",
        [](const std::shared_ptr<Store>& store, nb::handle start, nb::handle end, bool reverse, Snapshot* snapshot) {
          return items(store, start, end, reverse, snapshot, false);
        },
        nb::arg("start") = nb::none(), nb::arg("end") = nb::none(), nb::arg("reverse") = false,
        nb::arg("snapshot") = nb::none(), nb::keep_alive<0, 5>(),
        "Iterates over (key, value) from start up to end (exclusive), as of one moment.")
      .def(
          "keys",
          [](const std::shared_ptr<Store>& store, nb::handle start, nb::handle end, bool reverse, Snapshot* snapshot) {
            return items(store, start, end, reverse, snapshot, true);
          },
          nb::arg("start") = nb::none(), nb::arg("end") = nb::none(), nb::arg("reverse") = false,
          nb::arg("snapshot") = nb::none(), nb::keep_alive<0, 5>(), "As items(), the keys alone.")
      .def("__iter__",
           [](const std::shared_ptr<Store>& store) {
             return items(store, nb::none(), nb::none(), false, nullptr, true);
           })
      .def(
          "cursor",
          [](const std::shared_ptr<Store>& store, Snapshot* snapshot) {
            return std::make_unique<Cursor>(store, snapshot);
          },
          nb::arg("snapshot") = nb::none(), nb::keep_alive<0, 2>(), "A cursor over the records of this moment.")
      .def(
          "snapshot", [](const std::shared_ptr<Store>& store) { return std::make_unique<Snapshot>(store); },
          "A point in the store's history, for the snapshot argument of reads.")
      .def(
          "session",
          [](const std::shared_ptr<Store>& store, size_t depth) { return std::make_unique<Session>(store, depth); },
          nb::arg("depth") = 32, "A session with up to depth operations in flight.");
}

void add_whole(Class& db) {
  db.def(
        "sync", [](Store& store) { store.call([](bonsai_t* db, char** error) { return bonsai_sync(db, error); }); },
        "Waits until all updates that have returned are durable (durability 'buffered').")
      .def(
          "drain", [](Store& store) { store.call([](bonsai_t* db, char** error) { return bonsai_drain(db, error); }); },
          "Moves all buffered updates into dnodes, and frees the log.")
      .def("stats", stats, "All counters by name, the medium, and whether it is emulated.")
      .def_prop_ro("batch_bytes_max",
                   [](Store& store) {
                     uint64_t bytes = 0;
                     store.call([&](bonsai_t* db, char**) {
                       bytes = bonsai_batch_bytes_max(db);
                       return BONSAI_OK;
                     });
                     return bytes;
                   })
      .def("checkpoint", checkpoint, nb::arg("to"), nb::arg("snapshot") = nb::none(), nb::arg("options"),
           "Copies the store, as of the snapshot or now, into a new pool. Returns the number of records.")
      .def("close", &Store::close, "Closes cursors, sessions and snapshots, then the store.")
      .def_prop_ro("closed", [](const Store& store) { return !store.is_open(); })
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", [](Store& store, nb::args) { store.close(); });
}

void add_classes(nb::module_& module) {
  module.attr("KEY_BYTES_MAX") = BONSAI_KEY_BYTES_MAX;
  module.attr("VALUE_BYTES_MAX") = BONSAI_VALUE_BYTES_MAX;
  add_errors(module);
  nb::class_<Batch>(module, "Batch", "Updates that DB.write() applies whole or not at all, if conditions hold.")
      .def(nb::init<>())
      .def("put", &Batch::put, nb::arg("key"), nb::arg("value"))
      .def("delete", &Batch::remove, nb::arg("key"))
      .def("require", &Batch::require, nb::arg("key"), nb::arg("condition"),
           "Has the write take effect only if the condition holds of the key, which the batch need not update.")
      .def("clear", &Batch::clear)
      .def("__len__", &Batch::count);
  nb::class_<Snapshot>(module, "Snapshot", "A point in a store's history. See DB.snapshot().")
      .def("release", &Snapshot::release, "Frees what the store keeps for it.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", [](Snapshot& self, nb::args) { self.release(); });
  Class db(module, "DB", "An open store. See bonsai.open().");
  add_single(db);
  add_conditions(module, db);
  add_many(db);
  add_lent(db);
  add_whole(db);
  add_cursors(module);
  add_sessions(module);
  add_pools(module);
}

void add_functions(nb::module_& module) {
  module.def(
      "open",
      [](nb::handle path, bool create, const nb::kwargs& options) {
        const OpenOptions chosen(create, options);
        return open_store(path, chosen);
      },
      nb::arg("path"), nb::arg("create") = false, nb::arg("options"),
      "Opens the pool at path; create=True makes it if it is not there. Options, as in bonsai/options.h:\n"
      "pool_bytes, grow_bytes, log_bytes, key_format ('bytes', 'fixed8'), medium ('auto', 'dram'), durability\n"
      "('durable', 'buffered', 'volatile'), persistence_domain ('auto', 'adr', 'eadr'), buffered_window_ms,\n"
      "background_threads, recovery_threads, stall_ms_max, metadata_upload, error_if_exists, any_key_format,\n"
      "read_only, fabric_secret_file, fabric_wait_ms_max, fabric_workers, take_over, layout ('none', 'software', "
      "'hardware'),\n"
      "stripe_unit_bytes, scrub_bytes_per_s.");
  module.def(
      "version", [] { return std::string(bonsai_version()); }, "The version of the loaded library.");
  module.def(
      "encode_fixed8",
      [](uint64_t number) {
        char key[8];
        bonsai_fixed8_encode(number, key);
        return nb::bytes(key, sizeof key);
      },
      nb::arg("number"), "The key of 8 bytes for a number, whose order is that of the numbers.");
  module.def(
      "decode_fixed8",
      [](nb::handle key) {
        const Bytes bytes(key);
        if (bytes.size() != 8) throw nb::value_error("a fixed8 key has 8 bytes");
        return bonsai_fixed8_decode(bytes.data());
      },
      nb::arg("key"));
}

}  // namespace
}  // namespace bonsai::python

NB_MODULE(_bonsai, module) {
  bonsai::python::add_classes(module);
  bonsai::python::add_functions(module);
}
