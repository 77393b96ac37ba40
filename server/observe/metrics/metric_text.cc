#include "server/observe/metrics/metric_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "kernels/base/check.h"

namespace quire {

namespace {

absl::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

// The shortest text that reads back as the same number.
std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value == std::floor(value) && std::abs(value) < kExact) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

// A bound as vLLM's pages have it, because "1" and "1.0" are different labels: "0.001", "1.0",
// "1e+06".
std::string BoundText(double bound) {
  std::string text = NumberText(bound);
  if (bound != std::floor(bound)) return text;
  if (bound < 1e6) return absl::StrCat(text, ".0");
  const size_t exponent = text.size() - 1;
  absl::string_view further = absl::string_view(text).substr(1);
  while (absl::ConsumeSuffix(&further, "0")) {
  }
  return absl::StrCat(text.substr(0, 1), further.empty() ? "" : ".", further,
                      exponent < 10 ? "e+0" : "e+", exponent);
}

std::string Escape(absl::string_view value) {
  return absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

std::string LabelText(MetricText::Labels labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    absl::StrAppend(&text, text.empty() ? "" : ",", name, "=\"", Escape(value), "\"");
  }
  return text;
}

// " # {labels} value time" after a sample.
std::string ExemplarText(const Exemplar& exemplar) {
  if (exemplar.trace_id.empty()) return "";
  return absl::StrFormat(
      " # {%s} %s %.3f",
      LabelText({{"trace_id", exemplar.trace_id}, {"span_id", exemplar.span_id}}),
      NumberText(exemplar.value), absl::ToDoubleSeconds(exemplar.time - absl::UnixEpoch()));
}

std::string Join(absl::string_view first, absl::string_view second) {
  return absl::StrCat(first, first.empty() || second.empty() ? "" : ",", second);
}

}  // namespace

absl::string_view ContentTypeOf(MetricFormat format) {
  return format == MetricFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

MetricText::MetricText(MetricFormat format, Labels common)
    : format_(format), common_(LabelText(common)) {
  constexpr size_t kUsual = size_t{48} << 10;
  text_.reserve(kUsual);
}

void MetricText::Begin(absl::string_view name, MetricType type, absl::string_view help) {
  CHECK_EQ(absl::EndsWith(name, "_total"),
           type == MetricType::kCounter || name == "vllm:iteration_tokens_total")
      << name;
  name_ = std::string(name);
  // OpenMetrics names a counter without what its samples end with.
  absl::string_view family = name;
  if (format_ == MetricFormat::kOpenMetrics && type == MetricType::kCounter) {
    family.remove_suffix(absl::string_view("_total").size());
  }
  absl::StrAppend(&text_, "# HELP ", family, " ", help, "\n# TYPE ", family, " ", TypeName(type),
                  "\n");
}

void MetricText::AddSample(absl::string_view suffix, absl::string_view labels,
                           absl::string_view value, absl::string_view exemplar) {
  absl::StrAppend(&text_, name_, suffix, labels.empty() ? "" : "{", labels,
                  labels.empty() ? " " : "} ", value);
  absl::StrAppend(&text_, exemplar, "\n");
}

void MetricText::Add(double value, Labels labels) {
  AddSample("", Join(common_, LabelText(labels)), NumberText(value));
}

void MetricText::AddPlain(double value, Labels labels) {
  AddSample("", LabelText(labels), NumberText(value));
}

void MetricText::AddHistogram(const HistogramValues& values, Labels labels,
                              const std::vector<Exemplar>& exemplars) {
  const std::string own = Join(common_, LabelText(labels));
  uint64_t count = 0;
  for (size_t i = 0; i <= values.bounds.size(); ++i) {
    count += values.counts[i];
    const std::string bound = i < values.bounds.size() ? BoundText(values.bounds[i]) : "+Inf";
    const bool has_exemplar = format_ == MetricFormat::kOpenMetrics && i < exemplars.size();
    AddSample("_bucket", Join(own, LabelText({{"le", bound}})), absl::StrCat(count),
              has_exemplar ? ExemplarText(exemplars[i]) : "");
  }
  AddSample("_sum", own, NumberText(values.sum));
  AddSample("_count", own, absl::StrCat(count));
}

std::string MetricText::Finish() {
  if (format_ == MetricFormat::kOpenMetrics) absl::StrAppend(&text_, "# EOF\n");
  return std::move(text_);
}

}  // namespace quire
