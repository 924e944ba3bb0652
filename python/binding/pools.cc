// SPDX-License-Identifier: Apache-2.0
#include "pools.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <array>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

namespace bonsai::python {
namespace {

using Options = bonsai_options_t;

struct Flag {
  std::string_view name;
  void (*set)(Options*, unsigned char);
};
constexpr std::array kFlags{Flag{"error_if_exists", bonsai_options_set_error_if_exists},
                            Flag{"any_key_format", bonsai_options_set_any_key_format},
                            Flag{"metadata_upload", bonsai_options_set_metadata_upload},
                            Flag{"read_only", bonsai_options_set_read_only},
                            Flag{"take_over", bonsai_options_set_take_over}};

struct Bytes64 {
  std::string_view name;
  void (*set)(Options*, uint64_t);
};
constexpr std::array kBytes{Bytes64{"pool_bytes", bonsai_options_set_pool_bytes},
                            Bytes64{"grow_bytes", bonsai_options_set_grow_bytes},
                            Bytes64{"log_bytes", bonsai_options_set_log_bytes},
                            Bytes64{"scrub_bytes_per_s", bonsai_options_set_scrub_bytes_per_s},
                            Bytes64{"stripe_unit_bytes", bonsai_options_set_stripe_unit_bytes}};

struct Amount {
  std::string_view name;
  void (*set)(Options*, uint32_t);
};
constexpr std::array kAmounts{Amount{"buffered_window_ms", bonsai_options_set_buffered_window_ms},
                              Amount{"background_threads", bonsai_options_set_background_threads},
                              Amount{"recovery_threads", bonsai_options_set_recovery_threads},
                              Amount{"stall_ms_max", bonsai_options_set_stall_ms_max},
                              Amount{"fabric_wait_ms_max", bonsai_options_set_fabric_wait_ms_max},
                              Amount{"fabric_workers", bonsai_options_set_fabric_workers}};

struct Choice {
  std::string_view name;
  void (*set)(Options*, int);
  std::array<std::string_view, 3> values;  // in the order of the C interface's numbers
};
constexpr std::array kChoices{
    Choice{"key_format", bonsai_options_set_key_format, {"bytes", "fixed8", ""}},
    Choice{"layout", bonsai_options_set_layout, {"none", "software", "hardware"}},
    Choice{"medium", bonsai_options_set_medium, {"auto", "dram", ""}},
    Choice{"durability", bonsai_options_set_durability, {"durable", "buffered", "volatile"}},
    Choice{"persistence_domain", bonsai_options_set_persistence_domain, {"auto", "adr", "eadr"}}};

void set_choice(Options* options, const Choice& choice, const std::string& value) {
  std::string known;
  for (size_t i = 0; i < choice.values.size() && !choice.values[i].empty(); ++i) {
    if (choice.values[i] == value) return choice.set(options, static_cast<int>(i));
    known += (known.empty() ? "" : ", ") + std::string(choice.values[i]);
  }
  throw nb::value_error((std::string(choice.name) + "='" + value + "': use one of " + known).c_str());
}

// Whether there is an option of that name.
bool set_option(Options* options, std::string_view name, nb::handle value) {
  for (const Flag& flag : kFlags) {
    if (flag.name == name) return flag.set(options, nb::cast<bool>(value) ? 1 : 0), true;
  }
  for (const Bytes64& amount : kBytes) {
    if (amount.name == name) return amount.set(options, nb::cast<uint64_t>(value)), true;
  }
  for (const Amount& amount : kAmounts) {
    if (amount.name == name) return amount.set(options, nb::cast<uint32_t>(value)), true;
  }
  for (const Choice& choice : kChoices) {
    if (choice.name == name) return set_choice(options, choice, nb::cast<std::string>(value)), true;
  }
  if (name != "fabric_secret_file") return false;
  bonsai_options_set_fabric_secret_file(options, path_of(value).c_str());
  return true;
}

// The reports of bonsai_check() and bonsai_salvage().
class CheckReport {
 public:
  explicit CheckReport(bonsai_check_report_t* report) : report_(report) {}
  CheckReport(const CheckReport&) = delete;
  CheckReport& operator=(const CheckReport&) = delete;
  ~CheckReport() { bonsai_check_report_destroy(report_); }

  [[nodiscard]] bool clean() const { return bonsai_check_report_clean(report_) != 0; }
  [[nodiscard]] nb::list damages() const {
    nb::list all;
    for (size_t i = 0; i < bonsai_check_report_damages(report_); ++i) {
      all.append(nb::make_tuple(bonsai_check_report_where(report_, i), bonsai_check_report_what(report_, i),
                                bonsai_check_report_key_range(report_, i)));
    }
    return all;
  }
  [[nodiscard]] uint64_t find(const std::string& name) const {
    uint64_t value = 0;
    if (bonsai_check_report_find(report_, name.c_str(), &value) != BONSAI_OK)
      throw nb::key_error(("a report has no count '" + name + "'").c_str());
    return value;
  }

 private:
  bonsai_check_report_t* report_;
};

template <typename Function>
std::unique_ptr<CheckReport> reported(Function&& function) {
  bonsai_check_report_t* report = nullptr;
  Message message;
  int code = 0;
  {
    const nb::gil_scoped_release release;
    code = function(&report, message.out());
  }
  message.require(code);
  return std::make_unique<CheckReport>(report);
}

}  // namespace

OpenOptions::OpenOptions(bool create, const nb::kwargs& options) : options_(bonsai_options_create()) {
  if (options_ == nullptr) throw std::bad_alloc();
  std::unique_ptr<Options, decltype(&bonsai_options_destroy)> owner(options_, bonsai_options_destroy);
  bonsai_options_set_create_if_missing(options_, create ? 1 : 0);
  for (const auto& [key, value] : options) {
    const auto name = nb::cast<std::string>(key);
    bool known = false;
    try {
      known = set_option(options_, name, value);
    } catch (const nb::cast_error&) {
      throw nb::value_error((name + ": this value is of another type, or out of bounds").c_str());
    }
    if (!known) throw nb::type_error(("there is no option '" + name + "'; see help(bonsai.open)").c_str());
  }
  (void)owner.release();
}

std::string path_of(nb::handle path) {
  PyObject* encoded = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &encoded) == 0) throw nb::python_error();
  const nb::bytes bytes = nb::steal<nb::bytes>(encoded);
  return {bytes.c_str(), bytes.size()};
}

std::shared_ptr<Store> open_store(nb::handle path, const OpenOptions& options) {
  const std::string name = path_of(path);
  Message message;
  bonsai_t* db = nullptr;
  int code = 0;
  {
    const nb::gil_scoped_release release;
    code = bonsai_open(options.get(), name.c_str(), &db, message.out());
  }
  message.require(code);
  return std::make_shared<Store>(db);
}

void add_pools(nb::module_& module) {
  nb::class_<CheckReport>(module, "CheckReport", "What check() and salvage() found.")
      .def_prop_ro("clean", &CheckReport::clean, "Whether the pool was closed properly.")
      .def_prop_ro("damages", &CheckReport::damages, "A list of (where, what, key range); empty: nothing is damaged.")
      .def("__getitem__", &CheckReport::find, nb::arg("name"),
           "A count: targets, dnodes, records, log_records, large_values, data_bytes, data_bytes_used.");
  module.def(
      "check",
      [](nb::handle path) {
        const std::string name = path_of(path);
        return reported([&](bonsai_check_report_t** report, char** error) {
          return bonsai_check(name.c_str(), nullptr, nullptr, report, error);
        });
      },
      nb::arg("path"), "Verifies a pool that is not open, without changing it.");
  module.def(
      "salvage",
      [](nb::handle from, nb::handle to, const nb::kwargs& options) {
        const std::string source = path_of(from), target = path_of(to);
        const OpenOptions chosen(true, options);
        return reported([&](bonsai_check_report_t** report, char** error) {
          return bonsai_salvage(source.c_str(), chosen.get(), target.c_str(), nullptr, nullptr, report, error);
        });
      },
      nb::arg("path"), nb::arg("to"), nb::arg("options"),
      "Copies what passes its checks from a damaged pool into a new one; the report lists what is lost.");
  module.def(
      "describe_medium",
      [](nb::handle path) {
        const std::string name = path_of(path);
        char* text = nullptr;
        Message message;
        message.require(bonsai_describe_medium(name.c_str(), &text, message.out()));
        const std::unique_ptr<char, decltype(&bonsai_free)> owner(text, bonsai_free);
        return std::string(text);
      },
      nb::arg("path"), "What a pool at this path would be made of; the path need not exist.");
}

}  // namespace bonsai::python
