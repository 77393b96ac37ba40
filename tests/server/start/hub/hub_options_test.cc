#include "server/start/hub/hub_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/engine/checkpoint/test_files.h"

namespace quire {
namespace {

using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

absl::StatusOr<HubOptions> Read(Variables variables, const std::string& download_dir = "") {
  variables.emplace("HOME", "/home/me");
  return ReadHubOptions(download_dir, [&](const std::string& name) { return variables[name]; });
}

TEST(ReadHubOptions, Defaults) {
  const HubOptions options = *Read({});
  EXPECT_EQ(options.endpoint, "https://huggingface.co");
  EXPECT_EQ(options.cache_folder, "/home/me/.cache/huggingface/hub");
  EXPECT_EQ(options.token, "");
  EXPECT_FALSE(options.offline);
  EXPECT_TRUE(options.use_symlinks);
}

TEST(ReadHubOptions, TheCacheIsWhereHuggingfaceHubHasIt) {
  const auto cache = [](const Variables& variables, const std::string& download_dir = "") {
    return Read(variables, download_dir)->cache_folder;
  };
  EXPECT_EQ(cache({{"XDG_CACHE_HOME", "/x"}}), "/x/huggingface/hub");
  EXPECT_EQ(cache({{"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "/h/"}}), "/h/hub");
  EXPECT_EQ(cache({{"HF_HOME", "~/h"}}), "/home/me/h/hub");
  EXPECT_EQ(cache({{"HF_HOME", "/h"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}), "/old");
  EXPECT_EQ(cache({{"HUGGINGFACE_HUB_CACHE", "/old"}, {"HF_HUB_CACHE", "/new"}}), "/new");
  EXPECT_EQ(cache({{"HF_HUB_CACHE", "/new"}}, "/given/./x"), "/given/x");
  EXPECT_EQ(cache({}, "relative").front(), '/');
}

TEST(ReadHubOptions, Endpoints) {
  EXPECT_EQ(Read({{"HF_ENDPOINT", "http://mirror:8080/hf//"}})->endpoint, "http://mirror:8080/hf");
  for (const char* endpoint :
       {"mirror", "ftp://mirror", "https://", "https://a b", "http://a\nb"}) {
    const absl::Status status = Read({{"HF_ENDPOINT", endpoint}}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << endpoint;
    EXPECT_THAT(status.message(), HasSubstr("HF_ENDPOINT"));
  }
}

TEST(ReadHubOptions, Offline) {
  EXPECT_TRUE(Read({{"HF_HUB_OFFLINE", "1"}})->offline);
  EXPECT_TRUE(Read({{"TRANSFORMERS_OFFLINE", "yes"}})->offline);
  EXPECT_FALSE(Read({{"HF_HUB_OFFLINE", "0"}, {"TRANSFORMERS_OFFLINE", "1"}})->offline);
}

TEST(ReadHubOptions, Tokens) {
  const TempFolder folder;
  folder.Write("token", " hf_file\n");
  folder.Write("other", "hf_other");
  const std::string& home = folder.path();
  EXPECT_EQ(Read({{"HF_HOME", home}})->token, "hf_file");
  EXPECT_EQ(Read({{"HF_HOME", home}})->token_source, home + "/token");
  EXPECT_EQ(Read({{"HF_HOME", home}, {"HF_TOKEN_PATH", home + "/other"}})->token, "hf_other");
  EXPECT_EQ(Read({{"HF_HOME", home}, {"HUGGING_FACE_HUB_TOKEN", "hf_old"}})->token, "hf_old");
  const Variables both = {{"HF_TOKEN", "hf_new\n"}, {"HUGGING_FACE_HUB_TOKEN", "hf_old"}};
  EXPECT_EQ(Read(both)->token, "hf_new");
  EXPECT_EQ(Read(both)->token_source, "HF_TOKEN");
  EXPECT_EQ(Read({{"HF_TOKEN", "hf_new"}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}})->token, "");
  EXPECT_EQ(Read({{"HF_HOME", home + "/absent"}})->token, "");
  EXPECT_THAT(Read({{"HF_TOKEN", "a\r\nHost: b"}}).status().message(), HasSubstr("HF_TOKEN"));
}

TEST(ReadHubOptions, Timeouts) {
  EXPECT_EQ(Read({{"HF_HUB_DOWNLOAD_TIMEOUT", "7"}})->stall_timeout, absl::Seconds(7));
  EXPECT_EQ(Read({{"HF_HUB_ETAG_TIMEOUT", "3"}})->answer_timeout, absl::Seconds(3));
  for (const char* seconds : {"0", "-1", "soon", "1e9"}) {
    EXPECT_THAT(Read({{"HF_HUB_ETAG_TIMEOUT", seconds}}).status().message(),
                HasSubstr("HF_HUB_ETAG_TIMEOUT"));
  }
}

}  // namespace
}  // namespace quire
