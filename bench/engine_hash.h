// The volatile hash maps as engines: one thread, no scans. 8-byte keys and values are kept as integers, which is a map
// at its best; all else as strings. The maps cannot tell what they hold in memory, so nothing is said of it.
#ifndef BONSAI_BENCH_ENGINE_HASH_H_
#define BONSAI_BENCH_ENGINE_HASH_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "bench/engine.h"

namespace bonsai::bench {

[[nodiscard]] inline bool has_integer_records(const EngineOptions& options) {
  return options.shape.key_form == KeyForm::kFixed8 && options.shape.value_bytes == 8;
}

// Bytes to what a map keeps, and back.
template <class Kept>
Kept kept_of(std::string_view bytes) {
  if constexpr (std::is_same_v<Kept, uint64_t>) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    return word;
  } else {
    return Kept(bytes);
  }
}
inline std::string_view bytes_of(const uint64_t& word) { return {reinterpret_cast<const char*>(&word), 8}; }
inline std::string_view bytes_of(const std::string& text) { return text; }

// Requires of Map: find, end, insert_or_assign, erase and clear, as std::unordered_map has them.
template <class Map, class Kept>
class HashEngineOf final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {}; }
  Status open(const EngineOptions&) override { return Status::OK(); }
  Status close() override {
    map_.clear();
    return Status::OK();
  }
  Status insert(std::string_view key, std::string_view value) override {
    map_.insert_or_assign(kept_of<Kept>(key), kept_of<Kept>(value));
    return Status::OK();
  }
  Status read(std::string_view key, std::string* value) override {
    const auto at = map_.find(kept_of<Kept>(key));
    if (at == map_.end()) return Status::NotFound();
    *value = bytes_of(at->second);
    return Status::OK();
  }
  Status remove(std::string_view key) override {
    map_.erase(kept_of<Kept>(key));
    return Status::OK();
  }

 private:
  Map map_;
};

// Picks the map by the shape of the records.
template <template <class> class Map>
class HashEngine final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {}; }
  Status open(const EngineOptions& options) override {
    if (has_integer_records(options)) {
      map_ = std::make_unique<HashEngineOf<Map<uint64_t>, uint64_t>>();
    } else {
      map_ = std::make_unique<HashEngineOf<Map<std::string>, std::string>>();
    }
    return Status::OK();
  }
  Status close() override {
    map_.reset();
    return Status::OK();
  }
  Status insert(std::string_view key, std::string_view value) override { return map_->insert(key, value); }
  Status read(std::string_view key, std::string* value) override { return map_->read(key, value); }
  Status remove(std::string_view key) override { return map_->remove(key); }

 private:
  std::unique_ptr<Engine> map_;  // set while open
};

// Keys may be plain integers, so the hash must mix.
template <class Kept>
struct MixingHash : std::hash<Kept> {};
template <>
struct MixingHash<uint64_t> {
  size_t operator()(uint64_t key) const { return (key ^ key >> 32) * 0x9E3779B97F4A7C15u; }
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINE_HASH_H_
