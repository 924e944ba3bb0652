// SPDX-License-Identifier: Apache-2.0
// Many operations of one thread in flight at once, existence, counting, and paging through a range. Usage: session_cc
// POOL
//
// On a store larger than the processor's caches a session is several times faster than one call after the other,
// because its operations overlap their cache misses, and its updates share fences.
#include <bonsai/db.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr int kNumbers = 1000;

void must(const bonsai::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

std::string key_of(int number) {  // keys are in bytewise order, so numbers have leading zeros
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "square/%04d", number);
  return text.data();
}

void store_squares(bonsai::DB* db) {
  // The arguments of an operation must stay in place until Wait() returns.
  std::array<std::string, kNumbers> keys, values;
  std::array<bonsai::Status, kNumbers> statuses;
  const auto session = db->NewSession();
  for (int i = 0; i < kNumbers; ++i) {
    keys[i] = key_of(i);
    values[i] = std::to_string(i * i);
    session->Put(keys[i], values[i], &statuses[i]);
  }
  session->Wait();
  for (const bonsai::Status& status : statuses) must(status);
}

void print_some(bonsai::DB* db) {
  const std::array<std::string, 2> keys = {key_of(12), key_of(999)};
  std::array<std::string, 2> values;
  std::array<bonsai::Status, 2> statuses;
  const auto session = db->NewSession();
  for (size_t i = 0; i < keys.size(); ++i) session->Get(keys[i], &values[i], &statuses[i]);
  session->Wait();
  for (size_t i = 0; i < keys.size(); ++i) {
    must(statuses[i]);
    std::printf("the square of %d is %s\n", std::stoi(keys[i].substr(7)), values[i].c_str());
  }
  if (db->Exists(key_of(kNumbers)).IsNotFound()) std::printf("there is no square of %d\n", kNumbers);
}

// Each page begins after the last key of the one before.
void print_pages(bonsai::DB* db) {
  bonsai::ScanOptions options;
  options.limit = 400;
  options.end = "square/\xff";
  std::string from = "square/";
  for (int page = 1;; ++page, options.from_exclusive = true) {
    std::string first, last;
    must(db->Scan(options, from, [&](std::string_view key, std::string_view) {
      if (first.empty()) first = key;
      last = key;
      return true;
    }));
    if (first.empty()) break;
    std::printf("page %d: %d to %d\n", page, std::stoi(first.substr(7)), std::stoi(last.substr(7)));
    from = last;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s POOL, e.g. %s /dev/shm/session.pool\n", argv[0], argv[0]);
    return 2;
  }
  bonsai::Options options;
  options.create_if_missing = true;
  options.pool_bytes = 64 << 20;
  std::unique_ptr<bonsai::DB> db;
  must(bonsai::DB::Open(options, argv[1], &db));
  store_squares(db.get());
  uint64_t count = 0;
  must(db->Count({}, "square/", &count));
  std::printf("%d squares are stored\n", static_cast<int>(count));
  print_some(db.get());
  print_pages(db.get());
  must(db->Close());
  return 0;
}
