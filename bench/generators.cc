#include "bench/generators.h"

#include <algorithm>
#include <cmath>

namespace bonsai::bench {

double zeta(uint64_t first, uint64_t last, double sum) {
  for (uint64_t i = first; i < last; ++i) sum += 1.0 / std::pow(static_cast<double>(i + 1), kZipfianTheta);
  return sum;
}

Zipfian::Zipfian(uint64_t items, double zeta_of_items) : items_first_(items), items_zeta_(items), zeta_(zeta_of_items) {
  set_eta();
}

void Zipfian::set_eta() {
  const double zeta_of_two = 1.0 + std::pow(0.5, kZipfianTheta);
  eta_ = (1.0 - std::pow(2.0 / static_cast<double>(items_first_), 1.0 - kZipfianTheta)) / (1.0 - zeta_of_two / zeta_);
}

uint64_t Zipfian::draw(double u, uint64_t items) {
  if (items > items_zeta_) {
    zeta_ = zeta(items_zeta_, items, zeta_);
    items_zeta_ = items;
    set_eta();
  }
  return draw_among(items, u);
}

uint64_t Zipfian::draw_among(uint64_t items, double u) const {
  static const double kSecond = 1.0 + std::pow(0.5, kZipfianTheta);
  const double scaled = u * zeta_;
  if (scaled < 1.0) return 0;
  if (scaled < kSecond) return 1;
  const double share = std::pow(eta_ * u - eta_ + 1.0, 1.0 / (1.0 - kZipfianTheta));
  return std::min(static_cast<uint64_t>(static_cast<double>(items) * share), items - 1);
}

}  // namespace bonsai::bench
