// The search of quire-bench sweep against servers that are known: where it looks, what it calls too
// much, and what it says in the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/bench/sweep/sweep_search.h"

namespace quire::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A server of `capacity` requests per second, or requests at a time beyond which there is no more
// throughput.
SweepPoint Served(double load, double capacity) {
  const double achieved = std::min(load, capacity);
  return {.load = load,
          .offered_rate = load,
          .achieved_rate = achieved,
          .output_throughput = 100 * achieved};
}

std::vector<SweepPoint> Search(double capacity, const SweepRules& rules) {
  std::vector<SweepPoint> points;
  while (const auto load = NextLoad(points, rules)) points.push_back(Served(*load, capacity));
  return points;
}

TEST(SweepSearchTest, FindsTheRateToWithinThePrecision) {
  for (const double capacity : {0.3, 1.1, 37.0, 900.0}) {
    for (const double precision : {0.02, 0.1, 0.5}) {
      const SweepRules rules = {.precision = precision};
      const Saturation found = FindSaturation(Search(capacity, rules), rules);
      // 95 % of what is due is enough.
      EXPECT_LE(*found.last_good, capacity / 0.95) << capacity;
      EXPECT_GE(*found.first_bad, capacity / 0.95 * 0.999) << capacity;
      EXPECT_LE(*found.first_bad, *found.last_good * (1 + precision) * 1.01) << capacity;
    }
  }
}

TEST(SweepSearchTest, FindsTheConcurrencyBeyondWhichThereIsNoMore) {
  for (const double capacity : {1.0, 5.0, 16.0, 100.0}) {
    const SweepRules rules = {.by_concurrency = true, .precision = 0.01};
    const std::vector<SweepPoint> points = Search(capacity, rules);
    for (const SweepPoint& point : points) EXPECT_EQ(point.load, std::floor(point.load));
    const Saturation found = FindSaturation(points, rules);
    EXPECT_NEAR(*found.last_good, capacity, 0.06 * capacity + 1e-9) << capacity;
  }
}

TEST(SweepSearchTest, EndsWhateverTheServerDoes) {
  const SweepRules rules = {.to = 50};
  EXPECT_EQ(Search(1e9, rules).back().load, 50);
  EXPECT_THAT(FindSaturation(Search(1e9, rules), rules).sentence,
              HasSubstr("Not saturated at 50 requests/s"));
  EXPECT_LE(Search(0, rules).size(), 8u);
  EXPECT_THAT(FindSaturation(Search(0, rules), rules).sentence,
              HasSubstr("Every load that was tried was too much"));
  EXPECT_LE(Search(0, {.by_concurrency = true}).size(), 3u);
  EXPECT_LE(Search(777, {.precision = 1e-9, .max_points = 11}).size(), 11u);
  EXPECT_THAT(FindSaturation({}, rules).sentence, HasSubstr("No load"));
  const std::vector<SweepPoint> given = Search(3, {.values = {1, 8, 2}});
  EXPECT_EQ(given.size(), 3u);
  EXPECT_EQ(*FindSaturation(given, {.values = {1, 8, 2}}).last_good, 2);
}

TEST(SweepSearchTest, BadAndFailedRequestsAreTooMuch) {
  SweepPoint point = Served(1, 9);
  EXPECT_EQ(WhyTooMuch(point, {}, {}), "");
  point.good_share = 0.8;
  EXPECT_EQ(WhyTooMuch(point, {}, {.good_share = 0.75}), "");
  EXPECT_EQ(WhyTooMuch(point, {}, {}), "80 % of the requests were good ones");
  point.failed_share = 0.5;
  EXPECT_EQ(WhyTooMuch(point, {}, {}), "50 % of the requests failed");
}

// Requests are due every 10 ms and take as long as `latency` says.
template <typename Latency>
LoadResult Load(int num_requests, const Latency& latency) {
  LoadResult result;
  for (int i = 0; i < num_requests; ++i) {
    RequestRecord record;
    record.outcome = Outcome::kCompleted;
    record.scheduled = record.sent = 0.01 * i;
    record.first_token = record.last_token = record.ended = record.sent + latency(i);
    record.num_tokens = record.completion_tokens = 1;
    result.records.push_back(std::move(record));
  }
  return result;
}

SweepPoint PointOf(const LoadResult& result, const ReportOptions& options = {}) {
  return MakePoint(100, result, MakeServeReport(result, options), options);
}

TEST(SweepPointTest, LongRequestsAreNoLag) {
  // Each takes half of the whole run: as many end per second as are sent all the same.
  const SweepPoint point = PointOf(Load(200, [](int) { return 1.0; }));
  EXPECT_NEAR(point.offered_rate, 100, 1e-6);
  EXPECT_NEAR(point.achieved_rate, 100, 1e-6);
}

TEST(SweepPointTest, AGrowingQueueIs) {
  const SweepPoint point = PointOf(Load(200, [](int i) { return 0.0025 * i; }));
  EXPECT_NEAR(point.achieved_rate, 80, 1e-6);
  EXPECT_EQ(WhyTooMuch(point, {}, {}), "80 requests/s of 100");
}

TEST(SweepPointTest, OfConversationsTheFirstTurnsAreTheRate) {
  LoadResult result = Load(200, [](int) { return 0.1; });
  for (size_t i = 0; i < 200; ++i) {  // next turns, fewer and fewer at a time
    RequestRecord next = result.records[i];
    next.turn = 1;
    next.scheduled = next.sent = 2 * next.ended;
    next.first_token = next.last_token = next.ended = next.sent + 1 + 0.02 * static_cast<double>(i);
    next.outcome = i < 20 ? Outcome::kFailed : Outcome::kCompleted;
    result.records.push_back(std::move(next));
  }
  const SweepPoint point = PointOf(result, {.from_due = true});
  EXPECT_NEAR(point.offered_rate, 100, 1e-6);
  EXPECT_NEAR(point.achieved_rate, 100, 1e-6);
  EXPECT_NEAR(point.failed_share, 0.05, 1e-9);  // of all turns
}

TEST(SweepPointTest, WhatFailsOrIsSlowDoesNotCount) {
  LoadResult result = Load(100, [](int i) { return i % 4 == 0 ? 0.5 : 0.001; });
  for (size_t i = 1; i < 100; i += 4) result.records[i].outcome = Outcome::kFailed;
  for (size_t i = 90; i < 100; ++i) result.records[i] = RequestRecord();  // never sent
  const SweepPoint point = PointOf(result, {.goodput = {{"e2el", 100}}});
  EXPECT_NEAR(point.failed_share, 23.0 / 90, 1e-9);
  EXPECT_NEAR(*point.good_share, 44.0 / 90, 1e-9);
}

}  // namespace
}  // namespace quire::bench
