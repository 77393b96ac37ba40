// Request conversion: where each value comes from, and the sentence of every refusal.
#include "server/request/parameters.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "server/request/field_error.h"
#include "server/surfaces/grpc/request_messages.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kRandomSeed = 77;

ModelFacts TestModel() {
  ModelFacts model;
  model.served_names = {"demo"};
  model.vocab_size = 1000;
  model.max_model_len = 64;
  model.eos_token_ids = {2, 3};
  return model;
}

// Of a quire.v1.GenerateRequest.
Generation Message(const std::string& text) {
  v1::GenerateRequest message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  absl::StatusOr<Generation> asked = ToGeneration(std::move(message));
  EXPECT_TRUE(asked.ok()) << asked.status();
  return *std::move(asked);
}

// Conversion with a prompt of `num_prompt` tokens.
absl::StatusOr<GenerationJob> Convert(const Generation& message,
                                      const ModelFacts& model = TestModel(), int num_prompt = 10) {
  absl::StatusOr<GenerationJob> job = ConvertParameters(message, model, kRandomSeed);
  if (!job.ok()) return job;
  const absl::Status set = SetPrompt(std::vector<TokenId>(num_prompt, 5), model, &*job);
  if (!set.ok()) return set;
  return job;
}

TEST(ParametersTest, AnEmptyRequestGetsTheDefaults) {
  const GenerationJob job = *Convert(Message(""));
  const SamplingParams& sampling = job.request.sampling;
  EXPECT_EQ(sampling.temperature, 1.0f);
  EXPECT_EQ(sampling.top_p, 1.0f);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.min_p, 0.0f);
  EXPECT_EQ(sampling.repetition_penalty, 1.0f);
  EXPECT_EQ(sampling.seed, kRandomSeed);
  EXPECT_EQ(sampling.n, 1);
  EXPECT_EQ(sampling.logprobs, -1);
  EXPECT_EQ(sampling.prompt_logprobs, -1);
  EXPECT_EQ(job.request.stop.max_tokens, 54) << "up to the context's end";
  EXPECT_EQ(job.request.stop.min_tokens, 0);
  EXPECT_THAT(job.request.stop.eos_token_ids, ElementsAre(2, 3));
  EXPECT_TRUE(job.output.skip_special_tokens);
  EXPECT_FALSE(job.output.return_token_ids);
  EXPECT_FALSE(job.output.logprobs);
}

TEST(ParametersTest, OfALongPromptTheTokensOfOneSideAreKept) {
  const auto prompt_after = [](int64_t truncate, int num_tokens, const char* side = "") {
    Generation message = Message(side);
    message.truncate_prompt_tokens = truncate;
    GenerationJob job = *ConvertParameters(message, TestModel(), kRandomSeed);
    std::vector<TokenId> prompt(num_tokens);
    std::iota(prompt.begin(), prompt.end(), 0);
    EXPECT_TRUE(SetPrompt(prompt, TestModel(), &job).ok());
    return job.request.prompt;
  };
  EXPECT_THAT(prompt_after(2, 5), ElementsAre(3, 4));
  EXPECT_THAT(prompt_after(2, 5, "truncation_side: TRUNCATION_SIDE_LEFT"), ElementsAre(3, 4));
  EXPECT_THAT(prompt_after(2, 5, "truncation_side: TRUNCATION_SIDE_RIGHT"), ElementsAre(0, 1));
  EXPECT_THAT(prompt_after(5, 2), ElementsAre(0, 1));
  EXPECT_EQ(prompt_after(-1, 500).size(), 63u) << "room for one more";
  EXPECT_EQ(prompt_after(-1, 500).back(), 499);
  GenerationJob job;
  job.truncate_prompt_tokens = 2;
  EXPECT_THAT(*ConvertPromptIds({1000, 1, 2}, TestModel(), job), ElementsAre(1, 2));
  job.keeps_first_tokens = true;
  EXPECT_THAT(*ConvertPromptIds({1, 2, 1000}, TestModel(), job), ElementsAre(1, 2));
  for (const char* wrong : {"0", "-2"}) {
    const auto job = Convert(Message(absl::StrCat("truncate_prompt_tokens: ", wrong)));
    EXPECT_EQ(FieldOf(job.status()), "truncate_prompt_tokens") << wrong;
  }
}

TEST(ParametersTest, SomeErrorsHaveNames) {
  EXPECT_EQ(ErrorCodeOf(Convert(Message(""), TestModel(), 64).status()), "context_length_exceeded");
  EXPECT_EQ(ErrorCodeOf(Convert(Message("model: 'other'")).status()), "model_not_found");
  EXPECT_EQ(ErrorCodeOf(Convert(Message("priority: 1 sampling { n: 0 }")).status()), "");
}

TEST(ParametersTest, TheModelsDefaultsComeBeforeOurs) {
  ModelFacts model = TestModel();
  model.defaults.temperature = 0.6f;
  model.defaults.top_p = 0.95f;
  model.defaults.top_k = 20;
  model.defaults.min_p = 0.1f;
  model.defaults.repetition_penalty = 1.1f;
  model.defaults.max_new_tokens = 7;
  const GenerationJob job = *Convert(Message(""), model);
  EXPECT_EQ(job.request.sampling.temperature, 0.6f);
  EXPECT_EQ(job.request.sampling.top_p, 0.95f);
  EXPECT_EQ(job.request.sampling.top_k, 20);
  EXPECT_EQ(job.request.sampling.min_p, 0.1f);
  EXPECT_EQ(job.request.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(job.request.stop.max_tokens, 7);
}

TEST(ParametersTest, TheRequestsValuesComeFirstAlsoWhenZero) {
  ModelFacts model = TestModel();
  model.defaults.temperature = 0.6f;
  model.defaults.top_k = 20;
  const GenerationJob job = *Convert(
      Message("sampling { temperature: 0 top_k: 0 seed: 0 n: 3 } stop { max_tokens: 5 }"), model);
  EXPECT_EQ(job.request.sampling.temperature, 0.0f);
  EXPECT_EQ(job.request.sampling.top_k, 0);
  EXPECT_EQ(job.request.sampling.seed, 0u);
  EXPECT_EQ(job.request.sampling.n, 3);
  EXPECT_EQ(job.request.stop.max_tokens, 5);
}

TEST(ParametersTest, EverythingElseIsCarriedOver) {
  const GenerationJob job = *Convert(Message(R"(
    request_id: "mine" model: "demo" priority: -4 cache_salt: "salt"
    sampling { presence_penalty: 1.5 frequency_penalty: -2
               logit_bias { key: 9 value: -100 } logit_bias { key: 4 value: 2 } }
    stop { min_tokens: 2 stop_strings: "END" stop_token_ids: 8 include_stop_in_output: true }
    output { logprobs: 0 prompt_logprobs: 20 return_token_ids: true skip_special_tokens: false
             shown_special_tokens: 3 })"));
  EXPECT_EQ(job.client_id, "mine");
  EXPECT_EQ(job.request.priority, -4);
  EXPECT_EQ(job.request.cache_salt, "salt");
  EXPECT_EQ(job.request.sampling.presence_penalty, 1.5f);
  EXPECT_EQ(job.request.sampling.frequency_penalty, -2.0f);
  EXPECT_THAT(job.request.sampling.logit_bias,
              ElementsAre(testing::Pair(4, 2.0f), testing::Pair(9, -100.0f)));
  EXPECT_EQ(job.request.stop.min_tokens, 2);
  EXPECT_THAT(job.request.stop.stop_token_ids, ElementsAre(8));
  EXPECT_THAT(job.output.stop_strings, ElementsAre("END"));
  EXPECT_TRUE(job.output.include_stop_in_output);
  EXPECT_EQ(job.request.sampling.logprobs, 0);
  EXPECT_TRUE(job.output.logprobs);
  EXPECT_EQ(job.request.sampling.prompt_logprobs, 20);
  EXPECT_TRUE(job.output.prompt_logprobs);
  EXPECT_TRUE(job.output.return_token_ids);
  EXPECT_FALSE(job.output.skip_special_tokens);
  EXPECT_THAT(job.output.shown_special_tokens, ElementsAre(3));
}

// A prompt is scored: the engine draws a token, which is not shown.
TEST(ParametersTest, NoTokensWhereSomethingOfThePromptIsAskedFor) {
  for (const char* output : {"prompt_logprobs: 0", "return_prompt_token_ids: true"}) {
    const auto job =
        Convert(Message(absl::StrCat("stop { max_tokens: 0 } output { ", output, " }")));
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_FALSE(job->output.generates);
    EXPECT_EQ(job->request.stop.max_tokens, 1);
  }
  EXPECT_TRUE(
      Convert(Message("stop { max_tokens: 1 } output { prompt_logprobs: 0 }"))->output.generates);
}

TEST(ParametersTest, TokensAreAddedAroundTextsAlone) {
  const auto has_added = [](const char* prompt) {
    return ConvertParameters(Message(prompt), TestModel(), 0)->output.prompt_has_added_tokens;
  };
  EXPECT_TRUE(has_added("text { text: 'a' }"));
  EXPECT_FALSE(has_added("text { text: 'a' add_special_tokens: false }"));
  EXPECT_FALSE(has_added("token_ids { ids: 3 }"));
  EXPECT_FALSE(has_added("messages { messages { role: 'user' } }"));
}

TEST(ParametersTest, IgnoreEosAndTopKOff) {
  const GenerationJob job = *Convert(Message("sampling { top_k: -1 } stop { ignore_eos: true }"));
  EXPECT_TRUE(job.request.stop.eos_token_ids.empty());
  EXPECT_EQ(job.request.sampling.top_k, 0);
}

TEST(ParametersTest, MaxTokensIsBoundedByTheContext) {
  EXPECT_EQ(Convert(Message("stop { max_tokens: 1000000 }"))->request.stop.max_tokens, 54);
  EXPECT_EQ(Convert(Message(""), TestModel(), 63)->request.stop.max_tokens, 1);
}

struct Refusal {
  std::string message;   // text format
  std::string fragment;  // of the sentence
};

// As gRPC puts it.
std::string Sentence(const absl::Status& status) {
  return absl::StrCat(FieldOf(status), ": ", status.message());
}

class RefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesTheFieldAndWhatIsAllowed) {
  const absl::StatusOr<GenerationJob> job = Convert(Message(GetParam().message));
  ASSERT_FALSE(job.ok());
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Sentence(job.status()), HasSubstr(GetParam().fragment));
}

std::string Repeat(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

std::string LogitBiases(int count) {
  std::string result = "sampling { ";
  for (int i = 0; i < count; ++i) {
    result += "logit_bias { key: " + std::to_string(i % 1000 + 1000 * (i / 1000)) + " value: 1 } ";
  }
  return result + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Sampling, RefusalTest,
    testing::Values(
        Refusal{"sampling { temperature: -0.01 }", "sampling.temperature: -0.01"},
        Refusal{"sampling { temperature: 101 }", "0 .. 100"},
        Refusal{"sampling { temperature: nan }", "sampling.temperature: nan"},
        Refusal{"sampling { temperature: inf }", "sampling.temperature: inf"},
        Refusal{"sampling { temperature: -inf }", "sampling.temperature"},
        Refusal{"sampling { top_p: 0 }", "more than 0, at most 1"},
        Refusal{"sampling { top_p: -1 }", "sampling.top_p: -1"},
        Refusal{"sampling { top_p: 1.01 }", "sampling.top_p: 1.01"},
        Refusal{"sampling { top_p: 1.0000001 }", "sampling.top_p: 1.0000001 is out of range"},
        Refusal{"sampling { top_p: nan }", "sampling.top_p: nan"},
        Refusal{"sampling { top_k: -2 }", "sampling.top_k: -2"},
        Refusal{"sampling { top_k: -2147483648 }", "sampling.top_k"},
        Refusal{"sampling { top_k: 2147483647 }", "sampling.top_k"},
        Refusal{"sampling { min_p: -0.1 }", "sampling.min_p"},
        Refusal{"sampling { min_p: 1.1 }", "0 .. 1"},
        Refusal{"sampling { min_p: nan }", "sampling.min_p: nan"},
        Refusal{"sampling { repetition_penalty: 0 }", "sampling.repetition_penalty: 0"},
        Refusal{"sampling { repetition_penalty: -1 }", "sampling.repetition_penalty"},
        Refusal{"sampling { repetition_penalty: 101 }", "0.001 .. 100"},
        Refusal{"sampling { repetition_penalty: nan }", "sampling.repetition_penalty"},
        Refusal{"sampling { presence_penalty: 2.1 }", "-2 .. 2"},
        Refusal{"sampling { presence_penalty: -2.1 }", "sampling.presence_penalty"},
        Refusal{"sampling { presence_penalty: nan }", "sampling.presence_penalty"},
        Refusal{"sampling { frequency_penalty: 2.1 }", "sampling.frequency_penalty"},
        Refusal{"sampling { frequency_penalty: -inf }", "sampling.frequency_penalty"},
        Refusal{"sampling { n: 0 }", "sampling.n: 0"}, Refusal{"sampling { n: -1 }", "1 .. 128"},
        Refusal{"sampling { n: 129 }", "sampling.n: 129"},
        Refusal{"sampling { n: 1000000 }", "sampling.n: 1000000"},
        Refusal{"sampling { n: -2147483648 }", "sampling.n"},
        Refusal{"sampling { logit_bias { key: 1000 value: 1 } }", "token id 1000"},
        Refusal{"sampling { logit_bias { key: 4294967295 value: 1 } }", "ids are 0 .. 999"},
        Refusal{"sampling { logit_bias { key: 7 value: 100.5 } }", "sampling.logit_bias[7]: 100.5"},
        Refusal{"sampling { logit_bias { key: 7 value: -101 } }", "-100 .. 100"},
        Refusal{"sampling { logit_bias { key: 7 value: nan } }", "sampling.logit_bias[7]: nan"},
        Refusal{"sampling { logit_bias { key: 7 value: inf } }", "sampling.logit_bias[7]"},
        Refusal{LogitBiases(1025), "has 1025 entries"}));

INSTANTIATE_TEST_SUITE_P(
    StopAndOutput, RefusalTest,
    testing::Values(
        Refusal{"stop { max_tokens: 0 }", "stop.max_tokens: 0"},
        Refusal{"stop { max_tokens: -1 }", "stop.max_tokens: -1"},
        Refusal{"stop { max_tokens: 0 } output { logprobs: 2 }", "stop.max_tokens: 0"},
        Refusal{"stop { max_tokens: -1 } output { prompt_logprobs: 2 }", "stop.max_tokens: -1"},
        Refusal{"stop { max_tokens: 0 min_tokens: 1 } output { prompt_logprobs: 2 }",
                "stop.min_tokens: 1"},
        Refusal{"stop { max_tokens: -9223372036854775808 }", "1 and more"},
        Refusal{"stop { min_tokens: -1 }", "stop.min_tokens: -1"},
        Refusal{"stop { min_tokens: 6 max_tokens: 5 }", "0 .. max_tokens"},
        Refusal{"stop { min_tokens: 55 }", "0 .. 54"},
        Refusal{"stop { min_tokens: 9223372036854775807 }", "stop.min_tokens"},
        Refusal{"stop { stop_strings: \"\" }", "an empty string"},
        Refusal{"stop { stop_strings: \"" + Repeat("x", 257) + "\" }", "257 bytes"},
        Refusal{"stop { " + Repeat("stop_strings: \"x\" ", 65) + "}", "has 65 entries"},
        Refusal{"stop { stop_token_ids: 1000 }", "stop.stop_token_ids: token id 1000"},
        Refusal{"stop { stop_token_ids: 4294967295 }", "stop.stop_token_ids"},
        Refusal{"stop { " + Repeat("stop_token_ids: 1 ", 127) + "}", "at most 126"},
        Refusal{"output { logprobs: -1 }", "output.logprobs: -1"},
        Refusal{"output { logprobs: 21 }", "0 .. 20"},
        Refusal{"output { logprobs: 2147483647 }", "output.logprobs"},
        Refusal{"output { prompt_logprobs: -1 }", "output.prompt_logprobs: -1"},
        Refusal{"output { prompt_logprobs: 21 }", "output.prompt_logprobs: 21"},
        Refusal{"output { shown_special_tokens: 1000 }",
                "output.shown_special_tokens: token id 1000"},
        Refusal{"output { " + Repeat("shown_special_tokens: 1 ", 65) + "}", "has 65 entries"},
        Refusal{"request_id: \"" + Repeat("x", 129) + "\"", "request_id: is 129 bytes"},
        Refusal{"cache_salt: \"" + Repeat("x", 129) + "\"", "cache_salt: is 129 bytes"}));

TEST(ParametersTest, ValuesOnTheBordersAreAllowed) {
  for (const std::string& message :
       {std::string("sampling { temperature: 100 top_p: 1 min_p: 1 n: 128 top_k: 1073741824 }"),
        std::string("sampling { repetition_penalty: 0.001 presence_penalty: -2 }"),
        std::string("sampling { logit_bias { key: 999 value: 100 } }"),
        "stop { " + Repeat("stop_strings: \"x\" ", 64) + "}",
        "stop { stop_strings: \"" + Repeat("x", 256) + "\" stop_token_ids: 999 }",
        "stop { " + Repeat("stop_token_ids: 1 ", 126) + "}",
        std::string("stop { min_tokens: 54 max_tokens: 54 }"),
        "output { " + Repeat("shown_special_tokens: 999 ", 64) + "}",
        "request_id: \"" + Repeat("x", 128) + "\" cache_salt: \"" + Repeat("y", 128) + "\""}) {
    EXPECT_TRUE(Convert(Message(message)).ok()) << message << Convert(Message(message)).status();
  }
}

TEST(ParametersTest, EveryServedNameIsAccepted) {
  ModelFacts model;
  model.vocab_size = 100;
  model.max_model_len = 100;
  model.served_names = {"first", "second"};
  const auto convert = [&model](const std::string& text) {
    return ConvertParameters(Message(text), model, /*random_seed=*/0).status();
  };
  EXPECT_TRUE(convert("model: \"first\"").ok());
  EXPECT_TRUE(convert("model: \"second\"").ok());
  EXPECT_TRUE(convert("").ok());
  EXPECT_THAT(Sentence(convert("model: \"third\"")), HasSubstr("serves \"first\", \"second\""));
}

TEST(ParametersTest, AnotherModelIsNotFound) {
  const absl::Status status = Convert(Message("model: \"gpt\"")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Sentence(status), HasSubstr("serves \"demo\""));
}

TEST(ParametersTest, PromptsMustFit) {
  EXPECT_TRUE(Convert(Message(""), TestModel(), 63).ok());
  for (int num_prompt : {0, 64, 65, 100000}) {
    const absl::Status status = Convert(Message(""), TestModel(), num_prompt).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << num_prompt;
    EXPECT_THAT(Sentence(status),
                HasSubstr(num_prompt == 0 ? "prompt: has no tokens" : "at most 63"));
  }
}

TEST(ParametersTest, TokenIdsMustBeInTheVocabulary) {
  GenerationJob job;
  job.names = &kQuireNames;
  EXPECT_THAT(*ConvertPromptIds({0, 999}, TestModel(), job), ElementsAre(0, 999));
  EXPECT_THAT(Sentence(ConvertPromptIds({0, 1000}, TestModel(), job).status()),
              HasSubstr("token_ids: token id 1000"));
  EXPECT_THAT(Sentence(ConvertPromptIds(std::vector<uint32_t>(65, 1), TestModel(), job).status()),
              HasSubstr("token_ids: has 65 entries"));
}

// Each by the name that its clients know.
TEST(ParametersTest, ErrorsNameTheSurfacesField) {
  Generation asked;
  asked.max_tokens = -1;
  EXPECT_EQ(FieldOf(Convert(asked).status()), "max_tokens");
  static constexpr FieldNames kNames = {.max_tokens = "their_limit"};
  asked.names = &kNames;
  EXPECT_EQ(FieldOf(Convert(asked).status()), "their_limit");
}

TEST(ParametersTest, PriorityIsWithinThePrincipalsLimits) {
  Principal principal;
  principal.name = "alice";
  GenerationJob job;
  job.request.priority = -1;
  const absl::Status status = ApplyPrincipal(principal, &job);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "priority");
  principal.limits.min_priority = -1;
  EXPECT_TRUE(ApplyPrincipal(principal, &job).ok());
  EXPECT_EQ(job.request.priority, -1);
}

TEST(ParametersTest, ThePrefixCacheIsThePrincipals) {
  const auto salt = [](const std::string& name, const std::string& client_salt) {
    Principal principal;
    principal.name = name;
    GenerationJob job;
    job.request.cache_salt = client_salt;
    EXPECT_TRUE(ApplyPrincipal(principal, &job).ok());
    return job.request.cache_salt;
  };
  EXPECT_EQ(salt("alice", "s"), salt("alice", "s"));
  EXPECT_NE(salt("alice", ""), "");
  EXPECT_NE(salt("alice", ""), salt("bob", ""));
  EXPECT_NE(salt("alice", "s"), salt("bob", "s"));
  EXPECT_NE(salt("alice", "s"), salt("alice", ""));
}

}  // namespace
}  // namespace quire
