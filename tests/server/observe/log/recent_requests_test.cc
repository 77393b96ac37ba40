// The last requests: which calls are kept, how many, and how much of what clients chose.
#include "server/observe/log/recent_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

AccessEntry Accepted(std::string id) {
  AccessEntry entry;
  entry.request_id = std::move(id);
  entry.principal = "alice";
  entry.method = "/v1/chat/completions";
  entry.prompt_tokens = 7;
  return entry;
}

AccessEntry Refused() {
  AccessEntry entry = Accepted("");
  entry.prompt_tokens.reset();
  entry.status = absl::StatusCode::kResourceExhausted;
  return entry;
}

std::vector<std::string> Ids(const RecentRequests& requests) {
  std::vector<std::string> ids;
  for (const auto& request : requests.Read()) ids.push_back(request.entry.request_id);
  return ids;
}

TEST(RecentRequestsTest, TheLastOneComesFirst) {
  RecentRequests requests;
  const absl::Time end = absl::FromUnixSeconds(5);
  requests.Add(Accepted("a"), end);
  requests.Add(Refused(), end);
  requests.Add(Accepted("b"), end);
  EXPECT_THAT(Ids(requests), ElementsAre("b", "", "a"));
  EXPECT_EQ(requests.num_added(), 3u);
  EXPECT_EQ(requests.Read()[0].number, 3u);
  EXPECT_EQ(requests.Read()[0].end, end);
}

TEST(RecentRequestsTest, KeepsAsManyAsItSays) {
  RecentRequests requests;
  for (size_t i = 1; i <= 3 * RecentRequests::kMaxAccepted + 1; ++i) {
    requests.Add(Accepted(absl::StrCat(i)), absl::UnixEpoch());
  }
  const std::vector<std::string> ids = Ids(requests);
  ASSERT_THAT(ids, SizeIs(RecentRequests::kMaxAccepted));
  EXPECT_EQ(ids.front(), absl::StrCat(3 * RecentRequests::kMaxAccepted + 1));
  EXPECT_EQ(ids.back(), absl::StrCat(2 * RecentRequests::kMaxAccepted + 2));
}

TEST(RecentRequestsTest, AFloodOfRefusalsPushesOutNoneThatTheEngineHad) {
  RecentRequests requests;
  requests.Add(Accepted("a"), absl::UnixEpoch());
  for (size_t i = 0; i < 1000; ++i) requests.Add(Refused(), absl::UnixEpoch());
  EXPECT_THAT(requests.Read(), SizeIs(1 + RecentRequests::kMaxRefused));
  EXPECT_EQ(Ids(requests).back(), "a");
}

TEST(RecentRequestsTest, OtherCallsAndStrangersAreNotKept) {
  RecentRequests requests;
  AccessEntry other = Accepted("a");
  other.method = "/metrics";
  AccessEntry stranger = Refused();
  stranger.principal.clear();
  requests.Add(other, absl::UnixEpoch());
  requests.Add(stranger, absl::UnixEpoch());
  EXPECT_THAT(requests.Read(), IsEmpty());
  EXPECT_EQ(requests.num_added(), 0u);
}

TEST(RecentRequestsTest, LongNamesAreCut) {
  RecentRequests requests;
  AccessEntry entry = Accepted(std::string(5000, 'i'));
  entry.principal = std::string(5000, 'p');
  entry.model = std::string(5000, 'm');
  requests.Add(entry, absl::UnixEpoch());
  const AccessEntry kept = requests.Read().front().entry;
  EXPECT_EQ(kept.request_id, std::string(RecentRequests::kMaxTextBytes, 'i'));
  EXPECT_EQ(kept.principal, std::string(RecentRequests::kMaxTextBytes, 'p'));
  EXPECT_EQ(kept.model, std::string(RecentRequests::kMaxTextBytes, 'm'));
}

TEST(RecentRequestsTest, EveryWayToGenerateHasASurface) {
  for (const char* method : {"/v1/completions", "/v1/chat/completions", "/v1/responses"}) {
    EXPECT_EQ(SurfaceOf(method), "openai") << method;
  }
  EXPECT_EQ(SurfaceOf("/v1/messages"), "anthropic");
  for (const char* method : {"/quire.v1.Inference/Generate", "/quire.v1.Inference/GenerateOnce"}) {
    EXPECT_EQ(SurfaceOf(method), "quire.v1") << method;
  }
  for (const char* method : {"/vllm.grpc.engine.VllmEngine/Generate", "/vllm.Inference/Generate",
                             "/vllm.Inference/GenerateStream"}) {
    EXPECT_EQ(SurfaceOf(method), "vllm") << method;
  }
  EXPECT_EQ(SurfaceOf("/quire.v1.Inference/Tokenize"), "");
}

}  // namespace
}  // namespace quire
