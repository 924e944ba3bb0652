// SPDX-License-Identifier: Apache-2.0
// A host program: opens a pool at argv[1], writes, reads back, reopens, reads again. Its own symbols `FLAGS_v` and
// `google` must not collide with anything of the library.
#include <cstdio>
#include <memory>
#include <string>

#include "bonsai/db.h"

int FLAGS_v = 7;
namespace google {
int InitGoogleLogging = 7;
}

namespace {

int fail(const char* what, const bonsai::Status& status) {
  std::fprintf(stderr, "consumer: %s: %s\n", what, status.ToString().c_str());
  return 1;
}

int run(const std::string& path) {
  bonsai::Options options;
  options.create_if_missing = true;
  options.pool_bytes = uint64_t{64} << 20;
  for (int round = 0; round < 2; ++round) {
    std::unique_ptr<bonsai::DB> db;
    if (bonsai::Status status = bonsai::DB::Open(options, path, &db); !status.ok()) return fail("open", status);
    if (round == 0) {
      if (bonsai::Status status = db->Put("answer", "42"); !status.ok()) return fail("put", status);
    }
    std::string value;
    if (bonsai::Status status = db->Get("answer", &value); !status.ok()) return fail("get", status);
    if (value != "42") return fail("wrong value", bonsai::Status::Corruption(value));
    if (bonsai::Status status = db->Close(); !status.ok()) return fail("close", status);
  }
  return FLAGS_v + google::InitGoogleLogging == 14 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return argc == 2 ? run(argv[1]) : 2; }
