// The text of a page of metrics, and what the server counts itself.
#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "server/observe/metrics/metric_text.h"
#include "server/observe/metrics/server_metrics.h"

namespace quire {
namespace {

TEST(MetricTextTest, WritesCountersGaugesAndHistograms) {
  MetricText text(MetricFormat::kPrometheus, {{"engine", "0"}});
  text.AddCounter("a_total", "What a is.", 3);
  text.AddGauge("b", "What b is.", 0.25);
  Histogram histogram({0.5, 1, 1e6, 2.5e6, 1e10});
  histogram.Observe(0.25);
  histogram.Observe(2e6);
  text.AddHistogramOf("c", "What c is.", histogram);
  EXPECT_EQ(text.Finish(),
            "# HELP a_total What a is.\n# TYPE a_total counter\na_total{engine=\"0\"} 3\n"
            "# HELP b What b is.\n# TYPE b gauge\nb{engine=\"0\"} 0.25\n"
            "# HELP c What c is.\n# TYPE c histogram\n"
            "c_bucket{engine=\"0\",le=\"0.5\"} 1\n"
            "c_bucket{engine=\"0\",le=\"1.0\"} 1\n"
            "c_bucket{engine=\"0\",le=\"1e+06\"} 1\n"
            "c_bucket{engine=\"0\",le=\"2.5e+06\"} 2\n"
            "c_bucket{engine=\"0\",le=\"1e+10\"} 2\n"
            "c_bucket{engine=\"0\",le=\"+Inf\"} 2\n"
            "c_sum{engine=\"0\"} 2000000.25\n"
            "c_count{engine=\"0\"} 2\n");
}

TEST(MetricTextTest, OpenMetricsNamesACounterWithoutItsEnd) {
  MetricText text(MetricFormat::kOpenMetrics, {});
  text.AddCounter("a_total", "What a is.", 3);
  EXPECT_EQ(text.Finish(), "# HELP a What a is.\n# TYPE a counter\na_total 3\n# EOF\n");
}

TEST(MetricTextTest, OpenMetricsAloneHasExemplars) {
  Histogram histogram({0.5, 1});
  histogram.Observe(0.25);
  histogram.Observe(3);
  const std::vector<Exemplar> exemplars = {
      {.value = 0.25, .time = absl::FromUnixMillis(1500), .trace_id = "ab", .span_id = "cd"},
      {},
      {.value = 3, .time = absl::FromUnixMillis(2000), .trace_id = "ef", .span_id = "01"}};
  for (const auto& [format, first, last] :
       {std::tuple(MetricFormat::kPrometheus, "", ""),
        std::tuple(MetricFormat::kOpenMetrics, " # {trace_id=\"ab\",span_id=\"cd\"} 0.25 1.500",
                   " # {trace_id=\"ef\",span_id=\"01\"} 3 2.000")}) {
    MetricText text(format, {});
    text.AddHistogramOf("c", "What c is.", histogram, exemplars);
    EXPECT_EQ(text.Finish(),
              absl::StrCat("# HELP c What c is.\n# TYPE c histogram\nc_bucket{le=\"0.5\"} 1", first,
                           "\nc_bucket{le=\"1.0\"} 1\nc_bucket{le=\"+Inf\"} 2", last,
                           "\nc_sum 3.25\nc_count 2\n",
                           format == MetricFormat::kOpenMetrics ? "# EOF\n" : ""));
  }
}

TEST(MetricTextTest, EscapesLabels) {
  MetricText text(MetricFormat::kPrometheus, {{"model_name", "a\"b\\c\nd"}});
  text.AddGauge("g", "G.", 1);
  EXPECT_EQ(text.Finish(), "# HELP g G.\n# TYPE g gauge\ng{model_name=\"a\\\"b\\\\c\\nd\"} 1\n");
}

TEST(MetricTextDeathTest, OnlyCountersEndWithTotal) {
  MetricText text(MetricFormat::kPrometheus, {});
  EXPECT_DEATH(text.Begin("a", MetricType::kCounter, ""), "a");
  EXPECT_DEATH(text.Begin("a_total", MetricType::kGauge, ""), "a_total");
}

TEST(ServerMetricsTest, CountsCallsByMethodAndEnd) {
  ServerMetrics metrics;
  metrics.CountGrpcCall("/quire.v1.Inference/Generate", absl::StatusCode::kOk);
  metrics.CountGrpcCall("/quire.v1.Inference/Generate", absl::StatusCode::kOk);
  metrics.CountGrpcCall("/quire.v1.Inference/Generate", absl::StatusCode::kCancelled);
  const auto calls = metrics.grpc_calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].service, "quire.v1.Inference");
  EXPECT_EQ(calls[0].method, "Generate");
  EXPECT_EQ(calls[0].code, absl::StatusCode::kOk);
  EXPECT_EQ(calls[0].count, 2u);
  EXPECT_EQ(calls[1].code, absl::StatusCode::kCancelled);
}

TEST(ServerMetricsTest, WhateverClientsCallTheirMethodsThereAreFew) {
  ServerMetrics metrics;
  metrics.CountHttpCall("none", "BREW", 405);
  metrics.CountHttpCall("none", "WHEN", 405);
  metrics.CountHttpCall("/health", "GET", 200);
  const auto calls = metrics.http_calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].handler, "/health");
  EXPECT_EQ(calls[0].status, "2xx");
  EXPECT_EQ(calls[1].method, "other");
  EXPECT_EQ(calls[1].count, 2u);
}

TEST(ServerMetricsTest, EveryReasonHasAName) {
  std::vector<absl::string_view> names;
  names.reserve(kNumRefusalReasons);
  for (int i = 0; i < kNumRefusalReasons; ++i) {
    names.push_back(RefusalName(static_cast<RefusalReason>(i)));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_EQ(RefusalOf(absl::StatusCode::kResourceExhausted), RefusalReason::kQueueFull);
}

}  // namespace
}  // namespace quire
