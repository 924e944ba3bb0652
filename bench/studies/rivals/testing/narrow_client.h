// SPDX-License-Identifier: Apache-2.0
// The records of Judge, of 8 + 8 bytes, in an engine that stores 4 + 4.
#ifndef BONSAI_BENCH_STUDIES_RIVALS_TESTING_NARROW_CLIENT_H_
#define BONSAI_BENCH_STUDIES_RIVALS_TESTING_NARROW_CLIENT_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "bench/studies/rivals/client.h"

namespace bonsai::bench::rivals {

// Keys below 2^32; values of up to 2^12 seats and 2^20 operations each.
class NarrowClient final : public Client {
 public:
  explicit NarrowClient(Client* inner) : inner_(inner) {}

  [[nodiscard]] static std::string bytes(uint32_t number) {
    return {reinterpret_cast<const char*>(&number), sizeof number};
  }

  Status get(std::string_view key, std::string* value) override {
    std::string narrow;
    Status status = inner_->get(narrow_key(key), &narrow);
    if (!status.ok()) return status;
    uint32_t number = 0;
    std::memcpy(&number, narrow.data(), sizeof number);
    const uint64_t wide = uint64_t{number >> kOperationBits} << 32 | (number & kOperationMask);
    value->assign(reinterpret_cast<const char*>(&wide), sizeof wide);
    return status;
  }
  Status insert(std::string_view key, std::string_view value) override {
    return inner_->insert(narrow_key(key), narrow_value(value));
  }
  Status update(std::string_view key, std::string_view value) override {
    return inner_->update(narrow_key(key), narrow_value(value));
  }
  Status remove(std::string_view key) override { return inner_->remove(narrow_key(key)); }

 private:
  static constexpr uint32_t kOperationBits = 20, kOperationMask = (1u << kOperationBits) - 1;

  static uint64_t word(std::string_view text) {
    uint64_t number = 0;
    std::memcpy(&number, text.data(), sizeof number);
    return number;
  }
  static std::string narrow_key(std::string_view key) { return bytes(static_cast<uint32_t>(word(key))); }
  static std::string narrow_value(std::string_view value) {
    const uint64_t wide = word(value);
    return bytes(static_cast<uint32_t>(wide >> 32 << kOperationBits | (wide & kOperationMask)));
  }

  Client* const inner_;
};

}  // namespace bonsai::bench::rivals

#endif  // BONSAI_BENCH_STUDIES_RIVALS_TESTING_NARROW_CLIENT_H_
