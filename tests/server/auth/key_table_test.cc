// The key file: what a line may say, the sentence of every mistake, and that no key is ever shown.
#include "server/auth/key_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kSecret[] = "correct-horse-battery-staple";
// printf %s correct-horse-battery-staple | sha256sum
constexpr char kDigest[] = "87cbebfeebc05f7c54ac9336c4b4bbec831227a641951a4bde7edd56020f8590";

KeyTable Parse(const std::string& text) {
  absl::StatusOr<KeyTable> table = KeyTable::Parse(text, "keys");
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? *std::move(table) : KeyTable();
}

// A line with this member after a good beginning.
std::string Line(const std::string& member) {
  return absl::StrCat(R"({"key": ")", kSecret, R"(", "name": "alice", )", member, "}");
}

std::string Mistake(const std::string& text) {
  const absl::StatusOr<KeyTable> table = KeyTable::Parse(text, "keys");
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << text;
  const std::string sentence(table.status().message());
  EXPECT_THAT(sentence, Not(HasSubstr(kSecret)));
  return sentence;
}

TEST(KeyTableTest, ALineWithEverything) {
  const KeyTable table = Parse(
      R"({"key": "correct-horse-battery-staple", "name": "team/alice", "roles": ["inference", "admin"],)"
      R"( "weight": 25, "max_concurrent_requests": 8,)"
      R"( "max_requests_per_minute": 60, "min_priority": -10, "max_priority": 10,)"
      R"( "cache_group": "team"})");
  const auto alice = table.FindKey(kSecret);
  ASSERT_NE(alice, nullptr);
  EXPECT_EQ(alice->name, "team/alice");
  EXPECT_EQ(alice->roles, (RoleSet{Role::kInference, Role::kAdmin}));
  EXPECT_EQ(alice->weight, 25);
  EXPECT_EQ(alice->cache_group, "team");
  EXPECT_EQ(alice->limits, (PrincipalLimits{.max_concurrent_requests = 8,
                                            .max_requests_per_minute = 60,
                                            .min_priority = -10,
                                            .max_priority = 10}));
}

TEST(KeyTableTest, ALineWithTheLeast) {
  const KeyTable table = Parse(absl::StrCat("\n", Line(R"("weight": 1)"), "\r\n\n"));
  const auto alice = table.FindKey(kSecret);
  ASSERT_NE(alice, nullptr);
  EXPECT_EQ(alice->roles, RoleSet{Role::kInference});
  EXPECT_EQ(alice->limits, PrincipalLimits());
  EXPECT_EQ(alice->cache_group, "");
  EXPECT_EQ(alice->limits.min_priority, 0) << "nobody pushes ahead without the right";
}

TEST(KeyTableTest, OnlyTheWholeKeyIsFound) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    absl::StrAppend(&text, R"({"key": "0123456789-abcdef-)", i, R"(", "name": "p)", i, "\"}\n");
  }
  const KeyTable table = Parse(text);
  EXPECT_EQ(table.num_keys(), 100);
  for (int i = 0; i < 100; ++i) {
    const auto found = table.FindKey(absl::StrCat("0123456789-abcdef-", i));
    ASSERT_NE(found, nullptr) << i;
    EXPECT_EQ(found->name, absl::StrCat("p", i));
  }
  for (const char* wrong : {"", "0123456789-abcdef-", "0123456789-abcdef-100",
                            "0123456789-abcdef-1 ", "0123456789-ABCDEF-1"}) {
    EXPECT_EQ(table.FindKey(wrong), nullptr) << wrong;
  }
  EXPECT_EQ(table.FindCertificate("p1"), nullptr);
}

TEST(KeyTableTest, AKeyMayBeGivenByItsDigest) {
  const KeyTable table =
      Parse(absl::StrCat(R"({"key_sha256": ")", kDigest, R"(", "name": "alice"})"));
  ASSERT_NE(table.FindKey(kSecret), nullptr);
  EXPECT_EQ(table.FindKey(kDigest), nullptr) << "the digest is not a key";
}

TEST(KeyTableTest, ACertificatesNameIsAPrincipalToo) {
  const KeyTable table =
      Parse(R"({"certificate": "spiffe://x/y", "name": "y", "roles": ["admin"]})");
  ASSERT_NE(table.FindCertificate("spiffe://x/y"), nullptr);
  EXPECT_EQ(table.FindCertificate("spiffe://x/y")->name, "y");
  EXPECT_EQ(table.FindCertificate("spiffe://x/"), nullptr);
  EXPECT_EQ(table.FindKey("spiffe://x/y"), nullptr) << "its name alone proves nothing";
}

TEST(KeyTableTest, TwoKeysOfOneName) {
  const std::string other = R"({"key": "another-key-of-hers", "name": "alice"})";
  const std::string first = R"({"key": "correct-horse-battery-staple", "name": "alice"})";
  const KeyTable table = Parse(first + "\n" + other);
  EXPECT_EQ(table.FindKey(kSecret), table.FindKey("another-key-of-hers"));
  EXPECT_THAT(Mistake(Line(R"("weight": 2)") + "\n" + other),
              AllOf(StartsWith("keys:2: "), HasSubstr("\"alice\" is named by an earlier line")));
}

TEST(KeyTableTest, EveryMistakeHasASentence) {
  const auto says = [](const std::string& text, const std::string& sentence) {
    EXPECT_THAT(Mistake(text), AllOf(StartsWith("keys:1: "), HasSubstr(sentence)));
  };
  says("{", "not valid JSON");
  says("[]", "must hold one JSON object");
  says("{}", "must have one of key, key_sha256 and certificate");
  says(R"({"key": "correct-horse-battery-staple"})", "has no name");
  says(R"({"key": "short", "name": "a"})", "key has 5 bytes; allowed are 16 .. 512");
  says(R"({"key": "correct horse battery staple", "name": "a"})", "without spaces");
  says(R"({"key": ["correct-horse-battery-staple"], "name": "a"})", "key must be a string");
  says(R"({"key_sha256": "12", "name": "a"})", "64 hexadecimal digits");
  says(R"({"certificate": "", "name": "a"})", "certificate must be the name");
  says(R"({"key": "correct-horse-battery-staple", "certificate": "b", "name": "a"})",
       "must have one of");
  says(R"({"key": "correct-horse-battery-staple", "name": "peer:1.2.3.4"})", "name is");
  says(R"({"key": "correct-horse-battery-staple", "name": "a b"})", "name is");
  says(R"({"key": "correct-horse-battery-staple", "name": ""})", "name is");
  says(Line(R"("rolls": ["admin"])"), "unknown member \"rolls\"");
  says(Line(R"("name": "bob")"), "key \"name\" appears twice");
  says(Line(R"("roles": ["root"])"), "roles has \"root\"");
  says(Line(R"("roles": [])"), "roles is empty");
  says(Line(R"("roles": "admin")"), "roles must be a list");
  says(Line(R"("weight": 0)"), "weight is 0");
  says(Line(R"("weight": 1025)"), "weight is 1025");
  says(Line(R"("max_concurrent_requests": 0)"), "max_concurrent_requests is 0");
  says(Line(R"("max_requests_per_minute": 1.5)"), "max_requests_per_minute must be an integer");
  says(Line(R"("min_priority": -2147483649)"), "min_priority is -2147483649");
  says(Line(R"("min_priority": 1)"), "min_priority must be at most 0");
  says(Line(R"("max_priority": -1)"), "max_priority must be at least 0");
  says(Line(R"("cache_group": "")"), "cache_group must be");
}

TEST(KeyTableTest, MistakesBetweenLinesAndWholeFiles) {
  EXPECT_EQ(Mistake("\n \n"),
            "keys: has no entry; a line is {\"key\": \"...\", \"name\": \"alice\"}");
  const std::string first = R"({"key": "correct-horse-battery-staple", "name": "alice"})";
  EXPECT_THAT(Mistake(first + "\n" + absl::StrReplaceAll(first, {{"alice", "bob"}})),
              HasSubstr("keys:2: key has an earlier line"));
  EXPECT_THAT(
      Mistake(
          "{\"certificate\": \"c\", \"name\": \"a\"}\n{\"certificate\": \"c\", \"name\": \"b\"}"),
      HasSubstr("keys:2: certificate has an earlier line"));
  std::string many;
  for (size_t i = 0; i <= kMaxKeyEntries; ++i) {
    absl::StrAppend(&many, R"({"key": "0123456789-abcdef-)", i, R"(", "name": "p"})", "\n");
  }
  EXPECT_THAT(Mistake(many), StartsWith(absl::StrCat("keys:", kMaxKeyEntries + 1, ": ")));
}

}  // namespace
}  // namespace quire
