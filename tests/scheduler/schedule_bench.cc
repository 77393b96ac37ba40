// Time that Schedule and Commit take per step, apart from the model: 64 decoding sequences; 64 with
// a full waiting queue of long prompts that cannot be admitted, in one flow and in many; chunked
// prefill. Prints one line each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace quire {
namespace {

using Clock = std::chrono::steady_clock;

double MicrosSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

StepResult Run(const SchedulerOutput& output) {
  StepResult result;
  result.step = output.step;
  for (const ScheduledSequence& sequence : output.sequences) {
    SequenceResult& one = result.sequences.emplace_back();
    if (sequence.num_samples == 0) continue;
    one.samples.push_back({.id = static_cast<TokenId>(sequence.num_generated % 1000)});
  }
  return result;
}

void AddRequests(Scheduler* scheduler, RequestId first, int num, int64_t num_prompt_tokens,
                 int64_t max_tokens, uint64_t num_flows = 1) {
  for (int i = 0; i < num; ++i) {
    auto request = std::make_shared<Request>();
    request->id = first + i;
    request->flow.id = i % num_flows;
    request->prompt.assign(num_prompt_tokens, static_cast<TokenId>(first + i));
    request->stop.max_tokens = max_tokens;
    CHECK(scheduler->Add(std::move(request)).ok());
  }
}

void Measure(const char* name, Scheduler* scheduler, int num_steps) {
  std::vector<double> schedule_us;
  std::vector<double> commit_us;
  int64_t num_tokens = 0;
  for (int i = 0; i < num_steps; ++i) {
    const auto start = Clock::now();
    const SchedulerOutput output = scheduler->Schedule();
    schedule_us.push_back(MicrosSince(start));
    if (output.empty()) break;
    num_tokens += output.num_tokens;
    StepResult result = Run(output);
    const auto commit_start = Clock::now();
    scheduler->Commit(std::move(result));
    scheduler->TakeEvents();
    commit_us.push_back(MicrosSince(commit_start));
  }
  std::sort(schedule_us.begin(), schedule_us.end());
  std::sort(commit_us.begin(), commit_us.end());
  const auto at = [](const std::vector<double>& sorted, double q) {
    return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
  };
  std::printf(
      "%-28s %5zu steps, %6.1f tokens each: schedule %6.1f us (p99 %6.1f), "
      "commit %6.1f us (p99 %6.1f)\n",
      name, commit_us.size(),
      static_cast<double>(num_tokens) / static_cast<double>(commit_us.size()), at(schedule_us, 0.5),
      at(schedule_us, 0.99), at(commit_us, 0.5), at(commit_us, 0.99));
}

BlockManagerConfig Blocks(int64_t num_blocks) {
  BlockManagerConfig blocks;
  blocks.num_blocks = num_blocks;
  return blocks;
}

void Main() {
  SchedulerConfig config;
  {
    Scheduler scheduler(config, Blocks(20'000));
    AddRequests(&scheduler, 1, 64, 32, 4000);
    Measure("64 decoding", &scheduler, 3000);
  }
  for (const uint64_t num_flows : {1, 100}) {
    Scheduler scheduler(config, Blocks(64 * 64));
    AddRequests(&scheduler, 1, 60, 32, 1000, num_flows);
    for (int i = 0; i < 4; ++i) scheduler.Commit(Run(scheduler.Schedule()));
    AddRequests(&scheduler, 100, num_flows == 1 ? 1000 : 700, 4000, 90, num_flows);
    Measure(num_flows == 1 ? "60 decoding, 1000 waiting" : "the same of 100 flows, 700", &scheduler,
            900);
  }
  {
    Scheduler scheduler(config, Blocks(64 * 256));
    AddRequests(&scheduler, 1, 64, 4000, 1);
    Measure("prompts in chunks", &scheduler, 1000);
  }
}

}  // namespace
}  // namespace quire

int main() {
  quire::Main();
  return 0;
}
