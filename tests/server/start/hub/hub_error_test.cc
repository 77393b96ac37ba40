#include "server/start/hub/hub_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace quire {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

HubOptions Options(const std::string& token = "") {
  HubOptions options;
  options.endpoint = "https://hub";
  options.token = token;
  options.token_source = "HF_TOKEN";
  return options;
}

absl::Status Explain(int status, std::map<std::string, std::string> headers = {},
                     const HubOptions& options = Options()) {
  HubResponse response;
  response.status = status;
  response.headers = std::move(headers);
  return ExplainResponse(response, HubSubject{"org/name", "v1"}, options);
}

TEST(ExplainResponse, EachRefusalHasItsCure) {
  EXPECT_THAT(Explain(401, {{"x-error-code", "RepoNotFound"}}).message(),
              AllOf(HasSubstr("no folder org/name here"), HasSubstr("set HF_TOKEN")));
  EXPECT_THAT(Explain(404, {{"x-error-code", "RepoNotFound"}}, Options("hf_x")).message(),
              AllOf(HasSubstr("the token from HF_TOKEN"), HasSubstr("check the spelling")));
  EXPECT_THAT(
      Explain(403, {{"x-error-code", "GatedRepo"}}).message(),
      AllOf(HasSubstr("accept its licence at https://hub/org/name"), HasSubstr("set HF_TOKEN")));
  EXPECT_THAT(Explain(401, {}, Options("hf_x")).message(),
              HasSubstr("refuses the token from HF_TOKEN"));
  EXPECT_THAT(Explain(404, {{"x-error-code", "RevisionNotFound"}}).message(),
              HasSubstr("org/name has no revision v1"));
  EXPECT_THAT(Explain(429, {{"retry-after", "60"}}).message(), HasSubstr("in 60 s"));
  EXPECT_THAT(Explain(503, {{"content-type", "text/html; charset=utf-8"}}).message(),
              HasSubstr("web page"));
  EXPECT_THAT(Explain(0).message(), HasSubstr("no answer"));
}

TEST(ExplainResponse, WhoseFaultItIs) {
  EXPECT_TRUE(absl::IsNotFound(Explain(404)));
  EXPECT_TRUE(absl::IsPermissionDenied(Explain(403)));
  EXPECT_TRUE(absl::IsPermissionDenied(Explain(451)));
  for (const int status : {0, 302, 400, 408, 429, 500, 503}) {
    EXPECT_TRUE(absl::IsUnavailable(Explain(status))) << status;
  }
}

TEST(ExplainResponse, TheTokenIsNeverShown) {
  for (const int status : {0, 401, 403, 404, 429, 500}) {
    EXPECT_THAT(Explain(status, {}, Options("hf_secret")).message(), Not(HasSubstr("hf_secret")));
  }
}

TEST(ExplainResponse, TheHubsWordsAreShortAndInOneLine) {
  const absl::Status status =
      Explain(500, {{"x-error-message", "two\nlines\x1b[31m" + std::string(100000, 'x')}});
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("two\\nlines"), Not(HasSubstr("\n")), Not(HasSubstr("\x1b"))));
  EXPECT_LT(status.message().size(), 500U);
}

TEST(ExplainWriteError, NamesWhatToSet) {
  EXPECT_TRUE(absl::IsResourceExhausted(ExplainWriteError("/x", ENOSPC)));
  EXPECT_TRUE(absl::IsUnavailable(ExplainWriteError("/x", EROFS)));
  for (const int error : {ENOSPC, EROFS, EACCES}) {
    EXPECT_THAT(ExplainWriteError("/x", error).message(),
                AllOf(HasSubstr("/x"), HasSubstr("HF_HOME"), HasSubstr("--download-dir")));
  }
}

}  // namespace
}  // namespace quire
