#include "tools/bench/report/plots/plot.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace quire::bench {

namespace {

constexpr double kSize = 1000;  // of the SVG's own units, either way

std::string Percent(double share) { return absl::StrFormat("%.2f%%", 100 * share); }

double X(const Plot& plot, double value) { return kSize * plot.x.Place(value); }
double Y(const Plot& plot, double value) { return kSize * (1 - plot.y.Place(value)); }

double LaneHeight(const Plot& plot) { return kSize / static_cast<double>(plot.lanes.size()); }

std::string GridHtml(const Plot& plot) {
  std::string path;
  for (const auto& [value, text] : TicksOf(plot.x))
    absl::StrAppendFormat(&path, "M%.1f 0V%.0f", X(plot, value), kSize);
  if (plot.lanes.empty()) {
    for (const auto& [value, text] : TicksOf(plot.y))
      absl::StrAppendFormat(&path, "M0 %.1fH%.0f", Y(plot, value), kSize);
  }
  for (size_t i = 0; i < plot.lanes.size(); ++i) {
    if (plot.lanes[i].has_line_above)
      absl::StrAppendFormat(&path, "M0 %.1fH%.0f", LaneHeight(plot) * static_cast<double>(i),
                            kSize);
  }
  return absl::StrCat("<path class=\"grid\" d=\"", path, "\"/>\n");
}

// Dots are lines of no length with round ends: they stay round when the SVG is stretched.
std::string SeriesHtml(const Plot& plot, const Series& series) {
  std::string line, dots;
  for (const auto& [x, y] : series.points) {
    absl::StrAppendFormat(&line, "%s%.1f %.1f", line.empty() ? "M" : "L", X(plot, x), Y(plot, y));
    absl::StrAppendFormat(&dots, "M%.1f %.1fh0", X(plot, x), Y(plot, y));
  }
  std::string html;
  if (series.has_line) {
    absl::StrAppend(&html, "<path class=\"line", series.is_dashed ? " dashed" : "",
                    "\" style=\"stroke:", ShadeOf(series.colour), "\" d=\"", line, "\"/>\n");
  }
  if (series.has_dots) {
    absl::StrAppend(&html, "<path class=\"", series.has_line ? "knots" : "dots",
                    "\" style=\"stroke:", ShadeOf(series.colour), "\" d=\"", dots, "\"/>\n");
  }
  return html;
}

std::string BarsHtml(const Plot& plot, std::string* labels) {
  std::string html;
  const double height = LaneHeight(plot);
  for (const Bar& bar : plot.bars) {
    const double left = X(plot, bar.begin), right = X(plot, bar.end);
    if (right <= left) continue;
    const double top = height * static_cast<double>(bar.lane);
    absl::StrAppendFormat(
        &html,
        "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\" data-text=\"%s\">"
        "<title>%s</title></rect>\n",
        left, top + 0.12 * height, right - left, 0.76 * height, bar.colour, Escape(bar.text),
        Escape(bar.text));
    if (bar.label.empty()) continue;
    absl::StrAppend(labels, "<span class=\"bar-label\" style=\"left:", Percent(left / kSize),
                    ";width:", Percent((right - left) / kSize), ";top:", Percent(top / kSize),
                    ";height:", Percent(height / kSize), "\"><b>", Escape(bar.label),
                    "</b></span>\n");
  }
  return html;
}

// What was measured one by one, on the bars of lanes.
std::string LaneDotsHtml(const Plot& plot) {
  std::string dots;
  for (size_t i = 0; i < plot.lanes.size(); ++i) {
    for (const double dot : plot.lanes[i].dots) {
      absl::StrAppendFormat(&dots, "M%.1f %.1fh0", X(plot, dot),
                            LaneHeight(plot) * (static_cast<double>(i) + 0.5));
    }
  }
  if (dots.empty()) return "";
  return absl::StrCat("<path class=\"samples-edge\" d=\"", dots,
                      "\"/>\n<path class=\"samples\" d=\"", dots, "\"/>\n");
}

std::string CellsHtml(const Plot& plot) {
  std::string html;
  for (const HeatCell& cell : plot.cells) {
    const double left = X(plot, cell.x_begin), top = Y(plot, cell.y_end);
    absl::StrAppendFormat(
        &html,
        "<rect class=\"heat\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
        "fill-opacity=\"%.2f\" data-text=\"%s\"><title>%s</title></rect>\n",
        left, top, X(plot, cell.x_end) - left, Y(plot, cell.y_begin) - top,
        ShadeOf(plot.heat_colour), 0.12 + 0.88 * cell.heat, Escape(cell.text), Escape(cell.text));
  }
  return html;
}

std::string LegendHtml(const Plot& plot) {
  std::string items;
  for (const auto& [colour, name] : plot.legend) {
    absl::StrAppend(&items, "<li><i class=\"swatch\" style=\"--shade:", colour, "\"></i>",
                    Escape(name), "</li>");
  }
  for (const Series& series : plot.series) {
    absl::StrAppend(&items, "<li><i class=\"swatch", series.is_dashed ? " dashed" : "",
                    "\" style=\"--shade:", ShadeOf(series.colour), "\"></i>", Escape(series.name),
                    "</li>");
  }
  return items.empty() ? "" : absl::StrCat("<ul class=\"legend\">", items, "</ul>\n");
}

std::string TickTextsHtml(const Plot& plot, bool of_x) {
  std::string html;
  if (!of_x && !plot.lanes.empty()) {
    for (size_t i = 0; i < plot.lanes.size(); ++i) {
      absl::StrAppend(&html, "<span style=\"top:",
                      Percent((static_cast<double>(i) + 0.5) * LaneHeight(plot) / kSize), "\">",
                      Escape(plot.lanes[i].name), "</span>");
    }
    return html;
  }
  const Axis& axis = of_x ? plot.x : plot.y;
  for (const auto& [value, text] : TicksOf(axis)) {
    const double place = of_x ? axis.Place(value) : 1 - axis.Place(value);
    absl::StrAppend(&html, "<span style=\"", of_x ? "left:" : "top:", Percent(place), "\">",
                    Escape(text), "</span>");
  }
  return html;
}

// The class and style of what holds the axes' texts and the picture, and the column at its end.
std::string FrameAttributes(const Plot& plot) {
  if (!plot.is_list) return plot.lanes.empty() ? "class=\"frame\"" : "class=\"frame lanes\"";
  return absl::StrCat("class=\"frame list\" style=\"--lanes:", plot.lanes.size(), "\"");
}

std::string EndsHtml(const Plot& plot) {
  if (!plot.is_list) return "";
  std::string html;
  for (const Lane& lane : plot.lanes) absl::StrAppend(&html, "<span>", Escape(lane.end), "</span>");
  return absl::StrCat("<div class=\"ends\">", html, "</div>\n");
}

nlohmann::ordered_json AxisJson(const Axis& axis) {
  const char* scale = axis.scale == Scale::kLinear ? "linear"
                      : axis.scale == Scale::kLog  ? "log"
                                                   : "nines";
  return {{"label", axis.label}, {"scale", scale}, {"min", axis.min}, {"max", axis.max}};
}

double Short(double value) {
  double number = 0;  // of what is too small to be a number
  return absl::SimpleAtod(absl::StrFormat("%.5g", value), &number) ? number : 0;
}

// What the script needs to tell what is pointed at.
std::string DataOf(const Plot& plot) {
  nlohmann::ordered_json json = {{"x", AxisJson(plot.x)}, {"y", AxisJson(plot.y)}};
  json["series"] = nlohmann::ordered_json::array();
  for (const Series& series : plot.series) {
    auto points = nlohmann::ordered_json::array();
    for (const auto& [x, y] : series.points) points.push_back({Short(x), Short(y)});
    json["series"].push_back({{"name", series.name},
                              {"colour", ShadeOf(series.colour)},
                              {"line", series.has_line},
                              {"points", std::move(points)},
                              {"texts", series.texts}});
  }
  return Escape(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

std::string ShadeOf(size_t colour) {
  return absl::StrCat("var(--shade-", colour % kNumColours, ")");
}

std::string ToHtml(const Plot& plot) {
  std::string labels, marks;
  std::string svg = GridHtml(plot);
  // The first series last, above the others.
  for (size_t i = plot.series.size(); i-- > 0;)
    absl::StrAppend(&svg, SeriesHtml(plot, plot.series[i]));
  absl::StrAppend(&svg, CellsHtml(plot), BarsHtml(plot, &labels), LaneDotsHtml(plot));
  for (const PlotMark& mark : plot.marks) {
    absl::StrAppendFormat(&svg, "<path class=\"mark\" d=\"M%.1f 0V%.0f\"/>\n", X(plot, mark.x),
                          kSize);
    if (mark.text.empty()) continue;
    absl::StrAppend(&marks, "<span class=\"mark-label", plot.x.Place(mark.x) > 0.5 ? " before" : "",
                    "\" style=\"left:", Percent(plot.x.Place(mark.x)), "\">", Escape(mark.text),
                    "</span>\n");
  }
  return absl::StrCat(
      "<figure class=\"card plot\" data-plot=\"", DataOf(plot), "\">\n<figcaption><h3>",
      Escape(plot.title), "</h3>",
      plot.note.empty() ? "" : absl::StrCat("<p class=\"quiet\">", Escape(plot.note), "</p>"),
      "</figcaption>\n", LegendHtml(plot), "<div ", FrameAttributes(plot),
      "><div class=\"y-label quiet\">", Escape(plot.y.label),
      plot.y.scale == Scale::kLog ? ", logarithmic" : "", "</div>\n<div class=\"ys\">",
      TickTextsHtml(plot, /*of_x=*/false), "</div>\n<div class=\"area\" role=\"img\" aria-label=\"",
      Escape(absl::StrCat(plot.title, "; the table below has the numbers")),
      "\"><div class=\"sheet\"><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" "
      "aria-hidden=\"true\">\n",
      svg, "</svg>", marks, labels, "</div></div>\n", EndsHtml(plot), "<div class=\"xs\">",
      TickTextsHtml(plot, /*of_x=*/true), "</div>\n<div class=\"x-label quiet\">",
      Escape(plot.x.label), "</div></div>\n<details><summary>Numbers</summary>\n",
      ToHtml(plot.table), "</details></figure>\n");
}

}  // namespace quire::bench
