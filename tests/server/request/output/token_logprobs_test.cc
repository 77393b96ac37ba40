// Tokens in answers: their bytes, their texts at the edge of a surface, and where in a text each
// begins. Offsets are those that Python's decoder finds as the tokens come.
#include <gmock/gmock.h>

#include "nlohmann/json.hpp"
#include "server/request/output/answer_builder.h"
#include "server/surfaces/grpc/answer_messages.h"
#include "tests/server/request/output/output_test_support.h"
#include "tests/server/text/tokenizer/test_tokenizers.h"

namespace quire {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr TokenId kBos = 256, kEos = 257;  // "<s>" and "</s>" of ByteTokenizer

// A token for each byte, and a template that puts <s> before and </s> after a text.
std::shared_ptr<const Tokenizer> ByteTokenizer() {
  json file = testing::ByteLevelJson({});
  testing::AddToken(&file, "<s>", {{"special", true}});
  testing::AddToken(&file, "</s>", {{"special", true}});
  file["post_processor"] = {
      {"type", "RobertaProcessing"}, {"cls", {"<s>", kBos}}, {"sep", {"</s>", kEos}}};
  return testing::Make(file);
}

// As Llama 2's: byte tokens, "▁" for blanks, one before each text, which decoding drops.
std::shared_ptr<const Tokenizer> PieceTokenizer() {
  return testing::Make(testing::SentencePieceJson({"▁", "a", "b"}, {{"▁", "a"}}));
}

std::vector<TokenId> Ids(const Tokenizer& tokenizer, const std::string& text,
                         EncodeOptions options = {}) {
  return tokenizer.Encode(text, options).value();
}

// The whole answer to `prompt` when the engine draws `tokens`.
v1::GenerateOnceResponse Answer(const std::shared_ptr<const Tokenizer>& tokenizer,
                                GenerationJob job, const std::vector<TokenId>& prompt,
                                const std::vector<TokenId>& tokens = {},
                                FinishReason reason = FinishReason::kLength) {
  job.request.prompt = prompt;
  job.output.logprobs = true;
  job.output.prompt_logprobs = true;
  AnswerBuilder builder(tokenizer, job, "id");
  AnswerCollector collector;
  const RequestTimes times;
  const auto add = [&](SequenceEvent event) {
    builder.Add(std::move(event), &times);
    AnswerPart part;
    while (builder.Next(&part)) collector.Add(std::move(part));
  };
  add(StartedEvent());
  for (size_t i = 1; i < prompt.size(); ++i) {  // chunks of one token
    SequenceEvent event;
    event.kind = SequenceEvent::Kind::kPromptLogprobs;
    event.prompt_logprobs.emplace_back(prompt[i], TokenLogprobs{-1, 1, {}});
    add(std::move(event));
  }
  for (const TokenId token : tokens) {
    SequenceEvent event = TokenEvent(token);
    event.logprobs = std::make_unique<TokenLogprobs>(TokenLogprobs{-1, 1, {{token, -1}}});
    add(std::move(event));
  }
  add(FinishedEvent(reason, 0, tokens.empty() ? -1 : tokens.back()));
  return collector.Take();
}

std::vector<int64_t> Offsets(const google::protobuf::RepeatedPtrField<v1::TokenLogprob>& tokens) {
  std::vector<int64_t> offsets;
  for (const v1::TokenLogprob& token : tokens) offsets.push_back(token.text_offset());
  return offsets;
}

std::vector<int64_t> PromptOffsets(const std::shared_ptr<const Tokenizer>& tokenizer,
                                   const std::vector<TokenId>& prompt, bool has_added_tokens) {
  GenerationJob job;
  job.output.prompt_has_added_tokens = has_added_tokens;
  return Offsets(Answer(tokenizer, job, prompt).prompt_logprobs());
}

TEST(TokenLogprobsTest, AnEmojiInFourTokensIsItsBytes) {
  const auto tokenizer = ByteTokenizer();
  const std::string emoji = "\U0001F642";
  const auto ids = Ids(*tokenizer, emoji, {.add_special_tokens = false});
  ASSERT_EQ(ids.size(), 4u);
  v1::GenerateOnceResponse answer = Answer(tokenizer, {}, ids, ids);
  ASSERT_EQ(answer.choices(0).logprobs_size(), 4);
  for (int i = 0; i < 4; ++i) {
    for (const auto& one : {answer.prompt_logprobs(i), answer.choices(0).logprobs(i)}) {
      EXPECT_EQ(one.token_bytes(), emoji.substr(i, 1));
      EXPECT_EQ(one.token(), "\uFFFD");
    }
    EXPECT_EQ(answer.choices(0).logprobs(i).top(0).token_bytes(), emoji.substr(i, 1));
    EXPECT_EQ(answer.choices(0).logprobs(i).top(0).token(), "\uFFFD");
  }
  v1::GenerateOnceResponse parsed;  // would not parse with half a character in a text
  EXPECT_TRUE(parsed.ParseFromString(answer.SerializeAsString()));
}

TEST(TokenLogprobsTest, WhatATokenizerPutsAroundAPromptHasNoWidth) {
  const auto tokenizer = ByteTokenizer();
  EXPECT_THAT(PromptOffsets(tokenizer, Ids(*tokenizer, "ab"), true), ElementsAre(0, 0, 1, 2));
  const EncodeOptions plain = {.add_special_tokens = false};
  EXPECT_THAT(PromptOffsets(tokenizer, Ids(*tokenizer, "ab", plain), false), ElementsAre(0, 1));
  const EncodeOptions parse = {.add_special_tokens = true, .parse_special_tokens = true};
  EXPECT_THAT(PromptOffsets(tokenizer, Ids(*tokenizer, "<s>a</s>", parse), true),
              ElementsAre(0, 0, 3, 4, 8));
  // Token ids are their text, all of them.
  EXPECT_THAT(PromptOffsets(tokenizer, {kBos, 'a', 'b'}, false), ElementsAre(0, 3, 4));
  // Tokens that were cut off are not looked for.
  EXPECT_THAT(PromptOffsets(tokenizer, {'a', 'b', kEos}, true), ElementsAre(0, 1, 2));
  EXPECT_THAT(PromptOffsets(tokenizer, {kEos}, true), ElementsAre(0));
}

TEST(TokenLogprobsTest, TheTokensOfACharacterBeginWithIt) {
  const auto tokenizer = ByteTokenizer();
  EXPECT_THAT(PromptOffsets(tokenizer, Ids(*tokenizer, "xü\U0001F642y"), true),
              ElementsAre(0, 0, 1, 1, 2, 2, 2, 2, 3, 4));
}

TEST(TokenLogprobsTest, TheBlankThatDecodingDropsHasNoWidth) {
  const auto tokenizer = PieceTokenizer();
  const auto ids = Ids(*tokenizer, "ab a");
  ASSERT_THAT(ids, ::testing::SizeIs(3));  // ▁a b ▁a
  EXPECT_THAT(PromptOffsets(tokenizer, ids, true), ElementsAre(0, 1, 2));
  // The same tokens go on from a prompt: then it is there.
  const auto answer = Answer(tokenizer, {}, ids, ids);
  EXPECT_EQ(answer.choices(0).text(), " ab a");
  EXPECT_THAT(Offsets(answer.choices(0).logprobs()), ElementsAre(0, 2, 3));
}

TEST(TokenLogprobsTest, SpecialTokensOfAnAnswerHaveTheirTextsWidth) {
  const auto tokenizer = ByteTokenizer();
  for (const bool skip : {true, false}) {
    GenerationJob job;
    job.output.skip_special_tokens = skip;
    const auto answer = Answer(tokenizer, job, {'x'}, {'a', kBos, 'b', 'c'});
    EXPECT_EQ(answer.choices(0).text(), skip ? "abc" : "a<s>bc");
    EXPECT_THAT(Offsets(answer.choices(0).logprobs()),
                ElementsAreArray(skip ? std::vector<int64_t>{0, 1, 1, 2}
                                      : std::vector<int64_t>{0, 1, 4, 5}));
    EXPECT_EQ(answer.choices(0).logprobs(1).token_bytes(), "<s>");
  }
}

TEST(TokenLogprobsTest, ACharacterThatThePromptBeganIsTheAnswers) {
  const auto tokenizer = ByteTokenizer();
  const auto answer = Answer(tokenizer, {}, {'x', 0xF0, 0x9F}, {0x99, 0x82, 'y'});
  EXPECT_EQ(answer.choices(0).text(), "\U0001F642y");
  EXPECT_THAT(Offsets(answer.prompt_logprobs()), ElementsAre(0, 1, 1));
  EXPECT_THAT(Offsets(answer.choices(0).logprobs()), ElementsAre(0, 0, 1));
}

TEST(TokenLogprobsTest, NothingIsGeneratedWhereNothingIsAskedFor) {
  const auto tokenizer = ByteTokenizer();
  GenerationJob job;
  job.output.generates = false;
  job.output.return_token_ids = true;
  for (const FinishReason reason : {FinishReason::kLength, FinishReason::kStop}) {
    const auto answer = Answer(tokenizer, job, {'x', 'y', 0xF0}, {kEos}, reason);
    EXPECT_EQ(answer.prompt_logprobs_size(), 3);
    ASSERT_EQ(answer.choices_size(), 1);
    const v1::Choice& choice = answer.choices(0);
    EXPECT_EQ(choice.text(), "");
    EXPECT_EQ(choice.token_ids_size() + choice.logprobs_size(), 0);
    EXPECT_EQ(choice.finished().finish_reason(), v1::FINISH_REASON_LENGTH);
    EXPECT_EQ(choice.finished().matched_case(), v1::Finished::MATCHED_NOT_SET);
    EXPECT_EQ(choice.finished().usage().completion_tokens(), 0);
    EXPECT_EQ(choice.finished().usage().prompt_tokens(), 3);
  }
  const auto aborted = Answer(tokenizer, job, {'x'}, {}, FinishReason::kAbort);
  EXPECT_EQ(aborted.choices(0).finished().finish_reason(), v1::FINISH_REASON_ABORT);
}

TEST(TokenLogprobsTest, EveryTokensTextIsValidUtf8) {
  for (TokenId token = 0; token < DemoTokenizer()->vocab_size(); ++token) {
    Delta delta;
    delta.logprobs.push_back(
        {.id = token, .bytes = std::string(DemoTokenizer()->TokenBytes(token))});
    const v1::GenerateResponse response = ToMessage(std::move(delta));
    v1::GenerateResponse parsed;
    ASSERT_TRUE(parsed.ParseFromString(response.SerializeAsString())) << "token " << token;
    EXPECT_EQ(parsed.delta().logprobs(0).token_bytes(), DemoTokenizer()->TokenBytes(token));
  }
}

// An answer that is sent in one piece is refused by this count: it must not exceed the message by
// much, nor miss what fills it.
TEST(NumBytesTest, IsAboutTheMessage) {
  Delta word = {.text = " and"};
  Delta ids = {.text = " and", .token_ids = std::vector<TokenId>(7, 100000)};
  Delta logprobs = {.text = " and"};
  logprobs.logprobs.assign(3, {.id = 100000, .bytes = " and", .logprob = -1.0f, .rank = 1});
  for (AnswerToken& token : logprobs.logprobs) token.top.assign(20, {100001, " or", -2.0f});
  Started prompt = {.request_id = "r", .prompt_token_ids = std::vector<TokenId>(500, 100000)};
  for (const AnswerPart& part :
       {AnswerPart(word), AnswerPart(ids), AnswerPart(logprobs), AnswerPart(prompt)}) {
    const size_t size = ToMessage(part).ByteSizeLong();
    EXPECT_GE(2 * NumBytes(part, kMessageBytes), size);
    EXPECT_LE(NumBytes(part, kMessageBytes), 2 * size);
    EXPECT_GT(NumBytes(part, kMemoryBytes), size);
  }
}

}  // namespace
}  // namespace quire
