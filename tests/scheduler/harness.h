// SchedulerHarness: a Scheduler whose runner is a lambda. By default every sample is a fresh token
// that stops nothing; tests that care choose the tokens.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "scheduler/scheduler.h"

namespace quire {

inline SchedulerConfig SmallScheduler() {
  SchedulerConfig config;
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 16;
  config.max_num_partial_prefills = 2;
  config.max_model_len = 64;
  return config;
}

inline BlockManagerConfig SmallBlocks(int64_t num_blocks = 64) {
  BlockManagerConfig config;
  config.num_blocks = num_blocks;
  config.block_size = 4;
  return config;
}

class SchedulerHarness {
 public:
  explicit SchedulerHarness(const SchedulerConfig& config = SmallScheduler(),
                            const BlockManagerConfig& blocks = SmallBlocks())
      : scheduler(config, blocks) {}

  // A request whose prompt no other request shares.
  static std::shared_ptr<Request> MakeRequest(RequestId id, int64_t num_prompt_tokens,
                                              int64_t max_tokens) {
    auto request = std::make_shared<Request>();
    request->id = id;
    for (int64_t i = 0; i < num_prompt_tokens; ++i) {
      request->prompt.push_back(static_cast<TokenId>(id * 1000 + i));
    }
    request->stop.max_tokens = max_tokens;
    return request;
  }

  // Adds what is to be taken, as the engine does.
  absl::Status TryAdd(const std::shared_ptr<const Request>& request) {
    RETURN_IF_ERROR(scheduler.Check(*request));
    return scheduler.Add(request);
  }

  // Adds one, which must be accepted; `change` edits it before.
  void Add(RequestId id, int64_t num_prompt_tokens, int64_t max_tokens,
           const std::function<void(Request*)>& change = nullptr) {
    auto request = MakeRequest(id, num_prompt_tokens, max_tokens);
    if (change) change(request.get());
    const absl::Status status = TryAdd(request);
    CHECK(status.ok()) << status.ToString();
  }

  // Schedules a step and returns it as text, "1:[0,8) 2:[4,5)*": half-open ranges in order, a star
  // for those that sample, "1/2" for continuation 2 of request 1. The step is then in flight.
  std::string Schedule() {
    SchedulerOutput output = scheduler.Schedule();
    scheduler.CheckInvariants();
    std::string text;
    StepResult result;
    result.step = output.step;
    for (const ScheduledSequence& sequence : output.sequences) {
      absl::StrAppend(&text, text.empty() ? "" : " ", sequence.key.request);
      if (sequence.key.index > 0) absl::StrAppend(&text, "/", sequence.key.index);
      absl::StrAppend(&text, ":[", sequence.start, ",", sequence.start + sequence.num_new, ")",
                      sequence.num_samples > 0 ? "*" : "");
      result.sequences.push_back(RunSequence(sequence));
    }
    if (!output.empty()) in_flight.push_back(std::move(result));
    last_output = std::move(output);
    return text;
  }

  // The sequences of the newest step in flight come back without an answer.
  void BreakLogits() {
    for (SequenceResult& result : in_flight.back().sequences) {
      result = SequenceResult();
      result.is_broken = true;
    }
  }

  // Commits the oldest step in flight.
  void Commit() {
    StepResult result = std::move(in_flight.front());
    in_flight.erase(in_flight.begin());
    scheduler.Commit(std::move(result));
    scheduler.CheckInvariants();
  }

  std::string Step() {
    std::string text = Schedule();
    if (!text.empty()) Commit();
    return text;
  }

  // Steps until nothing can run; returns how many steps that took.
  int RunToEnd() {
    int num_steps = 0;
    while (!Step().empty()) ++num_steps;
    return num_steps;
  }

  // The events since the last call as text: "started 1 cached 0", "token 1 42", "prompt 1 3" (3
  // logprobs), "finished 1 stop 7" (the matched token), "finished 1 length".
  std::vector<std::string> TakeEvents() {
    std::vector<std::string> texts;
    for (const SequenceEvent& event : scheduler.TakeEvents()) texts.push_back(Text(event));
    return texts;
  }

  // The token that the runner samples for a sequence that has `num_generated` generated tokens.
  std::function<TokenId(const SequenceKey&, int64_t num_generated)> sample =
      [](const SequenceKey& key, int64_t num_generated) {
        return static_cast<TokenId>(500'000 + key.request * 1000 + key.index * 100 + num_generated);
      };

  Scheduler scheduler;
  std::vector<StepResult> in_flight;
  SchedulerOutput last_output;  // its spans are valid until the scheduler's next call

 private:
  SequenceResult RunSequence(const ScheduledSequence& sequence) const {
    SequenceResult result;
    if (sequence.num_samples > 0) {
      result.samples.push_back({.id = sample(sequence.key, sequence.num_generated)});
    }
    if (!sequence.wants_prompt_logprobs) return result;
    for (int64_t i = sequence.start + 1;
         i <= sequence.start + sequence.num_new && i < sequence.num_prompt_tokens; ++i) {
      result.prompt_logprobs.emplace_back(sequence.tokens[i], TokenLogprobs{});
    }
    return result;
  }

  static std::string Text(const SequenceEvent& event) {
    std::string name = absl::StrCat(event.key.request);
    if (event.key.index > 0) absl::StrAppend(&name, "/", event.key.index);
    switch (event.kind) {
      case SequenceEvent::Kind::kStarted:
        return absl::StrCat("started ", name, " cached ", event.num_cached_tokens);
      case SequenceEvent::Kind::kToken:
        return absl::StrCat("token ", name, " ", event.token);
      case SequenceEvent::Kind::kPromptLogprobs:
        return absl::StrCat("prompt ", name, " ", event.prompt_logprobs.size());
      case SequenceEvent::Kind::kFinished:
        break;
    }
    switch (event.reason) {
      case FinishReason::kStop:
        return absl::StrCat("finished ", name, " stop ", event.matched_token);
      case FinishReason::kLength:
        return absl::StrCat("finished ", name, " length");
      case FinishReason::kAbort:
        return absl::StrCat("finished ", name, " abort");
      case FinishReason::kError:
        return absl::StrCat("finished ", name, " error");
      case FinishReason::kNone:
        break;
    }
    return absl::StrCat("finished ", name, " without a reason");
  }
};

}  // namespace quire
