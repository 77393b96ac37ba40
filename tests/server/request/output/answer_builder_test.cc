// Token events to responses: text, stop strings, stop tokens, logprobs, usage, timings, merging.
#include "server/request/output/answer_builder.h"

#include <gmock/gmock.h>

#include "server/surfaces/grpc/answer_messages.h"
#include "tests/server/request/output/output_test_support.h"

namespace quire {
namespace {

using ::testing::ElementsAreArray;

// Feeds events to a builder and collects what it sends, after each event or only at the end.
class Script {
 public:
  explicit Script(const GenerationJob& job, bool take_after_each = true)
      : builder_(DemoTokenizer(), job, "id"), take_after_each_(take_after_each) {}

  // True when the event completed a stop string.
  bool Add(SequenceEvent event) {
    const bool stopped = builder_.Add(std::move(event), &times);
    if (take_after_each_) TakeAll();
    return stopped;
  }

  // Adds tokens until a stop string is complete; returns how many were added.
  int AddTokens(const std::vector<TokenId>& tokens, int index = 0) {
    int count = 0;
    for (TokenId token : tokens) {
      ++count;
      if (Add(TokenEvent(token, index))) break;
    }
    return count;
  }

  void TakeAll() {
    AnswerPart part;
    while (builder_.Next(&part)) {
      responses.push_back(ToMessage(part));
      collector_.Add(std::move(part));
    }
    EXPECT_FALSE(builder_.HasPart());
  }

  v1::GenerateOnceResponse Answer() {
    TakeAll();
    return collector_.Take();
  }

  RequestTimes times;
  std::vector<v1::GenerateResponse> responses;

 private:
  AnswerBuilder builder_;
  AnswerCollector collector_;
  const bool take_after_each_;
};

TEST(AnswerBuilderTest, StartDeltasAndEnd) {
  const GenerationJob job = TestJob();
  Script script(job);
  const absl::Time begin = absl::FromUnixSeconds(1000);
  script.times = {begin, begin + absl::Milliseconds(2), begin + absl::Milliseconds(5),
                  begin + absl::Milliseconds(9)};
  const std::vector<TokenId> tokens = Encode(" there was a duck.");
  script.Add(StartedEvent(0, 3));
  script.AddTokens(tokens);
  SequenceEvent end = FinishedEvent(FinishReason::kLength);
  end.num_preemptions = 4;
  script.Add(std::move(end));

  ASSERT_GE(script.responses.size(), 3u);
  const v1::Started& started = script.responses.front().started();
  EXPECT_EQ(started.request_id(), "id");
  EXPECT_EQ(started.prompt_tokens(), static_cast<int64_t>(job.request.prompt.size()));
  EXPECT_EQ(started.cached_tokens(), 3);
  const v1::Finished& finished = script.responses.back().finished();
  EXPECT_EQ(finished.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(finished.matched_case(), v1::Finished::MATCHED_NOT_SET);
  EXPECT_EQ(finished.usage().completion_tokens(), static_cast<int64_t>(tokens.size()));
  EXPECT_EQ(finished.usage().cached_tokens(), 3);
  EXPECT_DOUBLE_EQ(finished.timings().queue_ms(), 2);
  EXPECT_DOUBLE_EQ(finished.timings().prefill_ms(), 3);
  EXPECT_DOUBLE_EQ(finished.timings().decode_ms(), 4);
  EXPECT_EQ(finished.timings().preemptions(), 4);
  EXPECT_EQ(script.Answer().choices(0).text(), " there was a duck.");
}

TEST(AnswerBuilderTest, WaitingTokensAreMergedIntoOneDelta) {
  GenerationJob job = TestJob();
  job.output.return_token_ids = true;
  Script script(job, /*take_after_each=*/false);
  const std::vector<TokenId> tokens = Encode(" there was a duck.");
  script.Add(StartedEvent());
  script.AddTokens(tokens);
  script.Add(FinishedEvent(FinishReason::kLength));
  script.TakeAll();
  ASSERT_EQ(script.responses.size(), 3u);
  EXPECT_EQ(script.responses[1].delta().text(), " there was a duck.");
  EXPECT_THAT(script.responses[1].delta().token_ids(), ElementsAreArray(tokens));
}

TEST(AnswerBuilderTest, CharactersAreNeverSplit) {
  const std::string text = " 🦆 ü 漢字 🦆🦆";
  const std::vector<TokenId> tokens = Encode(text);
  Script script(TestJob());
  script.Add(StartedEvent());
  script.AddTokens(tokens);
  script.Add(FinishedEvent(FinishReason::kLength));
  int num_deltas = 0;
  for (const v1::GenerateResponse& response : script.responses) {
    if (!response.has_delta()) continue;
    ++num_deltas;
    EXPECT_EQ(response.delta().text().find("\xEF\xBF\xBD"), std::string::npos);
    v1::Delta parsed;  // would not parse with half a character
    EXPECT_TRUE(parsed.ParseFromString(response.delta().SerializeAsString()));
  }
  EXPECT_LT(num_deltas, static_cast<int>(tokens.size())) << "no character took two tokens";
  EXPECT_EQ(script.Answer().choices(0).text(), text);
}

TEST(AnswerBuilderTest, AnIncompleteCharacterAtTheEndIsReplaced) {
  std::vector<TokenId> tokens = Encode(" 🦆");
  tokens.pop_back();
  Script script(TestJob());
  script.Add(StartedEvent());
  script.AddTokens(tokens);
  script.Add(FinishedEvent(FinishReason::kLength));
  EXPECT_THAT(script.Answer().choices(0).text(), testing::HasSubstr("\xEF\xBF\xBD"));
}

TEST(AnswerBuilderTest, AStopStringAcrossTokensEndsTheText) {
  GenerationJob job = TestJob();
  job.output.stop_strings = {"never", "was a duck"};
  const std::vector<TokenId> tokens = Encode(" there was a duck. And more");
  Script script(job);
  script.Add(StartedEvent());
  const int num_until_stop = script.AddTokens(tokens);
  ASSERT_LT(num_until_stop, static_cast<int>(tokens.size()));
  EXPECT_FALSE(script.Add(TokenEvent(tokens.back()))) << "a late token is dropped";
  script.Add(FinishedEvent(FinishReason::kAbort));
  const v1::Choice choice = script.Answer().choices(0);
  EXPECT_EQ(choice.text(), " there ");
  EXPECT_EQ(choice.finished().finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(choice.finished().matched_stop_string(), "was a duck");
  EXPECT_EQ(choice.finished().usage().completion_tokens(), num_until_stop);
  for (const v1::GenerateResponse& response : script.responses) {
    EXPECT_EQ(response.delta().text().find("was"), std::string::npos) << "was sent too early";
  }
}

TEST(AnswerBuilderTest, AStopStringIsShownOnRequest) {
  GenerationJob job = TestJob();
  job.output.stop_strings = {"was a duck"};
  job.output.include_stop_in_output = true;
  Script script(job);
  script.Add(StartedEvent());
  script.AddTokens(Encode(" there was a duck. And more"));
  script.Add(FinishedEvent(FinishReason::kAbort));
  EXPECT_EQ(script.Answer().choices(0).text(), " there was a duck");
}

TEST(AnswerBuilderTest, TextHeldBackForAStopStringComesAtTheEnd) {
  GenerationJob job = TestJob();
  job.output.stop_strings = {"duck and drake"};
  Script script(job);
  script.Add(StartedEvent());
  script.AddTokens(Encode(" was a duck and"));
  script.Add(FinishedEvent(FinishReason::kLength));
  const v1::Choice choice = script.Answer().choices(0);
  EXPECT_EQ(choice.text(), " was a duck and");
  EXPECT_EQ(choice.finished().finish_reason(), v1::FINISH_REASON_LENGTH);
}

TEST(AnswerBuilderTest, StopStringsWaitForMinTokens) {
  GenerationJob job = TestJob();
  job.output.stop_strings = {"duck"};
  const std::vector<TokenId> tokens = Encode(" duck duck");
  job.request.stop.min_tokens = static_cast<int64_t>(tokens.size());
  Script script(job);
  script.Add(StartedEvent());
  EXPECT_EQ(script.AddTokens(tokens), static_cast<int>(tokens.size()));
  script.Add(FinishedEvent(FinishReason::kStop));
  EXPECT_EQ(script.Answer().choices(0).text(), " duck ");
}

TEST(AnswerBuilderTest, AStopTokenIsCountedButNotShown) {
  const TokenId full_stop = Encode(".").front();
  for (const bool include : {false, true}) {
    GenerationJob job = TestJob();
    job.request.stop.stop_token_ids = {full_stop};
    job.output.include_stop_in_output = include;
    job.output.return_token_ids = true;
    Script script(job);
    script.Add(StartedEvent());
    script.AddTokens({Encode(" duck").front(), full_stop});
    script.Add(FinishedEvent(FinishReason::kStop, 0, full_stop));
    const v1::Choice choice = script.Answer().choices(0);
    EXPECT_EQ(choice.text().back() == '.', include);
    EXPECT_EQ(choice.token_ids_size(), 2);
    EXPECT_EQ(choice.finished().matched_token_id(), static_cast<uint32_t>(full_stop));
    EXPECT_EQ(choice.finished().usage().completion_tokens(), 2);
  }
}

TEST(AnswerBuilderTest, ContinuationsAreKeptApart) {
  GenerationJob job = TestJob(2);
  job.output.stop_strings = {"stop"};
  Script script(job);
  script.Add(StartedEvent(1));
  script.Add(StartedEvent(0));
  const std::vector<TokenId> first = Encode(" one two three");
  const std::vector<TokenId> second = Encode(" four stop");
  for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    if (i < first.size()) script.Add(TokenEvent(first[i], 0));
    if (i < second.size()) script.Add(TokenEvent(second[i], 1));
  }
  script.Add(FinishedEvent(FinishReason::kAbort, 1));
  script.Add(FinishedEvent(FinishReason::kLength, 0));
  const v1::GenerateOnceResponse answer = script.Answer();
  ASSERT_EQ(answer.choices_size(), 2);
  EXPECT_EQ(answer.choices(0).text(), " one two three");
  EXPECT_EQ(answer.choices(0).finished().finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(answer.choices(1).index(), 1);
  EXPECT_EQ(answer.choices(1).text(), " four ");
  EXPECT_EQ(answer.choices(1).finished().finish_reason(), v1::FINISH_REASON_STOP);
}

TEST(AnswerBuilderTest, LogprobsTravelWithTheirTokens) {
  GenerationJob job = TestJob();
  job.output.logprobs = true;
  Script script(job);
  script.Add(StartedEvent());
  const TokenId token = Encode(" duck").front();
  SequenceEvent event = TokenEvent(token);
  event.logprobs =
      std::make_unique<TokenLogprobs>(TokenLogprobs{-0.5f, 2, {{7, -0.25f}, {token, -0.5f}}});
  script.Add(std::move(event));
  script.Add(FinishedEvent(FinishReason::kLength));
  const v1::Choice choice = script.Answer().choices(0);
  ASSERT_EQ(choice.logprobs_size(), 1);
  EXPECT_EQ(choice.logprobs(0).token_id(), static_cast<uint32_t>(token));
  EXPECT_EQ(choice.logprobs(0).token_bytes(), " duck");
  EXPECT_EQ(choice.logprobs(0).logprob(), -0.5f);
  EXPECT_EQ(choice.logprobs(0).rank(), 2);
  ASSERT_EQ(choice.logprobs(0).top_size(), 2);
  EXPECT_EQ(choice.logprobs(0).top(0).token_id(), 7u);
}

TEST(AnswerBuilderTest, PromptLogprobsComeWithTheStart) {
  GenerationJob job = TestJob();
  job.output.prompt_logprobs = true;
  Script script(job);
  script.Add(StartedEvent());
  EXPECT_TRUE(script.responses.empty()) << "the start waits for its logprobs";
  SequenceEvent event;
  event.kind = SequenceEvent::Kind::kPromptLogprobs;
  for (size_t i = 1; i < job.request.prompt.size(); ++i) {
    event.prompt_logprobs.emplace_back(job.request.prompt[i], TokenLogprobs{-1.0f, 1, {}});
  }
  script.Add(std::move(event));
  script.AddTokens(Encode(" duck"));
  script.Add(FinishedEvent(FinishReason::kLength));
  const v1::GenerateOnceResponse answer = script.Answer();
  ASSERT_EQ(answer.prompt_logprobs_size(), static_cast<int>(job.request.prompt.size()));
  EXPECT_FALSE(answer.prompt_logprobs(0).has_logprob());
  for (int i = 0; i < answer.prompt_logprobs_size(); ++i) {
    EXPECT_EQ(answer.prompt_logprobs(i).token_id(), static_cast<uint32_t>(job.request.prompt[i]));
    EXPECT_EQ(answer.prompt_logprobs(i).has_logprob(), i > 0);
  }
}

TEST(AnswerBuilderTest, PromptLogprobsComeOnceForAllContinuations) {
  GenerationJob job = TestJob();
  job.request.sampling.n = 2;
  job.output.prompt_logprobs = true;
  Script script(job);
  script.Add(StartedEvent());
  SequenceEvent second = StartedEvent();
  second.key.index = 1;
  script.Add(std::move(second));
  ASSERT_EQ(script.responses.size(), 1u) << "the second has nothing to wait for";
  EXPECT_EQ(script.responses[0].started().index(), 1);
  EXPECT_EQ(script.responses[0].started().prompt_logprobs_size(), 0);
}

TEST(AnswerBuilderTest, AnAbortBeforeTheStartIsReported) {
  Script script(TestJob());
  script.Add(FinishedEvent(FinishReason::kAbort));
  ASSERT_EQ(script.responses.size(), 1u);
  EXPECT_EQ(script.responses[0].finished().finish_reason(), v1::FINISH_REASON_ABORT);
  EXPECT_EQ(script.responses[0].finished().usage().completion_tokens(), 0);
}

TEST(AnswerBuilderTest, AFailureHasNoFinishedMessage) {
  Script script(TestJob());
  script.Add(StartedEvent());
  script.Add(FinishedEvent(FinishReason::kError));
  ASSERT_EQ(script.responses.size(), 1u);
  EXPECT_TRUE(script.responses[0].has_started());
}

}  // namespace
}  // namespace quire
