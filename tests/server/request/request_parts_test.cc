// The small parts of a running request: registry, cancel token, seeds, retry advice, the field of
// an error.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "server/request/cancel_token.h"
#include "server/request/field_error.h"
#include "server/request/request_registry.h"
#include "server/request/request_seeds.h"
#include "server/request/retry_pushback.h"

namespace quire {
namespace {

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

TEST(FieldErrorTest, TheFieldIsBesideTheSentence) {
  const absl::Status status = InvalidField("sampling.top_p", "2 is out of range");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "2 is out of range");
  EXPECT_EQ(FieldOf(status), "sampling.top_p");
  EXPECT_EQ(FieldOf(absl::InvalidArgumentError("sampling.top_p: 2")), "");
}

TEST(FieldErrorTest, OtherPayloadsStay) {
  const absl::Status status =
      InField("prompt", WithRetryPushback(absl::ResourceExhaustedError("x")));
  EXPECT_EQ(FieldOf(status), "prompt");
  EXPECT_TRUE(RetryPushbackMs(status).has_value());
}

}  // namespace
}  // namespace quire
