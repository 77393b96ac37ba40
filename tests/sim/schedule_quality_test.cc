// How good the schedules are, which correctness tests do not see: waiting time by priority, use of
// the token budget, preemptions, tokens that are run again. Each number has a bound that comes from
// an oracle (the same work without the others, or the least that anybody could need) or that a
// worse policy is known to miss (kind "policy" in mutants/). Time is counted in steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include "tests/scheduler/harness.h"
#include "tests/sim/workload.h"

namespace quire::sim {
namespace {

struct Job {
  int64_t arrival = 0;
  int64_t num_prompt_tokens = 0;
  int64_t num_answer_tokens = 0;
  int32_t priority = 0;
  int32_t n = 1;
  bool stalls = false;  // its reader, as soon as it has started, until nobody else runs
};

struct JobReport {
  int64_t start = -1;  // the step in which it first ran
  int64_t first_token = -1;
  int64_t end = -1;
  int64_t num_preemptions = 0;
};

struct Report {
  std::vector<JobReport> jobs;
  int64_t num_steps = 0;
  int64_t num_tokens = 0;
  int64_t num_preemptions = 0;
};

SchedulerConfig Config() {
  SchedulerConfig config;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 32;
  config.max_num_partial_prefills = 4;
  config.max_model_len = 512;
  return config;
}

Report RunJobs(const std::vector<Job>& jobs, int64_t num_blocks, size_t lookahead = 0) {
  SchedulerHarness h(Config(), SmallBlocks(num_blocks));
  Report report;
  report.jobs.resize(jobs.size());
  std::vector<size_t> by_arrival(jobs.size());
  std::iota(by_arrival.begin(), by_arrival.end(), size_t{0});
  std::stable_sort(by_arrival.begin(), by_arrival.end(),
                   [&](size_t a, size_t b) { return jobs[a].arrival < jobs[b].arrival; });
  auto next = by_arrival.begin();
  for (int64_t now = 0; next != by_arrival.end() || h.scheduler.HasUnfinished(); ++now) {
    for (; next != by_arrival.end() && jobs[*next].arrival <= now; ++next) {
      const Job& job = jobs[*next];
      h.Add(*next, job.num_prompt_tokens, job.num_answer_tokens, [&](Request* request) {
        request->priority = job.priority;
        request->sampling.n = job.n;
      });
    }
    const bool scheduled = !h.Schedule().empty();
    for (size_t i = 0; !scheduled && h.in_flight.empty() && i < jobs.size(); ++i) {
      h.scheduler.SetPaused({i, 0}, false);
    }
    report.num_steps += scheduled ? 1 : 0;
    report.num_tokens += h.last_output.num_tokens;
    while (h.in_flight.size() > (scheduled ? lookahead : 0)) h.Commit();
    for (const SequenceEvent& event : h.scheduler.TakeEvents()) {
      JobReport& job = report.jobs[event.key.request];
      if (event.kind == SequenceEvent::Kind::kStarted && job.start < 0) {
        job.start = now;
        h.scheduler.SetPaused(event.key, jobs[event.key.request].stalls);
      }
      if (event.kind == SequenceEvent::Kind::kToken && job.first_token < 0) job.first_token = now;
      if (event.kind != SequenceEvent::Kind::kFinished) continue;
      job.end = now;
      job.num_preemptions += event.num_preemptions;
    }
  }
  report.num_preemptions = h.scheduler.stats().num_preemptions;
  return report;
}

// Requests of three priorities, together half as much again as can be served while they arrive.
std::vector<Job> MixedJobs() {
  Random random(11);
  std::vector<Job> jobs;
  for (int64_t i = 0; i < 600; ++i) {
    jobs.push_back({.arrival = i * 3 / 2,
                    .num_prompt_tokens = random.Between(1, 60),
                    .num_answer_tokens = random.Between(1, 30),
                    .priority = static_cast<int32_t>(random.Between(-1, 1))});
  }
  return jobs;
}

double MeanWait(const std::vector<Job>& jobs, const Report& report, int32_t priority) {
  int64_t sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].priority != priority) continue;
    sum += report.jobs[i].start - jobs[i].arrival;
    ++count;
  }
  return static_cast<double>(sum) / static_cast<double>(count);
}

// A priority waits as long as it would wait if the worse ones did not exist, plus less than half a
// step for those that are in its way already. The best priority asks for half of what can be
// served.
TEST(ScheduleQualityTest, WorsePrioritiesDoNotDelayBetterOnes) {
  const std::vector<Job> jobs = MixedJobs();
  const Report all = RunJobs(jobs, /*num_blocks=*/300);
  std::printf("priority 1 waits %.2f steps\n", MeanWait(jobs, all, 1));
  for (const int32_t priority : {-1, 0}) {
    std::vector<Job> better;
    std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(better),
                 [&](const Job& job) { return job.priority <= priority; });
    const double alone = MeanWait(better, RunJobs(better, /*num_blocks=*/300), priority);
    const double in_batch = MeanWait(jobs, all, priority);
    std::printf("priority %d waits %.2f steps, without worse ones %.2f\n", priority, in_batch,
                alone);
    EXPECT_LE(in_batch, alone * 1.1 + 0.5);
  }
  EXPECT_LE(MeanWait(jobs, all, -1), 1);
}

TEST(ScheduleQualityTest, EqualsStartInOrderOfArrival) {
  const std::vector<Job> jobs(100, {.num_prompt_tokens = 20, .num_answer_tokens = 10});
  const Report report = RunJobs(jobs, /*num_blocks=*/100);
  for (size_t i = 1; i < jobs.size(); ++i) {
    EXPECT_LE(report.jobs[i - 1].start, report.jobs[i].start) << i;
  }
}

// Short prompts that arrive while a long one runs wait for it two steps at most, and it still gets
// the share that it was promised.
TEST(ScheduleQualityTest, ShortPromptsPassALongOneThatGetsOn) {
  std::vector<Job> jobs = {{.num_prompt_tokens = 480, .num_answer_tokens = 1}};
  for (int64_t i = 0; i < 40; ++i) {
    jobs.push_back({.arrival = 1 + i, .num_prompt_tokens = 12, .num_answer_tokens = 2});
  }
  const Report report = RunJobs(jobs, /*num_blocks=*/400);
  for (size_t i = 1; i < jobs.size(); ++i) {
    EXPECT_LE(report.jobs[i].first_token - jobs[i].arrival, 2) << i;
  }
  const SchedulerConfig config = Config();
  const int64_t least_share =
      (config.max_num_batched_tokens - 4) / config.max_num_partial_prefills;  // 4 decodes
  EXPECT_LE(report.jobs[0].end, jobs[0].num_prompt_tokens / least_share);
}

// With prompts waiting, every step but the last is full.
TEST(ScheduleQualityTest, FullStepsWhileThereAreTokensToRun) {
  Random random(5);
  std::vector<Job> jobs;
  int64_t num_tokens = 0;
  for (int i = 0; i < 300; ++i) {
    jobs.push_back({.num_prompt_tokens = random.Between(1, 100), .num_answer_tokens = 1});
    num_tokens += jobs.back().num_prompt_tokens;
  }
  const Report report = RunJobs(jobs, /*num_blocks=*/1'000);
  EXPECT_EQ(report.num_tokens, num_tokens);
  EXPECT_EQ(report.num_steps, CeilDiv(num_tokens, Config().max_num_batched_tokens));
}

// Prompts and answers together: at most an eighth more steps than the budget or the rows allow.
TEST(ScheduleQualityTest, AMixedLoadUsesBudgetAndRows) {
  std::vector<Job> jobs = MixedJobs();
  int64_t num_tokens = 0;
  int64_t num_row_steps = 0;
  for (Job& job : jobs) {
    job.arrival = 0;
    num_tokens += job.num_prompt_tokens + job.num_answer_tokens - 1;
    num_row_steps += job.num_answer_tokens;
  }
  const Report report = RunJobs(jobs, /*num_blocks=*/1'000);
  const SchedulerConfig config = Config();
  const int64_t least = std::max(CeilDiv(num_tokens, config.max_num_batched_tokens),
                                 CeilDiv(num_row_steps, config.max_num_seqs));
  std::printf("%ld steps, at least %ld\n", report.num_steps, least);
  EXPECT_LE(report.num_steps, least * 9 / 8);
}

// Room for about half of the rows, so everybody's growth is at the cost of somebody; what was
// admitted should be able to stay.
void ExpectFewPreemptions(size_t lookahead, double most_per_request) {
  Random random(3);
  std::vector<Job> jobs;
  int64_t num_tokens = 0;
  for (int i = 0; i < 400; ++i) {
    jobs.push_back(
        {.num_prompt_tokens = random.Between(1, 20), .num_answer_tokens = random.Between(20, 60)});
    num_tokens += jobs.back().num_prompt_tokens + jobs.back().num_answer_tokens - 1;
  }
  const Report report = RunJobs(jobs, /*num_blocks=*/50, lookahead);
  std::printf("%ld preemptions of 400 requests, %.3f tokens run for each\n", report.num_preemptions,
              static_cast<double>(report.num_tokens) / static_cast<double>(num_tokens));
  EXPECT_GT(report.num_preemptions, 0);  // or this would measure nothing
  EXPECT_LE(static_cast<double>(report.num_preemptions), most_per_request * 400);
}

TEST(ScheduleQualityTest, FewPreemptions) { ExpectFewPreemptions(/*lookahead=*/0, 1.0); }

TEST(ScheduleQualityTest, FewPreemptionsWithLookahead) {
  ExpectFewPreemptions(/*lookahead=*/1, 1.0);
}

// The second one lacks a block until the first ends, and keeps what it has.
TEST(ScheduleQualityTest, WhoLacksABlockWaitsForIt) {
  const Report report = RunJobs({{.num_prompt_tokens = 4, .num_answer_tokens = 8},
                                 {.num_prompt_tokens = 8, .num_answer_tokens = 16}},
                                /*num_blocks=*/6);
  EXPECT_GT(report.num_steps, 16);  // it did have to wait
  EXPECT_EQ(report.num_preemptions, 0);
}

// The first one outgrows the pool; what the third one gives up is enough for it and the second.
TEST(ScheduleQualityTest, TheWorstRankedMakesWay) {
  const Report report = RunJobs({{.num_prompt_tokens = 4, .num_answer_tokens = 28},
                                 {.num_prompt_tokens = 12, .num_answer_tokens = 16},
                                 {.num_prompt_tokens = 12, .num_answer_tokens = 16}},
                                /*num_blocks=*/12);
  EXPECT_EQ(report.jobs[0].num_preemptions, 0);
  EXPECT_EQ(report.jobs[1].num_preemptions, 0);
  EXPECT_GE(report.jobs[2].num_preemptions, 1);
}

// Likewise, but the reader of the second one has stalled: it makes way before the third.
TEST(ScheduleQualityTest, TheStalledMakesWayFirst) {
  const Report report = RunJobs({{.num_prompt_tokens = 4, .num_answer_tokens = 28},
                                 {.num_prompt_tokens = 20, .num_answer_tokens = 16, .stalls = true},
                                 {.num_prompt_tokens = 12, .num_answer_tokens = 12}},
                                /*num_blocks=*/12);
  EXPECT_EQ(report.jobs[0].num_preemptions, 0);
  EXPECT_GE(report.jobs[1].num_preemptions, 1);
  EXPECT_EQ(report.jobs[2].num_preemptions, 0);
}

// When prompts do not fit into one step, only some of them have a row.
TEST(ScheduleQualityTest, OnlySoManyPromptsAreInProgress) {
  SchedulerHarness h(Config(), SmallBlocks(/*num_blocks=*/1'000));
  for (RequestId id = 1; id <= 8; ++id) h.Add(id, /*num_prompt_tokens=*/100, /*max_tokens=*/2);
  h.Step();
  EXPECT_EQ(h.scheduler.stats().num_running, Config().max_num_partial_prefills);
}

// The third one has a better priority than the second, whose few blocks are not enough for it.
TEST(ScheduleQualityTest, NobodyIsPreemptedInVain) {
  const Report report = RunJobs({{.num_prompt_tokens = 28, .num_answer_tokens = 4},
                                 {.num_prompt_tokens = 4, .num_answer_tokens = 30, .priority = 1},
                                 {.arrival = 2, .num_prompt_tokens = 20, .num_answer_tokens = 2}},
                                /*num_blocks=*/12);
  EXPECT_GT(report.jobs[2].start, report.jobs[0].end);  // it did have to wait
  EXPECT_EQ(report.num_preemptions, 0);
}

// Four continuations compute their prompt once: the others run what no whole block holds.
TEST(ScheduleQualityTest, ContinuationsShareTheirPrompt) {
  const std::vector<Job> jobs(20, {.num_prompt_tokens = 61, .num_answer_tokens = 5, .n = 4});
  const Report report = RunJobs(jobs, /*num_blocks=*/2'000);
  const int64_t num_prompt_tokens = 61 + 3 * (61 - 60);
  EXPECT_EQ(report.num_tokens, 20 * (num_prompt_tokens + 4 * 4));

  // They begin in the step after the prompt's last: two for the prompt, five for the answers.
  EXPECT_EQ(RunJobs({jobs[0]}, /*num_blocks=*/2'000).num_steps, 2 + 5);
}

}  // namespace
}  // namespace quire::sim
