// SPDX-License-Identifier: Apache-2.0
// Bonsai from C++: opens a pool, updates it, reads it as of one moment, closes it. Usage: hello_cc POOL
//
// Run it twice: the second run finds what the first one stored.
#include <bonsai/db.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

// Every operation that can fail returns a Status; its message says what to do.
static void Must(const bonsai::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s POOL, e.g. %s /dev/shm/hello.pool\n", argv[0], argv[0]);
    return 2;
  }
  bonsai::Options options;
  options.create_if_missing = true;
  options.pool_bytes = 64 << 20;
  std::unique_ptr<bonsai::DB> db;
  Must(bonsai::DB::Open(options, argv[1], &db));

  // Get: "not found" is an answer, not an error.
  std::string runs = "0";
  const bonsai::Status found = db->Get("runs", &runs);
  if (!found.IsNotFound()) Must(found);

  // Put: when it returns, the update survives a crash.
  runs = std::to_string(std::stoi(runs) + 1);
  Must(db->Put("runs", runs));
  std::printf("this is run %s\n", runs.c_str());

  // A batch takes effect whole or not at all.
  bonsai::WriteBatch batch;
  batch.Put("fruit/apple", "red");
  batch.Put("fruit/banana", "yellow");
  batch.Put("fruit/cherry", "dark red");
  Must(db->Write(batch));

  // A snapshot shows the store as of one moment; it does not show later updates.
  std::shared_ptr<const bonsai::Snapshot> moment;
  Must(db->GetSnapshot(&moment));
  Must(db->Delete("fruit/banana"));

  const auto print = [](std::string_view key, std::string_view value) {
    std::printf("  %.*s = %.*s\n", static_cast<int>(key.size()), key.data(), static_cast<int>(value.size()),
                value.data());
    return true;  // go on
  };
  bonsai::ScanOptions fruit;
  fruit.end = "fruit0";  // '0' follows '/', so this ends the keys that start with "fruit/"
  std::printf("now:\n");
  Must(db->Scan(fruit, "fruit/", print));
  fruit.snapshot = moment.get();
  std::printf("before the delete:\n");
  Must(db->Scan(fruit, "fruit/", print));

  moment.reset();  // destroy snapshots and iterators before closing the store
  Must(db->Close());
  return 0;
}
