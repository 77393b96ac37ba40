// Requests with constraints in a whole engine: their masks limit their own tokens and nobody
// else's, with and without lookahead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <limits>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/faulty_backend.h"
#include "tests/scheduler/fake_constraint.h"

namespace quire {
namespace {

using testing::Answer;
using ::testing::Each;
using testing::Generate;
using testing::GreedyRequest;
using testing::RandomPrompt;
using testing::ReadAll;
using testing::Waiter;
using Tokens = FakeConstraints::Tokens;

constexpr TokenId kVocabSize = 64;

// One to six tokens that depend on every token before: a mask of another state is found out.
Tokens RandomSet(uint32_t seed, size_t index, const Tokens& accepted) {
  std::vector<uint32_t> past = {seed, static_cast<uint32_t>(index)};
  past.insert(past.end(), accepted.begin(), accepted.end());
  std::seed_seq sequence(past.begin(), past.end());
  std::mt19937 random(sequence);
  Tokens tokens(1 + random() % 6);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % kVocabSize);
  return tokens;
}

// .. and nothing after `length` tokens.
std::shared_ptr<FakeConstraints> RandomSets(uint32_t seed, size_t length) {
  return std::make_shared<FakeConstraints>([=](size_t index, const Tokens& accepted) {
    return accepted.size() < length ? RandomSet(seed, index, accepted) : Tokens{};
  });
}

void ExpectWithinSets(const Answer& answer, uint32_t seed, size_t index) {
  Tokens past;
  for (const TokenId token : answer.tokens) {
    ASSERT_THAT(RandomSet(seed, index, past), ::testing::Contains(token)) << past.size();
    past.push_back(token);
  }
}

Request Constrained(Request request, std::shared_ptr<const TokenConstraintSource> constraint,
                    float temperature = 0) {
  request.constraint = std::move(constraint);
  request.sampling.temperature = temperature;
  return request;
}

class EngineConstraintTest : public EngineTest {
 protected:
  // All at once; the answers of each, by continuation.
  static std::vector<std::vector<Answer>> RunTogether(Engine& engine,
                                                      const std::vector<Request>& requests) {
    static Waiter waiter;  // outlives every engine
    std::vector<std::shared_ptr<OutputStream>> streams;
    for (const Request& request : requests) streams.push_back(*engine.Submit(request, &waiter));
    std::vector<std::vector<Answer>> answers;
    for (auto& stream : streams) answers.push_back(ReadAll(*stream, waiter));
    return answers;
  }
  std::vector<Answer> Continuations(Engine& engine, const Request& request) {
    return RunTogether(engine, {request}).at(0);
  }

  EngineConfig Config(bool async) const {
    EngineConfig config = EngineTest::Config();
    config.async_scheduling = async;
    return config;
  }
};

INSTANTIATE_TEST_SUITE_P(Steps, EngineConstraintTest, ::testing::ValuesIn(EngineTargets()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EngineConstraintTest, OneTokenPerPositionIsTheAnswer) {
  for (const bool async : {false, true}) {
    auto engine = Open(Config(async));
    for (const float temperature : {0.0f, 2.0f}) {
      const Tokens script = RandomPrompt(40, 3);
      const auto constraint = FakeConstraints::Script(script);
      const Answer answer = Generate(
          *engine, Constrained(GreedyRequest(RandomPrompt(20, 1), 100), constraint, temperature));
      EXPECT_EQ(answer.tokens, script);
      EXPECT_EQ(answer.reason, FinishReason::kStop);
      EXPECT_EQ(answer.matched_token, -1);
      EXPECT_TRUE(answer.status.ok());
      EXPECT_EQ(constraint->accepted(0), script);
    }
  }
}

// Chunks, preemptions, prefix hits, lookahead and the other rows of the batch leave an answer as
// it is, constrained or not.
TEST_P(EngineConstraintTest, NeitherTheBatchNorLookaheadChangesAnAnswer) {
  constexpr uint32_t kNumRequests = 24;
  const float temperature = is_cpu() ? 2 : 0;  // a GPU's rounding may decide a draw
  const auto make_requests = [&] {
    std::vector<Request> requests;
    for (uint32_t i = 0; i < kNumRequests; ++i) {
      std::vector<TokenId> prompt = RandomPrompt(i % 3 == 0 ? 64 : 0, 7);
      const std::vector<TokenId> own = RandomPrompt(5 + 13 * i, 100 + i);
      prompt.insert(prompt.end(), own.begin(), own.end());
      Request request = GreedyRequest(prompt, 20 + 2 * i);
      request.sampling.temperature = temperature;
      request.sampling.seed = i;
      request.sampling.logprobs = i % 4 == 0 ? 2 : -1;
      request.sampling.prompt_logprobs = i % 5 == 1 ? 1 : -1;
      request.sampling.n = i % 6 == 1 ? 3 : 1;
      if (i % 7 == 2) request.sampling.frequency_penalty = 0.7f;
      if (i % 2 == 0 || i % 6 == 1) request.constraint = RandomSets(i, 18 + 2 * i);
      requests.push_back(std::move(request));
    }
    return requests;
  };
  std::vector<std::vector<Answer>> alone;
  {
    EngineConfig config = Config(/*async=*/false);
    config.enable_prefix_caching = false;
    config.max_num_batched_tokens = 512;
    auto engine = Open(config);
    for (const Request& request : make_requests()) {
      alone.push_back(Continuations(*engine, request));
      if (request.constraint == nullptr) continue;
      for (size_t index = 0; index < alone.back().size(); ++index) {
        ExpectWithinSets(alone.back()[index], static_cast<uint32_t>(request.sampling.seed), index);
      }
    }
  }
  int64_t num_preemptions = 0;
  for (const bool async : {false, true}) {
    for (const int64_t budget : {16, 128}) {
      EngineConfig config = Config(async);
      config.max_num_batched_tokens = budget;
      config.kv_cache_memory_bytes = int64_t{30} * 8192;  // 30 blocks: forces preemptions
      auto engine = Open(config);
      const std::vector<std::vector<Answer>> together = RunTogether(*engine, make_requests());
      for (uint32_t i = 0; i < kNumRequests; ++i) {
        ASSERT_EQ(together[i].size(), alone[i].size());
        for (size_t index = 0; index < together[i].size(); ++index) {
          SCOPED_TRACE(::testing::Message() << "request " << i << " async " << async);
          ExpectSame(together[i][index], alone[i][index]);
          EXPECT_EQ(together[i][index].reason, alone[i][index].reason);
          EXPECT_EQ(together[i][index].prompt_logprobs.size(),
                    alone[i][index].prompt_logprobs.size());
        }
      }
      const EngineStatus status = IdleStatus(*engine);
      num_preemptions += status.scheduler.num_preemptions;
      EXPECT_EQ(status.scheduler.blocks.num_held, 0);
    }
  }
  EXPECT_GT(num_preemptions, 0);
}

// A step has 16 rows here, whatever the number of threads that fill masks.
TEST_P(EngineConstraintTest, ManyRowsOfAStepStayWithinTheirSets) {
  auto engine = Open(Config(/*async=*/true));
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 20; ++i) {
    requests.push_back(
        Constrained(GreedyRequest(RandomPrompt(10 + i, i), 100), RandomSets(i, 60), 2.0f));
    requests.back().sampling.seed = i;
    requests.back().sampling.n = i % 4 == 0 ? 4 : 1;
  }
  const std::vector<std::vector<Answer>> answers = RunTogether(*engine, requests);
  for (uint32_t i = 0; i < requests.size(); ++i) {
    for (size_t index = 0; index < answers[i].size(); ++index) {
      EXPECT_EQ(answers[i][index].tokens.size(), 60u);
      EXPECT_EQ(answers[i][index].reason, FinishReason::kStop);
      ExpectWithinSets(answers[i][index], i, index);
      const auto& source = static_cast<const FakeConstraints&>(*requests[i].constraint);
      EXPECT_EQ(source.accepted(index), answers[i][index].tokens);
    }
  }
  IdleStatus(*engine);
  for (const Request& request : requests) {
    EXPECT_EQ(static_cast<const FakeConstraints&>(*request.constraint).num_alive(), 0u);
  }
}

// Sequences of three prefixes and of none, in turn: attention reorders them.
TEST_P(EngineConstraintTest, MasksStayWithTheirRowsWhereStepsShareAPrefix) {
  for (const bool async : {false, true}) {
    EngineConfig config = Config(async);
    config.min_prefix_tokens = 1;
    auto engine = Open(config);
    std::vector<Request> requests;
    for (uint32_t i = 0; i < 16; ++i) {
      std::vector<TokenId> prompt = RandomPrompt(128, i % 4 == 3 ? 100 + i : i % 4);
      if (i < 3) Generate(*engine, GreedyRequest(prompt, 1));  // computes the prefix
      const std::vector<TokenId> own = RandomPrompt(3 + i, 200 + i);
      prompt.insert(prompt.end(), own.begin(), own.end());
      requests.push_back(GreedyRequest(prompt, 30));
      if (i % 5 != 4) requests.back().constraint = FakeConstraints::Script(RandomPrompt(30, i));
    }
    const std::vector<std::vector<Answer>> answers = RunTogether(*engine, requests);
    for (uint32_t i = 0; i < 16; ++i) {
      if (requests[i].constraint != nullptr) {
        EXPECT_EQ(answers[i][0].tokens, RandomPrompt(30, i)) << "request " << i;
      } else {
        EXPECT_EQ(answers[i][0].tokens, Generate(*engine, requests[i]).tokens) << "request " << i;
      }
      if (i % 4 != 3) {
        EXPECT_GE(answers[i][0].cached_tokens, 128);
      }
    }
  }
}

TEST_P(EngineConstraintTest, ContinuationsHaveStatesOfTheirOwn) {
  for (const bool async : {false, true}) {
    auto engine = Open(Config(async));
    const auto constraint = std::make_shared<FakeConstraints>([](size_t index, const Tokens& past) {
      const Tokens script = RandomPrompt(5 + 7 * index, 50 + index);
      return past.size() < script.size() ? Tokens{script[past.size()]} : Tokens{};
    });
    Request request = Constrained(GreedyRequest(RandomPrompt(40, 6), 100), constraint);
    request.sampling.n = 4;
    const std::vector<Answer> answers = Continuations(*engine, request);
    for (size_t index = 0; index < 4; ++index) {
      EXPECT_EQ(answers[index].tokens, RandomPrompt(5 + 7 * index, 50 + index));
    }
    EXPECT_EQ(answers[1].cached_tokens, 32);
  }
}

// As the same tokens have in a prompt: whatever the mask takes away still counts.
TEST_P(EngineConstraintTest, LogprobsAreThoseOfTheModel) {
  auto engine = Open(Config(/*async=*/true));
  const std::vector<TokenId> prompt = RandomPrompt(20, 1);
  const Tokens script = RandomPrompt(25, 2);
  Request request = Constrained(GreedyRequest(prompt, 100), FakeConstraints::Script(script));
  request.sampling.logprobs = 3;
  request.sampling.prompt_logprobs = 3;
  const Answer answer = Generate(*engine, request);
  EXPECT_EQ(answer.tokens, script);

  Request scored = GreedyRequest(prompt, 1);
  scored.prompt.insert(scored.prompt.end(), script.begin(), script.end());
  scored.sampling.prompt_logprobs = 3;
  const Answer expected = Generate(*engine, scored);
  std::vector<TokenLogprobs> all;
  for (const auto& [token, logprobs] : answer.prompt_logprobs) all.push_back(logprobs);
  EXPECT_EQ(all.size(), prompt.size() - 1);
  for (const TokenLogprobs& logprobs : answer.logprobs) all.push_back(logprobs);
  ASSERT_EQ(all.size(), expected.prompt_logprobs.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const TokenLogprobs& other = expected.prompt_logprobs[i].second;
    EXPECT_NEAR(all[i].logprob, other.logprob, 1e-3);
    EXPECT_EQ(all[i].rank, other.rank);
    ASSERT_EQ(all[i].top.size(), 3u);
    EXPECT_EQ(all[i].top[0].first, other.top[0].first);
    EXPECT_NEAR(all[i].top[0].second, other.top[0].second, 1e-3);
  }
}

TEST_P(EngineConstraintTest, StopTokensAndMinTokensActWithinTheMask) {
  auto engine = Open(Config(/*async=*/true));
  Request request =
      Constrained(GreedyRequest(RandomPrompt(12, 4), 100), FakeConstraints::AnyOf({5, 9}), 2.0f);
  request.sampling.seed = 11;
  request.stop.stop_token_ids = {5};
  request.stop.min_tokens = 12;
  const Answer answer = Generate(*engine, request);
  EXPECT_EQ(answer.reason, FinishReason::kStop);
  EXPECT_EQ(answer.matched_token, 5);
  ASSERT_GT(answer.tokens.size(), 12u);
  EXPECT_THAT(Tokens(answer.tokens.begin(), answer.tokens.end() - 1), Each(9));
  EXPECT_EQ(answer.tokens.back(), 5);
  // If only a banned token may come, it comes, and ends nothing too early.
  request.constraint = FakeConstraints::AnyOf({5});
  const Answer forced = Generate(*engine, request);
  EXPECT_EQ(forced.tokens, Tokens(13, 5));
  EXPECT_EQ(forced.matched_token, 5);
}

TEST_P(EngineConstraintTest, PenaltiesAndBiasActWithinTheMask) {
  auto engine = Open(Config(/*async=*/true));
  const Tokens some = {3, 8, 21, 40, 62};
  Request request =
      Constrained(GreedyRequest(RandomPrompt(12, 8), 5), FakeConstraints::AnyOf(some));
  request.sampling.presence_penalty = 100.0f;  // no token twice among those generated
  EXPECT_THAT(Generate(*engine, request).tokens, ::testing::UnorderedElementsAreArray(some));
  Request banned = Constrained(GreedyRequest(request.prompt, 20), FakeConstraints::AnyOf(some));
  for (const TokenId token : {3, 8, 40, 62}) {
    banned.sampling.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
  EXPECT_EQ(Generate(*engine, banned).tokens, Tokens(20, 21));
}

// Replays count the forward passes that are on their way; that of step d leads to token d.
TEST_P(EngineConstraintTest, MasksAreMadeWhileTheForwardPassIsOnItsWay) {
  if (!is_cpu() || !GetParam().replays) return;  // only these are counted
  constexpr int kNumTokens = 20;
  for (const bool async : {false, true}) {
    auto engine = Open(Config(async));
    std::vector<int> at_fill, at_accept;
    const auto constraint = FakeConstraints::Script(RandomPrompt(kNumTokens, 3));
    const int before = counts_->num_replays;
    constraint->BeforeFill([&] { at_fill.push_back(counts_->num_replays - before); });
    constraint->BeforeAccept([&] { at_accept.push_back(counts_->num_replays - before); });
    Generate(*engine, Constrained(GreedyRequest(RandomPrompt(20, 1), 100), constraint));
    IdleStatus(*engine);
    ASSERT_EQ(at_accept.size(), size_t{kNumTokens});
    for (int d = 0; d < kNumTokens; ++d) {
      EXPECT_EQ(at_fill[d], d) << "async " << async;
      EXPECT_EQ(at_accept[d], async ? d + 1 : d) << "async " << async;
    }
  }
}

TEST_P(EngineConstraintTest, ASlowMaskDelaysAndChangesNothing) {
  auto engine = Open(Config(/*async=*/true));
  const Request plain = GreedyRequest(RandomPrompt(30, 10), 20);
  const std::vector<TokenId> expected = Generate(*engine, plain).tokens;
  const auto slow = FakeConstraints::Script(RandomPrompt(20, 3));
  slow->BeforeFill([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  Request request = Constrained(GreedyRequest(RandomPrompt(20, 1), 100), slow);
  const std::vector<std::vector<Answer>> answers = RunTogether(*engine, {plain, request, plain});
  EXPECT_EQ(answers[0][0].tokens, expected);
  EXPECT_EQ(answers[1][0].tokens, RandomPrompt(20, 3));
  EXPECT_EQ(answers[2][0].tokens, expected);
}

TEST_P(EngineConstraintTest, CancelWhileAMaskIsMade) {
  static Waiter waiter;
  for (const bool async : {false, true}) {
    for (const int num_masks : {0, 1, 6}) {  // made before
      auto engine = Open(Config(async));
      const Request plain = GreedyRequest(RandomPrompt(30, 10), 40);
      const std::vector<TokenId> expected = Generate(*engine, plain).tokens;
      const auto constraint = FakeConstraints::AnyOf({1, 2, 3});
      std::promise<void> is_filling, is_cancelled;
      int num_left = num_masks;
      constraint->BeforeFill([&] {
        if (num_left-- != 0) return;
        is_filling.set_value();
        is_cancelled.get_future().wait();
      });
      auto other = *engine->Submit(plain, &waiter);
      auto doomed = *engine->Submit(
          Constrained(GreedyRequest(RandomPrompt(20, 1), 400), constraint, 1.0f), &waiter);
      is_filling.get_future().wait();
      engine->Cancel(doomed->request_id());
      is_cancelled.set_value();
      const Answer cut = ReadAll(*doomed, waiter).at(0);
      EXPECT_EQ(cut.reason, FinishReason::kAbort);
      EXPECT_LE(cut.tokens.size(), static_cast<size_t>(num_masks) + 1);
      EXPECT_EQ(ReadAll(*other, waiter).at(0).tokens, expected);
      EXPECT_EQ(IdleStatus(*engine).scheduler.blocks.num_held, 0);
      EXPECT_EQ(constraint->num_alive(), 0u);
    }
  }
}

TEST_P(EngineConstraintTest, ASlowReaderPausesAConstrainedSequence) {
  static Waiter slow_waiter;
  auto engine = Open(Config(/*async=*/true));
  const Tokens script = RandomPrompt(450, 5);
  auto slow = *engine->Submit(
      Constrained(GreedyRequest(RandomPrompt(10, 11), 480), FakeConstraints::Script(script)),
      &slow_waiter);
  for (uint32_t i = 0; i < 4; ++i) {
    const Request request =
        Constrained(GreedyRequest(RandomPrompt(10, 20 + i), 200), RandomSets(i, 100), 2.0f);
    EXPECT_EQ(Generate(*engine, request).tokens.size(), 100u);
  }
  while (engine->status().scheduler.num_paused == 0) std::this_thread::yield();
  const Answer answer = ReadAll(*slow, slow_waiter).at(0);
  EXPECT_EQ(answer.tokens, script);
  EXPECT_EQ(answer.reason, FinishReason::kStop);
}

// Whatever its status is: only logits that are no numbers count as such.
TEST_P(EngineConstraintTest, ATokenThatIsNotAcceptedEndsTheWholeRequest) {
  for (const bool async : {false, true}) {
    auto engine = Open(Config(async));
    const Request plain = GreedyRequest(RandomPrompt(30, 10), 40);
    const std::vector<TokenId> expected = Generate(*engine, plain).tokens;
    for (const auto& error : {absl::ResourceExhaustedError("the grammar has grown too large"),
                              absl::InternalError("the grammar is lost")}) {
      const auto constraint = RandomSets(1, 1000);
      constraint->FailAt(1, 5, error);
      Request request = Constrained(GreedyRequest(RandomPrompt(40, 6), 400), constraint, 2.0f);
      request.sampling.n = 3;
      const std::vector<std::vector<Answer>> answers =
          RunTogether(*engine, {plain, request, plain});
      EXPECT_EQ(answers[0][0].tokens, expected);
      EXPECT_EQ(answers[2][0].tokens, expected);
      for (const Answer& answer : answers[1]) {
        EXPECT_EQ(answer.reason, FinishReason::kError);
        EXPECT_EQ(answer.status, error);
        EXPECT_LT(answer.tokens.size(), 50u);
      }
      EXPECT_EQ(answers[1][1].tokens.size(), 5u);
      EXPECT_EQ(IdleStatus(*engine).scheduler.blocks.num_held, 0);
      EXPECT_EQ(constraint->num_alive(), 0u);
    }
    EXPECT_EQ(engine->metrics().broken_logits.value(), 0u);
    EXPECT_EQ(engine->metrics().finished[static_cast<size_t>(FinishReason::kError)].value(), 6u);
  }
}

// Continuations that have ended before the error keep their answers.
TEST_P(EngineConstraintTest, AnErrorLeavesWhatHasEnded) {
  auto engine = Open(Config(/*async=*/true));
  const auto constraint = std::make_shared<FakeConstraints>([](size_t index, const Tokens& past) {
    return past.size() < (index == 0 ? 3 : 100) ? Tokens{7} : Tokens{};
  });
  constraint->FailAt(1, 20, absl::InternalError("lost"));
  Request request = Constrained(GreedyRequest(RandomPrompt(40, 6), 400), constraint);
  request.sampling.n = 2;
  const std::vector<Answer> answers = Continuations(*engine, request);
  EXPECT_EQ(answers[0].reason, FinishReason::kStop);
  EXPECT_EQ(answers[0].tokens, Tokens(3, 7));
  EXPECT_TRUE(answers[0].status.ok());
  EXPECT_EQ(answers[1].tokens, Tokens(20, 7));
  EXPECT_EQ(answers[1].status, absl::InternalError("lost"));
}

// The device fails also in the wait of a step that has been submitted up to its logits.
TEST(EngineConstraintFaultTest, ADeviceErrorEndsConstrainedStreams) {
  for (const bool async : {false, true}) {
    for (const int steps_before : {0, 1, 2, 17}) {
      EngineConfig config = testing::TinyConfig(testing::MakeTinyModelFolder());
      config.async_scheduling = async;
      const auto plan = std::make_shared<testing::FaultPlan>();
      Waiter waiter;
      auto engine = *Engine::Open(config, std::make_unique<testing::FaultyBackend>(plan));
      engine->SetFailureCallback([](const absl::Status&) {});
      plan->waits_until_failure = steps_before;
      std::vector<std::shared_ptr<OutputStream>> streams;
      for (uint32_t i = 0; i < 20; ++i) {
        auto stream = engine->Submit(
            Constrained(GreedyRequest(RandomPrompt(30, i), 400), RandomSets(i, 1000)), &waiter);
        if (stream.ok()) streams.push_back(*stream);
      }
      ASSERT_FALSE(streams.empty());
      for (auto& stream : streams) {
        const Answer answer = ReadAll(*stream, waiter).at(0);
        EXPECT_EQ(answer.reason, FinishReason::kError);
        EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable);
      }
      EXPECT_TRUE(engine->WaitUntilIdle(absl::Now() + absl::Seconds(10)));
    }
  }
}

TEST(EngineConstraintFaultTest, BrokenLogitsAreNoTokens) {
  const auto plan = std::make_shared<testing::FaultPlan>();
  auto engine = *Engine::Open(testing::TinyConfig(testing::MakeTinyModelFolder()),
                              std::make_unique<testing::FaultyBackend>(plan));
  const auto constraint = FakeConstraints::Script(RandomPrompt(30, 3));
  Request request = Constrained(GreedyRequest(RandomPrompt(30, 1), 40), constraint);
  request.sampling.seed = 77;
  plan->broken_position = 7;
  plan->broken_seed = 77;
  const Answer answer = Generate(*engine, request);
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(answer.tokens.size(), 7u);
  EXPECT_EQ(constraint->accepted(0), answer.tokens);
  EXPECT_EQ(engine->metrics().broken_logits.value(), 1u);
}

}  // namespace
}  // namespace quire
