// Plots of a report as HTML: an SVG that is stretched to its place, with the axes' texts beside it,
// so that they stay readable at any width. The page's script adds what the mouse and the keys tell,
// and zooms; without it the picture and the table of numbers are there all the same. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/bench/report/plots/axis.h"
#include "tools/bench/report/plots/html.h"

namespace quire::bench {

inline constexpr size_t kNumColours = 8;  // of the page: --shade-0 and so on
// As CSS; beyond the last they begin anew.
std::string ShadeOf(size_t colour);

struct Series {
  std::string name;
  size_t colour = 0;
  bool is_dashed = false;
  bool has_dots = false;  // on its line, or without a line
  bool has_line = true;
  std::vector<std::pair<double, double>> points = {};
  std::vector<std::string> texts = {};  // of the points, for who points at them; may be empty
};

// A line through the plot at `x`, with a text.
struct PlotMark {
  double x = 0;
  std::string text;
};

// Of a plot that has lanes from top to bottom in the place of a y axis.
struct Lane {
  std::string name;
  std::string end = {};           // of a list: right of the plot
  std::vector<double> dots = {};  // what was measured one by one
  bool has_line_above = false;
};

// A bar of a lane.
struct Bar {
  double begin = 0, end = 0;
  size_t lane = 0;
  std::string colour;  // CSS
  std::string label;   // on it, where it fits
  std::string text;    // for who points at it
};

// A rectangle of a plot with axes, the more opaque the more `heat` (0 to 1) it has.
struct HeatCell {
  double x_begin = 0, x_end = 0;
  double y_begin = 0, y_end = 0;
  double heat = 0;
  std::string text = {};  // for who points at it
};

struct Plot {
  std::string title;
  std::string note = {};  // a sentence below the title
  Axis x = {}, y = {};
  std::vector<Series> series = {};
  std::vector<PlotMark> marks = {};
  std::vector<HeatCell> cells = {};
  size_t heat_colour = 0;
  Table table = {};              // the same in numbers
  std::vector<Lane> lanes = {};  // then there is no y axis and no series
  bool is_list = false;          // lanes are as high as their names
  std::vector<Bar> bars = {};
  std::vector<std::pair<std::string, std::string>> legend = {};  // of colours: CSS and name
};

std::string ToHtml(const Plot& plot);

}  // namespace quire::bench
