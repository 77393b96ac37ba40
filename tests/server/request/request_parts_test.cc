// The small parts of a running request: registry, cancel token, seeds, retry advice, the field of
// an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "server/base/random_bytes.h"
#include "server/request/cancel_token.h"
#include "server/request/field_error.h"
#include "server/request/random_id.h"
#include "server/request/request_rate.h"
#include "server/request/request_registry.h"
#include "server/request/request_seeds.h"
#include "server/request/retry_pushback.h"

namespace quire {
namespace {

Principal Named(const std::string& name, RoleSet roles = {Role::kInference}) {
  Principal principal;
  principal.name = name;
  principal.roles = roles;
  return principal;
}

// A registry at one moment.
class RequestRegistryTest : public testing::Test {
 protected:
  absl::StatusOr<RequestRegistry::Lease> Enter(const Principal& owner, const std::string& id) {
    return registry_.Enter(owner, id, token_, now_);
  }
  // A request with a token of its own, which tells whether it was cancelled.
  std::shared_ptr<CancelToken> Run(const Principal& owner, const std::string& id) {
    auto token = std::make_shared<CancelToken>();
    leases_.push_back(*registry_.Enter(owner, id, token, now_));
    return token;
  }

  const Principal alice_ = Named("alice");
  const Principal bob_ = Named("bob");
  const Principal admin_ = Named("root", {Role::kAdmin});
  const std::shared_ptr<CancelToken> token_ = std::make_shared<CancelToken>();
  absl::Time now_ = absl::UnixEpoch();
  RequestRegistry registry_;
  std::vector<RequestRegistry::Lease> leases_;
};

TEST_F(RequestRegistryTest, IdsAreUniqueWhileTheyRun) {
  absl::StatusOr<RequestRegistry::Lease> first = Enter(alice_, "a");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->request_id(), "a");
  EXPECT_EQ(first->principal(), "alice");
  EXPECT_EQ(Enter(alice_, "a").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Enter(alice_, "b").ok());
  EXPECT_EQ(registry_.size(), 1) << "the lease of b was given back";
  *first = RequestRegistry::Lease();
  EXPECT_TRUE(Enter(alice_, "a").ok());
}

TEST_F(RequestRegistryTest, AnotherIdIsMadeOfOneInUse) {
  const auto enter = [&](const Principal& owner) {
    return *registry_.Enter(owner, "a", token_, now_, IdInUse::kMakeAnother);
  };
  const auto first = enter(alice_), second = enter(alice_), third = enter(alice_);
  EXPECT_EQ(first.request_id(), "a");
  EXPECT_THAT(second.request_id(), testing::MatchesRegex("a-[0-9a-f]{32}"));
  EXPECT_THAT(third.request_id(), testing::MatchesRegex("a-[0-9a-f]{32}"));
  EXPECT_NE(second.request_id(), third.request_id());
  EXPECT_EQ(enter(bob_).request_id(), "a");
}

TEST_F(RequestRegistryTest, AnIdBelongsToItsPrincipal) {
  const auto of_alice = *Enter(alice_, "a");
  EXPECT_TRUE(Enter(bob_, "a").ok()) << "alice's ids keep nobody else's from being used";
}

TEST_F(RequestRegistryTest, ChosenIdsCannotBeGuessed) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = Enter(alice_, "")->request_id();
    EXPECT_THAT(id, testing::MatchesRegex("[0-9a-f]{32}"));
    EXPECT_TRUE(ids.insert(id).second) << id;
  }
  // Every digit is seen in every place: none is a counter or a clock.
  for (int place = 0; place < 32; ++place) {
    std::set<char> digits;
    for (const std::string& id : ids) digits.insert(id[place]);
    EXPECT_EQ(digits.size(), 16) << place;
  }
}

TEST_F(RequestRegistryTest, WhoeverAsksEndsTheirOwn) {
  const auto of_alice = Run(alice_, "a");
  const auto of_bob = Run(bob_, "a");
  EXPECT_FALSE(*registry_.Cancel(alice_, "b", ""));
  EXPECT_TRUE(*registry_.Cancel(alice_, "a", ""));
  EXPECT_TRUE(of_alice->cancelled());
  EXPECT_FALSE(of_bob->cancelled());
  EXPECT_TRUE(*registry_.Cancel(bob_, "a", "bob"));
  EXPECT_TRUE(of_bob->cancelled());
}

TEST_F(RequestRegistryTest, NobodyEndsAnothers) {
  const auto of_alice = Run(alice_, "a");
  EXPECT_FALSE(*registry_.Cancel(bob_, "a", "")) << "as if there were none";
  EXPECT_EQ(registry_.Cancel(bob_, "a", "alice").status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(registry_.Cancel(bob_, "b", "alice").status().code(),
            absl::StatusCode::kPermissionDenied)
      << "whether there is one or not";
  EXPECT_FALSE(of_alice->cancelled());
}

TEST_F(RequestRegistryTest, AnAdminEndsAnybodys) {
  const auto of_alice = Run(alice_, "a");
  EXPECT_TRUE(*registry_.Cancel(admin_, "a", ""));
  EXPECT_TRUE(of_alice->cancelled());
  EXPECT_FALSE(*registry_.Cancel(admin_, "b", ""));
  const auto another = Run(alice_, "c");
  EXPECT_FALSE(*registry_.Cancel(admin_, "c", "bob"));
  EXPECT_FALSE(another->cancelled());
  EXPECT_TRUE(*registry_.Cancel(admin_, "c", "alice"));
  EXPECT_TRUE(another->cancelled());
}

TEST_F(RequestRegistryTest, AnAdminSaysWhichOfSeveral) {
  const auto of_alice = Run(alice_, "a");
  const auto of_bob = Run(bob_, "a");
  const absl::Status status = registry_.Cancel(admin_, "a", "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FieldOf(status), "principal");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("\"alice\", \"bob\""));
  EXPECT_FALSE(of_alice->cancelled() || of_bob->cancelled());
  const auto of_admin = Run(admin_, "a");
  EXPECT_TRUE(*registry_.Cancel(admin_, "a", "")) << "their own comes first";
  EXPECT_TRUE(of_admin->cancelled());
  EXPECT_FALSE(of_alice->cancelled() || of_bob->cancelled());
}

TEST_F(RequestRegistryTest, ConcurrentRequestsAreLimitedByPrincipal) {
  Principal limited = Named("limited");
  limited.limits.max_concurrent_requests = 2;
  Run(limited, "a");
  auto second = *Enter(limited, "");
  const absl::Status refused = Enter(limited, "").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("\"limited\" has 2 requests"));
  EXPECT_TRUE(Enter(alice_, "").ok()) << "others may";
  second = RequestRegistry::Lease();
  EXPECT_TRUE(Enter(limited, "").ok());
}

TEST_F(RequestRegistryTest, RequestsPerMinuteAreLimitedByPrincipal) {
  Principal limited = Named("limited");
  limited.limits.max_requests_per_minute = 3;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Enter(limited, "").ok());
  const absl::Status refused = Enter(limited, "").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("3 requests a minute"));
  EXPECT_TRUE(Enter(alice_, "").ok()) << "others may";
  now_ += absl::Seconds(20);
  EXPECT_TRUE(Enter(limited, "").ok());
  EXPECT_FALSE(Enter(limited, "").ok());
}

TEST(RequestRatesTest, SaysHowLongToWait) {
  RequestRates rates;
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(rates.Take("a", 1, start), absl::ZeroDuration());
  EXPECT_EQ(rates.Take("a", 1, start), absl::Minutes(1));
  EXPECT_EQ(rates.Take("a", 1, start + absl::Seconds(45)), absl::Seconds(15));
  EXPECT_EQ(rates.Take("a", 1, start - absl::Hours(1)), absl::Seconds(15)) << "a clock set back";
  EXPECT_EQ(rates.Take("a", 1, start + absl::Seconds(60)), absl::ZeroDuration());
}

TEST(RequestRatesTest, WhoeverIsIdleIsForgotten) {
  RequestRates rates;
  absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < 10000; ++i) {
    rates.Take(std::to_string(i), 10, now);
    now += absl::Seconds(1);
  }
  EXPECT_LE(rates.size(), 130);
}

TEST_F(RequestRegistryTest, WaitingForTheLastOne) {
  EXPECT_TRUE(registry_.WaitUntilEmpty(absl::Now()));
  auto lease = std::make_unique<RequestRegistry::Lease>(*Enter(alice_, "a"));
  EXPECT_FALSE(registry_.WaitUntilEmpty(absl::Now()));
  std::thread releaser([&] { lease.reset(); });
  EXPECT_TRUE(registry_.WaitUntilEmpty(absl::Now() + absl::Seconds(20)));
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

TEST(CancelTokenTest, WhatNobodyListensToIsAbandonedAlsoAfterItWasCancelled) {
  std::string runs;
  const auto note = [&](char what) { return [&runs, what] { runs += what; }; };
  CancelToken at_once;
  at_once.Bind(note('c'), note('a'));
  at_once.Abandon();
  at_once.Abandon();
  at_once.Cancel();
  EXPECT_TRUE(at_once.cancelled());
  EXPECT_EQ(std::exchange(runs, ""), "a");
  CancelToken later;
  later.Bind(note('c'), note('a'));
  later.Cancel();
  later.Abandon();
  EXPECT_EQ(std::exchange(runs, ""), "ca");
  CancelToken before;
  before.Abandon();
  before.Bind(note('c'), note('a'));
  EXPECT_EQ(std::exchange(runs, ""), "a");
  CancelToken of_one_kind;
  of_one_kind.Bind(note('c'));
  of_one_kind.Abandon();
  EXPECT_EQ(runs, "c");
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

TEST(RandomBytesTest, NobodyGetsWhatAnotherHas) {
  std::set<std::string> ids;
  std::set<uint8_t> values;
  for (const size_t num_bytes : {16u, 16u, 8u, 200u, 256u, 257u, 4000u}) {
    for (int i = 0; i < 300; ++i) {
      std::vector<uint8_t> bytes(num_bytes);
      FillRandom(absl::MakeSpan(bytes));
      for (size_t begin = 0; begin + 8 <= num_bytes; begin += 8) {
        const auto* word = reinterpret_cast<const char*>(bytes.data()) + begin;
        ASSERT_TRUE(ids.insert(std::string(word, 8)).second) << num_bytes;
      }
      values.insert(bytes.begin(), bytes.end());
    }
  }
  EXPECT_EQ(values.size(), 256u);
  // Each thread has a store of its own.
  std::string elsewhere;
  std::thread([&elsewhere] { elsewhere = RandomId(); }).join();
  EXPECT_NE(elsewhere, RandomId());
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
