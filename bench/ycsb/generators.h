// SPDX-License-Identifier: Apache-2.0
// YCSB's core generators, as pure functions of a uniform draw, so that a second implementation can check them
// (testing/golden.py) and any source of randomness can drive them.
//
// `u` is always a draw from [0, 1). Thread-safety: distinct objects are independent; one object belongs to one thread.
#ifndef BONSAI_BENCH_YCSB_GENERATORS_H_
#define BONSAI_BENCH_YCSB_GENERATORS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace bonsai::bench {

// FNV-1a over the 8 bytes of `value`, lowest first, sign dropped: Utils.hash of YCSB. Result < 2^63 (or exactly 2^63).
[[nodiscard]] constexpr uint64_t fnv64(uint64_t value) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (int i = 0; i < 8; ++i, value >>= 8) hash = (hash ^ (value & 0xff)) * 1099511628211u;
  return hash >> 63 ? uint64_t{0} - hash : hash;
}

inline constexpr double kZipfianTheta = 0.99;

// sum over i in [first, last) of 1 / (i + 1)^0.99, added to `sum`.
[[nodiscard]] double zeta(uint64_t first, uint64_t last, double sum);

// Zipf over [0, items) by the method of Gray et al. (SIGMOD 1994) with YCSB's quirks: when the number of items grows,
// zeta follows and eta keeps the first number of items. Requires items >= 1. Results are below the number of items.
class Zipfian {
 public:
  explicit Zipfian(uint64_t items) : Zipfian(items, zeta(0, items, 0)) {}
  Zipfian(uint64_t items, double zeta_of_items);

  [[nodiscard]] uint64_t draw(double u) const { return draw_among(items_zeta_, u); }

  // Draws from [0, items) after growing to `items`. A smaller number than before scales the result and no more.
  [[nodiscard]] uint64_t draw(double u, uint64_t items);

 private:
  static constexpr double kExponent = 1.0 / (1.0 - kZipfianTheta);

  [[nodiscard]] uint64_t draw_among(uint64_t items, double u) const {
    const double scaled = u * zeta_;
    if (scaled < 1.0) return 0;
    if (scaled < zeta_of_two_) return 1;
    const double share = std::pow(eta_ * u - eta_ + 1.0, kExponent);
    return std::min(static_cast<uint64_t>(static_cast<double>(items) * share), items - 1);
  }
  void set_eta();

  uint64_t items_first_;
  uint64_t items_zeta_;  // the number of items that zeta_ stands for
  double zeta_;
  double zeta_of_two_;
  double eta_ = 0;
};

// YCSB's `zipfian` request distribution: Zipf over a fixed 10^10 items, hashed, modulo the number of keys. It is less
// skewed than a Zipf over the keys themselves: the hottest key gets 3.78 % of the requests, whatever the number of
// keys.
class ScrambledZipfian {
 public:
  static constexpr uint64_t kItems = 10'000'000'000;
  static constexpr double kZeta = 26.46902820178302;

  // Draws from [0, keys). Requires keys >= 1.
  explicit ScrambledZipfian(uint64_t keys) : keys_(keys), zipfian_(kItems + 1, kZeta) {}
  [[nodiscard]] uint64_t draw(double u) const { return scramble(rank(u)); }
  // The two steps of a draw: an item of the 10^10, and its key.
  [[nodiscard]] uint64_t rank(double u) const { return zipfian_.draw(u); }
  [[nodiscard]] uint64_t scramble(uint64_t rank) const { return fnv64(rank) % keys_; }

 private:
  uint64_t keys_;
  Zipfian zipfian_;
};

// YCSB's `latest` request distribution: how far before the newest key to look, 0 = the newest.
class LatestOffset {
 public:
  // `newest` is the number of the newest key at the start. Requires newest >= 1.
  explicit LatestOffset(uint64_t newest) : zipfian_(newest) {}
  // Requires: `newest` does not fall. Result < newest.
  [[nodiscard]] uint64_t draw(double u, uint64_t newest) { return zipfian_.draw(u, newest); }

 private:
  Zipfian zipfian_;
};

// YCSB's `exponential` request distribution: how far before the newest key to look. `percentile` percent of the draws
// are below `range`. A draw has no upper bound (u = 0 gives the largest number); the caller draws again.
class ExponentialOffset {
 public:
  // Requires 0 < percentile < 100, range > 0.
  ExponentialOffset(double percentile, double range) : mean_(-range / std::log(1.0 - percentile / 100.0)) {}
  [[nodiscard]] uint64_t draw(double u) const {
    const double offset = -std::log(u) * mean_;
    return offset < 9e18 ? static_cast<uint64_t>(offset) : UINT64_MAX;
  }

 private:
  double mean_;
};

// The plain Zipf of research codes: item k of [0, items) has the probability (k + 1)^-alpha / zeta(items, alpha),
// exactly and for every alpha > 0, by rejection-inversion (Hormann and Derflinger, ACM TOMACS 1996). Not YCSB's
// `zipfian`: the fewer the keys, the hotter the hottest.
class PlainZipf {
 public:
  // Requires items >= 1, alpha > 0.
  PlainZipf(uint64_t items, double alpha);

  // `draw_u()` gives the next draw from [0, 1); 1.1 of them are used on average at most.
  template <class DrawU>
  [[nodiscard]] uint64_t draw(DrawU&& draw_u) const {
    for (;;) {
      const double area = area_last_ + draw_u() * (area_first_ - area_last_);
      const double x = inverse_area(area);
      const double item = std::clamp(std::floor(x + 0.5), 1.0, items_);
      if (item - x <= certain_ || area >= area_until(item + 0.5) - std::pow(item, -alpha_)) {
        return static_cast<uint64_t>(item) - 1;
      }
    }
  }

 private:
  // The integral of x^-alpha from 1 to x, and its inverse.
  [[nodiscard]] double area_until(double x) const;
  [[nodiscard]] double inverse_area(double area) const;

  double alpha_;
  double items_;
  double area_first_;  // where the first item begins
  double area_last_;   // where the last one ends
  double certain_;     // an x so close below its item needs no second look
};

// YCSB's `hotspot` request distribution: the first `hot` of `items` get `hot_share` of the draws, both parts uniform.
struct Hotspot {
  uint64_t items = 1;
  uint64_t hot = 0;
  double hot_share = 0;

  // Requires items >= 1, shares within [0, 1].
  static Hotspot of(uint64_t items, double hot_data, double hot_requests) {
    return {items, static_cast<uint64_t>(static_cast<double>(items) * hot_data), hot_requests};
  }
  [[nodiscard]] uint64_t draw(double which, double u) const;
};

// Uniform over [low, high]. Requires low <= high.
[[nodiscard]] inline uint64_t uniform(double u, uint64_t low, uint64_t high) {
  return low + static_cast<uint64_t>(u * static_cast<double>(high - low + 1));
}

// The number of keys that YCSB's `zipfian` spreads over: those loaded, one more, and twice the expected inserts, so
// that inserts do not change which keys are popular. Numbers that no key has yet are drawn again.
[[nodiscard]] inline uint64_t zipfian_keys(uint64_t records, uint64_t operations, double insert_share) {
  return records + static_cast<uint64_t>(static_cast<double>(operations) * insert_share * 2.0) + 1;
}

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_YCSB_GENERATORS_H_
