// SPDX-License-Identifier: Apache-2.0
#include "bench/report/svg.h"

#include <array>
#include <cstdio>

namespace bonsai::bench {
namespace {

// Series colours after Okabe and Ito, moved apart in lightness so that every two of them differ for every kind of
// colour blindness (report_page_test.py measures it). No chart distinguishes series by colour alone anyway.
constexpr std::string_view kStyle = R"(:root{color-scheme:light dark;
--paper:#fff;--card:#fff;--ink:#1b1f24;--soft:#57606a;--faint:#d8dee4;--wash:#f6f8fa;
--c0:#1f6fb2;--c1:#d55e00;--c2:#00513a;--c3:#cc79a7;--c4:#56b4e9;--c5:#5c3a00;
--dram:#1f6fb2;--nvm:#c58a00;--alarm:#b42318;--warn-ink:#5c3d00;--warn:#fff4d6;--warn-edge:#c58a00}
@media(prefers-color-scheme:dark){:root{
--paper:#0f1318;--card:#161b22;--ink:#e6edf3;--soft:#9aa5b1;--faint:#323a44;--wash:#1b222b;
--c0:#5b8def;--c1:#ff8a3d;--c2:#2fc496;--c3:#c86fa8;--c4:#b5e0ff;--c5:#ffe08a;
--dram:#5b8def;--nvm:#f0b93a;--alarm:#ff7b72;--warn-ink:#ffe2a0;--warn:#3a2c08;--warn-edge:#f0b93a}}
@media print{:root{color-scheme:light;
--paper:#fff;--card:#fff;--ink:#000;--soft:#444;--faint:#ccc;--wash:#f4f4f4;
--c0:#1f6fb2;--c1:#d55e00;--c2:#00513a;--c3:#cc79a7;--c4:#56b4e9;--c5:#5c3a00;
--dram:#1f6fb2;--nvm:#c58a00;--alarm:#b42318;--warn-ink:#5c3d00;--warn:#fff4d6;--warn-edge:#c58a00}}
svg{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:12px}
svg text{fill:var(--ink)}svg .soft{fill:var(--soft)}svg .small{font-size:11px}svg .strong{font-weight:600}
svg .num{font-variant-numeric:tabular-nums}svg .end{text-anchor:end}svg .middle{text-anchor:middle}
svg .grid{stroke:var(--faint);stroke-width:1}svg .axis{stroke:var(--soft);stroke-width:1}
svg .curve{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
svg .halo,svg .absent{paint-order:stroke;stroke:var(--card);stroke-width:4}
svg .leader{stroke-width:1;opacity:.6}svg .mark{stroke:var(--ink);stroke-width:1.5}
)";

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string coordinate(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  std::string digits(text.data());
  if (digits.ends_with(".0")) digits.resize(digits.size() - 2);
  return digits;
}

std::string_view svg_style() { return kStyle; }

Svg::Svg(double width, double height, std::string_view label) : width_(width), height_(height), label_(label) {}

void Svg::rect(double x, double y, double width, double height, std::string_view attributes, std::string_view tip) {
  body_ += "<rect x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" width=\"" + coordinate(width) +
           "\" height=\"" + coordinate(height) + "\" ";
  body_.append(attributes).append(tip.empty() ? "/>" : "><title>" + escaped(tip) + "</title></rect>");
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view attributes) {
  body_ += "<line x1=\"" + coordinate(x1) + "\" y1=\"" + coordinate(y1) + "\" x2=\"" + coordinate(x2) + "\" y2=\"" +
           coordinate(y2) + "\" ";
  body_.append(attributes).append("/>");
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, std::string_view attributes) {
  body_ += "<polyline points=\"";
  for (const auto& [x, y] : points) body_ += coordinate(x) + "," + coordinate(y) + " ";
  body_.append("\" ").append(attributes).append("/>");
}

void Svg::path(const std::string& shape, std::string_view attributes, std::string_view tip) {
  body_.append("<path d=\"").append(shape).append("\" ").append(attributes);
  body_.append(tip.empty() ? "/>" : "><title>" + escaped(tip) + "</title></path>");
}

void Svg::text(double x, double y, std::string_view words, std::string_view attributes) {
  body_ += "<text x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" ";
  body_.append(attributes).append(">").append(escaped(words)).append("</text>");
}

void Svg::place(const Svg& other, double x, double y) {
  body_ += "<g transform=\"translate(" + coordinate(x) + " " + coordinate(y) + ")\">" + other.body_ + "</g>";
}

std::string Svg::with(std::string_view inside) const {
  const std::string size = coordinate(width_) + " " + coordinate(height_);
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" +
                    coordinate(width_) + "\" height=\"" + coordinate(height_) + "\" role=\"img\" aria-label=\"" +
                    escaped(label_) + "\">";
  return out.append(inside).append(body_).append("</svg>\n");
}

std::string Svg::element() const { return with({}); }

std::string Svg::file() const {
  const std::string style = "<style>" + std::string(kStyle) + "svg{background:var(--paper)}</style>";
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + with(style);
}

}  // namespace bonsai::bench
