// SPDX-License-Identifier: Apache-2.0
// A picture as SVG, written element by element. Colours come from CSS classes and variables (`--c0`.. for series,
// `--ink`, `--faint`, `--paper`; svg_style() has them), so that one picture suits light and dark screens and paper.
#ifndef BONSAI_BENCH_REPORT_SVG_H_
#define BONSAI_BENCH_REPORT_SVG_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bonsai::bench {

// Text for HTML or XML, also inside an attribute.
[[nodiscard]] std::string escaped(std::string_view text);

// A coordinate or length: at most one digit after the point.
[[nodiscard]] std::string coordinate(double value);

// The CSS of pictures: variables for both colour schemes and for print, and the classes that charts use.
[[nodiscard]] std::string_view svg_style();

inline constexpr int kSeriesColours = 6;

class Svg {
 public:
  // `label` is read aloud by a screen reader.
  Svg(double width, double height, std::string_view label);

  // `attributes` are written as they are, e.g. `class="bar" fill="var(--c0)"`; `tip` shows under the pointer.
  void rect(double x, double y, double width, double height, std::string_view attributes, std::string_view tip = {});
  void line(double x1, double y1, double x2, double y2, std::string_view attributes);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view attributes);
  void path(const std::string& shape, std::string_view attributes, std::string_view tip = {});
  void text(double x, double y, std::string_view words, std::string_view attributes);

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const { return height_; }

  // Puts another picture into this one, its upper left corner at (x, y).
  void place(const Svg& other, double x, double y);

  // An <svg> element for a page that has svg_style().
  [[nodiscard]] std::string element() const;
  // Makes a complete SVG file.
  [[nodiscard]] std::string file() const;

 private:
  [[nodiscard]] std::string with(std::string_view inside) const;

  double width_;
  double height_;
  std::string label_;
  std::string body_;
};

}  // namespace bonsai::bench

#endif  // BONSAI_BENCH_REPORT_SVG_H_
