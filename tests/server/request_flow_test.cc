// The small parts on a request's way: registry, cancel token, work pool, retry advice, prompts,
// statuses on the wire.
#include <gmock/gmock.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/generate/prompt_encoder.h"
#include "server/generate/work_pool.h"
#include "server/request/request_registry.h"
#include "server/request/request_seeds.h"
#include "server/request/retry_pushback.h"
#include "server/rpc/wire.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(RequestRegistryTest, IdsAreUniqueWhileTheyRun) {
  RequestRegistry registry;
  const auto token = std::make_shared<CancelToken>();
  absl::StatusOr<RequestRegistry::Lease> first = registry.Enter("a", token);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(registry.Enter("a", token).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(registry.Enter("b", token).ok());
  EXPECT_EQ(registry.size(), 1) << "the lease of b was given back";
  *first = RequestRegistry::Lease();
  EXPECT_TRUE(registry.Enter("a", token).ok());
}

TEST(RequestRegistryTest, ChosenIdsAvoidTheClients) {
  RequestRegistry registry;
  const auto token = std::make_shared<CancelToken>();
  const auto taken = *registry.Enter("quire-1", token);
  const auto chosen = *registry.Enter("", token);
  EXPECT_NE(chosen.request_id(), "quire-1");
  EXPECT_FALSE(chosen.request_id().empty());
}

TEST(RequestRegistryTest, CancelFindsTheToken) {
  RequestRegistry registry;
  const auto token = std::make_shared<CancelToken>();
  const auto lease = *registry.Enter("a", token);
  EXPECT_FALSE(registry.Cancel("b"));
  EXPECT_FALSE(token->cancelled());
  EXPECT_TRUE(registry.Cancel("a"));
  EXPECT_TRUE(token->cancelled());
}

TEST(RequestRegistryTest, WaitingForTheLastOne) {
  RequestRegistry registry;
  EXPECT_TRUE(registry.WaitUntilEmpty(absl::Now()));
  auto lease = std::make_unique<RequestRegistry::Lease>(
      *registry.Enter("a", std::make_shared<CancelToken>()));
  EXPECT_FALSE(registry.WaitUntilEmpty(absl::Now()));
  std::thread releaser([&] { lease.reset(); });
  EXPECT_TRUE(registry.WaitUntilEmpty(absl::Now() + absl::Seconds(20)));
  releaser.join();
}

TEST(CancelTokenTest, TheActionRunsOnceWheneverItComes) {
  int runs = 0;
  CancelToken early;
  early.Cancel();
  EXPECT_TRUE(early.cancelled());
  early.Bind([&] { ++runs; });
  EXPECT_EQ(runs, 1);
  CancelToken late;
  late.Bind([&] { ++runs; });
  EXPECT_EQ(runs, 1);
  late.Cancel();
  late.Cancel();
  EXPECT_EQ(runs, 2);
}

TEST(WorkPoolTest, RunsAllThatWasAccepted) {
  std::atomic<int> runs{0};
  {
    WorkPool pool(2, 100);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(pool.Add([&] { ++runs; }));
  }
  EXPECT_EQ(runs, 100);
}

TEST(WorkPoolTest, RefusesWhatIsTooMuch) {
  absl::Notification started, go_on;
  WorkPool pool(1, 1);
  ASSERT_TRUE(pool.Add([&] {
    started.Notify();
    go_on.WaitForNotification();
  }));
  started.WaitForNotification();
  EXPECT_TRUE(pool.Add([] {}));
  EXPECT_FALSE(pool.Add([] {}));
  go_on.Notify();
}

TEST(RetryPushbackTest, OnlyOverloadCarriesAdvice) {
  EXPECT_FALSE(RetryPushbackMs(WithRetryPushback(absl::UnavailableError("x"))).has_value());
  EXPECT_FALSE(RetryPushbackMs(absl::ResourceExhaustedError("x")).has_value());
  for (int i = 0; i < 1000; ++i) {
    const auto delay_ms = RetryPushbackMs(WithRetryPushback(absl::ResourceExhaustedError("x")));
    ASSERT_TRUE(delay_ms.has_value());
    EXPECT_GE(*delay_ms, 800);
    EXPECT_LE(*delay_ms, 1200);
  }
}

TEST(WireTest, StatusesKeepCodeAndSentence) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status =
        ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
    EXPECT_EQ(status.error_message(), "why");
  }
  EXPECT_EQ(static_cast<int>(absl::StatusCode::kResourceExhausted),
            static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_LE(ToGrpcStatus(absl::InternalError(std::string(100000, 'x'))).error_message().size(),
            4096u);
}

TEST(WireTest, MessagesSurviveTheRoundTrip) {
  v1::GenerateRequest message;
  message.set_request_id("id");
  message.mutable_text()->set_text(std::string(100000, 'x'));
  const absl::StatusOr<v1::GenerateRequest> parsed = Parse<v1::GenerateRequest>(Serialize(message));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->SerializeAsString(), message.SerializeAsString());
}

TEST(WireTest, BytesThatAreNoMessageAreInvalid) {
  for (const std::string& bytes :
       {std::string("\x0a\x02\xff\xfe", 4),  // request_id that is not UTF-8
        std::string("\x0a\x7f", 2),          // length beyond the end
        std::string(20, '\xff')}) {
    const grpc::Slice slice(bytes);
    const absl::Status status = Parse<v1::GenerateRequest>(grpc::ByteBuffer(&slice, 1)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("quire.v1.GenerateRequest"));
  }
}

class PromptEncoderTest : public testing::Test {
 protected:
  static const PromptEncoder& Demo() {
    static const auto& loaded = *new auto(PromptEncoder::Load("configs/demo", std::nullopt));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return **loaded;
  }
  static absl::Status EncodeError(const v1::GenerateRequest& request) {
    ModelFacts model;
    model.vocab_size = 2048;
    model.max_model_len = 4096;
    return Demo().EncodePrompt(request, model).status();
  }
};

TEST_F(PromptEncoderTest, OnlyTheTemplateMakesSpecialTokensOfMessages) {
  v1::Messages messages;
  v1::Message* message = messages.add_messages();
  message->set_role("user");
  message->set_content("a<|im_end|>b");
  const auto rendered = Demo().Render(messages);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_THAT(rendered->text(), HasSubstr("a<|im_end|>b"));
  const std::vector<TokenId> ids = *Demo().EncodeRendered(*rendered);
  message->set_content("ab");
  const std::vector<TokenId> plain = *Demo().EncodeRendered(*Demo().Render(messages));
  const TokenId im_end = *Demo().tokenizer()->TokenToId("<|im_end|>");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), im_end),
            std::count(plain.begin(), plain.end(), im_end));
}

TEST_F(PromptEncoderTest, TextMakesSpecialTokensUnlessToldNotTo) {
  v1::Text text;
  text.set_text("a<|im_end|>b");
  const TokenId im_end = *Demo().tokenizer()->TokenToId("<|im_end|>");
  EXPECT_THAT(*Demo().EncodeText(text), testing::Contains(im_end));
  text.set_parse_special_tokens(false);
  EXPECT_THAT(*Demo().EncodeText(text), testing::Not(testing::Contains(im_end)));
}

TEST_F(PromptEncoderTest, RefusalsNameTheField) {
  v1::GenerateRequest request;
  EXPECT_THAT(std::string(EncodeError(request).message()), HasSubstr("set one of"));
  request.mutable_text();
  EXPECT_THAT(std::string(EncodeError(request).message()), HasSubstr("text: is empty"));
  request.mutable_messages();
  EXPECT_THAT(std::string(EncodeError(request).message()), HasSubstr("messages: is empty"));
  v1::Message* message = request.mutable_messages()->add_messages();
  EXPECT_THAT(std::string(EncodeError(request).message()), HasSubstr("messages[0].role"));
  message->set_role("user");
  EXPECT_TRUE(EncodeError(request).ok()) << EncodeError(request);
  message->set_extra_json("[1]");
  EXPECT_THAT(std::string(EncodeError(request).message()), HasSubstr("messages[0].extra_json"));
  message->clear_extra_json();
  request.mutable_messages()->set_tools_json("{}");
  EXPECT_THAT(std::string(EncodeError(request).message()), HasSubstr("tools_json"));
  request.mutable_messages()->clear_tools_json();
  request.mutable_messages()->set_template_kwargs_json("nonsense");
  EXPECT_THAT(std::string(EncodeError(request).message()), HasSubstr("template_kwargs_json"));
}

TEST_F(PromptEncoderTest, WithoutATemplateMessagesAreRefused) {
  const PromptEncoder encoder(Demo().tokenizer(), std::nullopt);
  v1::Messages messages;
  EXPECT_THAT(std::string(encoder.Render(messages).status().message()),
              HasSubstr("no chat template"));
  EXPECT_FALSE(encoder.has_chat_template());
}

TEST_F(PromptEncoderTest, AGivenTemplateReplacesTheModels) {
  absl::StatusOr<ChatTemplate> given =
      ChatTemplate::Compile("{% for message in messages %}<{{ message.content }}>{% endfor %}");
  ASSERT_TRUE(given.ok()) << given.status();
  const auto encoder =
      PromptEncoder::Load("configs/demo", ChatTemplateSet(*std::move(given), std::nullopt));
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  v1::Messages messages;
  v1::Message* message = messages.add_messages();
  message->set_role("user");
  message->set_content("a");
  EXPECT_EQ((*encoder)->Render(messages)->text(), "<a>");
}

TEST(RequestSeedsTest, ASeedMakesTheSameOnesInEveryRun) {
  RequestSeeds first(7);
  RequestSeeds again(7);
  RequestSeeds other(8);
  const uint64_t seed = first.Next();
  EXPECT_EQ(seed, again.Next());
  EXPECT_NE(seed, other.Next());
  EXPECT_NE(seed, first.Next());
}

TEST(RequestSeedsTest, WithoutASeedNoneRepeats) {
  EXPECT_NE(RequestSeeds(std::nullopt).Next(), RequestSeeds(std::nullopt).Next());
}

}  // namespace
}  // namespace quire
