// The volatile hash maps as engines: no scans. 8-byte keys and values are kept as integers, which is a map at its best;
// all else as strings. The maps do not report what they hold in memory.
#ifndef BONSAI_BENCH_ENGINES_HASH_H_
#define BONSAI_BENCH_ENGINES_HASH_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "bench/engines/engine.h"

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

// A map in the shape of std::unordered_map as a table for HashEngine.
template <class Map>
class TableOf {
 public:
  using Kept = typename Map::key_type;

  Status put(const Kept& key, const Kept& value) {
    map_[key] = value;
    return Status::OK();
  }
  // Whether the key is there; *value is then its value.
  bool get(const Kept& key, std::string* value) {
    const auto at = map_.find(key);
    if (at == map_.end()) return false;
    *value = bytes_of(at->second);
    return true;
  }
  void erase(const Kept& key) { map_.erase(key); }

 protected:
  Map map_;
};

// Requires of Table<Kept>: put, get and erase, as TableOf has them; of any number of threads at once if kThreads.
template <template <class> class Table, bool kThreads = false>
class HashEngine final : public Engine {
 public:
  [[nodiscard]] Capabilities capabilities() const override { return {.threads = kThreads}; }
  Status open(const EngineOptions& options) override {
    if (has_integer_records(options)) {
      numbers_ = std::make_unique<Table<uint64_t>>();
    } else {
      strings_ = std::make_unique<Table<std::string>>();
    }
    return Status::OK();
  }
  Status close() override {
    numbers_.reset();
    strings_.reset();
    return Status::OK();
  }
  Status insert(std::string_view key, std::string_view value) override {
    return numbers_ ? numbers_->put(kept_of<uint64_t>(key), kept_of<uint64_t>(value))
                    : strings_->put(kept_of<std::string>(key), kept_of<std::string>(value));
  }
  Status read(std::string_view key, std::string* value) override {
    const bool found =
        numbers_ ? numbers_->get(kept_of<uint64_t>(key), value) : strings_->get(kept_of<std::string>(key), value);
    return found ? Status::OK() : Status::NotFound();
  }
  Status remove(std::string_view key) override {
    numbers_ ? numbers_->erase(kept_of<uint64_t>(key)) : strings_->erase(kept_of<std::string>(key));
    return Status::OK();
  }

 private:
  // One of them is set while open.
  std::unique_ptr<Table<uint64_t>> numbers_;
  std::unique_ptr<Table<std::string>> strings_;
};

// Keys may be plain integers, so the hash must mix.
template <class Kept>
struct MixingHash : std::hash<Kept> {};
template <>
struct MixingHash<uint64_t> {
  size_t operator()(uint64_t key) const { return (key ^ key >> 32) * 0x9E3779B97F4A7C15u; }
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_ENGINES_HASH_H_
