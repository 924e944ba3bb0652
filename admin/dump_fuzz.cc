// SPDX-License-Identifier: Apache-2.0
// Any bytes as a dump: they are refused with the line, or give records that stay equal when they are dumped and loaded
// again. Also any bytes as escaped text.
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "admin/dump.h"
#include "base/check.h"
#include "base/testing/fuzz.h"
#include "testing/model_db.h"

namespace bonsai::admin {
namespace {

using testing::FuzzRegistration;

// Loads, and returns the pool's content as a dump.
Status load(std::string_view text, KeyFormat format, std::string* dumped) {
  Options options;
  options.key_format = format;
  testing::ModelDb db(options);
  KeyText keys;
  keys.format = format;
  std::string bytes(text);
  bytes.push_back('\n');  // fmemopen takes no empty memory
  const std::unique_ptr<FILE, int (*)(FILE*)> in(::fmemopen(bytes.data(), bytes.size() - 1 + text.empty(), "r"),
                                                 [](FILE* opened) { return std::fclose(opened); });
  BONSAI_CHECK(in != nullptr);
  uint64_t records = 0, counted = 0;
  KeyFormat of_dump = KeyFormat::kBytes;
  Status status = read_dump_title(in.get(), &of_dump);
  if (status.ok()) status = check_dump_keys(of_dump, format);
  if (status.ok())
    status = load_dump(
        in.get(), &db, keys, [] { return 0; }, &records);
  *dumped = std::string(kDumpTitle) + std::string(key_format_name(format)) + "\n";
  BONSAI_CHECK(db.Scan({}, {}, [&](std::string_view key, std::string_view value) {
                   *dumped +=
                       (format == KeyFormat::kFixed8 ? keys.show(key) : escape(key)) + "\t" + escape(value) + "\n";
                   ++counted;
                   return true;
                 }).ok());
  BONSAI_CHECK(!status.ok() || counted <= records);  // a group with a bad record may have put later ones
  *dumped += "end " + std::to_string(counted) + "\n";
  return status;
}

void run_dump(std::string_view input) {
  for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed8}) {
    std::string dumped, again;
    const Status status = load(input, format, &dumped);
    if (!status.ok()) BONSAI_CHECK(status.message().substr(0, 5) == "line ");
    BONSAI_CHECK(load(dumped, format, &again).ok() && again == dumped);
  }
}

std::vector<std::string> seeds_of_dumps() {
  return {"bonsai-dump 1 bytes\napple\tred\nkiwi\\x00\\t\tgreen\\n\nend 2\n",
          "bonsai-dump 1 fixed8\n1\ta\n18446744073709551615\tb\nend 2\n", "bonsai-dump 1 bytes\nend 0\n",
          "bonsai-dump 1 bytes\na\tb\nend 2\nmore"};
}

const FuzzRegistration dump("dump_text", run_dump, seeds_of_dumps);

void run_escapes(std::string_view input) {
  std::string bytes;
  BONSAI_CHECK(unescape(escape(input), &bytes).ok() && bytes == input);
  BONSAI_CHECK(from_hex(to_hex(input), &bytes).ok() && bytes == input);
  if (unescape(input, &bytes).ok()) {
    std::string again;
    BONSAI_CHECK(unescape(escape(bytes), &again).ok() && again == bytes);
  }
  uint64_t number = 0;
  if (!parse_size(input, "size", &number).ok()) static_cast<void>(parse_number(input, "number", &number));
}

std::vector<std::string> seeds_of_escapes() { return {"a\\x00\\tb\\\\", "\\xff", "512MiB", "18446744073709551615"}; }

const FuzzRegistration escapes("escaped_text", run_escapes, seeds_of_escapes);

}  // namespace
}  // namespace bonsai::admin
