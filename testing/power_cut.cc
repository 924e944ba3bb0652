// SPDX-License-Identifier: Apache-2.0
// A store on a machine whose power is cut (a guest of scripts/testbed.sh), through the public interface only.
//   power_cut write POOL MEDIUM FIRST   puts the numbers from FIRST on, each under the key NUMBER % kKeys, and prints
//                                       every number once its put has returned; runs until the machine dies.
//                                       MEDIUM: auto, shadow, or shadow-without-flushes (the canary)
//   power_cut check POOL ACKNOWLEDGED   recovers and expects exactly what one writer left that had put 1 to M, with
//                                       M >= ACKNOWLEDGED; prints M. Exit code 1 and the reason when it is not so
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bonsai/testing.h"

namespace {

constexpr uint64_t kKeys = 500;

std::string key_of(uint64_t number) { return "key" + std::to_string(number % kKeys); }
// Long enough for the log to wrap and be offloaded while the writer runs.
std::string value_of(uint64_t number) { return std::to_string(number) + std::string(number % 300, '.'); }

int fails(const std::string& why) {
  std::printf("%s\n", why.c_str());
  return 1;
}

bonsai::Status open_on(const std::string& medium, const std::string& pool, std::unique_ptr<bonsai::DB>* db) {
  bonsai::Options options;
  options.create_if_missing = true;
  options.pool_bytes = uint64_t{32} << 20;
  options.log_bytes = uint64_t{1} << 20;
  if (medium == "auto") return bonsai::DB::Open(options, pool, db);
  options.persistence_domain = bonsai::PersistenceDomain::kAdr;
  bonsai::TestOptions shadow;
  shadow.medium = bonsai::TestMedium::kShadow;
  shadow.shadow_drops_flushes = medium == "shadow-without-flushes";
  return bonsai::OpenForTest(options, shadow, pool, db);
}

int write(const std::string& pool, const std::string& medium, uint64_t number) {
  std::unique_ptr<bonsai::DB> db;
  if (auto status = open_on(medium, pool, &db); !status.ok()) return fails(status.ToString());
  std::printf("medium %s\n", db->GetStats().medium.c_str());
  for (;; ++number) {
    if (auto status = db->Put(key_of(number), value_of(number)); !status.ok()) return fails(status.ToString());
    std::printf("%llu\n", static_cast<unsigned long long>(number));
    if (number % 16 == 0) std::fflush(stdout);
  }
}

int check(const std::string& pool, uint64_t acknowledged) {
  bonsai::CheckReport report;
  if (auto status = bonsai::Check(pool, &report); !status.ok()) return fails("check: " + status.ToString());
  if (!report.ok()) return fails("damage: " + report.damages[0].where + ": " + report.damages[0].what);
  std::unique_ptr<bonsai::DB> db;
  if (auto status = bonsai::DB::Open({}, pool, &db); !status.ok()) return fails("open: " + status.ToString());
  std::vector<uint64_t> held(kKeys, 0);
  uint64_t last = 0;
  for (uint64_t key = 0; key < kKeys; ++key) {
    std::string value;
    const auto status = db->Get(key_of(key), &value);
    if (status.IsNotFound()) continue;
    if (!status.ok()) return fails("get: " + status.ToString());
    held[key] = std::strtoull(value.c_str(), nullptr, 10);
    if (value != value_of(held[key])) return fails("a value that nobody wrote: " + value);
    last = held[key] > last ? held[key] : last;
  }
  if (last < acknowledged) {
    return fails("lost: " + std::to_string(acknowledged) + " was acknowledged, the newest found is " +
                 std::to_string(last));
  }
  for (uint64_t key = 0; key < kKeys; ++key) {
    const uint64_t newest = last >= key ? last - (last - key) % kKeys : 0;
    if (held[key] != newest) {
      return fails(key_of(key) + " holds " + std::to_string(held[key]) + " and not " + std::to_string(newest));
    }
  }
  if (auto status = db->Close(); !status.ok()) return fails("close: " + status.ToString());
  std::printf("%llu\n", static_cast<unsigned long long>(last));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "write" && argc == 5) return write(argv[2], argv[3], std::strtoull(argv[4], nullptr, 10));
  if (verb == "check" && argc == 4) return check(argv[2], std::strtoull(argv[3], nullptr, 10));
  std::fprintf(stderr, "usage: power_cut write POOL MEDIUM FIRST | check POOL ACKNOWLEDGED\n");
  return 2;
}
