// A made-up trace: which steps count, how gaps and shares are computed, and where the picture puts
// them.
#include "tools/bench/engine/timeline_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "nlohmann/json.hpp"

namespace quire::bench {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kHostOffsetNs = 5'000'000;  // of the host's clock against the device's

// A decode of four sequences on the device from begin to end, microseconds.
void AddStep(StepTrace& trace, uint64_t number, double begin_us, double end_us,
             int64_t num_tokens = 4) {
  StepTiming& step = trace.At(number);
  step.num_seqs = 4;
  step.num_tokens = num_tokens;
  step.device_begin_us = begin_us;
  step.device_end_us = end_us;
  const auto host_ns = [](double us) { return kHostOffsetNs + static_cast<int64_t>(1000 * us); };
  step.host = {{{host_ns(begin_us - 9), host_ns(begin_us - 6)},  // schedule 3
                {host_ns(begin_us - 6), host_ns(begin_us - 4)},  // build 2
                {host_ns(begin_us - 4), host_ns(begin_us)},      // submit 4
                {host_ns(begin_us), host_ns(begin_us)},          // sample 0
                {host_ns(begin_us), host_ns(end_us)},            // wait: the step
                {host_ns(end_us), host_ns(end_us + 1)},          // commit 1
                {host_ns(end_us + 1), host_ns(end_us + 6)}}};    // deliver 5
}

TEST(TimelineReportTest, CountsSteadyDecodeOnly) {
  StepTrace trace(64);
  AddStep(trace, 10, 0, 90, /*num_tokens=*/2048);  // a prefill
  AddStep(trace, 11, 90, 190);
  AddStep(trace, 12, 190, 290);
  AddStep(trace, 13, 300, 400);  // after a gap of 10
  AddStep(trace, 14, 399, 500);  // put in line before the one before had ended
  const TimelineReport report = MakeTimelineReport(trace, /*num_seqs=*/4, /*margin=*/0);
  EXPECT_EQ(report.num_steps, 3);
  EXPECT_EQ(report.num_tokens, 12);
  EXPECT_DOUBLE_EQ(report.wall_us, 310);
  EXPECT_DOUBLE_EQ(report.busy_us, 300);
  EXPECT_THAT(report.gap_us, ElementsAre(0, 10, 0));
  EXPECT_THAT(report.period_us, ElementsAre(100, 110, 100));
  EXPECT_THAT(report.idle_share(), DoubleNear(10.0 / 310, 1e-9));
  EXPECT_THAT(report.host_us[static_cast<size_t>(StepStage::kSubmit)][0], DoubleNear(4, 1e-6));
  EXPECT_THAT(report.host_us[static_cast<size_t>(StepStage::kDeliver)][2], DoubleNear(5, 1e-6));
  EXPECT_EQ(ToJson(report)["gap_us"]["max"], 10.0);
  EXPECT_THAT(ToText(report), HasSubstr("idle between steps 3.23 %"));
}

TEST(TimelineReportTest, TakesTheLongestUnbrokenRunWithoutItsEnds) {
  StepTrace trace(64);
  for (uint64_t step = 1; step <= 4; ++step) AddStep(trace, step, 100.0 * step, 100.0 * step + 90);
  for (uint64_t step = 6; step <= 12; ++step) AddStep(trace, step, 100.0 * step, 100.0 * step + 80);
  const TimelineReport report = MakeTimelineReport(trace, 4, /*margin=*/2);
  EXPECT_EQ(report.steps.front().step, 8u);
  EXPECT_EQ(report.steps.back().step, 10u);
  EXPECT_THAT(report.gap_us, ElementsAre(20, 20));
  EXPECT_EQ(MakeTimelineReport(trace, /*num_seqs=*/5, 0).num_steps, 0);
}

// Sequences that begin one after the other, `steps_apart` each.
TEST(TimelineReportTest, TheContextIsTheAverageOfStepsInWhichAllDecode) {
  constexpr int64_t kSteps = 146, kContext = 1030;
  for (const auto& [num_seqs, steps_apart] : {std::pair(1, 1), {64, 1}, {256, 1}, {64, 0}}) {
    SCOPED_TRACE(testing::Message() << num_seqs << " sequences, " << steps_apart << " apart");
    const TimelineLengths lengths = LengthsFor(num_seqs, kSteps, kContext);
    double sum = 0;
    int64_t num_steps = 0;
    // From the last one's first token to the first one's last.
    for (int64_t step = (num_seqs - 1) * steps_apart; step < lengths.output_len; ++step) {
      for (int64_t seq = 0; seq < num_seqs; ++seq) {
        sum += static_cast<double>(lengths.input_len + step - seq * steps_apart);
      }
      ++num_steps;
    }
    EXPECT_GE(num_steps, kSteps);
    EXPECT_NEAR(sum / static_cast<double>(num_steps * num_seqs), kContext, 1);
  }
  EXPECT_EQ(LengthsFor(64, kSteps, kContext).context(), kContext);
  EXPECT_EQ(LengthsFor(1024, kSteps, 192).context(), 1 + (1024 + kSteps) / 2) << "at least";
}

TEST(TimelineReportTest, ThePageHasTheTimesOfTheStepsOnOneClock) {
  StepTrace trace(64);
  for (uint64_t step = 1; step <= 3; ++step) AddStep(trace, step, 100.0 * step, 100.0 * step + 75);
  TimelineReport report = MakeTimelineReport(trace, 4, 0);
  report.title = "a < b";
  const std::string html = ToHtml(report, /*num_shown=*/2);
  EXPECT_THAT(html, HasSubstr(R"("title":"a \u003c b","num_shown":2,"span_us":200.0)"));
  EXPECT_THAT(html, Not(HasSubstr("https:")));
  // From the end of step 1 at 175 to that of step 3 at 375: step 2 lies from 200 to 275, and the
  // host, whose clock was lined up, submits it from 196 to 200.
  EXPECT_THAT(html, HasSubstr(R"({"step":2,"device":[25.0,100.0],"host":[)"));
  EXPECT_THAT(html, HasSubstr("[21.0,25.0]"));
}

}  // namespace
}  // namespace quire::bench
