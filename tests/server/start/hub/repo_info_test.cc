#include "server/start/hub/repo_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr char kCommit[] = "0123456789abcdef0123456789abcdef01234567";

std::string Answer(const std::string& siblings) {
  return absl::StrCat(R"({"sha":")", kCommit, R"(","siblings":[)", siblings, "]}");
}

RepoInfo InfoOf(const std::vector<std::string>& names) {
  RepoInfo info = {kCommit, {}};
  for (const std::string& name : names) info.files.push_back({name, 10, std::string(40, 'a')});
  return info;
}

std::vector<std::string> Names(const std::vector<RepoFile>& files) {
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const RepoFile& file : files) names.push_back(file.name);
  return names;
}

std::string SelectError(const RepoInfo& info, const ModelNeeds& needs = {}) {
  return std::string(SelectSmallFiles("org/name", info, needs).status().message());
}

TEST(ParseRepoInfo, SmallAndLargeFiles) {
  const std::string sha256(64, 'b');
  const RepoInfo info = *ParseRepoInfo(Answer(
      absl::StrCat(R"({"rfilename":"config.json","size":12,"blobId":")", kCommit, R"("},)",
                   R"({"rfilename":"model.safetensors","size":134,"blobId":")", kCommit,
                   R"(","lfs":{"sha256":")", sha256, R"(","size":5000000000,"pointerSize":134}},)",
                   R"({"rfilename":"bare"})")));
  EXPECT_EQ(info.commit, kCommit);
  ASSERT_EQ(info.files.size(), 3U);
  EXPECT_EQ(info.files[0].size, 12);
  EXPECT_EQ(info.files[0].etag, kCommit);
  EXPECT_EQ(info.files[1].size, 5000000000);
  EXPECT_EQ(info.files[1].etag, sha256);
  EXPECT_EQ(info.files[2].size, -1);
  EXPECT_EQ(info.files[2].etag, "");
}

TEST(ParseRepoInfo, EtagsThatAreNoDigestsAreUnknown) {
  const RepoInfo info = *ParseRepoInfo(
      Answer(R"({"rfilename":"a","size":1,"blobId":"../../etc/passwd"},)"
             R"({"rfilename":"b","size":1,"blobId":"0123456789abcdef0123456789abcdef01234567",)"
             R"("lfs":{"sha256":"short","size":1}})"));
  EXPECT_EQ(info.files[0].etag, "");
  EXPECT_EQ(info.files[1].etag, "");
}

TEST(ParseRepoInfo, FilesOfAnotherKindAreLeftOut) {
  const RepoInfo info = *ParseRepoInfo(
      Answer(R"(1,null,[],{},{"rfilename":""},{"rfilename":7},{"rfilename":"a","size":-1},)"
             R"({"rfilename":"b","lfs":3},{"rfilename":"good"})"));
  EXPECT_THAT(Names(info.files), ElementsAre("good"));
}

TEST(ParseRepoInfo, AnswersThatAreNone) {
  for (const std::string answer :
       {"", "{", "[]", "{}", R"({"sha":"main","siblings":[]})", R"({"sha":7,"siblings":[]})",
        R"({"sha":"0123456789abcdef0123456789abcdef01234567"})",
        R"({"sha":"0123456789abcdef0123456789abcdef01234567","siblings":{}})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseRepoInfo(answer).status())) << answer;
  }
}

TEST(SelectSmallFiles, WhatAModelNeeds) {
  const RepoInfo info =
      InfoOf({"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
              "chat_template.jinja", "additional_chat_templates/tool_use.jinja", "merges.txt",
              "model.safetensors", "model.safetensors.index.json", "README.md", "pytorch_model.bin",
              "original/config.json", "additional_chat_templates/a/b.jinja",
              "additional_chat_templates/.jinja", "../config.json", "config.json"});
  EXPECT_THAT(Names(*SelectSmallFiles("org/name", info, {})),
              UnorderedElementsAre("config.json", "generation_config.json", "tokenizer.json",
                                   "tokenizer_config.json", "chat_template.jinja",
                                   "additional_chat_templates/tool_use.jinja", "merges.txt"));
  EXPECT_THAT(Names(*SelectSmallFiles("org/name", info, {.weights = false, .tokenizer = false})),
              UnorderedElementsAre("config.json", "generation_config.json"));
}

// Without them a checkpoint would not be known to be quantized.
TEST(SelectSmallFiles, WhatSaysHowWeightsAreQuantized) {
  const std::vector<std::string> files = {"config.json", "hf_quant_config.json",
                                          "quantize_config.json", "quant_config.json"};
  EXPECT_THAT(
      Names(*SelectSmallFiles("org/name", InfoOf(files), {.weights = false, .tokenizer = false})),
      testing::UnorderedElementsAreArray(files));
}

TEST(SelectSmallFiles, AnIndexTakesThePlaceOfASingleFile) {
  const RepoInfo info = InfoOf({"config.json", "tokenizer.json", "model.safetensors.index.json"});
  EXPECT_THAT(Names(*SelectSmallFiles("org/name", info, {})),
              testing::Contains("model.safetensors.index.json"));
  EXPECT_THAT(Names(*SelectSmallFiles("org/name", info, {.weights = false})),
              testing::Not(testing::Contains("model.safetensors.index.json")));
}

TEST(SelectSmallFiles, SaysWhatIsNoModel) {
  EXPECT_THAT(SelectError(InfoOf({"x.gguf"})), HasSubstr("org/name holds GGUF files"));
  EXPECT_THAT(SelectError(InfoOf({"config.json", "pytorch_model.bin"})),
              HasSubstr("from_pretrained('org/name')"));
  EXPECT_THAT(SelectError(InfoOf({"config.json", "model.safetensors"})),
              HasSubstr("--skip-tokenizer-init"));
  RepoInfo huge = InfoOf({"config.json", "tokenizer.json", "model.safetensors"});
  huge.files[0].size = 100 << 20;
  EXPECT_THAT(SelectError(huge), HasSubstr("config.json has 104,857,600 bytes"));
}

TEST(SelectWeights, OneFileOrThoseOfTheIndex) {
  const RepoInfo single = InfoOf({"model.safetensors", "consolidated.safetensors"});
  EXPECT_THAT(Names(*SelectWeights("org/name", single, "")), ElementsAre("model.safetensors"));
  const RepoInfo sharded = InfoOf({"b.safetensors", "a.safetensors", "c.safetensors"});
  EXPECT_THAT(Names(*SelectWeights("org/name", sharded,
                                   R"({"weight_map":{"x":"b.safetensors","y":"a.safetensors"}})")),
              ElementsAre("a.safetensors", "b.safetensors"));
}

TEST(SelectWeights, AnIndexThatCannotBeFollowed) {
  const RepoInfo info = InfoOf({"../a.safetensors", "a.safetensors"});
  const auto error = [&](const std::string& index) {
    return SelectWeights("org/name", info, index).status();
  };
  EXPECT_TRUE(absl::IsDataLoss(error("{}")));
  EXPECT_TRUE(absl::IsDataLoss(error(R"({"weight_map":{"x":"../a.safetensors"}})")));
  EXPECT_THAT(error(R"({"weight_map":{"x":"b.safetensors"}})").message(),
              HasSubstr("lacks \"b.safetensors\""));
}

}  // namespace
}  // namespace quire
