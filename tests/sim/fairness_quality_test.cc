// How well flows share, which correctness tests do not see. Time is counted in steps, and in tokens
// run. Each bound comes from the weights or is one that a worse policy is known to miss (kind
// "policy" in mutants/).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "tests/scheduler/harness.h"

namespace quire::sim {
namespace {

// A flow that always has `num_at_once` requests, the next as soon as one has ended.
struct Client {
  RequestFlow flow;
  int64_t num_prompt_tokens;
  int64_t num_answer_tokens;
  int num_at_once = 1;
  int32_t n = 1;
};

class Clients {
 public:
  // `lookahead`: a step is decided while the one before it runs.
  Clients(const SchedulerConfig& config, int64_t num_blocks, std::vector<Client> clients,
          bool lookahead = false)
      : h_(config, SmallBlocks(num_blocks)), clients_(std::move(clients)), lookahead_(lookahead) {
    for (const Client& client : clients_) {
      for (int i = 0; i < client.num_at_once; ++i) Send(client);
    }
  }

  RequestId Send(const Client& client) {
    h_.Add(next_id_, client.num_prompt_tokens, client.num_answer_tokens, [&](Request* request) {
      request->flow = client.flow;
      request->sampling.n = client.n;
    });
    clients_of_[next_id_] = {client, client.n};
    return next_id_++;
  }

  void Step() {
    const bool runs = !h_.Schedule().empty();
    ASSERT_TRUE(runs || !h_.in_flight.empty());
    if (!runs || !lookahead_ || h_.in_flight.size() > 1) h_.Commit();
    ++num_steps_;
    num_tokens_ += h_.last_output.num_tokens;
    for (const SequenceEvent& event : h_.scheduler.TakeEvents()) {
      const RequestId id = event.key.request;
      if (event.kind == SequenceEvent::Kind::kToken) {
        first_token_.emplace(id, num_steps_);
        ++num_served_[clients_of_[id].first.flow.id];
      }
      if (event.kind == SequenceEvent::Kind::kStarted) {
        num_served_[clients_of_[id].first.flow.id] +=
            clients_of_[id].first.num_prompt_tokens - event.num_cached_tokens;
      }
      if (event.kind != SequenceEvent::Kind::kFinished) continue;
      const Client client = clients_of_[id].first;
      if (--clients_of_[id].second == 0 && client.num_at_once > 0) Send(client);
    }
  }
  void Steps(int64_t num) {
    for (int64_t i = 0; i < num; ++i) Step();
  }

  // Steps until `id` has a token; how many, and how many tokens they ran.
  std::pair<int64_t, int64_t> Await(RequestId id) {
    const int64_t steps_before = num_steps_;
    const int64_t tokens_before = num_tokens_;
    while (!HasToken(id) && num_steps_ < steps_before + 10'000) Step();
    return {num_steps_ - steps_before, num_tokens_ - tokens_before};
  }

  bool HasToken(RequestId id) const { return first_token_.contains(id); }

  // Prompt tokens of the requests that were begun, and generated tokens.
  int64_t num_served(uint64_t flow) { return num_served_[flow]; }
  int64_t num_preemptions() const { return h_.scheduler.stats().num_preemptions; }

 private:
  SchedulerHarness h_;
  const std::vector<Client> clients_;
  const bool lookahead_;
  RequestId next_id_ = 1;
  std::map<RequestId, std::pair<Client, int32_t>> clients_of_;  // and continuations left
  std::map<RequestId, int64_t> first_token_;                    // the step that brought it
  std::map<uint64_t, int64_t> num_served_;
  int64_t num_steps_ = 0;
  int64_t num_tokens_ = 0;
};

SchedulerConfig Config() {
  SchedulerConfig config;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 64;
  config.max_num_partial_prefills = 4;
  config.max_model_len = 512;
  return config;
}

// Each flow gets its share of all tokens, in every window of this many steps.
void ExpectShares(const std::vector<Client>& clients, int64_t window, int64_t slack) {
  Clients load(Config(), /*num_blocks=*/2'000, clients);
  int64_t sum_of_weights = 0;
  for (const Client& client : clients) sum_of_weights += client.flow.weight;
  load.Steps(window);
  for (int i = 0; i < 10; ++i) {
    std::vector<int64_t> before;
    for (const Client& client : clients) before.push_back(load.num_served(client.flow.id));
    load.Steps(window);
    std::vector<int64_t> served;
    int64_t all = 0;
    for (size_t c = 0; c < clients.size(); ++c) {
      served.push_back(load.num_served(clients[c].flow.id) - before[c]);
      all += served.back();
    }
    for (size_t c = 0; c < clients.size(); ++c) {
      EXPECT_NEAR(served[c], all * clients[c].flow.weight / sum_of_weights, slack)
          << "flow " << clients[c].flow.id << " in window " << i;
    }
  }
}

// A window's ends may cut a request of each flow.
TEST(FairnessQualityTest, PromptsShareByWeight) {
  ExpectShares({{{1, 1}, 300, 1, 8}, {{2, 2}, 100, 1, 8}, {{3, 5}, 200, 1, 8}}, /*window=*/200,
               /*slack=*/2 * 300);
}

TEST(FairnessQualityTest, ShortAndLongPromptsShareByWeight) {
  ExpectShares({{{1, 1}, 500, 1, 4}, {{2, 1}, 10, 1, 100}}, /*window=*/100, /*slack=*/2 * 500);
}

TEST(FairnessQualityTest, AnswersShareByWeight) {
  ExpectShares({{{1, 1}, 10, 100, 20}, {{2, 3}, 10, 20, 20}}, /*window=*/500, /*slack=*/4 * 110);
}

SchedulerConfig RealConfig() {
  SchedulerConfig config;
  config.max_num_seqs = 64;
  config.max_num_batched_tokens = 2048;
  return config;
}

// Eight clients with long prompts, four at once each, and one who asks for little now and then.
std::pair<int64_t, int64_t> WorstWaitOfAShortPrompt(bool own_flows) {
  std::vector<Client> clients;
  for (uint64_t c = 1; c <= 8; ++c) clients.push_back({{own_flows ? c : 0}, 3'500, 16, 4});
  Clients load(RealConfig(), /*num_blocks=*/64 * 1'024, clients);
  std::pair<int64_t, int64_t> worst;
  for (int i = 0; i < 20; ++i) {
    load.Steps(7);
    const RequestId id = load.Send({{own_flows ? 9u : 0}, 24, 4, /*num_at_once=*/0});
    worst = std::max(worst, load.Await(id));
  }
  return worst;
}

TEST(FairnessQualityTest, AShortPromptIsNotInTheQueueOfOthers) {
  const auto before = WorstWaitOfAShortPrompt(/*own_flows=*/false);
  const auto after = WorstWaitOfAShortPrompt(/*own_flows=*/true);
  std::printf(
      "24 tokens beside 8 clients with 3,500: in one flow %ld steps (%ld tokens) at worst until "
      "the "
      "first token, in flows of their own %ld (%ld)\n",
      before.first, before.second, after.first, after.second);
  EXPECT_EQ(after.first, 1);
  EXPECT_GT(before.first, after.first);  // or this would measure nothing
}

TEST(FairnessQualityTest, AManifoldAnswerDoesNotKeepOthersOut) {
  const Client many = {{1}, 100, 2'000, /*num_at_once=*/1, /*n=*/128};
  Clients load(RealConfig(), /*num_blocks=*/64 * 1'024, {many});
  load.Steps(100);
  const auto [num_steps, num_tokens] = load.Await(load.Send({{2}, 24, 4, /*num_at_once=*/0}));
  std::printf("24 tokens beside n = 128 with 2,000: %ld steps (%ld tokens)\n", num_steps,
              num_tokens);
  EXPECT_LE(num_steps, 2);
  EXPECT_EQ(load.num_preemptions(), 1);
}

// The most steps until somebody's first token: it is passed over, then blocks and a row come back
// with the steps in flight, and the prompt is run.
int64_t MostSteps(int64_t num_prompt_tokens, int64_t num_tokens_of_a_step) {
  return SchedulerConfig().max_num_passed + 4 + CeilDiv(num_prompt_tokens, num_tokens_of_a_step);
}

// Sends `client`'s requests one after the other, beside those of flow 1. Returns the steps that the
// slowest first token took.
int64_t WorstWait(Clients* load, const Client& client, int num_requests) {
  int64_t worst = 0;
  for (int i = 0; i < num_requests; ++i) {
    worst = std::max(worst, load->Await(load->Send(client)).first);
    load->Steps(client.num_answer_tokens);
  }
  return worst;
}

// Long prompts cost many tokens, which requests that mostly generate hardly ever had. These hold
// all rows, and that is no reason to keep others waiting.
TEST(FairnessQualityTest, RowsMakeWayForWhoHadMoreTokens) {
  Clients load(RealConfig(), /*num_blocks=*/64 * 1'024, {{{1}, 100, 2'000, 6, /*n=*/128}});
  load.Steps(50);
  const int64_t worst = WorstWait(&load, {{2}, 3'500, 4, /*num_at_once=*/0}, 8);
  std::printf("3,500 tokens beside six of n = 128: %ld steps at worst\n", worst);
  EXPECT_LE(worst, MostSteps(3'500, 2'048 - 64));
}

// Sequences end in every step, so blocks are always on their way back; they never are enough.
TEST(FairnessQualityTest, BlocksMakeWayForALongPrompt) {
  Clients load(Config(), /*num_blocks=*/8 * 16, {{{1}, 40, 20, 32}}, /*lookahead=*/true);
  load.Steps(50);
  const int64_t worst = WorstWait(&load, {{2}, 200, 4, /*num_at_once=*/0}, 8);
  std::printf("200 tokens beside many short ones: %ld steps at worst\n", worst);
  EXPECT_LE(worst, MostSteps(200, 64 / 4));
}

// The other has few rows and most blocks: a claim stays until there is room.
TEST(FairnessQualityTest, AClaimIsNotForgottenWhileBlocksAreMissing) {
  Clients load(Config(), /*num_blocks=*/8 * 32, {{{1}, 100, 400, 16}}, /*lookahead=*/true);
  load.Steps(50);
  const int64_t worst = WorstWait(&load, {{2}, 500, 4, /*num_at_once=*/0}, 8);
  std::printf("500 tokens beside few long ones: %ld steps at worst\n", worst);
  EXPECT_LE(worst, MostSteps(500, 64 / 4));
}

// A request that was let in by its claim has a token before those that grow take its blocks again.
TEST(FairnessQualityTest, WhatAClaimGaveIsNotTakenBack) {
  Clients load(Config(), /*num_blocks=*/8 * 60, {{{1}, 20, 400, 32}}, /*lookahead=*/true);
  load.Steps(50);
  const int64_t worst = WorstWait(&load, {{2}, 300, 2, /*num_at_once=*/0}, 8);
  std::printf("300 tokens beside those who fill the cache: %ld steps at worst\n", worst);
  EXPECT_LE(worst, MostSteps(300, 64 / 4));
}

TEST(FairnessQualityTest, WhatAClaimGaveIsNotTakenBackByWhoGenerates) {
  Clients load(Config(), /*num_blocks=*/8 * 32, {{{1}, 20, 100, 16}});
  load.Steps(50);
  const int64_t worst = WorstWait(&load, {{2}, 500, 4, /*num_at_once=*/0}, 6);
  std::printf("500 tokens beside those who grow: %ld steps at worst\n", worst);
  EXPECT_LE(worst, MostSteps(500, 64 / 2));
}

// Two flows that want all rows: once each has its half, nobody is pushed out any more.
TEST(FairnessQualityTest, FlowsDoNotPushEachOtherOutInTurn) {
  Clients load(Config(), /*num_blocks=*/2'000, {{{1}, 20, 400, 8}});
  load.Steps(50);
  for (int i = 0; i < 8; ++i) load.Send({{2}, 20, 400, /*num_at_once=*/0});
  load.Steps(300);
  EXPECT_EQ(load.num_preemptions(), 4);
}

// In each step somebody comes with as much as a step holds, which would be done before the long
// prompt; that gets on all the same.
TEST(FairnessQualityTest, NewcomersDoNotKeepALongPromptWaiting) {
  Clients load(Config(), /*num_blocks=*/2'000, {});
  const RequestId id = load.Send({{1}, 500, 1, /*num_at_once=*/0});
  uint64_t flow = 2;
  int64_t num_steps = 0;
  for (; !load.HasToken(id) && num_steps < 200; ++num_steps) {
    load.Send({{flow++}, Config().max_num_batched_tokens, 1, /*num_at_once=*/0});
    load.Step();
  }
  std::printf("500 tokens with newcomers at its side: %ld steps of 64\n", num_steps);
  EXPECT_LE(num_steps, 2 * 500 / (Config().max_num_batched_tokens / 4));
}

}  // namespace
}  // namespace quire::sim
