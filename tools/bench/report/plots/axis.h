// Axes of plots: which part of a plot's width or height a value is at, and where the axis has
// ticks. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace quire::bench {

enum class Scale {
  kLinear,
  kLog,
  kNines,  // percentiles: 90, 99 and 99.9 are as far apart as 0 and 90
};

struct Axis {
  std::string label;  // with its unit
  Scale scale = Scale::kLinear;
  double min = 0, max = 1;

  // From 0 at min to 1 at max, and not beyond.
  double Place(double value) const;
};

// From 0 to a round number at or above all values.
Axis LinearAxis(const std::string& label, double most);
// Round numbers around the values that are above zero.
Axis LogAxis(const std::string& label, const std::vector<double>& values);
// As far as the percentiles of so many samples reach.
Axis NinesAxis(const std::string& label, size_t num_samples);

// Values and their texts: ascending, at most about ten.
std::vector<std::pair<double, std::string>> TicksOf(const Axis& axis);

}  // namespace quire::bench
