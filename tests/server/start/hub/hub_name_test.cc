#include "server/start/hub/hub_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::HasSubstr;

std::string NameError(const std::string& name) {
  const absl::Status status = CheckHubName(name);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << name << ": " << status;
  return std::string(status.message());
}

TEST(CheckHubName, NamesThatTheHubGivesOut) {
  for (const char* name : {"gpt2", "Qwen/Qwen3-0.6B", "a/b", "org_1/name.v2-x_y", "0/0"}) {
    EXPECT_TRUE(CheckHubName(name).ok()) << name;
  }
  EXPECT_TRUE(CheckHubName(std::string(96, 'a')).ok());
}

TEST(CheckHubName, EverythingElse) {
  for (const std::string name :
       {"",     "/",    "a/",   "/a",    "a//b",        "a/b/c", "a b",  "a/b c",
        "a\nb", ".a",   "a.",   "a/.b",  "-a",          "a-",    "a/b-", "a--b",
        "a..b", "../a", "a/..", "a.git", "a/b\xc3\xa9", "~/a",   "a\\b", "C:\\a"}) {
    NameError(name);
  }
  NameError(std::string(97, 'a'));
  NameError(std::string("a\0b", 3));
}

TEST(CheckHubName, SaysWhatToPassInstead) {
  EXPECT_THAT(NameError("https://huggingface.co/Qwen/Qwen3-0.6B/tree/main"),
              HasSubstr("pass the part that names it, Qwen/Qwen3-0.6B"));
  EXPECT_THAT(NameError("https://huggingface.co"), HasSubstr("org/name"));
  EXPECT_THAT(NameError("Qwen/Qwen3-0.6B@v1"),
              HasSubstr("pass --model Qwen/Qwen3-0.6B and --revision v1"));
  EXPECT_THAT(NameError("Qwen/Qwen3-0.6B:main"), HasSubstr("--revision main"));
  EXPECT_THAT(NameError("a\nb"), testing::Not(HasSubstr("\n")));
  for (const char* address : {"hf.co/Qwen/Qwen3-0.6B", "hf://Qwen/Qwen3-0.6B",
                              "huggingface.co/Qwen/Qwen3-0.6B", "hf.co/Qwen/Qwen3-0.6B:main"}) {
    EXPECT_THAT(NameError(address), HasSubstr("pass the part that names it, Qwen/Qwen3-0.6B"));
  }
}

// As llama.cpp, Ollama and LM Studio name models.
TEST(CheckHubName, ATagIsNoRevision) {
  for (const char* name :
       {"unsloth/Qwen3-0.6B-GGUF:Q4_K_M", "unsloth/Qwen3-0.6B-GGUF:UD-Q4_K_XL", "a/b:iq2_xxs",
        "a/b-GGUF:BF16", "a/b:mxfp4_moe", "a/b:TQ1_0", "hf.co/a/b-GGUF:Q8_0"}) {
    EXPECT_THAT(NameError(name), HasSubstr("GGUF files are not supported yet; pass the repository "
                                           "with safetensors files that they were made from"));
  }
  for (const char* name : {"qwen3:0.6b", "llama3.2:latest", "gemma3:270m", "user/model:8b-q4",
                           "smollm2:135m-instruct-q4_K_M", "phi3:mini"}) {
    EXPECT_THAT(NameError(name),
                HasSubstr("Ollama's models are GGUF files, which are not supported "
                          "yet; pass the one with safetensors files"));
  }
  EXPECT_THAT(NameError("Qwen/Qwen3-0.6B:v1.0"), HasSubstr("--revision v1.0"));
  EXPECT_THAT(NameError("Qwen/Qwen3-0.6B@Q4_K_M"), HasSubstr("--revision Q4_K_M"));
}

TEST(CheckRevision, BranchesTagsAndCommits) {
  for (const char* revision :
       {"main", "v1.0", "refs/pr/3", "feature/x-y_z", "0123456789abcdef0123456789abcdef01234567"}) {
    EXPECT_TRUE(CheckRevision(revision).ok()) << revision;
  }
}

TEST(CheckRevision, NeverLeadsOutOfItsFolder) {
  for (const char* revision :
       {"",        "..",   "../x", "a/../b", "a/..", "/a",     "a/",      "a//b",
        ".hidden", "a/.b", "a b",  "a\tb",   "a\nb", "a\\b",   "a:b",     "a?b",
        "a*b",     "a[b",  "a^b",  "a~b",    "-a",   "a.lock", "\xc3\xa9"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckRevision(revision))) << revision;
  }
  EXPECT_FALSE(CheckRevision(std::string(201, 'a')).ok());
  EXPECT_FALSE(CheckRevision(std::string("a\0b", 3)).ok());
}

TEST(IsCommit, FortyLowerCaseHexDigits) {
  EXPECT_TRUE(IsCommit("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(IsCommit("0123456789abcdef0123456789abcdef0123456"));
  EXPECT_FALSE(IsCommit("0123456789ABCDEF0123456789abcdef01234567"));
  EXPECT_FALSE(IsCommit("main"));
}

TEST(NormalizeEtag, WithoutMarksAndQuotes) {
  EXPECT_EQ(NormalizeEtag("\"abc-1\""), "abc-1");
  EXPECT_EQ(NormalizeEtag(" W/\"abc\" "), "abc");
  EXPECT_EQ(NormalizeEtag("abc"), "abc");
}

TEST(NormalizeEtag, WhatCannotBeAFileNameIsNone) {
  for (const char* etag :
       {"", "\"\"", "\"../x\"", "\"a/b\"", "\".\"", "\"a b\"", "\"a\\b\"", "\"a"}) {
    EXPECT_TRUE(NormalizeEtag(etag).empty() || NormalizeEtag(etag) == "a") << etag;
  }
  EXPECT_EQ(NormalizeEtag(std::string(129, 'a')), "");
}

TEST(PercentEncode, LeavesOnlyWhatAPathMayHave) {
  EXPECT_EQ(PercentEncode("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(PercentEncode("a-b_c.d~e 1#?%"), "a-b_c.d~e%201%23%3F%25");
}

TEST(CacheFolderName, IsHuggingfaceHubs) {
  EXPECT_EQ(CacheFolderName("Qwen/Qwen3-0.6B"), "models--Qwen--Qwen3-0.6B");
  EXPECT_EQ(CacheFolderName("gpt2"), "models--gpt2");
}

}  // namespace
}  // namespace quire
