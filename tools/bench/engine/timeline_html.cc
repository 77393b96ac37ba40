#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tools/bench/engine/timeline_report.h"

namespace quire::bench {

namespace {

constexpr double kLeft = 90, kWidth = 1080, kRight = 20;  // pixels
constexpr double kDeviceTop = 30, kHostTop = 66, kLaneHeight = 26, kAxisTop = 100;
constexpr const char* kStageColours[kNumStepStages] = {"#4e79a7", "#59a14f", "#f28e2b",
                                                       "#d4d4d4", "#b07aa1", "#e15759"};
constexpr const char* kStepColours[2] = {"#2f6f9f", "#7fb3d5"};  // neighbours can be told apart

struct Canvas {
  double begin_us, us_per_pixel;
  std::string svg;

  double X(double us) const { return kLeft + (us - begin_us) / us_per_pixel; }
  void Box(double from_us, double to_us, double top, const char* colour, const std::string& tip) {
    const double left = std::max(X(from_us), kLeft), right = std::min(X(to_us), kLeft + kWidth);
    if (right <= left) return;
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\">"
                          "<title>%s</title></rect>\n",
                          left, top, right - left, kLaneHeight, colour, tip);
  }
  void Text(double x, double y, const char* anchor, const std::string& text) {
    absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"%s\">%s</text>\n", x, y,
                          anchor, text);
  }
};

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// 1, 2 or 5 times a power of ten: about eight ticks.
double TickUs(double span_us) {
  const double rough = span_us / 8;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

// The host's clock minus the device's, in microseconds: waiting never ends before the device does,
// so the shortest distance seen is the best guess.
double ClockOffsetUs(const TimelineReport& report) {
  double offset_us = INFINITY;
  for (const StepTiming& step : report.steps) {
    const auto& wait = step.host[static_cast<size_t>(StepStage::kWait)];
    offset_us = std::min(offset_us, 1e-3 * static_cast<double>(wait.end_ns) - step.device_end_us);
  }
  return offset_us;
}

void DrawSteps(const TimelineReport& report, size_t first, size_t last, Canvas* canvas) {
  const double offset_us = ClockOffsetUs(report);
  for (size_t i = first - 1; i < std::min(last + 2, report.steps.size()); ++i) {
    const StepTiming& step = report.steps[i];
    const double begin_us = i == 0
                                ? step.device_begin_us
                                : std::max(step.device_begin_us, report.steps[i - 1].device_end_us);
    canvas->Box(begin_us, step.device_end_us, kDeviceTop, kStepColours[step.step % 2],
                absl::StrFormat("step %d on the device: %.1f us", step.step,
                                step.device_end_us - begin_us));
    for (int stage = 0; stage < kNumStepStages; ++stage) {
      const double from_us = 1e-3 * static_cast<double>(step.host[stage].begin_ns) - offset_us;
      const double to_us = 1e-3 * static_cast<double>(step.host[stage].end_ns) - offset_us;
      canvas->Box(from_us, to_us, kHostTop, kStageColours[stage],
                  absl::StrFormat("step %d, %s: %.1f us", step.step,
                                  StageName(static_cast<StepStage>(stage)), to_us - from_us));
    }
  }
}

void DrawAxis(double span_us, Canvas* canvas) {
  canvas->Text(kLeft - 8, kDeviceTop + 18, "end", "device");
  canvas->Text(kLeft - 8, kHostTop + 18, "end", "host");
  const double tick_us = TickUs(span_us);
  for (int tick = 0; tick * tick_us <= span_us; ++tick) {
    const double us = tick * tick_us;
    const double x = canvas->X(canvas->begin_us + us);
    absl::StrAppendFormat(&canvas->svg, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\"/>\n",
                          x, x, kDeviceTop - 6, kAxisTop);
    canvas->Text(x, kAxisTop + 16, "middle", absl::StrFormat("%g us", us));
  }
}

std::string Legend() {
  std::string legend;
  for (int stage = 0; stage < kNumStepStages; ++stage) {
    absl::StrAppend(&legend, "<span><i style=\"background:", kStageColours[stage], "\"></i>",
                    StageName(static_cast<StepStage>(stage)), "</span>\n");
  }
  return legend;
}

}  // namespace

std::string ToHtml(const TimelineReport& report, int64_t num_shown) {
  const size_t last_step = report.steps.size() - 1;
  const size_t shown = std::min<size_t>(num_shown, last_step);
  const size_t first = std::max<size_t>(1, (report.steps.size() - shown) / 2);
  const size_t last = std::min(first + shown - 1, last_step);
  Canvas canvas;
  canvas.begin_us = report.steps[first - 1].device_end_us;
  const double span_us = report.steps[last].device_end_us - canvas.begin_us;
  canvas.us_per_pixel = span_us / kWidth;
  DrawAxis(span_us, &canvas);
  DrawSteps(report, first, last, &canvas);
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>",
      Escape(report.title),
      "</title>\n<style>body{font:14px sans-serif;margin:24px;color:#222}"
      "svg text{font:12px sans-serif;fill:#222}svg line{stroke:#ccc}"
      "pre{background:#f5f5f5;padding:12px;overflow:auto}span{margin-right:16px}"
      "i{display:inline-block;width:12px;height:12px;margin-right:5px}</style></head>\n<body><h1>",
      Escape(report.title), "</h1>\n<p>", shown, " of ", report.num_steps,
      " steps from the middle of the run. Device: from a step's first operation to its last; "
      "neighbours differ in shade, white is idle. Host: the engine's thread.</p>\n",
      absl::StrFormat("<svg width=\"%.0f\" height=\"%.0f\" "
                      "xmlns=\"http://www.w3.org/2000/svg\" role=\"img\">\n",
                      kLeft + kWidth + kRight, kAxisTop + 30),
      canvas.svg, "</svg>\n<p>", Legend(), "</p>\n<pre>", Escape(ToText(report)),
      "</pre></body></html>\n");
}

}  // namespace quire::bench
