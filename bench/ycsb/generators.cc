// SPDX-License-Identifier: Apache-2.0
#include "bench/ycsb/generators.h"

#include <algorithm>
#include <cmath>

namespace bonsai::bench {

double zeta(uint64_t first, uint64_t last, double sum) {
  for (uint64_t i = first; i < last; ++i) sum += 1.0 / std::pow(static_cast<double>(i + 1), kZipfianTheta);
  return sum;
}

Zipfian::Zipfian(uint64_t items, double zeta_of_items)
    : items_first_(items), items_zeta_(items), zeta_(zeta_of_items), zeta_of_two_(1.0 + std::pow(0.5, kZipfianTheta)) {
  set_eta();
}

void Zipfian::set_eta() {
  eta_ = (1.0 - std::pow(2.0 / static_cast<double>(items_first_), 1.0 - kZipfianTheta)) / (1.0 - zeta_of_two_ / zeta_);
}

uint64_t Zipfian::draw(double u, uint64_t items) {
  if (items > items_zeta_) {
    zeta_ = zeta(items_zeta_, items, zeta_);
    items_zeta_ = items;
    set_eta();
  }
  return draw_among(items, u);
}

PlainZipf::PlainZipf(uint64_t items, double alpha) : alpha_(alpha), items_(static_cast<double>(items)) {
  area_first_ = area_until(1.5) - 1.0;
  area_last_ = area_until(items_ + 0.5);
  certain_ = 2.0 - inverse_area(area_until(2.5) - std::pow(2.0, -alpha_));
}

double PlainZipf::area_until(double x) const {
  const double power = 1.0 - alpha_;
  return power == 0 ? std::log(x) : std::expm1(power * std::log(x)) / power;
}

double PlainZipf::inverse_area(double area) const {
  const double power = 1.0 - alpha_;
  if (power == 0) return std::exp(area);
  // Rounding may carry an area past the bound of the integral, which is where the last item is.
  return std::exp(std::log1p(std::max(area * power, -1.0)) / power);
}

uint64_t Hotspot::draw(double which, double u) const {
  const bool is_hot = hot == items || (hot > 0 && which < hot_share);
  return is_hot ? uniform(u, 0, hot - 1) : uniform(u, hot, items - 1);
}

}  // namespace bonsai::bench
