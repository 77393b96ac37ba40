#include "engine/engine.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/engine/engine_fixture.h"

namespace quire {
namespace {

using testing::Answer;
using testing::Generate;
using testing::GreedyRequest;
using testing::RandomPrompt;
using testing::ReadAll;
using testing::Waiter;

INSTANTIATE_TEST_SUITE_P(Steps, EngineTest, ::testing::ValuesIn(EngineTargets()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EngineTest, GreedyAnswersHaveTheAskedLengthAndRepeat) {
  auto engine = Open(Config());
  const int num_replays_of_start = counts_->num_replays;
  const Request request = GreedyRequest(RandomPrompt(20, 1), 24);
  const Answer first = Generate(*engine, request);
  EXPECT_EQ(first.tokens.size(), 24u);
  EXPECT_EQ(first.reason, FinishReason::kLength);
  EXPECT_EQ(Generate(*engine, request).tokens, first.tokens);
  if (is_cpu()) {
    EXPECT_EQ(counts_->num_replays - num_replays_of_start, GetParam().replays ? 2 * 23 : 0);
  }
  // Not a constant function: another prompt gives another answer.
  EXPECT_NE(Generate(*engine, GreedyRequest(RandomPrompt(20, 2), 24)).tokens, first.tokens);
}

TEST_P(EngineTest, BatchChunkingLookaheadAndCacheChangeNothing) {
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 24; ++i) {
    // Every third prompt shares 64 tokens with its like; lengths up to several chunks.
    std::vector<TokenId> prompt = RandomPrompt(i % 3 == 0 ? 64 : 0, 7);
    const std::vector<TokenId> own = RandomPrompt(5 + 13 * i, 100 + i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    requests.push_back(GreedyRequest(prompt, 10 + i));
    requests.back().sampling.logprobs = 2;
  }
  std::vector<Answer> alone;
  {
    EngineConfig config = Config();
    config.enable_prefix_caching = false;
    config.async_scheduling = false;
    config.max_num_batched_tokens = 512;
    auto engine = Open(config);
    for (const Request& request : requests) alone.push_back(Generate(*engine, request));
  }
  for (const bool async : {false, true}) {
    for (const int64_t budget : {16, 128}) {
      EngineConfig config = Config();
      config.async_scheduling = async;
      config.max_num_batched_tokens = budget;
      config.kv_cache_memory_bytes = int64_t{40} * 8192;  // 40 blocks: forces preemptions
      Waiter waiter;
      auto engine = Open(config);
      std::vector<std::shared_ptr<OutputStream>> streams;
      streams.reserve(requests.size());
      for (const Request& request : requests) streams.push_back(*engine->Submit(request, &waiter));
      for (size_t i = 0; i < requests.size(); ++i) {
        const Answer answer = ReadAll(*streams[i], waiter).at(0);
        SCOPED_TRACE(::testing::Message() << "request " << i << " async " << async);
        ExpectSame(answer, alone[i]);
      }
      const EngineStatus status = IdleStatus(*engine);
      EXPECT_GT(status.scheduler.num_preemptions, 0);
      EXPECT_EQ(status.scheduler.blocks.num_held, 0);
      EXPECT_EQ(status.scheduler.num_running, 0);
    }
  }
}

TEST_P(EngineTest, SharedPromptIsFoundInThePrefixCache) {
  auto engine = Open(Config());
  const Request request = GreedyRequest(RandomPrompt(100, 3), 4);
  const Answer first = Generate(*engine, request);
  const Answer second = Generate(*engine, request);
  EXPECT_EQ(first.cached_tokens, 0);
  EXPECT_EQ(second.cached_tokens, 96);  // whole blocks of 16, less than the prompt
  EXPECT_EQ(second.tokens, first.tokens);
  Request salted = request;
  salted.cache_salt = "another tenant";
  EXPECT_EQ(Generate(*engine, salted).cached_tokens, 0);
  EXPECT_GT(engine->FlushPrefixCache(), 0);
  EXPECT_EQ(Generate(*engine, request).cached_tokens, 0);
}

TEST_P(EngineTest, StopTokensEndAndMinTokensHoldThemBack) {
  auto engine = Open(Config());
  Request request = GreedyRequest(RandomPrompt(12, 4), 40);
  const Answer free = Generate(*engine, request);
  const TokenId stop = free.tokens[3];
  request.stop.stop_token_ids = {stop};
  const Answer stopped = Generate(*engine, request);
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.matched_token, stop);
  EXPECT_LE(stopped.tokens.size(), 4u);
  EXPECT_EQ(stopped.tokens.back(), stop);
  request.stop.min_tokens = 20;
  const Answer held = Generate(*engine, request);
  for (size_t i = 0; i < 20; ++i) EXPECT_NE(held.tokens[i], stop);
  EXPECT_GE(held.tokens.size(), 20u);
}

TEST_P(EngineTest, PromptLogprobsCoverEveryTokenButTheFirst) {
  EngineConfig config = Config();
  config.max_num_batched_tokens = 16;  // several chunks
  auto engine = Open(config);
  Request request = GreedyRequest(RandomPrompt(50, 5), 2);
  Generate(*engine, request);  // its prompt is cached now; scoring must not skip it
  request.sampling.prompt_logprobs = 3;
  const Answer answer = Generate(*engine, request);
  ASSERT_EQ(answer.prompt_logprobs.size(), 49u);
  for (size_t i = 0; i < answer.prompt_logprobs.size(); ++i) {
    const auto& [token, logprobs] = answer.prompt_logprobs[i];
    EXPECT_EQ(token, request.prompt[i + 1]);
    EXPECT_LT(logprobs.logprob, 0);
    ASSERT_EQ(logprobs.top.size(), 3u);
    EXPECT_GE(logprobs.top[0].second, logprobs.top[1].second);
    EXPECT_EQ(logprobs.rank == 1, logprobs.top[0].first == token);
  }
}

TEST_P(EngineTest, ContinuationsDifferAndRepeatWithTheirSeed) {
  Waiter waiter;
  auto engine = Open(Config());
  Request request = GreedyRequest(RandomPrompt(40, 6), 12);
  request.sampling.temperature = 1.0f;
  request.sampling.seed = 1234;
  request.sampling.n = 4;
  auto run = [&] {
    auto stream = engine->Submit(request, &waiter);
    return ReadAll(**stream, waiter);
  };
  const std::vector<Answer> first = run();
  const std::vector<Answer> second = run();
  std::set<std::vector<TokenId>> distinct;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(first[i].tokens, second[i].tokens);
    distinct.insert(first[i].tokens);
  }
  EXPECT_EQ(distinct.size(), 4u);
  EXPECT_EQ(first[1].cached_tokens, 32);  // shares the first continuation's prompt blocks
  // Continuation 0 is what the request gives with n = 1.
  request.sampling.n = 1;
  EXPECT_EQ(run().at(0).tokens, first[0].tokens);
}

TEST_P(EngineTest, PenaltiesAndBiasAct) {
  auto engine = Open(Config());
  Request request = GreedyRequest(RandomPrompt(12, 8), 30);
  const Answer plain = Generate(*engine, request);
  request.sampling.presence_penalty = 100.0f;  // no token twice among those generated
  const Answer distinct = Generate(*engine, request);
  EXPECT_EQ(std::set<TokenId>(distinct.tokens.begin(), distinct.tokens.end()).size(),
            distinct.tokens.size());
  EXPECT_NE(distinct.tokens, plain.tokens);
  Request banned = GreedyRequest(request.prompt, 30);
  banned.sampling.logit_bias = {{plain.tokens[0], -std::numeric_limits<float>::infinity()}};
  const Answer without = Generate(*engine, banned);
  for (const TokenId token : without.tokens) EXPECT_NE(token, plain.tokens[0]);
}

TEST_P(EngineTest, CancelFreesBlocksAndOthersGoOn) {
  Waiter waiter;
  auto engine = Open(Config());
  const Request long_request = GreedyRequest(RandomPrompt(100, 9), 400);
  const Request short_request = GreedyRequest(RandomPrompt(30, 10), 20);
  const Answer expected = Generate(*engine, short_request);
  auto doomed = *engine->Submit(long_request, &waiter);
  auto other = *engine->Submit(short_request, &waiter);
  SequenceEvent event;
  while (!doomed->Read(&event)) waiter.Wait();  // it has started
  engine->Cancel(doomed->request_id());
  const Answer cut = ReadAll(*doomed, waiter).at(0);
  EXPECT_EQ(cut.reason, FinishReason::kAbort);
  EXPECT_LT(cut.tokens.size(), 400u);
  EXPECT_EQ(ReadAll(*other, waiter).at(0).tokens, expected.tokens);
  EXPECT_EQ(IdleStatus(*engine).scheduler.blocks.num_held, 0);
}

TEST_P(EngineTest, ASlowReaderPausesItsSequenceAlone) {
  Waiter slow_waiter, waiter;
  auto engine = Open(Config());
  const Request request = GreedyRequest(RandomPrompt(10, 11), 450);
  const std::vector<TokenId> expected = Generate(*engine, request).tokens;
  auto slow = *engine->Submit(request, &slow_waiter);
  // Nobody reads `slow`: its ring fills, it pauses; others are served meanwhile.
  for (uint32_t i = 0; i < 8; ++i) {
    auto other = *engine->Submit(GreedyRequest(RandomPrompt(10, 20 + i), 100), &waiter);
    EXPECT_EQ(ReadAll(*other, waiter).at(0).tokens.size(), 100u);
  }
  while (engine->status().scheduler.num_paused == 0) std::this_thread::yield();
  EXPECT_FALSE(engine->WaitUntilIdle(absl::Now() + absl::Milliseconds(50)));
  EXPECT_EQ(ReadAll(*slow, slow_waiter).at(0).tokens, expected);
}

TEST_P(EngineTest, DrainFinishesWhatWasAccepted) {
  Waiter waiter;
  auto engine = Open(Config());
  auto stream = *engine->Submit(GreedyRequest(RandomPrompt(20, 1), 200), &waiter);
  EXPECT_TRUE(engine->CheckRoom({}).ok());
  engine->StopAdmitting();
  EXPECT_EQ(engine->Submit(GreedyRequest({1}, 1), &waiter).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine->CheckRoom({}).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(engine->WaitUntilIdle(absl::Now() + absl::Seconds(20)));
  EXPECT_EQ(ReadAll(*stream, waiter).at(0).tokens.size(), 200u);
}

TEST_P(EngineTest, DestructionEndsOpenStreamsRetryably) {
  Waiter waiter;
  auto engine = Open(Config());
  auto stream = *engine->Submit(GreedyRequest(RandomPrompt(20, 1), 480), &waiter);
  engine.reset();
  EXPECT_EQ(ReadAll(*stream, waiter).at(0).status.code(), absl::StatusCode::kUnavailable);
}

TEST_P(EngineTest, ATraceHasEveryStagesTimeInOrder) {
  StepTrace trace(/*num_steps=*/64);
  EngineConfig config = Config();
  config.step_trace = &trace;
  auto engine = Open(config);
  Generate(*engine, GreedyRequest(RandomPrompt(20, 1), 16));
  engine.reset();
  int num_decodes = 0;
  for (const StepTiming& step : trace.ring()) {
    if (step.num_seqs == 0) continue;  // never submitted, or its result was not asked for
    num_decodes += step.num_tokens == 1 ? 1 : 0;
    for (int stage = 0; stage < kNumStepStages; ++stage) {
      EXPECT_GT(step.host[stage].begin_ns, 0) << "stage " << stage;
      EXPECT_GE(step.host[stage].end_ns, step.host[stage].begin_ns) << "stage " << stage;
      EXPECT_GE(step.host[stage].begin_ns, step.host[std::max(stage - 1, 0)].begin_ns);
    }
    EXPECT_GT(step.device_end_us, step.device_begin_us);
  }
  EXPECT_GE(num_decodes, 15);
}

// The first step of a process is slow; it belongs to the start, and leaves no trace in the books.
TEST_P(EngineTest, AWarmUpRunsBeforeServingAndLeavesNothingBehind) {
  auto engine = Open(Config());
  if (is_cpu()) {
    EXPECT_EQ(counts_->num_replays > 0, GetParam().replays);
  }
  const EngineStatus status = engine->status();
  EXPECT_EQ(status.num_steps, 0u);
  EXPECT_EQ(status.scheduler.blocks.num_held, 0);
  EXPECT_EQ(status.scheduler.blocks.num_cached_free, 0);
  EXPECT_EQ(status.scheduler.blocks.prefix_queried_tokens, 0);
  const StartStages& stages = engine->start_stages();
  EXPECT_TRUE(std::any_of(stages.begin(), stages.end(),
                          [](const auto& stage) { return stage.first == "warm-up"; }));
}

TEST_P(EngineTest, AContextThatNobodyAskedForIsLoweredToWhatFits) {
  EngineConfig config = Config();
  config.kv_cache_memory_bytes = 300 * 2 * 2 * 2 * 16 * 4;  // 300 of the model's 512 tokens
  const int64_t fits = 288;                                 // whole blocks
  auto engine = Open(config);
  EXPECT_EQ(engine->model_info().max_model_len, fits);
  EXPECT_EQ(engine->model_info().num_kv_blocks, fits / 16);
  EXPECT_EQ(Generate(*engine, GreedyRequest(RandomPrompt(fits - 8, 1), 100)).tokens.size(), 8u);
  config.max_model_len = 512;
  EXPECT_EQ(Engine::Open(config).status().code(), absl::StatusCode::kResourceExhausted);
}

// A model that cannot fit ends the start before a weight is read: the folder has no weights.
TEST_P(EngineTest, AShortageIsFoundBeforeWeightsAreRead) {
  EngineConfig config = Config();
  config.load_format = LoadFormat::kAuto;
  EXPECT_EQ(Engine::Open(config).status().code(), absl::StatusCode::kNotFound);
  config.kv_cache_memory_bytes = 1024;
  EXPECT_EQ(Engine::Open(config).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(EngineTest, OpenNamesWhatIsWrong) {
  EngineConfig config = Config();
  config.model_folder = "/nonexistent/folder";
  EXPECT_EQ(Engine::Open(config).status().code(), absl::StatusCode::kNotFound);
  config = Config();
  config.kv_cache_memory_bytes = 1024;
  const absl::Status too_small = Engine::Open(config).status();
  EXPECT_EQ(too_small.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(too_small.message().find("--kv-cache-memory-bytes"), std::string::npos);
  config = Config();
  config.max_num_batched_tokens = 8;
  EXPECT_EQ(Engine::Open(config).status().code(), absl::StatusCode::kOutOfRange);
  config = Config();
  config.attention_path = AttentionPath::kTrtllm;
  EXPECT_EQ(Engine::Open(config).status().code(), absl::StatusCode::kOutOfRange);
  config = Config();
  config.max_model_len = 100000;
  EXPECT_EQ(Engine::Open(config).status().code(), absl::StatusCode::kOutOfRange);
}

// One computes the prompt; then 63 rows with penalties are new in one step.
TEST(EngineSubmitTest, ManyNewRowsWithPenaltiesAreNoReasonToWait) {
  EngineConfig config = testing::TinyConfig(testing::MakeTinyModelFolder());
  config.max_num_seqs = 64;
  config.max_num_batched_tokens = 2048;
  const auto counts = std::make_shared<testing::StreamCounts>();
  auto engine = Engine::Open(config, std::make_unique<testing::GraphBackend>(counts));
  ASSERT_TRUE(engine.ok()) << engine.status();
  Request request = GreedyRequest(RandomPrompt(30, 5), 12);
  request.sampling.repetition_penalty = 1.7f;
  request.sampling.frequency_penalty = 0.5f;
  const Answer alone = Generate(**engine, request);
  const int num_waits_before = counts->num_waits;
  request.sampling.n = 64;
  Waiter waiter;
  const auto stream = (*engine)->Submit(request, &waiter);
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::vector<Answer> answers = ReadAll(**stream, waiter);
  EXPECT_EQ(counts->num_waits, num_waits_before);
  ASSERT_EQ(answers.size(), 64u);
  for (const Answer& answer : answers) EXPECT_EQ(answer.tokens, alone.tokens);
}

TEST(EngineGraphTest, APathThatCannotBeCapturedRunsEagerly) {
  const EngineConfig config = testing::TinyConfig(testing::MakeTinyModelFolder());
  std::vector<TokenId> tokens[2];
  for (const bool can_be_captured : {false, true}) {
    const auto counts = std::make_shared<testing::StreamCounts>();
    auto engine = Engine::Open(
        config,
        std::make_unique<testing::GraphBackend>(
            counts, can_be_captured ? GraphSupport::kSingleTokenDecode : GraphSupport::kNever));
    ASSERT_TRUE(engine.ok()) << engine.status();
    tokens[can_be_captured] = Generate(**engine, GreedyRequest(RandomPrompt(20, 1), 24)).tokens;
    EXPECT_EQ(counts->num_replays > 0, can_be_captured);
  }
  EXPECT_EQ(tokens[0], tokens[1]);
}

}  // namespace
}  // namespace quire
