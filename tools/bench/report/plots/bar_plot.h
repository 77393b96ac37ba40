// Plots of a list: a line for each row, with its name, a bar of one or several parts, and its
// numbers at the end. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/bench/report/plots/plot.h"

namespace quire::bench {

// Of a bar, from where the part before it ends.
struct BarPart {
  double length = 0;
  std::string colour;      // CSS
  std::string label = {};  // on it, where it fits
  std::string text;        // for who points at it
};

struct BarRow {
  std::string name = {};
  std::vector<BarPart> parts = {};
  std::string end = {};           // its numbers
  std::vector<double> dots = {};  // what was measured one by one
  bool belongs_to_last = false;   // to the row above it
};

struct BarPlot {
  std::string title;
  std::string note = {};  // a sentence below the title
  Axis x = {};
  std::vector<BarRow> rows = {};
  std::vector<PlotMark> marks = {};
  std::vector<std::pair<std::string, std::string>> legend = {};  // of colours: CSS and name
  Table table = {};                                              // the same in numbers
};

std::string ToHtml(const BarPlot& bars);

// From 0 to a round number at or above all bars and dots, and at least `least`.
Axis AxisOfRows(const std::string& label, const std::vector<BarRow>& rows, double least = 0);

// Of the parts of a bar: neighbours differ.
std::string PartColour(size_t part);

}  // namespace quire::bench
