#include "tools/bench/report/plots/axis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/plots/html.h"

namespace quire::bench {

namespace {

double Nines(double percent) { return -std::log10(1 - std::min(percent, 99.9999999) / 100); }

// 1, 2 or 5 times a power of ten: at most six of it make `span`.
double Step(double span) {
  const double power = std::pow(10, std::floor(std::log10(span / 6)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power * 6 >= span * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// The nearest of 1, 2 or 5 times a power of ten, at or below (or above).
double Round(double value, bool up) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  double below = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (up && factor * power >= value) return factor * power;
    if (factor * power <= value) below = factor * power;
  }
  return up ? 10 * power : below;
}

}  // namespace

double Axis::Place(double value) const {
  double place = 0;
  if (scale == Scale::kLinear) place = (value - min) / (max - min);
  if (scale == Scale::kLog) place = value <= min ? 0 : std::log(value / min) / std::log(max / min);
  if (scale == Scale::kNines) place = (Nines(value) - Nines(min)) / (Nines(max) - Nines(min));
  return std::isfinite(place) ? std::clamp(place, 0.0, 1.0) : 0;
}

Axis LinearAxis(const std::string& label, double most) {
  if (!(most > 0) || !std::isfinite(most)) most = 1;
  const double step = Step(most);
  return {.label = label, .max = step * std::ceil(most / step * (1 - 1e-9))};
}

Axis LogAxis(const std::string& label, const std::vector<double>& values) {
  double least = INFINITY, most = 0;
  for (const double value : values) {
    if (!(value > 0) || !std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (most == 0) least = most = 1;
  least = std::max(least, most / 1e4);  // what is below would only press the rest together
  Axis axis = {
      .label = label, .scale = Scale::kLog, .min = Round(least, false), .max = Round(most, true)};
  if (axis.max < axis.min * 4) axis.max = axis.min * 10;
  return axis;
}

Axis NinesAxis(const std::string& label, size_t num_samples) {
  const double decades = std::clamp(std::log10(static_cast<double>(num_samples)), 1.0, 5.0);
  return {
      .label = label, .scale = Scale::kNines, .min = 0, .max = 100 * (1 - std::pow(10, -decades))};
}

std::vector<std::pair<double, std::string>> TicksOf(const Axis& axis) {
  std::vector<std::pair<double, std::string>> ticks;
  if (axis.scale == Scale::kNines) {
    for (const char* percent : {"0", "50", "90", "99", "99.9", "99.99", "99.999"}) {
      const double value = std::stod(percent);
      if (value <= axis.max * (1 + 1e-9)) ticks.emplace_back(value, absl::StrCat("p", percent));
    }
    return ticks;
  }
  if (axis.scale == Scale::kLinear) {
    const double step = Step(axis.max - axis.min);
    for (int i = 0; axis.min + i * step <= axis.max + step * 1e-6; ++i) {
      ticks.emplace_back(axis.min + i * step, NumberText(axis.min + i * step));
    }
    return ticks;
  }
  const double decades = std::log10(axis.max / axis.min);
  const std::vector<double> factors = decades <= 3.1 ? std::vector<double>{1, 2, 5}
                                      : decades <= 5 ? std::vector<double>{1, 3}
                                                     : std::vector<double>{1};
  const auto first = static_cast<int>(std::floor(std::log10(axis.min)));
  const auto last = static_cast<int>(std::ceil(std::log10(axis.max)));
  for (int exponent = first; exponent <= last; ++exponent) {
    for (const double factor : factors) {
      const double value = factor * std::pow(10, exponent);
      if (value >= axis.min * 0.999 && value <= axis.max * 1.001) {
        ticks.emplace_back(value, NumberText(value));
      }
    }
  }
  return ticks;
}

}  // namespace quire::bench
